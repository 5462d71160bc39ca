/* The child of a fork in another pid namespace uses a listener of its parent, who lives: its connections go on. */
#include "api.h"
#include <sched.h>

enum { PINGS = 400 };

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(unshare(CLONE_NEWPID) == 0);
    int stop[2];
    CHECK(pipe(stop) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* Until its parent has done enough: longer than the dead are looked for. */
        struct pollfd both[2] = {{.fd = listener, .events = POLLIN}, {.fd = stop[0], .events = POLLIN}};
        CHECK(close(stop[1]) == 0);
        do
            CHECK(poll(both, 2, -1) >= 1);
        while (!both[1].revents);
        exit(0);
    }
    CHECK(close(stop[0]) == 0);
    for (int i = 0; i < PINGS; i++) {
        await(fd);
        tell(fd);
    }
    CHECK(close(stop[1]) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    for (int i = 0; i < PINGS; i++) {
        usleep(5000);
        tell(fd);
        await(fd);
    }
}
