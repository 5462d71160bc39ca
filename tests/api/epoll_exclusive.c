/* EPOLLEXCLUSIVE: one listener in two sets, one connection: somebody is woken, and MOD is refused. EPOLLPRI alone. */
#include "api.h"

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), sets[2] = {epoll_create1(0), epoll_create1(0)};
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE}, got;
    set_nonblocking(listener);
    for (int i = 0; i < 2; i++)
        CHECK(epoll_ctl(sets[i], EPOLL_CTL_ADD, listener, &event) == 0);
    event.events = EPOLLIN;
    CHECK_ERRNO(epoll_ctl(sets[0], EPOLL_CTL_MOD, listener, &event), EINVAL);
    ready();
    int fd = -1;
    for (int i = 0; fd < 0 && i < PATIENCE_MS / 10; i++)
        if (epoll_wait(sets[i % 2], &got, 1, 10) == 1)
            fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    event.events = EPOLLPRI;
    CHECK(epoll_ctl(sets[0], EPOLL_CTL_ADD, fd, &event) == 0);
    tell(fd);
    CHECK(epoll_wait(sets[0], &got, 1, PATIENCE_MS) == 1 && got.events == EPOLLPRI);
    event.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
    CHECK_ERRNO(epoll_ctl(sets[1], EPOLL_CTL_ADD, fd, &event), EINVAL);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    char byte;
    await(fd);
    CHECK(send(fd, "u", 1, MSG_OOB) == 1);
    (void)recv(fd, &byte, 1, 0);
}
