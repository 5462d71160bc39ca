/* A connected UDP socket: send and recv without addresses, only its peer is heard, AF_UNSPEC dissolves it. What waits
 * when it is connected is read. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port), stranger = udp_bound(place.address, place.port + 1);
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    char text[16];
    ready();
    CHECK(recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 5);
    CHECK(sendto(stranger, "stranger", 8, 0, (struct sockaddr *)&from, length) == 8);
    CHECK(sendto(fd, "friend", 6, 0, (struct sockaddr *)&from, length) == 6);
    CHECK(recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 5);
    CHECK(sendto(stranger, "anyone", 6, 0, (struct sockaddr *)&from, length) == 6);

    /* What waits is read, from whomever it came, whether a connect that follows succeeds or not. */
    CHECK(recv(stranger, text, sizeof text, 0) == 5);
    struct sockaddr_in all = at("255.255.255.255", place.port), other = at(place.client, place.port + 2);
    CHECK_ERRNO(connect(fd, NAME(all)), EACCES);
    CHECK(recv(fd, text, sizeof text, MSG_DONTWAIT) == 3 && memcmp(text, "one", 3) == 0);
    CHECK(connect(fd, NAME(other)) == 0);
    CHECK(recv(fd, text, sizeof text, MSG_DONTWAIT) == 3 && memcmp(text, "two", 3) == 0);
    CHECK(sendto(stranger, "done", 4, 0, (struct sockaddr *)&from, length) == 4);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    char text[16];
    CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin_port == htons((unsigned short)place.port));
    CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin_port != 0 && name.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
    CHECK(send(fd, "hello", 5, 0) == 5);
    CHECK(recv(fd, text, sizeof text, 0) == 6);
    CHECK(memcmp(text, "friend", 6) == 0);

    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    CHECK(connect(fd, &nobody, sizeof nobody) == 0);
    length = sizeof name;
    CHECK_ERRNO(getpeername(fd, (struct sockaddr *)&name, &length), ENOTCONN);
    CHECK_ERRNO(send(fd, "x", 1, 0), EDESTADDRREQ);
    struct sockaddr_in to = at(place.address, place.port);
    CHECK(sendto(fd, "hello", 5, 0, NAME(to)) == 5);
    CHECK(recv(fd, text, sizeof text, 0) == 6);
    CHECK(memcmp(text, "anyone", 6) == 0);

    struct sockaddr_in stranger = at(place.address, place.port + 1);
    CHECK(sendto(fd, "one", 3, 0, NAME(to)) == 3);
    CHECK(sendto(fd, "two", 3, 0, NAME(to)) == 3);
    CHECK(sendto(fd, "sent.", 5, 0, NAME(stranger)) == 5);
    CHECK(recv(fd, text, sizeof text, 0) == 4);
}
