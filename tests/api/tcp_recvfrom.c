/* recvfrom(2) on a stream tells no name: the length is 0 with what was received, and as it was where nothing was. */
#include "api.h"

#define TIMES 40

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    for (int i = 0; i < TIMES; i++) {
        char byte;
        recv_all(fd, &byte, 1);
        send_all(fd, &byte, 1);
    }
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    struct sockaddr_in from;
    char byte = 'b';
    for (int i = 0; i < TIMES; i++) {
        socklen_t length = sizeof from;
        CHECK_ERRNO(recvfrom(fd, &byte, 1, MSG_DONTWAIT, (struct sockaddr *)&from, &length), EAGAIN);
        CHECK(length == sizeof from);
        send_all(fd, &byte, 1);
        CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
        CHECK(length == 0);
    }
    socklen_t length = sizeof from;
    CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &length) == 0);
    CHECK(length == 0);
}
