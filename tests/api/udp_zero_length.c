/* An empty datagram is a datagram: it makes the socket readable and is received as 0 bytes. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    char text[4];
    int bytes = -1;
    ready();
    CHECK(polled(fd, POLLIN) == POLLIN);
    CHECK(ioctl(fd, FIONREAD, &bytes) == 0 && bytes == 0);
    CHECK(recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 0);
    CHECK(from.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
    CHECK(recv(fd, text, sizeof text, 0) == 1);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    CHECK(send(fd, "", 0, 0) == 0);
    CHECK(send(fd, "x", 1, 0) == 1);
}
