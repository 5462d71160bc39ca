/* A set in a set, level-triggered: as long as something in it is unread, the outer one and poll report it, also behind
   a wait on the inner one that reported it. */
#include "api.h"

enum { AT_ONCE = 0, PAUSE_US = 30000 };

/* Reads `pieces` times, one byte or one datagram of what the peer has sent, and looks from outside before each. */
static void taken_in_pieces(int set, int inner, int fd, int pieces)
{
    char byte;
    CHECK(ready_in(set, PATIENCE_MS) == inner);
    for (int i = 0; i < pieces; i++) {
        usleep(PAUSE_US); /* the inner set looks at the kernel's, too */
        CHECK(ready_in(inner, PATIENCE_MS) == fd);
        CHECK(ready_in(set, PATIENCE_MS) == inner);
        CHECK(polled(inner, POLLIN) == POLLIN);
        CHECK(recv(fd, &byte, 1, 0) == 1);
    }
    CHECK(ready_in(inner, AT_ONCE) == 0);
    CHECK(ready_in(set, AT_ONCE) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), udp = udp_bound(place.address, place.port + 1);
    int set = epoll_create1(0), inner = epoll_create1(0);
    add_readable(set, inner);
    add_readable(inner, udp);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    add_readable(inner, fd);
    for (int round = 0; round < 3; round++) {
        tell(fd);
        taken_in_pieces(set, inner, udp, 3);
        tell(fd);
        taken_in_pieces(set, inner, fd, 5);
    }
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    for (int round = 0; round < 3; round++) {
        await(fd);
        for (int i = 0; i < 3; i++)
            CHECK(send(udp, "u", 1, 0) == 1);
        await(fd);
        CHECK(send(fd, "abcde", 5, 0) == 5);
    }
    await_end(fd);
}
