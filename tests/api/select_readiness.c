/* select: sets are rewritten to what is ready, ours and the kernel's descriptors together. */
#include "api.h"

static int ready_of(int *fds, int count, fd_set *readable, long ms)
{
    int highest = -1;
    FD_ZERO(readable);
    for (int i = 0; i < count; i++) {
        FD_SET(fds[i], readable);
        highest = fds[i] > highest ? fds[i] : highest;
    }
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    return select(highest + 1, readable, NULL, NULL, &limit);
}

void server(struct place place)
{
    int fd = tcp_serve_one(place), udp = udp_bound(place.address, place.port + 1), pipes[2];
    fd_set readable, writable;
    char text[4];
    CHECK(pipe(pipes) == 0);
    int fds[3] = {fd, udp, pipes[0]};
    CHECK(ready_of(fds, 3, &readable, 0) == 0);
    tell(fd);
    CHECK(ready_of(fds, 3, &readable, PATIENCE_MS) == 1 && FD_ISSET(udp, &readable) && !FD_ISSET(fd, &readable));
    CHECK(recv(udp, text, sizeof text, 0) == 1);
    CHECK(write(pipes[1], "x", 1) == 1);
    CHECK(ready_of(fds, 3, &readable, PATIENCE_MS) == 1 && FD_ISSET(pipes[0], &readable));
    tell(fd);
    CHECK(ready_of(fds, 1, &readable, PATIENCE_MS) == 1);
    CHECK(ready_of(fds, 3, &readable, PATIENCE_MS) == 2 && FD_ISSET(fd, &readable) && FD_ISSET(pipes[0], &readable));
    await(fd);
    FD_ZERO(&writable);
    FD_SET(fd, &writable);
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    struct timespec none = {0};
    CHECK(pselect(fd + 1, &readable, &writable, NULL, &none, NULL) == 1);
    CHECK(FD_ISSET(fd, &writable) && !FD_ISSET(fd, &readable));
    tell(fd);
    CHECK(ready_of(fds, 1, &readable, PATIENCE_MS) == 1);
    await_end(fd);
    CHECK_ERRNO(select(-1, NULL, NULL, NULL, &(struct timeval){0}), EINVAL);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    await(fd);
    CHECK(send(udp, "u", 1, 0) == 1);
    await(fd);
    tell(fd);
    await(fd);
}
