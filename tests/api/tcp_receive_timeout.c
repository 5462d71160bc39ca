/* SO_RCVTIMEO on a connection and on a listener: EAGAIN after it, not before; what comes later is received. */
#include "api.h"

void server(struct place place)
{
    struct timeval limit = {.tv_usec = 100000};
    int listener = tcp_listening(place.address, place.port);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    long long start = now_ms();
    CHECK_ERRNO(accept(listener, NULL, NULL), EAGAIN);
    CHECK(now_ms() - start >= 99);
    ready();
    CHECK(polled(listener, POLLIN) == POLLIN);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(polled(fd, POLLIN) == POLLIN); /* the listener's limit is inherited */
    await(fd);
    tell(fd);
    CHECK(polled(fd, POLLIN) == POLLIN);
    await_end(fd);
}

void client(struct place place)
{
    struct timeval limit = {.tv_usec = 100000}, got;
    socklen_t length = sizeof got;
    char byte;
    int fd = tcp_connected(place.address, place.port);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &length) == 0 && got.tv_usec >= 99000);
    long long start = now_ms();
    CHECK_ERRNO(recv(fd, &byte, 1, 0), EAGAIN);
    CHECK(now_ms() - start >= 99);
    tell(fd);
    CHECK(polled(fd, POLLIN) == POLLIN);
    await(fd);
}
