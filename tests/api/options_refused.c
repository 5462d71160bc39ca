/* Options that make a program rely on what only the kernel's own path has. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    char byte;
    ready();
    for (int i = 0; i < 8; i++)
        CHECK(recv(fd, &byte, 1, 0) == 1);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port), one = 1;
    for (int i = 0; i < 8; i++)
        CHECK(send(fd, "x", 1, 0) == 1);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0);
    CHECK(option(fd, SOL_SOCKET, SO_ZEROCOPY) == 1);
}
