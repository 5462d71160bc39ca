/* Two sockets cannot have one port; once it is closed, it can be had again at once. */
#include "api.h"

void server(struct place place)
{
    struct sockaddr_in name = at(place.address, place.port), from;
    socklen_t length = sizeof from;
    char byte;
    int first = udp_bound(place.address, place.port), second = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK_ERRNO(bind(second, NAME(name)), EADDRINUSE);
    CHECK_ERRNO(bind(first, NAME(name)), EINVAL);
    ready();
    CHECK(recvfrom(first, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
    CHECK(close(first) == 0);
    CHECK(bind(second, NAME(name)) == 0);
    CHECK(sendto(second, "a", 1, 0, (struct sockaddr *)&from, length) == 1);
    CHECK(recv(second, &byte, 1, 0) == 1 && byte == 'b');
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    char byte;
    CHECK(send(fd, "x", 1, 0) == 1);
    CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'a');
    CHECK(send(fd, "b", 1, 0) == 1);
}
