/* Nobody reads: a non-blocking sender gets EAGAIN, a blocking one its SO_SNDTIMEO; reading makes it writable again. */
#include "api.h"

void server(struct place place)
{
    static char buffer[65536];
    int fd = tcp_serve_one(place);
    long long total = 0, wanted = 0;
    char go;
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    /* A second connection carries the word when to read, and how much was sent. */
    int control = udp_bound(place.address, place.port + 1);
    tell(fd);
    CHECK(recv(control, &go, 1, 0) == 1);
    for (;;) {
        ssize_t count = recv(fd, buffer, sizeof buffer, 0);
        CHECK(count >= 0);
        if (count == 0)
            break;
        for (ssize_t i = 0; i < count; i += 4096)
            CHECK(buffer[i] == 'f');
        total += count;
    }
    CHECK(recv(control, &wanted, sizeof wanted, 0) == sizeof wanted);
    CHECK(total == wanted);
    tell(fd);
}

void client(struct place place)
{
    static char data[65536];
    long long total = 0;
    int fd = tcp_connected(place.address, place.port);
    int small = 65536;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    memset(data, 'f', sizeof data);
    await(fd);
    int control = udp_connected(place.address, place.port + 1);
    set_nonblocking(fd);
    for (;;) {
        ssize_t count = send(fd, data, sizeof data, MSG_NOSIGNAL);
        if (count < 0) {
            CHECK(errno == EAGAIN);
            struct pollfd one = {.fd = fd, .events = POLLOUT};
            if (poll(&one, 1, 300) == 0)
                break; /* full at both ends */
            continue;
        }
        total += count;
        CHECK(total < 1LL << 30);
    }
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    struct timeval limit = {.tv_usec = 200000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    long long start = now_ms();
    ssize_t count;
    /* A probe may have opened a little room meanwhile. */
    while ((count = send(fd, data, sizeof data, MSG_NOSIGNAL)) > 0) {
        total += count;
        start = now_ms();
    }
    CHECK(count == -1 && errno == EAGAIN);
    CHECK(now_ms() - start >= 199);
    CHECK(send(control, "!", 1, 0) == 1);
    CHECK(polled(fd, POLLOUT) == POLLOUT);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(send(control, &total, sizeof total, 0) == sizeof total);
    await(fd);
    /* The server's end is for this socket to hear, and not for the kernel behind a process that is gone. */
    await_end(fd);
}
