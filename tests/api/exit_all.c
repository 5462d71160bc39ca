/* All workers of a server end at once, and then their parent, which never accepts: clients that were served, and those that
 * waited for it, hear of the end. */
#include "api.h"

enum { WORKERS = 2, CLIENTS = 8 };

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), status;
    int told = tcp_listening(place.address, place.port + 1);
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        CHECK((workers[i] = fork()) >= 0);
        if (workers[i] == 0) {
            CHECK(accept(listener, NULL, NULL) >= 0);
            for (;;)
                pause();
        }
    }
    ready();
    int control = accept(told, NULL, NULL);
    CHECK(control >= 0);
    await(control); /* they are here */
    for (int i = 0; i < WORKERS; i++)
        CHECK(kill(workers[i], SIGTERM) == 0);
    for (int i = 0; i < WORKERS; i++)
        CHECK(waitpid(workers[i], &status, 0) == workers[i]);
    CHECK(close(listener) == 0);
    await(control);
}

void client(struct place place)
{
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = tcp_connected(place.address, place.port);
        send_all(fds[i], "hello", 5);
    }
    int control = tcp_connected(place.address, place.port + 1);
    tell(control);
    for (int i = 0; i < CLIENTS; i++) {
        char byte;
        ssize_t got = recv(fds[i], &byte, 1, 0);
        CHECK(got == 0 || (got == -1 && errno == ECONNRESET));
    }
    tell(control);
}
