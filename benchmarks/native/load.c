/* A load generator that costs next to nothing: one thread, epoll, HTTP/1.1 with keep-alive.
 *
 *     load PORT PATH BODY_FILE [connections=N] [seconds=S] [total=N] [ramp_ms=N] [every_ms=N] [hold=1]
 *
 * Every connection sends the body, reads the answer to its end, and sends again: for so many seconds, or until so many
 * requests were sent in all. The connections begin one after the other within `ramp_ms`. With `every_ms` each sends at
 * that beat and not at once after an answer; what takes longer than a beat lets beats pass. A run of `########` in the
 * body becomes the number of the request, so that no two are the same. With `hold=1` it waits until each connection has
 * had the first byte of a body, says `held N`, waits for the end of its input, and counts the connections that are lost
 * by then as errors.
 *
 * Prints one JSON object. Times are microseconds: `latency` from the first byte sent to the last received of a good
 * answer, `refused` the same of a 429 or 503,
 * `first_byte` to the first byte of the body, `delay` from the stamp in a chunk to its arrival.
 */

#define _GNU_SOURCE
#include "wire.h"

#include <sys/stat.h>

#define HEAD_BYTES 8192
#define TURN_BYTES 262144

typedef enum { HEAD, LENGTH, SIZE, DATA, DATA_END, TRAILER, UNTIL_CLOSE } Part;

typedef struct {
    int fd;
    bool busy;
    size_t sent;
    uint64_t began_ns, first_ns, due_ns; /* `due_ns`: when it sends next, or 0. */
    Part part;
    char head[HEAD_BYTES + 1];
    size_t head_length;
    bool is_ok, is_refused, closes;
    long long left; /* Of the body, or of the chunk. */
    bool empty_line;
    uint64_t stamp; /* As far as it is read. */
    bool in_stamp;
} Conn;

typedef struct {
    uint64_t *ns;
    size_t length, room;
} Series;

static int poll_fd, port;
static char *request;
static size_t request_length;
static char *number; /* Where the request's number goes, or NULL. */
static long connections = 1, total = 0, ramp_ms = 0, every_ms = 0, hold = 0;
static double seconds = 0;

static uint64_t started_ns, stop_ns;
static long sent_requests, completed, errors, reconnects, with_first_byte, busy_connections;
static uint64_t last_ns;
static Series latency, refused, first_byte, delay;

static void keep(Series *series, uint64_t ns) {
    if (series->length == series->room) {
        series->room = series->room ? series->room * 2 : 4096;
        series->ns = must(realloc(series->ns, series->room * sizeof *series->ns));
    }
    series->ns[series->length++] = ns;
}

/* -- one connection ------------------------------------------------------------------------------------------------ */

static void open_connection(Conn *conn) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    conn->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(conn->fd, (struct sockaddr *)&address, sizeof address) < 0) die("cannot connect to port %d", port);
    no_waiting(conn->fd);
    watch(poll_fd, EPOLL_CTL_ADD, conn->fd, EPOLLIN, conn);
}

static bool may_send(void) {
    if (total) return sent_requests < total;
    return now_ns() < stop_ns;
}

static void send_rest(Conn *conn) {
    ssize_t written = write(conn->fd, request + conn->sent, request_length - conn->sent);
    if (written < 0 && errno != EAGAIN) return; /* What has happened, reading will tell. */
    bool waited = conn->sent > 0;
    conn->sent += written > 0 ? (size_t)written : 0;
    bool waits = conn->sent < request_length;
    if (waits || waited) watch(poll_fd, EPOLL_CTL_MOD, conn->fd, EPOLLIN | (waits ? EPOLLOUT : 0u), conn);
}

static void begin(Conn *conn) {
    if (conn->busy) busy_connections--;
    conn->busy = may_send();
    if (!conn->busy) return;
    busy_connections++;
    sent_requests++;
    if (number != NULL) {
        char digits[24];
        snprintf(digits, sizeof digits, "%08ld", sent_requests);
        memcpy(number, digits, 8);
    }
    conn->sent = conn->head_length = 0;
    conn->part = HEAD;
    conn->first_ns = 0;
    conn->in_stamp = false;
    conn->began_ns = now_ns();
    send_rest(conn);
}

static void reopen(Conn *conn) {
    close(conn->fd);
    reconnects++;
    open_connection(conn);
}

static void complete(Conn *conn) {
    last_ns = now_ns();
    keep(conn->is_refused ? &refused : &latency, last_ns - conn->began_ns);
    if (conn->first_ns) keep(&first_byte, conn->first_ns - conn->began_ns);
    completed++;
    if (!conn->is_ok) errors++;
    if (conn->closes) reopen(conn);
    uint64_t beat = (uint64_t)every_ms * 1000000u, late = last_ns - conn->began_ns;
    if (beat == 0) begin(conn);
    else conn->due_ns = conn->began_ns + beat * (late / beat + 1);
}

/* Sends what is due; how many milliseconds to wait for events. */
static int keep_beat(Conn *conns) {
    uint64_t now = now_ns();
    for (long i = 0; i < connections; i++) {
        if (conns[i].due_ns == 0 || conns[i].due_ns > now) continue;
        conns[i].due_ns = 0;
        begin(&conns[i]);
    }
    return 1;
}

/* -- reading an answer --------------------------------------------------------------------------------------------- */

/* Finds the stamps in a piece of the body, which may be cut anywhere. */
static void read_stamps(Conn *conn, const char *data, size_t length, uint64_t now) {
    for (const char *end = data + length; data < end; data++) {
        if (!conn->in_stamp) {
            data = memchr(data, STAMP, (size_t)(end - data));
            if (data == NULL) return;
            conn->in_stamp = true;
            conn->stamp = 0;
        } else if (*data >= '0' && *data <= '9') {
            conn->stamp = conn->stamp * 10 + (uint64_t)(*data - '0');
        } else {
            conn->in_stamp = false;
            if (*data == ';') keep(&delay, now - conn->stamp);
        }
    }
}

static void read_head(Conn *conn) {
    const char *length = header(conn->head, "content-length:");
    const char *coding = header(conn->head, "transfer-encoding:");
    const char *connection = header(conn->head, "connection:");
    conn->is_ok = strncmp(conn->head, "HTTP/1.1 200", 12) == 0;
    conn->is_refused = strncmp(conn->head, "HTTP/1.1 503", 12) == 0 || strncmp(conn->head, "HTTP/1.1 429", 12) == 0;
    conn->closes = connection != NULL && strncasecmp(connection, "close", 5) == 0;
    conn->left = length ? atoll(length) : 0;
    conn->part = coding != NULL && strncasecmp(coding, "chunked", 7) == 0 ? SIZE : length ? LENGTH : UNTIL_CLOSE;
    conn->empty_line = true;
}

/* Takes some of the bytes; how many. Sets `*over` at the end of the answer. */
static size_t take_head(Conn *conn, const char *data, size_t length) {
    size_t had = conn->head_length, room = HEAD_BYTES - had, added = length < room ? length : room;
    if (added == 0) die("the answer's head is too long");
    memcpy(conn->head + had, data, added);
    conn->head[had + added] = '\0';
    const char *end = strstr(conn->head, "\r\n\r\n");
    conn->head_length += added;
    if (end == NULL) return added;
    size_t whole = (size_t)(end + 4 - conn->head);
    conn->head[whole] = '\0';
    read_head(conn);
    return whole - had;
}

static size_t take_body(Conn *conn, const char *data, size_t length, uint64_t now, bool *over) {
    size_t taken = conn->part != UNTIL_CLOSE && (long long)length > conn->left ? (size_t)conn->left : length;
    if (taken && !conn->first_ns) conn->first_ns = now, with_first_byte++;
    read_stamps(conn, data, taken, now);
    conn->left -= (long long)taken;
    if (conn->left == 0 && conn->part == DATA) conn->part = DATA_END;
    *over = conn->left == 0 && conn->part == LENGTH;
    return taken;
}

/* One byte of what stands between the chunks: sizes, line ends, trailers. */
static size_t take_framing(Conn *conn, char byte, bool *over) {
    if (conn->part == DATA_END) {
        if (byte == '\n') conn->part = SIZE, conn->left = 0;
    } else if (conn->part == SIZE) {
        const char *digits = "0123456789abcdef", *digit = byte > ' ' ? strchr(digits, byte | 32) : NULL;
        if (digit != NULL) conn->left = conn->left * 16 + (digit - digits);
        else if (byte == '\n') conn->part = conn->left ? DATA : TRAILER, conn->empty_line = true;
    } else if (byte == '\n') {
        *over = conn->empty_line;
        conn->empty_line = true;
    } else if (byte != '\r') {
        conn->empty_line = false;
    }
    return 1;
}

static void feed(Conn *conn, const char *data, size_t length) {
    uint64_t now = now_ns();
    bool over = false;
    while (length > 0 && !over) {
        size_t taken;
        if (conn->part == HEAD) {
            taken = take_head(conn, data, length);
            over = conn->part == LENGTH && conn->left == 0;
        } else if (conn->part == LENGTH || conn->part == DATA || conn->part == UNTIL_CLOSE) {
            taken = take_body(conn, data, length, now, &over);
        } else {
            taken = take_framing(conn, *data, &over);
        }
        data += taken, length -= taken;
    }
    if (over) complete(conn);
}

static void receive(Conn *conn) {
    static char turn[TURN_BYTES];
    ssize_t got = read(conn->fd, turn, sizeof turn);
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0) {
        if (conn->busy) feed(conn, turn, (size_t)got);
        return;
    }
    reopen(conn);
    if (!conn->busy) return;
    if (conn->part == UNTIL_CLOSE && got == 0) {
        conn->closes = false;
        complete(conn);
        return;
    }
    errors++;
    begin(conn);
}

/* -- the run ------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_series(const char *name, Series *series) {
    if (series->length == 0) return;
    qsort(series->ns, series->length, sizeof *series->ns, by_size);
    double sum = 0;
    for (size_t i = 0; i < series->length; i++) sum += (double)series->ns[i];
    size_t last = series->length - 1;
    printf(", \"%s\": {\"count\": %zu, \"mean\": %.1f, \"p50\": %.1f, \"p99\": %.1f, \"max\": %.1f}", name,
           series->length, sum / (double)series->length / 1000, (double)series->ns[last / 2] / 1000,
           (double)series->ns[last * 99 / 100] / 1000, (double)series->ns[last] / 1000);
}

static void report(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu_us = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
                    (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    double elapsed_s = (double)(last_ns - started_ns) / 1e9;
    printf("{\"completed\": %ld, \"errors\": %ld, \"reconnects\": %ld, \"per_second\": %.2f, \"cpu_us\": %.0f",
           completed, errors, reconnects, completed ? (double)completed / elapsed_s : 0, cpu_us);
    print_series("latency", &latency);
    print_series("refused", &refused);
    print_series("first_byte", &first_byte);
    print_series("delay", &delay);
    printf("}\n");
}

static void read_request(const char *path, const char *body_file) {
    FILE *file = fopen(body_file, "rb");
    struct stat facts;
    if (file == NULL || fstat(fileno(file), &facts) < 0) die("cannot read %s", body_file);
    size_t size = (size_t)facts.st_size;
    const char *further = getenv("LOAD_HEADERS");
    request = must(malloc(size + HEAD_BYTES));
    request_length = (size_t)snprintf(request, HEAD_BYTES,
                                      "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer sk-benchmark\r\n"
                                      "%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                                      path, port, further ? further : "", size);
    if (fread(request + request_length, 1, size, file) != size) die("cannot read %s", body_file);
    fclose(file);
    request_length += size;
    number = memmem(request, request_length, "########", 8);
}

static void read_options(int count, char **arguments) {
    for (int i = 0; i < count; i++) {
        if (sscanf(arguments[i], "connections=%ld", &connections) + sscanf(arguments[i], "seconds=%lf", &seconds) +
            sscanf(arguments[i], "total=%ld", &total) + sscanf(arguments[i], "ramp_ms=%ld", &ramp_ms) +
            sscanf(arguments[i], "every_ms=%ld", &every_ms) + sscanf(arguments[i], "hold=%ld", &hold) == 0) errno = 0, die("not an option: %s", arguments[i]);
    }
}

static void keep_open(const Conn *conns) {
    char ignored[1024];
    printf("held %ld\n", connections);
    fflush(stdout);
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0) continue;
    for (long i = 0; i < connections; i++) {
        ssize_t got;
        while ((got = read(conns[i].fd, ignored, sizeof ignored)) > 0) continue;
        errors += got == 0 || errno != EAGAIN;
    }
}

int main(int count, char **arguments) {
    if (count < 4) die("usage: load PORT PATH BODY_FILE [OPTION=VALUE ...]");
    prepare_process();
    port = atoi(arguments[1]);
    read_request(arguments[2], arguments[3]);
    read_options(count - 4, arguments + 4);
    poll_fd = epoll_create1(0);
    Conn *conns = must(calloc((size_t)connections, sizeof *conns));
    started_ns = now_ns();
    stop_ns = total ? 0 : started_ns + (uint64_t)(seconds * 1e9);
    long begun = 0;
    uint64_t gap_ns = (uint64_t)ramp_ms * 1000000u / (uint64_t)connections;
    while (begun < connections || busy_connections > 0 || (hold && with_first_byte == connections)) {
        while (begun < connections && now_ns() >= started_ns + gap_ns * (uint64_t)begun) {
            open_connection(&conns[begun]);
            begin(&conns[begun++]);
        }
        if (hold && with_first_byte == connections) {
            keep_open(conns);
            break;
        }
        struct epoll_event events[EVENTS_AT_ONCE];
        int timeout = begun < connections ? milliseconds_until(started_ns + gap_ns * (uint64_t)begun) : -1;
        if (every_ms && begun == connections) timeout = keep_beat(conns);
        int ready = epoll_wait(poll_fd, events, EVENTS_AT_ONCE, timeout);
        for (int i = 0; i < ready; i++) {
            if (events[i].events & EPOLLOUT) send_rest(events[i].data.ptr);
            if (events[i].events & ~(uint32_t)EPOLLOUT) receive(events[i].data.ptr);
        }
    }
    report();
    return 0;
}
