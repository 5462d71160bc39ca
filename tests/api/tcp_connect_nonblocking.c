/* A connect that does not wait: EINPROGRESS, then writable, and SO_ERROR tells how it ended. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    tell(fd);
    await_end(fd);
}

static int begun(const char *address, int port)
{
    struct sockaddr_in name = at(address, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    CHECK_ERRNO(connect(fd, NAME(name)), EINPROGRESS);
    return fd;
}

void client(struct place place)
{
    struct sockaddr_in name = at(place.address, place.port);
    char byte;
    int fd = begun(place.address, place.port);
    CHECK(polled(fd, POLLOUT) == POLLOUT);
    CHECK(option(fd, SOL_SOCKET, SO_ERROR) == 0);
    CHECK(connect(fd, NAME(name)) == 0 || errno == EISCONN);
    CHECK_ERRNO(connect(fd, NAME(name)), EISCONN);
    CHECK(polled(fd, POLLIN) == POLLIN);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), EAGAIN);

    int refused = begun(place.address, place.port + 3);
    short events = polled(refused, POLLOUT);
    CHECK((events & (POLLERR | POLLHUP)) != 0);
    CHECK(option(refused, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
    CHECK(option(refused, SOL_SOCKET, SO_ERROR) == 0);
}
