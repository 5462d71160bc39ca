/* Datagrams that arrive while nobody reads wait in order, and FIONREAD tells the length of the next one. */
#include "api.h"

#define COUNT 50

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port), sync = udp_bound(place.address, place.port + 1);
    char text[64];
    ready();
    CHECK(recv(sync, text, sizeof text, 0) == 1); /* all were sent before this one */
    for (int i = 0; i < COUNT; i++) {
        int bytes = -1;
        CHECK(polled(fd, POLLIN) == POLLIN);
        CHECK(ioctl(fd, FIONREAD, &bytes) == 0 && bytes == i + 1);
        CHECK(recv(fd, text, sizeof text, 0) == i + 1);
        CHECK(text[0] == i);
    }
    CHECK_ERRNO(recv(fd, text, sizeof text, MSG_DONTWAIT), EAGAIN);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port), sync = udp_connected(place.address, place.port + 1);
    for (int i = 0; i < COUNT; i++) {
        char text[64] = {(char)i};
        CHECK(send(fd, text, (size_t)i + 1, 0) == i + 1);
    }
    CHECK(send(sync, "!", 1, 0) == 1);
}
