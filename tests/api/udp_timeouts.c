/* A receive that nobody answers ends after SO_RCVTIMEO, not before; poll and select keep theirs. The longest is for ever. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    char byte;
    ready();
    for (int i = 0; i < 2; i++) {
        CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
        usleep(20000);
        CHECK(sendto(fd, &byte, 1, 0, (struct sockaddr *)&from, length) == 1);
    }
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    struct timeval limit = {.tv_usec = 100000}, never = {0};
    char byte;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    long long start = now_ms();
    CHECK_ERRNO(recv(fd, &byte, 1, 0), EAGAIN);
    CHECK(now_ms() - start >= 99);

    struct pollfd one = {.fd = fd, .events = POLLIN};
    start = now_ms();
    CHECK(poll(&one, 1, 50) == 0 && one.revents == 0);
    CHECK(now_ms() - start >= 49);

    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    struct timeval wait = {.tv_usec = 50000};
    start = now_ms();
    CHECK(select(fd + 1, &set, NULL, NULL, &wait) == 0 && !FD_ISSET(fd, &set));
    CHECK(now_ms() - start >= 49);

    struct timeval longest = {.tv_sec = 0x7fffffffffffffff, .tv_usec = 999999};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest) == 0);
    CHECK(send(fd, "x", 1, 0) == 1);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof never) == 0);
    CHECK(send(fd, "x", 1, 0) == 1);
    CHECK(recv(fd, &byte, 1, 0) == 1);
}
