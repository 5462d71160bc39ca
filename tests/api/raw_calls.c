/* System calls by number, as libraries make them that want no wrapper: they wait for, read and write accelerated sockets, and
 * descriptors that they make are what they are, whatever had the number before. */
#include "api.h"
#include <sys/eventfd.h>
#include <sys/syscall.h>

enum { PINGS = 50 };

struct six {
    const sigset_t *set;
    size_t size;
};

static void ppoll_in(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    struct timespec left = {.tv_sec = PATIENCE_MS / 1000};
    CHECK(syscall(SYS_ppoll, &one, 1, &left, NULL, 8) == 1 && one.revents == POLLIN);
    /* The call by number tells what is left. */
    CHECK(left.tv_sec < PATIENCE_MS / 1000 && left.tv_sec >= 0);
}

static void pselect_in(int fd)
{
    fd_set set;
    struct timespec left = {.tv_sec = PATIENCE_MS / 1000};
    struct six six = {.size = 8};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK(syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &left, &six) == 1 && FD_ISSET(fd, &set));
    CHECK(left.tv_sec < PATIENCE_MS / 1000 && left.tv_sec >= 0);
}

static void answer(int fd)
{
    char byte = 0;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    CHECK(syscall(SYS_preadv2, fd, &piece, 1, -1L, -1L, 0) == 1 && byte == '!');
    CHECK(syscall(SYS_pwritev2, fd, &piece, 1, -1L, -1L, 0) == 1);
}

/* The number of a closed accelerated socket. */
static int number(const char *address, int port)
{
    int fd = udp_connected(address, port);
    CHECK(send(fd, "-", 1, 0) == 1);
    CHECK(syscall(SYS_close, fd) == 0);
    return fd;
}

static void made(struct place place)
{
    int pair[2], fd = number(place.client, place.port + 1);
    CHECK(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pair[0] == fd);
    tell(pair[1]);
    ppoll_in(pair[0]);
    await(pair[0]);
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
    unsigned long long count = 7;
    fd = number(place.client, place.port + 1);
    CHECK(syscall(SYS_eventfd2, 0, EFD_CLOEXEC) == fd);
    CHECK(write(fd, &count, sizeof count) == sizeof count);
    pselect_in(fd);
    CHECK(read(fd, &count, sizeof count) == sizeof count && count == 7);
    CHECK(syscall(SYS_close_range, fd, fd, 0) == 0);
    CHECK_ERRNO(write(fd, &count, sizeof count), EBADF);
}

void server(struct place place)
{
    int udp = udp_bound(place.address, place.port);
    int fd = tcp_serve_one(place);
    struct sockaddr_in name = at(place.client, place.port);
    CHECK(connect(udp, NAME(name)) == 0);
    tell(fd);
    for (int i = 0; i < PINGS; i++) {
        ppoll_in(fd);
        answer(fd);
        ppoll_in(udp);
        answer(udp);
        pselect_in(fd);
        answer(fd);
        pselect_in(udp);
        answer(udp);
    }
    made(place);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    int udp = udp_bound(place.client, place.port);
    struct sockaddr_in name = at(place.address, place.port);
    CHECK(connect(udp, NAME(name)) == 0);
    await(fd);
    for (int i = 0; i < 2 * PINGS; i++) {
        tell(fd);
        await(fd);
        tell(udp);
        await(udp);
    }
}
