/* What comes after shutdown(SHUT_RDWR) is for nobody: a reset tells the peer, and the error this side. A peer that only
 * ends its stream, too, closes in order. */
#include "api.h"

/* The other end is sent to until it says that nobody reads there. */
static void send_until_told(int fd)
{
    for (;;) {
        ssize_t count = send(fd, "for nobody", 10, MSG_NOSIGNAL);
        if (count < 0)
            break;
        CHECK(count == 10);
        usleep(1000);
    }
    CHECK(errno == ECONNRESET || errno == EPIPE);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    char byte;
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, 4);
    await_end(fd);
    send_until_told(fd);
    CHECK(close(fd) == 0);

    fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, 4);
    await_end(fd);
    tell(fd);
    CHECK(recv(fd, &byte, 1, 0) <= 0);
    CHECK(close(fd) == 0);

    fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, 4);
    await_end(fd);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    char byte;
    int fd = tcp_connected(place.address, place.port);
    pings(fd, 4);
    CHECK(shutdown(fd, SHUT_RDWR) == 0);
    EVENTUALLY(polled(fd, POLLIN) & POLLERR);
    CHECK(option(fd, SOL_SOCKET, SO_ERROR) == ECONNRESET);
    CHECK(option(fd, SOL_SOCKET, SO_ERROR) == 0);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    CHECK_ERRNO(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK(close(fd) == 0);

    /* In two calls, and the error is what a receive tells. */
    fd = tcp_connected(place.address, place.port);
    pings(fd, 4);
    CHECK(shutdown(fd, SHUT_RD) == 0);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    EVENTUALLY(polled(fd, POLLIN) & POLLERR);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), ECONNRESET);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    CHECK(close(fd) == 0);

    fd = tcp_connected(place.address, place.port);
    pings(fd, 4);
    CHECK(shutdown(fd, SHUT_RDWR) == 0);
    struct tcp_info info = {0};
    socklen_t length;
    do {
        length = sizeof info;
        CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
    } while (info.tcpi_state != TCP_CLOSE && usleep(1000) == 0);
    CHECK(option(fd, SOL_SOCKET, SO_ERROR) == 0);
    CHECK(recv(fd, &byte, 1, 0) == 0);
}
