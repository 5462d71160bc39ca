/* O_NONBLOCK by fcntl and by FIONBIO, FD_CLOEXEC, and flags given to socket(). */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    await_end(fd);
}

void client(struct place place)
{
    int on = 1, off = 0, fd = tcp_connected(place.address, place.port);
    char byte;
    CHECK((fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_RDWR);
    CHECK(ioctl(fd, FIONBIO, &on) == 0);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), EAGAIN);
    CHECK_ERRNO(read(fd, &byte, 1), EAGAIN);
    CHECK(ioctl(fd, FIONBIO, &off) == 0);
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    CHECK_ERRNO(recv(fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), EAGAIN);
    CHECK(fcntl(fd, F_GETFD) == 0);
    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    int other = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK((fcntl(other, F_GETFL) & O_NONBLOCK) && fcntl(other, F_GETFD) == FD_CLOEXEC);
    CHECK_ERRNO(recv(other, &byte, 1, 0), EAGAIN);
}
