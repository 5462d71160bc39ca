/* Nobody listens: ECONNREFUSED at once; the same socket may try again elsewhere. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    await_end(fd);
}

void client(struct place place)
{
    struct sockaddr_in nobody = at(place.address, place.port + 3), name = at(place.address, place.port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char byte;
    CHECK_ERRNO(connect(fd, NAME(nobody)), ECONNREFUSED);
    CHECK(option(fd, SOL_SOCKET, SO_ERROR) == 0);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), ENOTCONN);
    CHECK(connect(fd, NAME(name)) == 0);
    CHECK_ERRNO(connect(fd, NAME(name)), EISCONN);
    CHECK(close(fd) == 0);
}
