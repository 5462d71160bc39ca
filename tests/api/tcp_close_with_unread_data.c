/* Closing with data unread resets the connection, so that the peer does not believe it was read (RFC 2525, 2.17). */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    CHECK(polled(fd, POLLIN) == POLLIN);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    char byte;
    send_all(fd, "never read", 10);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), ECONNRESET);
}
