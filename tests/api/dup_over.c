/* dup2 in place of a connection closes it, and keeps nothing of what is there afterwards: a pipe ends with its last
 * descriptor, while the peer has not closed yet. */
#include "api.h"

static void replace_by_pipe(int fd)
{
    char byte;
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(dup2(ends[1], fd) == fd);
    CHECK(close(ends[1]) == 0);
    CHECK(write(fd, "x", 1) == 1);
    CHECK(close(fd) == 0);
    CHECK(read(ends[0], &byte, 1) == 1);
    CHECK(polled(ends[0], POLLIN) & POLLHUP);
    CHECK(read(ends[0], &byte, 1) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL), clients = accept(listener, NULL, NULL);
    int other = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && clients >= 0 && other >= 0);
    for (int i = 0; i < 10; i++)
        await(fd);
    replace_by_pipe(fd);
    tell(other);
    await_end(clients);
    await(other);
    CHECK(close(clients) == 0);
    await_end(other);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), own = tcp_connected(place.address, place.port);
    int other = tcp_connected(place.address, place.port);
    for (int i = 0; i < 10; i++)
        tell(fd);
    await_end(fd);
    await(other);
    CHECK(close(fd) == 0);
    replace_by_pipe(own);
    tell(other);
}
