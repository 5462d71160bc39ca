/* close_range(2) with CLOSE_RANGE_UNSHARE: by a program of one thread it closes; beside another thread, for which the
   numbers stay, nothing ends. */
#include "api.h"
#include <linux/close_range.h>
#include <pthread.h>

enum { ROUNDS = 40 };

static int handed[2];

static void *goes_its_own_way(void *fd)
{
    unsigned number = (unsigned)*(int *)fd;
    CHECK(close_range(number, number, CLOSE_RANGE_UNSHARE) == 0);
    CHECK(write(handed[1], "x", 1) == 1);
    pause();
    return NULL;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int i = 0; i < 2; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        answers(fd, ROUNDS);
        await_end(fd);
        CHECK(close(fd) == 0);
    }
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    pthread_t thread;
    char byte;
    pings(fd, ROUNDS);
    CHECK(close_range((unsigned)fd, (unsigned)fd, CLOSE_RANGE_UNSHARE) == 0);
    CHECK_ERRNO(fcntl(fd, F_GETFD), EBADF);
    fd = tcp_connected(place.address, place.port);
    pings(fd, ROUNDS / 2); /* the server takes it when it has seen the end of the first */
    CHECK(pipe(handed) == 0);
    CHECK(pthread_create(&thread, NULL, goes_its_own_way, &fd) == 0);
    CHECK(read(handed[0], &byte, 1) == 1);
    pings(fd, ROUNDS / 2);
    exit(0);
}
