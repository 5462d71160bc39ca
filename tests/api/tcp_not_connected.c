/* Calls on sockets in the wrong state. */
#include "api.h"

void server(struct place place)
{
    struct sockaddr_in name = at(place.address, place.port);
    socklen_t length = sizeof name;
    char byte;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), ENOTCONN);
    CHECK_ERRNO(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK_ERRNO(accept(fd, NULL, NULL), EINVAL);
    CHECK_ERRNO(getpeername(fd, (struct sockaddr *)&name, &length), ENOTCONN);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
    CHECK(bind(fd, NAME(name)) == 0);
    CHECK_ERRNO(bind(fd, NAME(name)), EINVAL);
    CHECK(listen(fd, 4) == 0);
    CHECK(listen(fd, 8) == 0);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), ENOTCONN);
    CHECK_ERRNO(connect(fd, NAME(name)), EISCONN);
    CHECK_ERRNO(accept(9999, NULL, NULL), EBADF);
    CHECK_ERRNO(accept(0, NULL, NULL), ENOTSOCK);
    ready();
    int peer = accept(fd, NULL, NULL);
    CHECK(peer >= 0);
    CHECK_ERRNO(listen(peer, 1), EINVAL);
    CHECK_ERRNO(accept(peer, NULL, NULL), EINVAL);
    await_end(peer);
}

void client(struct place place)
{
    struct sockaddr_in short_name = at(place.address, place.port);
    struct sockaddr_in6 other = {.sin6_family = AF_INET6};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_ERRNO(connect(fd, (struct sockaddr *)&short_name, 3), EINVAL);
    CHECK_ERRNO(connect(fd, NAME(other)), EAFNOSUPPORT);
    CHECK(close(fd) == 0);
    CHECK_ERRNO(close(fd), EBADF);
    CHECK_ERRNO(send(fd, "x", 1, 0), EBADF);
    fd = tcp_connected(place.address, place.port);
    CHECK(close(fd) == 0);
}
