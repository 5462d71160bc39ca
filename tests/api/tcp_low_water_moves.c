/* A receive waits for SO_RCVLOWAT bytes wherever the connection is when it begins, and wherever it moves meanwhile:
 * the mark was inherited from the listener, or set between calls. (Linux does not wake a receive that has taken some
 * for fewer than SO_RCVLOWAT more.) */
#include "api.h"

enum { LOW = 4, ALL = 6, ROUNDS = 30, WARM = 3000 };

static void set_low(int fd, int low)
{
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low) == 0);
}

static void parts_are_awaited(int fd)
{
    char text[ALL];
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(recv(fd, text, ALL, 0) == ALL);
        CHECK(send(fd, text, ALL, MSG_NOSIGNAL) == ALL);
    }
}

static void in_parts(int fd)
{
    char text[ALL];
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(send(fd, "ab", 2, MSG_NOSIGNAL) == 2);
        usleep(5000);
        CHECK(send(fd, "cdef", 4, MSG_NOSIGNAL) == 4);
        recv_all(fd, text, ALL);
    }
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    set_low(listener, LOW);
    ready();
    for (int i = 0; i < 2; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        /* The second begins without, so that it has moved before. */
        set_low(listener, 1);
        if (i > 0) {
            answers(fd, WARM);
            set_low(fd, LOW);
        }
        parts_are_awaited(fd);
        CHECK(close(fd) == 0);
    }
}

void client(struct place place)
{
    for (int i = 0; i < 2; i++) {
        int fd = tcp_connected(place.address, place.port);
        if (i > 0)
            pings(fd, WARM);
        in_parts(fd);
        await_end(fd);
        CHECK(close(fd) == 0);
    }
}
