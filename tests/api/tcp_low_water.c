/* SO_RCVLOWAT holds a blocking receive and poll back; MSG_PEEK with MSG_WAITALL waits for everything; TIMEO ends both. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place), low = 4;
    char text[16];
    struct timeval limit = {.tv_usec = 100000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low) == 0);
    CHECK(option(fd, SOL_SOCKET, SO_RCVLOWAT) == 4);
    tell(fd);
    CHECK(recv(fd, text, sizeof text, 0) >= 4);
    low = 1;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low) == 0);
    tell(fd);
    CHECK(recv(fd, text, 6, MSG_PEEK | MSG_WAITALL) == 6 && memcmp(text, "ghijkl", 6) == 0);
    CHECK(recv(fd, text, 6, MSG_WAITALL) == 6 && memcmp(text, "ghijkl", 6) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK_ERRNO(recv(fd, text, 1, MSG_PEEK | MSG_WAITALL), EAGAIN);
    limit.tv_usec = 0; /* the client takes its time */
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    await(fd);
    CHECK(send(fd, "ab", 2, 0) == 2);
    usleep(50000);
    CHECK(send(fd, "cdef", 4, 0) == 4);
    await(fd);
    CHECK(send(fd, "ghi", 3, 0) == 3);
    usleep(50000);
    CHECK(send(fd, "jkl", 3, 0) == 3);
    await(fd);
}
