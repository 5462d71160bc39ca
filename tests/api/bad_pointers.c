/* Pointers into the null page and above user space, counts and lengths that cannot be: errors as the kernel's, and the
 * program lives. */
#include "api.h"
#include <sys/sendfile.h>

/* Through it the compiler cannot see what it is. */
static void *volatile bad;

static void names(int fd, int listener)
{
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    CHECK_ERRNO(getsockname(fd, bad, &length), EFAULT);
    CHECK_ERRNO(getsockname(fd, (struct sockaddr *)&name, bad), EFAULT);
    CHECK_ERRNO(getpeername(fd, bad, &length), EFAULT);
    CHECK_ERRNO(getpeername(fd, (struct sockaddr *)&name, bad), EFAULT);
    CHECK_ERRNO(bind(listener, bad, length), EFAULT);
    CHECK_ERRNO(connect(listener, bad, length), EFAULT);
    CHECK_ERRNO(getsockopt(fd, IPPROTO_TCP, TCP_INFO, bad, &length), EFAULT);
    CHECK_ERRNO(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &name, bad), EFAULT);
    CHECK_ERRNO(getsockopt(fd, SOL_SOCKET, SO_ERROR, bad, &length), EFAULT);
    CHECK_ERRNO(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, bad, sizeof(int)), EFAULT);
    CHECK_ERRNO(ioctl(fd, FIONREAD, bad), EFAULT);
}

/* (glibc itself reads the timeouts of select and ppoll.) */
static void waits(int fd)
{
    struct timeval now = {0};
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);
    CHECK(set >= 0);
    CHECK_ERRNO(poll(bad, 1, 0), EFAULT);
    CHECK_ERRNO(select(fd + 1, bad, NULL, NULL, &now), EFAULT);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_ADD, fd, bad), EFAULT);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK_ERRNO(epoll_wait(set, bad, 1, 0), EFAULT);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_MOD, fd, bad), EFAULT);
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, fd, bad) == 0);
    CHECK(close(set) == 0);
}

static void messages(int fd, int udp)
{
    char byte = 'x';
    struct iovec piece = {.iov_base = &byte, .iov_len = 1}, *pieces = bad;
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 1};
    CHECK_ERRNO(sendmsg(fd, bad, 0), EFAULT);
    CHECK_ERRNO(sendmsg(fd, &message, 0), EFAULT);
    CHECK_ERRNO(sendmsg(udp, &message, 0), EFAULT);
    CHECK_ERRNO(recvmsg(fd, bad, 0), EFAULT);
    CHECK_ERRNO(recvmsg(fd, &message, 0), EFAULT);
    CHECK_ERRNO(recvmmsg(udp, bad, 1, MSG_DONTWAIT, NULL), EFAULT);
    CHECK_ERRNO(sendmmsg(udp, bad, 1, 0), EFAULT);
    CHECK_ERRNO(writev(fd, pieces, 1), EFAULT);
    CHECK_ERRNO(readv(fd, pieces, 1), EFAULT);
    CHECK_ERRNO(sendto(udp, &byte, 1, 0, bad, sizeof(struct sockaddr_in)), EFAULT);
    message = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1, .msg_control = bad, .msg_controllen = 32};
    CHECK_ERRNO(sendmsg(udp, &message, 0), EFAULT);
    CHECK_ERRNO(sendfile(fd, 0, bad, 1), EFAULT);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), sink = udp_bound(place.address, place.port + 1);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    await(fd);
    tell(fd);
    await_end(fd);
    close(sink);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    int fresh = socket(AF_INET, SOCK_STREAM, 0);
    char byte = 'x';
    static struct iovec many[1025];
    struct sockaddr_in name = at(place.address, place.port);
    struct msghdr message = {.msg_iov = many, .msg_iovlen = 1025};
    tell(fd);
    CHECK(polled(fd, POLLIN) == POLLIN);
    CHECK(send(udp, "x", 1, 0) == 1); /* from here on it is connected, bound, and ours if it can be */
    for (int i = 0; i < 3; i++) {
        bad = i == 0 ? (void *)8 : i == 1 ? (void *)4000 : (void *)(1UL << 63);
        CHECK_ERRNO(recv(fd, bad, 1, 0), EFAULT);
        CHECK_ERRNO(send(fd, bad, 1, 0), EFAULT);
        CHECK_ERRNO(send(udp, bad, 1, 0), EFAULT);
        names(fd, fresh);
        waits(fd);
        messages(fd, udp);
    }
    CHECK(connect(fresh, NAME(name)) == 0); /* nothing became of it */
    close(fresh);
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
