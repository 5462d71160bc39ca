/* A server listens, forks, and ends, as daemons do: clients that came before are the child's. */
#include "api.h"

enum { CLIENTS = 3 };

static void serve(int listener)
{
    for (int i = 0; i < CLIENTS; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        await(fd);
        tell(fd);
        await_end(fd);
        CHECK(close(fd) == 0);
    }
}

static void daemonize(struct place place)
{
    int told = tcp_listening(place.address, place.port), listener = tcp_listening(place.address, place.port + 1);
    ready();
    int control = accept(told, NULL, NULL);
    CHECK(control >= 0);
    await(control); /* they are here */
    CHECK(close(control) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child != 0)
        _exit(0);
    alarm(PATIENCE_MS / 1000);
    serve(listener);
    _exit(0);
}

void server(struct place place)
{
    int ended[2], status;
    char byte;
    CHECK(pipe(ended) == 0);
    pid_t master = fork();
    CHECK(master >= 0);
    if (master == 0)
        daemonize(place);
    CHECK(close(ended[1]) == 0);
    CHECK(waitpid(master, &status, 0) == master && status == 0);
    CHECK(read(ended[0], &byte, 1) == 0); /* the child ended too */
}

void client(struct place place)
{
    int waiting[CLIENTS], control = tcp_connected(place.address, place.port);
    for (int i = 0; i < CLIENTS; i++) {
        waiting[i] = tcp_connected(place.address, place.port + 1);
        tell(waiting[i]);
    }
    tell(control);
    await_end(control);
    for (int i = 0; i < CLIENTS; i++) {
        await(waiting[i]);
        CHECK(close(waiting[i]) == 0);
    }
}
