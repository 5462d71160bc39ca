/* After shutdown(SHUT_WR) the other direction goes on; the peer reads the end of the stream. */
#include "api.h"

void server(struct place place)
{
    static char answer[300000];
    char text[8];
    int fd = tcp_serve_one(place);
    recv_all(fd, text, 5);
    await_end(fd);
    CHECK(polled(fd, POLLIN | POLLRDHUP) & POLLRDHUP);
    memset(answer, 'a', sizeof answer);
    send_all(fd, answer, sizeof answer);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    static char answer[300000];
    int fd = tcp_connected(place.address, place.port);
    send_all(fd, "hello", 5);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK_ERRNO(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    recv_all(fd, answer, sizeof answer);
    for (size_t i = 0; i < sizeof answer; i++)
        CHECK(answer[i] == 'a');
    await_end(fd);
    await_end(fd);
}
