/* EPOLLONESHOT reports once and then nothing until the entry is armed again. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = fd}, got[2];
    char text[4];
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    ready();
    CHECK(epoll_wait(set, got, 2, PATIENCE_MS) == 1 && got[0].events == EPOLLIN);
    CHECK(epoll_wait(set, got, 2, 20) == 0);
    CHECK(recv(fd, text, sizeof text, 0) == 1);
    CHECK(recv(fd, text, sizeof text, 0) == 1);
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
    CHECK(epoll_wait(set, got, 2, 20) == 0);
    struct sockaddr_in to = at(place.client, place.port);
    CHECK(sendto(fd, "!", 1, 0, NAME(to)) == 1);
    CHECK(epoll_wait(set, got, 2, PATIENCE_MS) == 1);
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
    CHECK(epoll_wait(set, got, 2, PATIENCE_MS) == 1); /* still unread, armed again */
    CHECK(recv(fd, text, sizeof text, 0) == 1);
}

void client(struct place place)
{
    struct sockaddr_in to = at(place.address, place.port);
    char text[4];
    int fd = udp_bound(place.client, place.port);
    CHECK(sendto(fd, "1", 1, 0, NAME(to)) == 1);
    CHECK(sendto(fd, "2", 1, 0, NAME(to)) == 1);
    CHECK(recv(fd, text, sizeof text, 0) == 1);
    CHECK(sendto(fd, "3", 1, 0, NAME(to)) == 1);
}
