/* Connections one after the other: whatever was done to the descriptor of one, the next is as new. */
#include "api.h"

/* The last but one is not ended by the server's close: a child has it too. */
enum { CONNECTIONS = 12, SHARED = 10 };

static int listener;

/* The next connection: the lowest free number, and nothing set but what accept4 was asked for. */
static int next(int flags)
{
    int lowest = dup(0), fd;
    CHECK(close(lowest) == 0);
    fd = accept4(listener, NULL, NULL, flags);
    CHECK(fd == lowest);
    CHECK(((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0) == ((flags & SOCK_NONBLOCK) != 0));
    CHECK(((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0) == ((flags & SOCK_CLOEXEC) != 0));
    CHECK(fcntl(fd, F_GETOWN) == 0);
    CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 0);
    CHECK(option(fd, SOL_SOCKET, SO_REUSEADDR) == 1);
    CHECK(polled(fd, POLLIN) == POLLIN);
    await(fd);
    return fd;
}

static void in_a_child(int fd)
{
    int one = 1, pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(listener) == 0 && close(pair[0]) == 0);
        await(pair[1]);
        CHECK(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
        set_nonblocking(fd);
        tell(pair[1]);
        await(pair[1]);
        _exit(0);
    }
    CHECK(close(pair[1]) == 0 && close(fd) == 0);
    int after = next(0), status;
    tell(pair[0]);
    await(pair[0]);
    CHECK((fcntl(after, F_GETFL) & O_NONBLOCK) == 0);
    CHECK(option(after, SOL_SOCKET, SO_KEEPALIVE) == 0);
    tell(pair[0]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(close(pair[0]) == 0 && close(after) == 0);
}

void server(struct place place)
{
    int one = 1, fd, file;
    struct epoll_event event = {.events = EPOLLIN};
    listener = tcp_listening(place.address, place.port);
    ready();

    CHECK(close(next(0)) == 0);
    CHECK(close(next(SOCK_NONBLOCK | SOCK_CLOEXEC)) == 0);

    fd = next(0);
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
    CHECK(close(fd) == 0);

    fd = next(0);
    set_nonblocking(fd);
    CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
    CHECK(close(fd) == 0);

    fd = next(0);
    CHECK(ioctl(fd, FIONBIO, &one) == 0);
    CHECK(close(fd) == 0);

    /* Another file takes its number, and is not closed with it. */
    fd = next(0);
    file = open("/dev/null", O_RDONLY);
    CHECK(file >= 0 && dup2(file, fd) == fd && close(file) == 0);
    CHECK(close(next(0)) == 0);
    CHECK(read(fd, &one, sizeof one) == 0);
    CHECK(close(fd) == 0);

    /* What an epoll set held is not held of its successor. */
    int set = epoll_create1(0);
    fd = next(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(close(fd) == 0);
    fd = next(0);
    CHECK(epoll_wait(set, &event, 1, 0) == 0);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_DEL, fd, &event), ENOENT);
    CHECK(close(fd) == 0 && close(set) == 0);

    /* What the listener got meanwhile is the next one's. */
    one = 1;
    CHECK(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    CHECK(close(next(0)) == 0); /* may have waited before that */
    fd = next(0);
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
    in_a_child(fd);
}

void client(struct place place)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = tcp_connected(place.address, place.port);
        tell(fd);
        if (i != SHARED)
            await_end(fd);
        CHECK(close(fd) == 0);
    }
}
