/* What the API programs share. A program defines client() and server(); the runner starts the server on one host and,
 * once it has said ready(), the client on the other. A role that returns has passed; a CHECK that fails ends it. */
#ifndef API_H
#define API_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* For what must come, on a machine that is busy, too: it only matters when a test fails. What a program waits for has this
 * as its limit; the whole program has twice as long. */
enum { PATIENCE_MS = 60000 };

#define CHECK(expression) \
    do { \
        if (!(expression)) \
            failed(__FILE__, __LINE__, #expression); \
    } while (0)

/* The call must return -1 with this errno. */
#define CHECK_ERRNO(call, code) \
    do { \
        errno = 0; \
        long long result = (long long)(call); \
        if (result != -1 || errno != (code)) { \
            fprintf(stderr, "result %lld, wanted -1 with %s\n", result, strerror(code)); \
            failed(__FILE__, __LINE__, #call); \
        } \
    } while (0)

static inline void failed(const char *file, int line, const char *what)
{
    int code = errno;
    const char *name = strrchr(file, '/');
    fprintf(stderr, "%s:%d: %s (errno %d, %s)\n", name ? name + 1 : file, line, what, code, strerror(code));
    exit(1);
}

/* Waits until the expression is true. */
#define EVENTUALLY(expression) \
    do { \
        for (int tries = 0; !(expression); tries++, usleep(1000)) \
            if (tries == PATIENCE_MS) \
                failed(__FILE__, __LINE__, #expression); \
    } while (0)

/* The server's address, a free port (and the ones above it), and the client's address. */
struct place {
    const char *address;
    int port;
    const char *client;
};

void client(struct place place);
void server(struct place place);

/* The server may be spoken to. */
static inline void ready(void)
{
    CHECK(write(1, "ready\n", 6) == 6);
}

static inline struct sockaddr_in at(const char *address, int port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    CHECK(inet_pton(AF_INET, address, &name.sin_addr) == 1);
    return name;
}

#define NAME(of) ((struct sockaddr *)&(of)), sizeof(of)

static inline int udp_bound(const char *address, int port)
{
    struct sockaddr_in name = at(address, port);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    CHECK(bind(fd, NAME(name)) == 0);
    return fd;
}

/* On a port that others may be bound to as well: `option` is SO_REUSEADDR or SO_REUSEPORT. */
static inline int udp_sharing(const char *address, int port, int option)
{
    struct sockaddr_in name = at(address, port);
    int one = 1, fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, option, &one, sizeof one) == 0);
    CHECK(bind(fd, NAME(name)) == 0);
    return fd;
}

/* For groups: shares its port, waits no longer than a test's patience, gets only what it joined itself. */
static inline int udp_for_groups(struct sockaddr_in name)
{
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1, zero = 0;
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &zero, sizeof zero) == 0);
    CHECK(bind(fd, NAME(name)) == 0);
    return fd;
}

static inline int udp_connected(const char *address, int port)
{
    struct sockaddr_in name = at(address, port);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, NAME(name)) == 0);
    return fd;
}

static inline int tcp_listening(const char *address, int port)
{
    struct sockaddr_in name = at(address, port);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, NAME(name)) == 0);
    CHECK(listen(fd, 16) == 0);
    return fd;
}

static inline int tcp_connected(const char *address, int port)
{
    struct sockaddr_in name = at(address, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, NAME(name)) == 0);
    return fd;
}

/* Listens, says ready, takes one connection. */
static inline int tcp_serve_one(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(close(listener) == 0);
    return fd;
}

static inline void send_all(int fd, const void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t count = send(fd, (const char *)data + done, length - done, MSG_NOSIGNAL);
        CHECK(count > 0);
        done += (size_t)count;
    }
}

static inline void recv_all(int fd, void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t count = recv(fd, (char *)data + done, length - done, 0);
        CHECK(count > 0);
        done += (size_t)count;
    }
}

/* One byte each way keeps the roles in step: tell() lets the peer's await() return. */
static inline void tell(int fd)
{
    CHECK(send(fd, "!", 1, MSG_NOSIGNAL) == 1);
}

static inline void await(int fd)
{
    char byte = 0;
    CHECK(recv(fd, &byte, 1, 0) == 1);
    CHECK(byte == '!');
}

/* So many bytes there and back; the peer says answers() of as many. */
static inline void pings(int fd, int count)
{
    for (int i = 0; i < count; i++) {
        tell(fd);
        await(fd);
    }
}

static inline void answers(int fd, int count)
{
    for (int i = 0; i < count; i++) {
        await(fd);
        tell(fd);
    }
}

/* Returns when the peer has closed. */
static inline void await_end(int fd)
{
    char byte;
    CHECK(recv(fd, &byte, 1, 0) == 0);
}

/* A descriptor whose data in the epoll set is its own number, and which of them is readable next. */
static inline void add_readable(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* The one descriptor that is ready within so many milliseconds; 0: none, less: so many. */
static inline int ready_in(int set, int timeout)
{
    struct epoll_event got[8];
    int count;
    do
        count = epoll_wait(set, got, 8, timeout);
    while (count < 0 && errno == EINTR);
    return count == 1 ? got[0].data.fd : -count;
}

static inline int next_readable(int set)
{
    struct epoll_event event;
    CHECK(epoll_wait(set, &event, 1, PATIENCE_MS) == 1);
    return event.data.fd;
}

/* A descriptor goes through a socket of AF_UNIX, and is closed here. */
static inline void pass_fd(int channel, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof fd)];
    } control = {.header = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec piece = {"!", 1};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    CHECK(sendmsg(channel, &message, 0) == 1);
    CHECK(close(fd) == 0);
}

static inline int passed_fd(int channel)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    CHECK(recvmsg(channel, &message, 0) == 1);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static inline void set_nonblocking(int fd)
{
    CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

/* Events of one descriptor, once there are some; 0 if none come. */
static inline short polled(int fd, short wanted)
{
    struct pollfd one = {.fd = fd, .events = wanted};
    int count;
    do
        count = poll(&one, 1, PATIENCE_MS);
    while (count < 0 && errno == EINTR); /* SIGURG, which comes with what is waited for */
    CHECK(count >= 0);
    return one.revents;
}

static inline int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, level, name, &value, &length) == 0);
    return value;
}

static inline long long now_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* What the kernel says of a process, or of a thread by its number: 'S' sleeps, 'T' is stopped. */
static inline char state_of(pid_t id)
{
    char path[64], text[512] = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(read(fd, text, sizeof text - 1) > 0);
    CHECK(close(fd) == 0);
    const char *name_ends = strrchr(text, ')');
    CHECK(name_ends != NULL);
    return name_ends[2];
}

int main(int count, char **words)
{
    if (count != 5) {
        fprintf(stderr, "usage: %s client|server SERVER-ADDRESS PORT CLIENT-ADDRESS\n", words[0]);
        return 2;
    }
    alarm(2 * PATIENCE_MS / 1000);
    struct place place = {.address = words[2], .port = atoi(words[3]), .client = words[4]};
    (strcmp(words[1], "client") == 0 ? client : server)(place);
    return 0;
}

#endif
