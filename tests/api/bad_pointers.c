/* Pointers into the null page, counts and lengths that cannot be: errors as the kernel's, and the program lives. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    await(fd);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    char byte = 'x';
    void *bad = (void *)8;
    static struct iovec many[1025];
    struct msghdr message = {.msg_iov = many, .msg_iovlen = 1025};
    tell(fd);
    CHECK(polled(fd, POLLIN) == POLLIN);
    CHECK_ERRNO(recv(fd, bad, 1, 0), EFAULT);
    CHECK_ERRNO(send(fd, bad, 1, 0), EFAULT);
    CHECK_ERRNO(send(udp, bad, 1, 0), EFAULT);
    CHECK_ERRNO(readv(fd, many, 1025), EINVAL);
    CHECK_ERRNO(writev(fd, many, 1025), EINVAL);
    CHECK_ERRNO(sendmsg(fd, &message, 0), EMSGSIZE);
    CHECK_ERRNO(recvmsg(fd, &message, 0), EMSGSIZE);
    CHECK_ERRNO(sendmsg(udp, &message, 0), EMSGSIZE);
    for (int i = 0; i < 2; i++)
        many[i] = (struct iovec){.iov_base = &byte, .iov_len = i ? (size_t)-1 : 1};
    CHECK_ERRNO(writev(fd, many, 2), EINVAL);
    await(fd);
}
