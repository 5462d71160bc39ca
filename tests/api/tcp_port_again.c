/* The addresses and ports of a connection that has ended in order serve the next one, though a socket listens there that
 * the kernel carries. */
#include "api.h"

/* A listener for IPv6 and IPv4, which only the kernel has. */
static int listening6(int port)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    int one = 1, zero = 0, fd = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) == 0);
    CHECK(bind(fd, NAME(name)) == 0);
    CHECK(listen(fd, 16) == 0);
    return fd;
}

static int from(struct sockaddr_in local, struct sockaddr_in remote)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, NAME(local)) == 0);
    CHECK(connect(fd, NAME(remote)) == 0);
    return fd;
}

enum { ROUNDS = 5 };

void server(struct place place)
{
    int control = tcp_serve_one(place);
    for (int i = 0; i < ROUNDS; i++) {
        struct sockaddr_in here = at(place.address, place.port + 1 + i), there = at(place.client, place.port + 1);
        int listener = tcp_listening(place.address, place.port + 1 + i);
        tell(control);
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        CHECK(close(listener) == 0);
        /* The client ends first, so its side is the one that rests. */
        await_end(fd);
        CHECK(close(fd) == 0);
        await(control);
        int again = from(here, there);
        await(again);
        CHECK(close(again) == 0);
    }
    await_end(control);
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port);
    for (int i = 0; i < ROUNDS; i++) {
        struct sockaddr_in here = at(place.client, place.port + 1), there = at(place.address, place.port + 1 + i);
        await(control);
        int fd = from(here, there);
        CHECK(close(fd) == 0);
        usleep(20000);
        int listener = listening6(place.port + 1);
        tell(control);
        int again = accept(listener, NULL, NULL);
        CHECK(again >= 0);
        tell(again);
        await_end(again);
        CHECK(close(again) == 0 && close(listener) == 0);
    }
}
