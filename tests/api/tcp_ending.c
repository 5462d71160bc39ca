/* What was sent arrives though the socket is closed at once, and the port is not free meanwhile; SO_LINGER waits for the
 * peer, and zero resets it. */
#include "api.h"

#define SIZE 400000

void server(struct place place)
{
    static char data[SIZE];
    int listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    usleep(200000);
    recv_all(fd, data, SIZE);
    await_end(fd);
    CHECK(close(fd) == 0);
    fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    usleep(200000);
    recv_all(fd, data, SIZE);
    await_end(fd);
    CHECK(close(fd) == 0);
    fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK_ERRNO(recv(fd, data, 1, 0), ECONNRESET);
}

static int with_linger(struct place place, int seconds)
{
    struct linger linger = {.l_onoff = 1, .l_linger = seconds};
    int fd = tcp_connected(place.address, place.port);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    return fd;
}

void client(struct place place)
{
    static char data[SIZE];
    int fd = tcp_connected(place.address, place.port), large = SIZE;
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof large) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
    send_all(fd, data, SIZE);
    CHECK(close(fd) == 0);
    int other = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_ERRNO(bind(other, NAME(name)), EADDRINUSE);
    fd = with_linger(place, 10);
    send_all(fd, data, SIZE);
    CHECK(close(fd) == 0);
    fd = with_linger(place, 0);
    usleep(50000);
    CHECK(close(fd) == 0);
}
