/* Datagrams that are sent as one (UDP_SEGMENT) arrive each by itself. */
#include "api.h"
#include <netinet/udp.h>

enum { PIECE = 1200, PIECES = 10, ROUNDS = 20 };

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    static char bytes[65536];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    ready();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PIECES; i++) {
            CHECK(recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len) == PIECE);
            CHECK(bytes[0] == 'a' + i && bytes[PIECE - 1] == 'a' + i);
        }
        CHECK(sendto(fd, "!", 1, 0, (struct sockaddr *)&from, len) == 1);
    }
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port), size = PIECE;
    static char bytes[PIECE * PIECES];
    char byte;
    for (int i = 0; i < PIECES; i++)
        memset(bytes + i * PIECE, 'a' + i, PIECE);
    CHECK(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(send(fd, bytes, sizeof bytes, 0) == sizeof bytes);
        CHECK(recv(fd, &byte, 1, 0) == 1);
    }
}
