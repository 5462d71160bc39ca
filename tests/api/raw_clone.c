/* The child of a bare clone has its parent's sockets. What it does with them leaves the parent's other connections alone. */
#include "api.h"
#include <sys/syscall.h>

#define ROUNDS 500

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    int own = accept(listener, NULL, NULL), childs = accept(listener, NULL, NULL);
    CHECK(own >= 0 && childs >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        await(own);
        tell(own);
    }
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        char byte;
        /* Whether this works is another question (docs/differences.md). */
        for (int i = 0; i < ROUNDS; i++) {
            (void)!send(childs, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            (void)!recv(childs, &byte, 1, MSG_DONTWAIT);
        }
        _exit(0);
    }
    CHECK(child > 0);
    for (int i = 0; i < ROUNDS; i++) {
        await(own);
        tell(own);
    }
    CHECK(waitpid((pid_t)child, NULL, 0) == child);
    tell(own);
    await_end(own);
}

void client(struct place place)
{
    int own = tcp_connected(place.address, place.port), childs = tcp_connected(place.address, place.port);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        tell(own);
        await(own);
    }
    await(own);
    CHECK(close(childs) == 0);
    CHECK(close(own) == 0);
}
