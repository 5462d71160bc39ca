/* SO_BINDTODEVICE before bind and connect, and IP_RECVERR with the error queue. */
#include "api.h"
#include <linux/errqueue.h>
#include <net/if.h>

static void to_device(int fd, const char *name)
{
    CHECK(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name) + 1) == 0);
}

void server(struct place place)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), lo = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = at("0.0.0.0", place.port), from;
    socklen_t length = sizeof from;
    char byte;
    to_device(fd, "net0");
    to_device(lo, "lo");
    CHECK(bind(fd, NAME(name)) == 0);
    CHECK(bind(lo, NAME(name)) == 0);
    ready();
    for (int i = 0; i < 8; i++) {
        CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1 && byte == 'd');
        CHECK(sendto(fd, "a", 1, 0, NAME(from)) == 1);
    }
    CHECK_ERRNO(recv(lo, &byte, 1, MSG_DONTWAIT), EAGAIN);
}

void client(struct place place)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), closed = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    struct sockaddr_in to = at(place.address, place.port), nobody = at(place.address, place.port + 7);
    char byte, control[256];
    to_device(fd, "net0");
    CHECK(connect(fd, NAME(to)) == 0);
    for (int i = 0; i < 8; i++) {
        CHECK(send(fd, "d", 1, 0) == 1);
        CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'a');
    }
    CHECK(setsockopt(closed, IPPROTO_IP, IP_RECVERR, &one, sizeof one) == 0);
    CHECK(sendto(closed, "x", 1, 0, NAME(nobody)) == 1);
    CHECK(polled(closed, POLLIN) & POLLERR);
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(closed, &message, MSG_ERRQUEUE) == 1);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header && header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR);
    struct sock_extended_err *error = (struct sock_extended_err *)CMSG_DATA(header);
    CHECK(error->ee_errno == ECONNREFUSED && error->ee_origin == SO_EE_ORIGIN_ICMP);
}
