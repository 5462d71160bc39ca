/* What a datagram socket refuses, and how it learns that nobody listens. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    char byte;
    ready();
    CHECK(recv(fd, &byte, 1, 0) == 1);
}

/* Sends to a closed port until an ICMP error has come back: the kernel over there sends one a second at the least. */
static void refused(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < PATIENCE_MS / 1100; i++) {
        CHECK(send(fd, "x", 1, 0) == 1);
        CHECK(poll(&one, 1, 1100) >= 0);
        if (one.revents & (POLLERR | POLLIN))
            return;
    }
    CHECK(!"an ICMP error comes");
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
    refused(closed);
    CHECK_ERRNO(recv(closed, &byte, 1, 0), ECONNREFUSED);
    CHECK_ERRNO(recv(closed, &byte, 1, MSG_DONTWAIT), EAGAIN);

    /* It comes before a buffer that is not there. */
    refused(closed);
    CHECK_ERRNO(send(closed, NULL, 1, 0), ECONNREFUSED);
    CHECK_ERRNO(send(closed, NULL, 1, 0), EFAULT);

    /* What is refused in any case, and another connect, leave the error there; a receive of urgent data is one as any other. */
    refused(closed);
    CHECK_ERRNO(send(closed, large, sizeof large, 0), EMSGSIZE);
    to.sin_port = htons((unsigned short)(place.port + 5));
    CHECK(connect(closed, NAME(to)) == 0);
    CHECK_ERRNO(recv(closed, &byte, 1, MSG_OOB | MSG_DONTWAIT), ECONNREFUSED);
    to.sin_port = htons((unsigned short)place.port);

    CHECK(sendto(fd, "x", 1, 0, NAME(to)) == 1);
}
