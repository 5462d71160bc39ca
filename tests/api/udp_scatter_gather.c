/* One datagram from several pieces and into several pieces; readv, writev, sendmsg, recvmsg. */
#include "api.h"

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    char one[3], two[16];
    struct iovec parts[2] = {{one, sizeof one}, {two, sizeof two}};
    ready();
    CHECK(readv(fd, parts, 2) == 8);
    CHECK(memcmp(one, "abc", 3) == 0 && memcmp(two, "defgh", 5) == 0);
    struct sockaddr_in from;
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = parts, .msg_iovlen = 2};
    CHECK(recvmsg(fd, &message, 0) == 8);
    CHECK(message.msg_namelen == sizeof from && from.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
    CHECK(memcmp(one, "abc", 3) == 0 && memcmp(two, "defgh", 5) == 0);
    CHECK(message.msg_controllen == 0 && message.msg_flags == 0);
}

void client(struct place place)
{
    struct iovec parts[3] = {{"ab", 2}, {"", 0}, {"cdefgh", 6}};
    int fd = udp_connected(place.address, place.port);
    CHECK(writev(fd, parts, 3) == 8);
    struct sockaddr_in to = at(place.address, place.port);
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = parts, .msg_iovlen = 3};
    int other = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(other >= 0);
    CHECK(sendmsg(other, &message, 0) == 8);
}
