/* A provider of completions that costs next to nothing: one thread, epoll, HTTP/1.1 with keep-alive.
 *
 *     stub PORT
 *
 * What it is to do stands in the request, among the first 64 KiB, where every gateway hands it on unread:
 *
 *     stub:delay=100,chunks=100,every=50
 *
 *     delay=MS     waits before the answer
 *     chunks=N     answers with a stream of N chunks, the first at once; else with one body
 *     every=MS     the pace of the chunks
 *     bytes=N      the size of a whole answer (1024)
 *     status=CODE  refuses with this status
 *     cut=N        hangs up after N chunks, or in the middle of a whole answer
 *
 * `status` and `cut` do not count where the path begins with /fallback/, so that a fallback can be tried. A stream ends
 * with a usage chunk if the request says `include_usage`. Each chunk carries the moment at which it was written.
 */

#define _GNU_SOURCE
#include "wire.h"

#define HEAD_BYTES 65536
#define TURN_BYTES 262144

typedef struct {
    long delay_ms, chunks, every_ms, bytes, status, cut;
    bool usage;
} Plan;

typedef struct {
    int fd;
    char *in; /* The request's head and the beginning of its body. */
    size_t in_length;
    long long body_left; /* Of a body that is longer than `in`; -1 while the head is not read. */
    Plan plan;
    bool answering;
    long sent_chunks;
    char *out; /* What the socket has not taken yet. */
    size_t out_length;
    uint64_t due_ns;
    size_t place; /* In the heap of timers, counted from 1; 0 is none. */
} Conn;

static int poll_fd;

/* -- timers: a binary heap, the next one first --------------------------------------------------------------------- */

static Conn **heap;
static size_t heap_length, heap_room;

static void put(size_t place, Conn *conn) {
    heap[place] = conn;
    conn->place = place;
}

static void sift(size_t place, Conn *conn) {
    while (place > 1 && heap[place / 2]->due_ns > conn->due_ns) {
        put(place, heap[place / 2]);
        place /= 2;
    }
    for (size_t child; (child = place * 2) <= heap_length; place = child) {
        if (child < heap_length && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
        if (heap[child]->due_ns >= conn->due_ns) break;
        put(place, heap[child]);
    }
    put(place, conn);
}

static void wake_at(Conn *conn, uint64_t due_ns) {
    if (heap_length + 2 > heap_room) {
        heap_room = heap_room ? heap_room * 2 : 1024;
        heap = must(realloc(heap, heap_room * sizeof *heap));
    }
    conn->due_ns = due_ns;
    sift(++heap_length, conn);
}

static void never_wake(Conn *conn) {
    size_t place = conn->place;
    if (place == 0) return;
    Conn *last = heap[heap_length--];
    if (last != conn) sift(place, last);
    conn->place = 0;
}

/* -- sending ------------------------------------------------------------------------------------------------------- */

static void hang_up(Conn *conn) {
    never_wake(conn);
    close(conn->fd);
    free(conn->in);
    free(conn->out);
    free(conn);
}

/* Sends, and keeps what the socket does not take; false where the other side has gone. */
static bool transmit(Conn *conn, const char *bytes, size_t length) {
    if (conn->out_length == 0) {
        ssize_t written = write(conn->fd, bytes, length);
        if (written < 0 && errno != EAGAIN) return false;
        if (written > 0) bytes += written, length -= (size_t)written;
        if (length == 0) return true;
        watch(poll_fd, EPOLL_CTL_MOD, conn->fd, EPOLLIN | EPOLLOUT, conn);
    }
    conn->out = must(realloc(conn->out, conn->out_length + length));
    memcpy(conn->out + conn->out_length, bytes, length);
    conn->out_length += length;
    return true;
}

static bool send_kept(Conn *conn) {
    ssize_t written = write(conn->fd, conn->out, conn->out_length);
    if (written < 0) return errno == EAGAIN;
    conn->out_length -= (size_t)written;
    memmove(conn->out, conn->out + written, conn->out_length);
    if (conn->out_length == 0) watch(poll_fd, EPOLL_CTL_MOD, conn->fd, EPOLLIN, conn);
    return true;
}

static void ready_for_next(Conn *conn) {
    conn->answering = false;
    conn->in_length = 0;
    conn->body_left = -1;
    conn->sent_chunks = 0;
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

#define USAGE "\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":100,\"total_tokens\":300}"
#define EVENT "data: {\"id\":\"chatcmpl-stub\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"stub\","

static bool send_refusal(Conn *conn) {
    static const char body[] =
        "{\"error\":{\"message\":\"as you wished\",\"type\":\"stub\",\"param\":null,\"code\":null}}";
    char text[512];
    int length = snprintf(text, sizeof text,
                          "HTTP/1.1 %ld Stub\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                          "Content-Length: %zu\r\n\r\n%s", conn->plan.status, sizeof body - 1, body);
    ready_for_next(conn);
    return transmit(conn, text, (size_t)length);
}

static bool send_whole(Conn *conn) {
    static const char before[] =
        "{\"id\":\"chatcmpl-stub\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"stub\","
        "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"";
    static const char after[] = "\"},\"finish_reason\":\"stop\"}]," USAGE "}";
    size_t around = sizeof before + sizeof after - 2, wanted = (size_t)conn->plan.bytes;
    size_t body_length = wanted > around ? wanted : around;
    char *text = must(malloc(body_length + 256));
    int head = sprintf(
        text, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", body_length);
    char *at = mempcpy(text + head, before, sizeof before - 1);
    memset(at, 'x', body_length - around);
    memcpy(at + body_length - around, after, sizeof after - 1);
    bool cut = conn->plan.cut >= 0;
    bool ok = transmit(conn, text, (size_t)head + (cut ? body_length / 2 : body_length)) && !cut;
    free(text);
    ready_for_next(conn);
    return ok;
}

/* Writes one piece of a chunked body behind `at`; returns the new end. */
static char *chunked(char *at, const char *piece, int length) {
    return at + sprintf(at, "%x\r\n%.*s\r\n", (unsigned)length, length, piece);
}

static bool send_chunk(Conn *conn) {
    const Plan *plan = &conn->plan;
    char text[2048], piece[1024], *at = text;
    if (plan->cut >= 0 && conn->sent_chunks >= plan->cut) return false;
    if (conn->sent_chunks == 0) {
        at = stpcpy(at, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    }
    int length = sprintf(
        piece, EVENT "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%c%llu;\"},\"finish_reason\":null}]}\n\n",
        STAMP, (unsigned long long)now_ns());
    at = chunked(at, piece, length);
    if (++conn->sent_chunks < plan->chunks) {
        wake_at(conn, conn->due_ns + (uint64_t)plan->every_ms * 1000000u);
    } else {
        length = sprintf(piece, EVENT "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
        if (plan->usage) length += sprintf(piece + length, EVENT "\"choices\":[]," USAGE "}\n\n");
        length += sprintf(piece + length, "data: [DONE]\n\n");
        at = stpcpy(chunked(at, piece, length), "0\r\n\r\n");
        ready_for_next(conn);
    }
    return transmit(conn, text, (size_t)(at - text));
}

/* The next step of an answer; false where the connection is over. */
static bool answer(Conn *conn) {
    if (conn->plan.status) return send_refusal(conn);
    return conn->plan.chunks ? send_chunk(conn) : send_whole(conn);
}

/* -- requests ------------------------------------------------------------------------------------------------------ */

static long option(const char *options, const char *name, long otherwise) {
    const char *found = strstr(options, name);
    return found ? atol(found + strlen(name)) : otherwise;
}

static Plan read_plan(const char *request) {
    char options[128] = "";
    const char *found = strstr(request, "stub:");
    if (found != NULL) sscanf(found, "stub:%127[a-z0-9=,]", options);
    Plan plan = {
        .delay_ms = option(options, "delay=", 0),
        .chunks = option(options, "chunks=", 0),
        .every_ms = option(options, "every=", 0),
        .bytes = option(options, "bytes=", 1024),
        .status = option(options, "status=", 0),
        .cut = option(options, "cut=", -1),
        .usage = strstr(request, "include_usage") != NULL,
    };
    if (strncmp(request, "POST /fallback/", 15) == 0) plan.status = 0, plan.cut = -1;
    return plan;
}

/* Looks at what has come of the request; true once it is whole. */
static bool is_whole(Conn *conn) {
    if (conn->body_left >= 0) return conn->body_left == 0;
    conn->in[conn->in_length] = '\0';
    char *end = strstr(conn->in, "\r\n\r\n");
    if (end == NULL) return false;
    size_t head = (size_t)(end + 4 - conn->in), body = conn->in_length - head;
    const char *declared = header(conn->in, "content-length:");
    long long length = declared ? atoll(declared) : 0;
    if ((long long)body < length && conn->in_length < HEAD_BYTES) return false;
    conn->plan = read_plan(conn->in);
    conn->body_left = length - (long long)body;
    return conn->body_left == 0;
}

static bool receive(Conn *conn) {
    static char turn[TURN_BYTES];
    bool skips = conn->body_left > 0;
    ssize_t got = skips ? read(conn->fd, turn, sizeof turn)
                        : read(conn->fd, conn->in + conn->in_length, HEAD_BYTES - conn->in_length);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    if (conn->answering) return false; /* Nobody asks two questions at once. */
    if (skips) conn->body_left -= got;
    else conn->in_length += (size_t)got;
    if (!is_whole(conn)) return true;
    conn->answering = true;
    conn->due_ns = now_ns();
    if (conn->plan.delay_ms == 0) return answer(conn);
    wake_at(conn, conn->due_ns + (uint64_t)conn->plan.delay_ms * 1000000u);
    return true;
}

static void take_in(int listener) {
    int fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        Conn *conn = must(calloc(1, sizeof *conn));
        conn->fd = fd;
        conn->in = must(malloc(HEAD_BYTES + 1));
        conn->body_left = -1;
        no_waiting(fd);
        watch(poll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, conn);
    }
}

static int listen_on(int port) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) die("cannot listen on port %d", port);
    listen(listener, 4096);
    no_waiting(listener);
    return listener;
}

int main(int count, char **arguments) {
    if (count != 2) die("usage: stub PORT");
    prepare_process();
    poll_fd = epoll_create1(0);
    int listener = listen_on(atoi(arguments[1]));
    watch(poll_fd, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    for (;;) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int ready = epoll_wait(poll_fd, events, EVENTS_AT_ONCE, heap_length ? milliseconds_until(heap[1]->due_ns) : -1);
        for (int i = 0; i < ready; i++) {
            Conn *conn = events[i].data.ptr;
            if (conn == NULL) take_in(listener);
            else if (!((events[i].events & EPOLLOUT) == 0 || send_kept(conn)) ||
                     !((events[i].events & ~(uint32_t)EPOLLOUT) == 0 || receive(conn))) hang_up(conn);
        }
        for (uint64_t now = now_ns(); heap_length && heap[1]->due_ns <= now;) {
            Conn *conn = heap[1];
            never_wake(conn);
            if (!answer(conn)) hang_up(conn);
        }
    }
}
