/* A server that gives a client a socket of its own on the port that it listens on (TURN, DTLS): the one that is
 * connected to the client hears it, the other hears all others, also where the listening one was long in use. */
#include "api.h"

#define ROUNDS 400

/* One datagram there, and one back that names the socket that heard it. */
static void asks(int fd, char who, char by)
{
    char answer;
    CHECK(send(fd, &who, 1, 0) == 1);
    CHECK(polled(fd, POLLIN) & POLLIN);
    CHECK(recv(fd, &answer, 1, 0) == 1);
    CHECK(answer == by);
}

void client(struct place place)
{
    int own = udp_connected(place.address, place.port), other = udp_connected(place.address, place.port);
    for (int i = 0; i < ROUNDS; i++) {
        asks(other, 'o', 'l');
        usleep(500); /* an interface may be opened beside the server */
    }
    asks(own, '+', 'l'); /* from here on the server has a socket for it */
    for (int i = 0; i < ROUNDS; i++) {
        asks(own, 'w', 'c');
        asks(other, 'o', 'l');
    }
    asks(own, '-', 'l'); /* and no more */
    for (int i = 0; i < ROUNDS; i++) {
        asks(own, 'w', 'l');
        asks(other, 'o', 'l');
    }
    asks(own, 'q', 'l');
}

void server(struct place place)
{
    struct pollfd fds[] = {{.fd = udp_sharing(place.address, place.port, SO_REUSEADDR), .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    ready();
    for (char what = 0; what != 'q';) {
        CHECK(poll(fds, 2, PATIENCE_MS) > 0);
        int which = fds[1].fd >= 0 && fds[1].revents ? 1 : 0;
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        CHECK(recvfrom(fds[which].fd, &what, 1, 0, (struct sockaddr *)&from, &length) == 1);
        if (what == '+') {
            fds[1].fd = udp_sharing(place.address, place.port, SO_REUSEADDR);
            CHECK(connect(fds[1].fd, NAME(from)) == 0);
        }
        if (what == '-') { /* before the answer: what comes after it is the listening one's */
            CHECK(close(fds[1].fd) == 0);
            fds[1].fd = -1;
            which = 0;
        }
        if (which == 0)
            CHECK(sendto(fds[0].fd, "l", 1, 0, NAME(from)) == 1);
        else
            CHECK(send(fds[1].fd, "c", 1, 0) == 1);
    }
}
