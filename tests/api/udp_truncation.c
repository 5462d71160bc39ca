/* A datagram longer than the buffer is cut, the rest is gone, and the caller can learn its length. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    char small[4];
    struct iovec part = {.iov_base = small, .iov_len = sizeof small};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ready();
    CHECK(recv(fd, small, sizeof small, 0) == 4 && memcmp(small, "0123", 4) == 0);
    CHECK(recv(fd, small, sizeof small, MSG_TRUNC) == 10);
    CHECK(recvmsg(fd, &message, 0) == 4 && (message.msg_flags & MSG_TRUNC));
    CHECK(recvmsg(fd, &message, 0) == 2 && !(message.msg_flags & MSG_TRUNC));
    CHECK(memcmp(small, "ab", 2) == 0);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    for (int i = 0; i < 3; i++)
        CHECK(send(fd, "0123456789", 10, 0) == 10);
    CHECK(send(fd, "ab", 2, 0) == 2);
}
