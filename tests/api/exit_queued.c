/* A listener's process ends before it accepted: whoever waits in its queue is reset at once, though it sends nothing. */
#include "api.h"

enum { CLIENTS = 3 };

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), told = tcp_listening(place.address, place.port + 1);
    ready();
    int control = accept(told, NULL, NULL);
    CHECK(control >= 0);
    await(control);
    CHECK(polled(listener, POLLIN) == POLLIN);
}

void client(struct place place)
{
    int waiting[CLIENTS], control = tcp_connected(place.address, place.port + 1);
    for (int i = 0; i < CLIENTS; i++)
        waiting[i] = tcp_connected(place.address, place.port);
    tell(control);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK((polled(waiting[i], POLLIN) & (POLLERR | POLLHUP)) != 0);
        char byte;
        CHECK_ERRNO(recv(waiting[i], &byte, 1, 0), ECONNRESET);
    }
    await_end(control);
}
