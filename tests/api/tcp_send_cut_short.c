/* A send that waits for room when its peer resets the connection says what went; the next one tells of the reset, without
   SIGPIPE, and the one behind it that the connection is closed. */
#include "api.h"

enum { MANY = 30000000, SOME_US = 300000 };

static volatile int pipes;

static void count(int signal)
{
    (void)signal;
    pipes++;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int i = 0; i < 2; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        answers(fd, 200);
        usleep(SOME_US); /* the peer's send waits by now */
        CHECK(close(fd) == 0);
    }
}

void client(struct place place)
{
    static char much[MANY];
    CHECK(signal(SIGPIPE, count) != SIG_ERR);
    for (int i = 0; i < 2; i++) {
        int fd = tcp_connected(place.address, place.port);
        ssize_t sent;
        pings(fd, 200);
        if (i == 0) {
            sent = send(fd, much, MANY, 0);
        } else {
            struct iovec parts[2] = {{much, MANY / 2}, {much + MANY / 2, MANY / 2}};
            sent = writev(fd, parts, 2);
        }
        CHECK(sent > 0 && sent < MANY);
        CHECK(pipes == i);
        CHECK_ERRNO(send(fd, much, 10, 0), ECONNRESET);
        CHECK(pipes == i);
        CHECK_ERRNO(send(fd, much, 10, 0), EPIPE);
        CHECK(pipes == i + 1);
        CHECK(close(fd) == 0);
    }
}
