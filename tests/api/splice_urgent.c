/* splice(2) stops at the urgent mark: 0 from a blocking socket, EAGAIN from another, until recv passes over it. */
#include "api.h"

void server(struct place place)
{
    char text[200];
    int pair[2], queued = 0, fd = tcp_serve_one(place);
    CHECK(pipe(pair) == 0);
    tell(fd);
    /* The urgent byte is the 100th, and 50 follow. */
    CHECK(polled(fd, POLLPRI) & POLLPRI);
    EVENTUALLY(ioctl(fd, FIONREAD, &queued) == 0 && queued >= 99);
    tell(fd);

    CHECK(splice(fd, NULL, pair[1], NULL, 99, 0) == 99);
    CHECK(splice(fd, NULL, pair[1], NULL, 200, 0) == 0);
    CHECK(splice(fd, NULL, pair[1], NULL, 1, 0) == 0);
    CHECK(recv(fd, text, 1, MSG_OOB) == 1 && text[0] == '!');
    CHECK(splice(fd, NULL, pair[1], NULL, 200, 0) == 0);
    set_nonblocking(fd);
    CHECK_ERRNO(splice(fd, NULL, pair[1], NULL, 200, 0), EAGAIN);
    CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0);
    recv_all(fd, text, 1);
    CHECK(text[0] == 'b');
    for (ssize_t rest = 49, count; rest > 0; rest -= count)
        CHECK((count = splice(fd, NULL, pair[1], NULL, 200, 0)) > 0);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    char text[100], more[50];
    int fd = tcp_connected(place.address, place.port);
    memset(text, 'a', sizeof text);
    memset(more, 'b', sizeof more);
    text[99] = '!';
    await(fd);
    CHECK(send(fd, text, sizeof text, MSG_OOB) == sizeof text);
    await(fd);
    CHECK(send(fd, more, sizeof more, 0) == sizeof more);
    await(fd);
}
