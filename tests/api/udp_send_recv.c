/* Datagrams of every size that matters arrive whole, from the right address, and are echoed. */
#include "api.h"

static const int sizes[] = {1, 14, 64, 1400, 1472, 1473, 8000, 65507};
#define COUNT (int)(sizeof sizes / sizeof sizes[0])

static char sent[65536], received[65536];

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    ready();
    for (int i = 0; i < COUNT; i++) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t count = recvfrom(fd, received, sizeof received, 0, (struct sockaddr *)&from, &length);
        CHECK(count == sizes[i]);
        CHECK(length == sizeof from && from.sin_family == AF_INET);
        CHECK(sendto(fd, received, (size_t)count, 0, (struct sockaddr *)&from, length) == count);
    }
}

void client(struct place place)
{
    struct sockaddr_in to = at(place.address, place.port);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 31 + (i >> 8));
    for (int i = 0; i < COUNT; i++) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        memset(received, 0, sizeof received);
        CHECK(sendto(fd, sent, (size_t)sizes[i], 0, NAME(to)) == sizes[i]);
        CHECK(recvfrom(fd, received, sizeof received, 0, (struct sockaddr *)&from, &length) == sizes[i]);
        CHECK(memcmp(sent, received, (size_t)sizes[i]) == 0);
        CHECK(from.sin_addr.s_addr == to.sin_addr.s_addr && from.sin_port == to.sin_port);
    }
}
