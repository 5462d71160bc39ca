/* A descriptor and its copies are one socket: flags are shared, and FIN is sent when the last of them is closed. */
#include "api.h"

void server(struct place place)
{
    char text[8];
    int fd = tcp_serve_one(place), copy = dup(fd);
    CHECK(copy >= 0 && copy != fd);
    CHECK(close(fd) == 0);
    recv_all(copy, text, 3);
    CHECK(memcmp(text, "abc", 3) == 0);
    int high = fcntl(copy, F_DUPFD_CLOEXEC, 200);
    CHECK(high >= 200 && fcntl(high, F_GETFD) == FD_CLOEXEC);
    tell(high);
    CHECK(close(copy) == 0);
    await_end(high);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    int place_of_other = open("/dev/null", O_RDONLY);
    CHECK(dup2(fd, place_of_other) == place_of_other);
    CHECK(dup2(fd, fd) == fd);
    CHECK_ERRNO(dup3(fd, fd, 0), EINVAL);
    send_all(fd, "a", 1);
    send_all(place_of_other, "b", 1);
    CHECK(close(fd) == 0);
    CHECK_ERRNO(send(fd, "x", 1, 0), EBADF);
    send_all(place_of_other, "c", 1);
    await(place_of_other);
    set_nonblocking(place_of_other);
    int copy = dup3(place_of_other, 150, O_CLOEXEC);
    CHECK(copy == 150 && (fcntl(copy, F_GETFL) & O_NONBLOCK));
    CHECK(close(place_of_other) == 0);
    /* dup2 over a socket closes what was there. */
    int null = open("/dev/null", O_RDONLY);
    CHECK(dup2(null, 150) == 150);
}
