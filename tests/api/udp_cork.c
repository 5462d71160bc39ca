/* MSG_MORE and UDP_CORK make one datagram of several sends, and what follows is a datagram of its own. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    char text[64];
    ready();
    CHECK(recv(fd, text, sizeof text, 0) == 6 && memcmp(text, "abcdef", 6) == 0);
    CHECK(recv(fd, text, sizeof text, 0) == 1 && text[0] == 'g');
    CHECK(recv(fd, text, sizeof text, 0) == 4 && memcmp(text, "hijk", 4) == 0);
    CHECK(recv(fd, text, sizeof text, 0) == 1 && text[0] == 'l');
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port), on = 1, off = 0;
    CHECK(send(fd, "ab", 2, MSG_MORE) == 2);
    CHECK(send(fd, "cd", 2, MSG_MORE) == 2);
    CHECK(send(fd, "ef", 2, 0) == 2);
    usleep(20000);
    CHECK(send(fd, "g", 1, 0) == 1);
    usleep(20000);
    CHECK(setsockopt(fd, IPPROTO_UDP, 1 /* UDP_CORK */, &on, sizeof on) == 0);
    CHECK(send(fd, "hi", 2, 0) == 2);
    CHECK(send(fd, "jk", 2, 0) == 2);
    CHECK(setsockopt(fd, IPPROTO_UDP, 1, &off, sizeof off) == 0);
    usleep(20000);
    CHECK(send(fd, "l", 1, 0) == 1);
}
