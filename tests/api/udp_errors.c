/* What a datagram socket refuses, and how it learns that nobody listens. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    char byte;
    ready();
    CHECK(recv(fd, &byte, 1, 0) == 1);
}

void client(struct place place)
{
    static char large[65508];
    struct sockaddr_in to = at(place.address, place.port);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    char byte;
    CHECK(fd >= 0);
    CHECK_ERRNO(send(fd, "x", 1, 0), EDESTADDRREQ);
    CHECK_ERRNO(sendto(fd, large, sizeof large, 0, NAME(to)), EMSGSIZE);
    CHECK_ERRNO(sendto(fd, "x", 1, MSG_OOB, NAME(to)), EOPNOTSUPP);
    CHECK_ERRNO(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, 4), EINVAL);
    CHECK_ERRNO(recv(fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(listen(fd, 1), EOPNOTSUPP);
    CHECK_ERRNO(accept(fd, NULL, NULL), EOPNOTSUPP);
    int other = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK_ERRNO(shutdown(other, SHUT_RDWR), ENOTCONN);
    CHECK_ERRNO(bind(fd, (struct sockaddr *)&to, sizeof to), EADDRNOTAVAIL);

    /* Nobody has this port: an ICMP error reaches the connected socket, once. */
    int closed = udp_connected(place.address, place.port + 5);
    CHECK(send(closed, "x", 1, 0) == 1);
    CHECK(polled(closed, POLLIN) & (POLLERR | POLLIN));
    CHECK_ERRNO(recv(closed, &byte, 1, 0), ECONNREFUSED);
    CHECK_ERRNO(recv(closed, &byte, 1, MSG_DONTWAIT), EAGAIN);

    CHECK(sendto(fd, "x", 1, 0, NAME(to)) == 1);
}
