/* SO_LINGER of zero resets: the peer gets ECONNRESET once, then the end of the stream, and cannot write. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    struct linger now = {.l_onoff = 1};
    await(fd);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    char byte;
    tell(fd);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), ECONNRESET);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    CHECK_ERRNO(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK((polled(fd, POLLIN | POLLOUT) & POLLHUP) != 0);
}
