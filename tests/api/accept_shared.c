/* Processes that block in accept on one listener, whose clients come from other hosts and from this one: each client is
 * served, and nobody who came second for a client waits where the next one would not find him. */
#include "api.h"

enum { WORKERS = 8, LOCALS = 3, ROUNDS = 20 };

static void work(int listener)
{
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        await(fd);
        tell(fd);
        CHECK(close(fd) == 0);
    }
}

static void ask(struct place place, int times, useconds_t pause)
{
    for (int i = 0; i < times; i++) {
        int fd = tcp_connected(place.address, place.port);
        tell(fd);
        await(fd);
        CHECK(close(fd) == 0);
        usleep(pause); /* workers that found nothing fall asleep */
    }
}

static void local_clients(struct place place)
{
    pid_t locals[LOCALS];
    int status;
    for (int i = 0; i < LOCALS; i++) {
        CHECK((locals[i] = fork()) >= 0);
        if (locals[i] == 0) {
            ask(place, 20, 300);
            _exit(0);
        }
    }
    for (int i = 0; i < LOCALS; i++)
        CHECK(waitpid(locals[i], &status, 0) == locals[i] && status == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), status;
    int told = tcp_listening(place.address, place.port + 1);
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        CHECK((workers[i] = fork()) >= 0);
        if (workers[i] == 0)
            work(listener);
    }
    ready();
    int control = accept(told, NULL, NULL);
    CHECK(control >= 0);
    for (int round = 0; round < ROUNDS; round++) {
        local_clients(place);
        tell(control);
        await(control);
    }
    for (int i = 0; i < WORKERS; i++) {
        CHECK(kill(workers[i], SIGTERM) == 0);
        CHECK(waitpid(workers[i], &status, 0) == workers[i]);
    }
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port + 1);
    for (int round = 0; round < ROUNDS; round++) {
        await(control);
        ask(place, 250, 0);
        tell(control);
    }
}
