/* Level-triggered epoll: reports as long as there is something, with the caller's data; MOD and DEL are obeyed. */
#include "api.h"

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1122334455667788}, got[4];
    CHECK(set >= 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == 0);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event), EEXIST);
    CHECK(epoll_wait(set, got, 4, 0) == 0);
    ready();
    CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1);
    CHECK(got[0].events == EPOLLIN && got[0].data.u64 == 0x1122334455667788);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    event = (struct epoll_event){.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event), ENOENT);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(epoll_wait(set, got, 4, 0) == 0);
    tell(fd);
    char byte;
    for (int i = 0; i < 2; i++) { /* two bytes were sent, one is read each time */
        CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1 && got[0].data.fd == fd && got[0].events == EPOLLIN);
        CHECK(recv(fd, &byte, 1, MSG_WAITALL) == 1);
        if (i == 0)
            CHECK(polled(fd, POLLIN) == POLLIN);
    }
    event.events = EPOLLOUT;
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
    CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1 && got[0].events == EPOLLOUT);
    event.events = EPOLLIN | EPOLLRDHUP;
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
    tell(fd);
    CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1);
    CHECK(got[0].events == (EPOLLIN | EPOLLRDHUP));
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0);
    CHECK(epoll_wait(set, got, 4, 0) == 0);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), ENOENT);
    CHECK_ERRNO(epoll_wait(set, got, 0, 0), EINVAL);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    await(fd);
    send_all(fd, "ab", 2);
    await(fd);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(fd);
}
