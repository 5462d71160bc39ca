/* splice(2) from a socket into a pipe and back. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place), pipes[2];
    CHECK(pipe(pipes) == 0);
    CHECK(splice(fd, NULL, pipes[1], NULL, 5, 0) == 5);
    CHECK(splice(pipes[0], NULL, fd, NULL, 5, 0) == 5);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    char text[5];
    send_all(fd, "hello", 5);
    recv_all(fd, text, 5);
    CHECK(memcmp(text, "hello", 5) == 0);
}
