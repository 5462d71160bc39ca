/* One epoll set over UDP, TCP, a listener, a pipe and another set; closing a member removes it. */
#include "api.h"

static int one_event(int set)
{
    struct epoll_event got[8];
    CHECK(epoll_wait(set, got, 8, PATIENCE_MS) == 1);
    return got[0].data.fd;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), udp = udp_bound(place.address, place.port + 1);
    int set = epoll_create1(0), inner = epoll_create1(0), pipes[2];
    struct epoll_event none[1];
    char byte;
    CHECK(pipe(pipes) == 0);
    add_readable(set, listener);
    add_readable(set, pipes[0]);
    add_readable(set, inner);
    add_readable(inner, udp);
    ready();
    CHECK(one_event(set) == listener);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    add_readable(set, fd);
    tell(fd);
    CHECK(one_event(set) == inner);
    CHECK(one_event(inner) == udp);
    CHECK(recv(udp, &byte, 1, 0) == 1);
    CHECK(write(pipes[1], "x", 1) == 1);
    CHECK(one_event(set) == pipes[0]);
    CHECK(read(pipes[0], &byte, 1) == 1);
    tell(fd);
    CHECK(polled(set, POLLIN) == POLLIN); /* a set is a descriptor, too */
    CHECK(one_event(set) == fd);
    CHECK(close(fd) == 0);
    CHECK(epoll_wait(set, none, 1, 20) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    char byte;
    await(fd);
    CHECK(send(udp, "u", 1, 0) == 1);
    await(fd);
    tell(fd);
    (void)recv(fd, &byte, 1, 0); /* closed with a byte unread: reset */
}
