/* A wait of no time at all reports what is ready by then, be it the kernel's or not, though another was just before. */
#include "api.h"

void server(struct place place)
{
    int udp = udp_bound(place.address, place.port), set = epoll_create1(0), pipes[2];
    struct epoll_event got[2];
    char byte;
    CHECK(pipe(pipes) == 0);
    int members[] = {udp, pipes[0]};
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = members[i]};
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, members[i], &event) == 0);
    }
    ready();
    CHECK(epoll_wait(set, got, 2, PATIENCE_MS) == 1 && got[0].data.fd == udp);
    CHECK(recv(udp, &byte, 1, 0) == 1);
    for (int round = 0; round < 1000; round++) {
        CHECK(epoll_wait(set, got, 2, 0) == 0);
        CHECK(write(pipes[1], "x", 1) == 1);
        CHECK(epoll_wait(set, got, 2, 0) == 1 && got[0].data.fd == pipes[0]);
        CHECK(read(pipes[0], &byte, 1) == 1);
    }
}

void client(struct place place)
{
    int udp = udp_connected(place.address, place.port);
    CHECK(send(udp, "u", 1, 0) == 1);
}
