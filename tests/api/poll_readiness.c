/* poll: readable, writable, the peer's end, ignored and invalid descriptors, several kinds at once. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place), udp = udp_bound(place.address, place.port + 1), pipes[2];
    CHECK(pipe(pipes) == 0);
    struct pollfd set[5] = {{.fd = fd, .events = POLLIN}, {.fd = udp, .events = POLLIN},
                            {.fd = pipes[0], .events = POLLIN}, {.fd = -1, .events = POLLIN},
                            {.fd = 9999, .events = POLLIN}};
    char text[4];
    CHECK(poll(set, 4, 0) == 0);
    CHECK(poll(set, 5, 0) == 1 && set[4].revents == POLLNVAL && set[3].revents == 0);
    tell(fd);
    CHECK(poll(set, 4, PATIENCE_MS) == 1 && set[1].revents == POLLIN);
    CHECK(recv(udp, text, sizeof text, 0) == 1);
    tell(fd);
    CHECK(poll(set, 4, PATIENCE_MS) == 1 && set[0].revents == POLLIN && set[1].revents == 0);
    CHECK(write(pipes[1], "x", 1) == 1);
    CHECK(poll(set, 4, PATIENCE_MS) == 2 && set[0].revents == POLLIN && set[2].revents == POLLIN);
    await(fd);
    set[0].events = POLLIN | POLLOUT | POLLRDHUP;
    CHECK(poll(set, 1, PATIENCE_MS) == 1 && (set[0].revents & POLLOUT));
    tell(fd);
    set[0].events = POLLIN | POLLRDHUP;
    CHECK(poll(set, 1, PATIENCE_MS) == 1 && set[0].revents == (POLLIN | POLLRDHUP));
    struct timespec limit = {.tv_nsec = 1000000};
    CHECK(ppoll(set + 1, 1, &limit, NULL) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    await(fd);
    CHECK(send(udp, "u", 1, 0) == 1);
    await(fd);
    tell(fd);
    await(fd);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(fd);
}
