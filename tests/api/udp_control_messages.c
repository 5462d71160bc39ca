/* What recvmsg tells beside a datagram, and what sendmsg asks for one. */
#include "api.h"

static struct msghdr message;
static struct iovec part;
static char text[64], control[512];
static struct sockaddr_in from;

static ssize_t receive(int fd, size_t room)
{
    part = (struct iovec){.iov_base = text, .iov_len = sizeof text};
    message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room,
                              .msg_name = &from, .msg_namelen = sizeof from};
    return recvmsg(fd, &message, 0);
}

static void *told(int level, int type, size_t length)
{
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one))
        if (one->cmsg_level == level && one->cmsg_type == type) {
            CHECK(one->cmsg_len == CMSG_LEN(length));
            return CMSG_DATA(one);
        }
    failed(__FILE__, type, "control message is missing");
    return NULL;
}

static void switch_on(int fd, int level, int name)
{
    int one = 1;
    CHECK(setsockopt(fd, level, name, &one, sizeof one) == 0);
}

void server(struct place place)
{
    int fd = udp_bound("0.0.0.0", place.port);
    switch_on(fd, IPPROTO_IP, IP_PKTINFO);
    switch_on(fd, IPPROTO_IP, IP_RECVTTL);
    switch_on(fd, IPPROTO_IP, IP_RECVTOS);
    switch_on(fd, IPPROTO_IP, IP_RECVORIGDSTADDR);
    switch_on(fd, SOL_SOCKET, SO_TIMESTAMPNS);
    switch_on(fd, SOL_SOCKET, SO_RXQ_OVFL);
    ready();
    for (int i = 0; i < 3; i++) {
        CHECK(receive(fd, sizeof control) == 1);
        struct in_pktinfo *info = told(IPPROTO_IP, IP_PKTINFO, sizeof *info);
        struct in_addr mine = at(place.address, 0).sin_addr;
        CHECK(info->ipi_addr.s_addr == mine.s_addr && info->ipi_spec_dst.s_addr == mine.s_addr && info->ipi_ifindex > 0);
        int ttl = *(int *)told(IPPROTO_IP, IP_TTL, sizeof ttl);
        CHECK(ttl == (i == 1 ? 9 : 64));
        unsigned char tos = *(unsigned char *)told(IPPROTO_IP, IP_TOS, 1);
        CHECK(tos == (i == 1 ? 0x28 : 0));
        struct sockaddr_in *to = told(IPPROTO_IP, IP_ORIGDSTADDR, sizeof *to);
        CHECK(to->sin_port == htons((unsigned short)place.port) && to->sin_addr.s_addr == mine.s_addr);
        struct timespec *stamp = told(SOL_SOCKET, SO_TIMESTAMPNS, sizeof *stamp), now;
        CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
        CHECK(stamp->tv_sec <= now.tv_sec && stamp->tv_sec >= now.tv_sec - 5);
        CHECK(!(message.msg_flags & MSG_CTRUNC));
        /* Answers go out with the address that was written to. */
        struct { struct cmsghdr header; struct in_pktinfo info; } ask = {
            {CMSG_LEN(sizeof(struct in_pktinfo)), IPPROTO_IP, IP_PKTINFO}, {.ipi_spec_dst = mine}};
        message.msg_control = &ask;
        message.msg_controllen = CMSG_SPACE(sizeof(struct in_pktinfo));
        part.iov_len = 1;
        CHECK(sendmsg(fd, &message, 0) == 1);
    }
    CHECK(receive(fd, CMSG_SPACE(sizeof(struct timespec)) + 4) == 1);
    told(SOL_SOCKET, SO_TIMESTAMPNS, sizeof(struct timespec));
    CHECK(message.msg_flags & MSG_CTRUNC);
    CHECK(receive(fd, 0) == 1);
    CHECK(message.msg_flags & MSG_CTRUNC && message.msg_controllen == 0);
}

static void send_with(int fd, int ttl, int tos)
{
    struct { struct cmsghdr header; int value; int pad; } ask[2] = {
        {{CMSG_LEN(sizeof(int)), IPPROTO_IP, IP_TTL}, ttl, 0}, {{CMSG_LEN(sizeof(int)), IPPROTO_IP, IP_TOS}, tos, 0}};
    struct iovec one = {.iov_base = "x", .iov_len = 1};
    struct msghdr out = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = ask, .msg_controllen = sizeof ask};
    CHECK(sendmsg(fd, &out, 0) == 1);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    char byte;
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            send_with(fd, 9, 0x28);
        else
            CHECK(send(fd, "x", 1, 0) == 1);
        CHECK(recv(fd, &byte, 1, 0) == 1);
    }
    CHECK(send(fd, "y", 1, 0) == 1);
    CHECK(send(fd, "z", 1, 0) == 1);
}
