/* SO_SNDTIMEO and SO_RCVTIMEO are for a call as a whole, however often it is woken meanwhile for a part of what it waits
 * for. */
#include "api.h"

enum { WARM = 40, SLOW = 40, PAUSE_US = 50000, PIECE = 65536, ALL = 32 << 20 };

static char data[ALL];

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    long long total = 0, sent = 0;
    answers(fd, WARM);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    /* For longer than the client's call may take there is a piece within each of its time limits. */
    for (int i = 0; total == 0 || data[0] != 'e'; i++) {
        if (i < SLOW)
            usleep(PAUSE_US);
        ssize_t count = recv(fd, data, PIECE, 0);
        CHECK(count > 0);
        total += count;
        data[0] = data[count - 1];
    }
    /* The client's word is behind what it sent. */
    int control = udp_bound(place.address, place.port + 1);
    CHECK(setsockopt(control, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    tell(fd);
    CHECK(recv(control, &sent, sizeof sent, 0) == sizeof sent);
    CHECK(total == sent + 1);
    for (int i = 0; i < SLOW; i++) {
        usleep(PAUSE_US);
        CHECK(send(fd, "r", 1, MSG_NOSIGNAL) == 1);
    }
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), small = PIECE;
    struct timeval limit = {.tv_usec = 300000}, none = {0};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    pings(fd, WARM);
    memset(data, 's', sizeof data);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    long long sent = send(fd, data, sizeof data, MSG_NOSIGNAL);
    CHECK(sent > 0 && sent < ALL);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none) == 0);
    CHECK(send(fd, "e", 1, MSG_NOSIGNAL) == 1);
    await(fd);
    int control = udp_connected(place.address, place.port + 1);
    CHECK(send(control, &sent, sizeof sent, 0) == sizeof sent);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    ssize_t got = recv(fd, data, SLOW, MSG_WAITALL);
    CHECK(got > 0 && got < SLOW);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none) == 0);
    recv_all(fd, data, (size_t)(SLOW - got));
}
