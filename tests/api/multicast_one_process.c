/* Sender and receiver in one process: IP_MULTICAST_LOOP decides whether the sender's host hears itself. */
#include "api.h"

#define GROUP "239.77.0.2"

void server(struct place place)
{
    int fd = udp_bound("0.0.0.0", place.port);
    struct ip_mreqn join = {.imr_multiaddr = at(GROUP, 0).sin_addr, .imr_address = at(place.address, 0).sin_addr};
    char byte;
    CHECK(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) == 0);
    ready();
    CHECK(recv(fd, &byte, 1, 0) == 1 && byte == '1');
    CHECK(recv(fd, &byte, 1, 0) == 1 && byte == '2');
    for (char want = '3'; want <= '5'; want++)
        CHECK(recv(fd, &byte, 1, 0) == 1 && byte == want);
}

void client(struct place place)
{
    int in = udp_bound("0.0.0.0", place.port), out = udp_bound(place.client, 0);
    struct ip_mreqn join = {.imr_multiaddr = at(GROUP, 0).sin_addr, .imr_address = at(place.client, 0).sin_addr};
    struct sockaddr_in group = at(GROUP, place.port), from;
    socklen_t length = sizeof from;
    unsigned char off = 0, value = 9;
    char byte;
    CHECK(setsockopt(out, IPPROTO_IP, IP_MULTICAST_IF, &join, sizeof join) == 0);
    CHECK(sendto(out, "1", 1, 0, NAME(group)) == 1); /* nobody here has joined yet */
    CHECK(setsockopt(in, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) == 0);
    CHECK(sendto(out, "2", 1, 0, NAME(group)) == 1);
    CHECK(polled(in, POLLIN) == POLLIN);
    CHECK(recvfrom(in, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1 && byte == '2');
    CHECK(from.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
    CHECK(setsockopt(out, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off) == 0);
    length = sizeof value;
    CHECK(getsockopt(out, IPPROTO_IP, IP_MULTICAST_LOOP, &value, &length) == 0 && value == 0);
    CHECK(sendto(out, "3", 1, 0, NAME(group)) == 1);
    usleep(50000);
    CHECK_ERRNO(recv(in, &byte, 1, MSG_DONTWAIT), EAGAIN);

    /* An int is read whole, and of what is shorter one byte. */
    int on = 256, one = 1;
    CHECK(setsockopt(out, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof on) == 0);
    CHECK(option(out, IPPROTO_IP, IP_MULTICAST_LOOP) == 1);
    CHECK(sendto(out, "4", 1, 0, NAME(group)) == 1);
    CHECK(recv(in, &byte, 1, 0) == 1 && byte == '4');
    CHECK(setsockopt(out, IPPROTO_IP, IP_MULTICAST_LOOP, "\0\1", 2) == 0);
    CHECK(sendto(out, "5", 1, 0, NAME(group)) == 1);
    usleep(50000);
    CHECK_ERRNO(recv(in, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(setsockopt(out, IPPROTO_IP, IP_MULTICAST_ALL, &on, sizeof on), EINVAL);
    CHECK(setsockopt(out, IPPROTO_IP, IP_MULTICAST_ALL, &one, 1) == 0);
}
