/* shutdown(SHUT_RD) ends reading on this side at once; writing goes on. Shutting down nothing is ENOTCONN. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    await(fd);
    tell(fd);
    await(fd);
}

void client(struct place place)
{
    char byte;
    int loose = socket(AF_INET, SOCK_STREAM, 0), fd = tcp_connected(place.address, place.port);
    CHECK_ERRNO(shutdown(loose, SHUT_RDWR), ENOTCONN);
    CHECK_ERRNO(shutdown(fd, 7), EINVAL);
    tell(fd);
    await(fd);
    CHECK(shutdown(fd, SHUT_RD) == 0);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    CHECK(polled(fd, POLLIN) & POLLIN);
    tell(fd);
}
