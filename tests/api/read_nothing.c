/* read(2) and readv(2) of nothing answer at once, and take nothing, not even a datagram. */
#include "api.h"

enum { ROUNDS = 40 };

static void nothing(int fd)
{
    char byte;
    struct iovec none[2] = {{&byte, 0}, {&byte, 0}};
    CHECK(read(fd, &byte, 0) == 0);
    CHECK(readv(fd, none, 2) == 0);
    CHECK(readv(fd, none, 0) == 0);
}

void server(struct place place)
{
    int udp = udp_bound(place.address, place.port + 1);
    int fd = tcp_serve_one(place);
    answers(fd, ROUNDS);
    nothing(fd); /* nothing has come */
    nothing(udp);
    tell(fd);
    await(fd);
    CHECK(polled(udp, POLLIN) == POLLIN);
    nothing(udp);
    char bytes[8];
    CHECK(recv(udp, bytes, sizeof bytes, 0) == 3);
    tell(fd);
    CHECK(polled(fd, POLLIN) == POLLIN);
    nothing(fd);
    await(fd);
    await_end(fd);
    nothing(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    pings(fd, ROUNDS);
    await(fd);
    CHECK(send(udp, "abc", 3, 0) == 3);
    tell(fd);
    await(fd);
    tell(fd);
}
