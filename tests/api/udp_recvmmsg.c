/* Several datagrams by one call each way. */
#include "api.h"

#define COUNT 8

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    char text[COUNT][16];
    struct sockaddr_in from[COUNT];
    struct iovec parts[COUNT];
    struct mmsghdr messages[COUNT];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < COUNT; i++) {
        parts[i] = (struct iovec){.iov_base = text[i], .iov_len = sizeof text[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1, .msg_name = &from[i],
                                              .msg_namelen = sizeof from[i]};
    }
    ready();
    int got = 0;
    while (got < COUNT) {
        int count = recvmmsg(fd, messages + got, (unsigned)(COUNT - got), MSG_WAITFORONE, NULL);
        CHECK(count > 0);
        got += count;
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(messages[i].msg_len == (unsigned)i + 1);
        CHECK(text[i][0] == 'a' + i);
        CHECK(messages[i].msg_hdr.msg_namelen == sizeof from[i]);
        CHECK(from[i].sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
    }
    CHECK_ERRNO(recvmmsg(fd, messages, COUNT, MSG_DONTWAIT, NULL), EAGAIN);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    char text[COUNT][16];
    struct iovec parts[COUNT];
    struct mmsghdr messages[COUNT];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < COUNT; i++) {
        memset(text[i], 'a' + i, sizeof text[i]);
        parts[i] = (struct iovec){.iov_base = text[i], .iov_len = (size_t)i + 1};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    CHECK(sendmmsg(fd, messages, COUNT, 0) == COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(messages[i].msg_len == (unsigned)i + 1);
}
