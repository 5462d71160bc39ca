/* Connections wait in the backlog until they are accepted, each with what its client has sent already. */
#include "api.h"

#define COUNT 12

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), seen[COUNT] = {0};
    ready();
    int gate = accept(listener, NULL, NULL);
    CHECK(gate >= 0);
    await(gate); /* the others are connected now */
    for (int i = 0; i < COUNT; i++) {
        unsigned char which;
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        CHECK(recv(fd, &which, 1, 0) == 1 && which < COUNT && !seen[which]);
        seen[which] = 1;
        CHECK(send(fd, &which, 1, 0) == 1);
        CHECK(close(fd) == 0);
    }
}

void client(struct place place)
{
    int gate = tcp_connected(place.address, place.port), fds[COUNT];
    for (unsigned char i = 0; i < COUNT; i++) {
        fds[i] = tcp_connected(place.address, place.port);
        CHECK(send(fds[i], &i, 1, 0) == 1);
    }
    tell(gate);
    for (int i = 0; i < COUNT; i++) {
        unsigned char which;
        CHECK(recv(fds[i], &which, 1, 0) == 1 && which == i);
        await_end(fds[i]);
    }
}
