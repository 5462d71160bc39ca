/* Edge-triggered epoll: one report per arrival, whatever is left unread. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd}, got[4];
    char text[8];
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1 && got[0].events == EPOLLOUT);
    CHECK(epoll_wait(set, got, 4, 20) == 0);
    tell(fd);
    CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1 && (got[0].events & EPOLLIN));
    CHECK(epoll_wait(set, got, 4, 20) == 0); /* unread, but not new */
    CHECK(recv(fd, text, 1, 0) == 1);
    CHECK(epoll_wait(set, got, 4, 20) == 0);
    tell(fd);
    CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1 && (got[0].events & EPOLLIN)); /* more arrived */
    recv_all(fd, text, 3);
    CHECK_ERRNO(recv(fd, text, 1, MSG_DONTWAIT), EAGAIN);
    /* Changing the entry reports anew what is already so. */
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
    CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1 && got[0].events == EPOLLOUT);
    tell(fd);
    CHECK(epoll_wait(set, got, 4, PATIENCE_MS) == 1 && (got[0].events & EPOLLIN));
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    await(fd);
    send_all(fd, "ab", 2);
    await(fd);
    send_all(fd, "cd", 2);
    await(fd);
}
