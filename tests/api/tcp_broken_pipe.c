/* Writing to a closed connection: SIGPIPE and EPIPE, or EPIPE alone with MSG_NOSIGNAL. */
#include "api.h"

static volatile sig_atomic_t signals;

static void on_pipe(int number)
{
    (void)number;
    signals++;
}

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    await(fd);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    CHECK(signal(SIGPIPE, on_pipe) != SIG_ERR);
    tell(fd);
    await_end(fd);
    /* The first one draws the peer's reset; its arrival shows as POLLHUP or POLLERR. */
    CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == 1);
    EVENTUALLY(polled(fd, POLLOUT) & (POLLERR | POLLHUP));
    CHECK_ERRNO(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK(signals == 0);
    CHECK_ERRNO(write(fd, "x", 1), EPIPE);
    CHECK(signals == 1);
    CHECK_ERRNO(send(fd, "x", 1, 0), EPIPE);
    CHECK(signals == 2);
}
