/* A client that comes before the worker that will serve it was forked: it waits, and is served. */
#include "api.h"

/* What the early one says costs more than the others': it is passed on. */
#define EARLY 20
#define ROUNDS 200

static void serve(int listener, const struct sockaddr_in *who, int rounds)
{
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    int fd = accept(listener, (struct sockaddr *)&name, &length);
    CHECK(fd >= 0 && name.sin_addr.s_addr == who->sin_addr.s_addr);
    for (int i = 0; i < rounds; i++) {
        await(fd);
        tell(fd);
    }
    await_end(fd);
    CHECK(close(fd) == 0);
}

void server(struct place place)
{
    struct sockaddr_in who = at(place.client, 0);
    int control = tcp_listening(place.address, place.port);
    int listener = tcp_listening(place.address, place.port + 1), status;
    ready();
    int fd = accept(control, NULL, NULL);
    CHECK(fd >= 0);
    await(fd); /* it is there */
    pid_t worker = fork();
    if (worker == 0) {
        serve(listener, &who, EARLY);
        serve(listener, &who, ROUNDS);
        serve(listener, &who, ROUNDS);
        _exit(0);
    }
    CHECK(waitpid(worker, &status, 0) == worker && status == 0);
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port);
    for (int i = 0; i < 3; i++) {
        int fd = tcp_connected(place.address, place.port + 1);
        if (i == 0)
            tell(control);
        for (int round = 0; round < (i == 0 ? EARLY : ROUNDS); round++) {
            tell(fd);
            await(fd);
        }
        close(fd);
    }
}
