/* MSG_PEEK leaves the datagram in place, with its sender. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    struct sockaddr_in from[2];
    socklen_t length = sizeof from[0];
    char text[16];
    ready();
    for (int i = 0; i < 2; i++)
        CHECK(recvfrom(fd, text, sizeof text, MSG_PEEK, (struct sockaddr *)&from[i], &length) == 5);
    CHECK(from[0].sin_port == from[1].sin_port);
    CHECK(recv(fd, text, 2, MSG_PEEK | MSG_TRUNC) == 5);
    CHECK(recv(fd, text, sizeof text, 0) == 5 && memcmp(text, "first", 5) == 0);
    CHECK(recv(fd, text, sizeof text, 0) == 6 && memcmp(text, "second", 6) == 0);
    CHECK_ERRNO(recv(fd, text, sizeof text, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    CHECK(send(fd, "first", 5, 0) == 5);
    CHECK(send(fd, "second", 6, 0) == 6);
}
