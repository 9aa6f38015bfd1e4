/* What the provider stub and the load generator share: the clock, epoll, and buffers that grow. */

#ifndef WIRE_H
#define WIRE_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STAMP '@' /* In a stream `@NANOSECONDS;` is the moment at which the provider has written that chunk. */
#define EVENTS_AT_ONCE 256

static inline void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

/* The monotonic clock, which all processes of a machine have in common. */
static inline uint64_t now_ns(void) {
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return (uint64_t)moment.tv_sec * 1000000000u + (uint64_t)moment.tv_nsec;
}

static inline void *must(void *memory) {
    if (memory == NULL) die("no memory");
    return memory;
}

static inline void no_waiting(int fd) {
    int one = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Tells epoll what to wait for; `operation` is EPOLL_CTL_ADD or EPOLL_CTL_MOD. */
static inline void watch(int poll, int operation, int fd, uint32_t what, void *owner) {
    struct epoll_event event = {.events = what, .data.ptr = owner};
    if (epoll_ctl(poll, operation, fd, &event) < 0) die("epoll_ctl");
}

/* Thousands of connections need as many descriptors, and one that the other side has closed must not end everything. */
static inline void prepare_process(void) {
    struct rlimit limit;
    signal(SIGPIPE, SIG_IGN);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static inline int milliseconds_until(uint64_t due_ns) {
    uint64_t now = now_ns();
    return due_ns <= now ? 0 : (int)((due_ns - now + 999999) / 1000000);
}

/* The value of a header (its name in lower case, with the colon), or NULL. `head` ends with a NUL. */
static inline const char *header(const char *head, const char *name) {
    size_t length = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, length) == 0) return line + 2 + length + strspn(line + 2 + length, " ");
    }
    return NULL;
}

#endif
