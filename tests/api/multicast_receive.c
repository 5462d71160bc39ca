/* Several sockets in one group, bound to every address or to the group, joined before and after bind: each gets its
 * copy; who left, or joined for another source, gets none. */
#include "api.h"

#define GROUP "239.77.0.1"

static int opened(const char *address, int port)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    struct sockaddr_in name = at(address, port);
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    if (port)
        CHECK(bind(fd, NAME(name)) == 0);
    return fd;
}

static void membership(int fd, int name, struct place place)
{
    struct ip_mreqn join = {.imr_multiaddr = at(GROUP, 0).sin_addr, .imr_address = at(place.address, 0).sin_addr};
    CHECK(setsockopt(fd, IPPROTO_IP, name, &join, sizeof join) == 0);
}

static void source_membership(int fd, int name, struct place place, const char *source)
{
    struct ip_mreq_source join = {.imr_multiaddr = at(GROUP, 0).sin_addr, .imr_interface = at(place.address, 0).sin_addr,
                                  .imr_sourceaddr = at(source, 0).sin_addr};
    CHECK(setsockopt(fd, IPPROTO_IP, name, &join, sizeof join) == 0);
}

static void gets(int fd, char what)
{
    char text[16];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    CHECK(recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 1 && text[0] == what);
}

static void gets_nothing(int fd)
{
    char byte;
    CHECK_ERRNO(recv(fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
}

void server(struct place place)
{
    int talk = udp_bound(place.address, place.port + 1);
    struct sockaddr_in peer = at(place.client, place.port + 1);
    CHECK(connect(talk, NAME(peer)) == 0);
    int every = opened("0.0.0.0", place.port), exact = opened(GROUP, place.port), late = opened("0.0.0.0", 0);
    int chosen = opened("0.0.0.0", place.port), elsewhere = opened("0.0.0.0", place.port);
    int zero = 0;
    membership(every, IP_ADD_MEMBERSHIP, place);
    membership(exact, IP_ADD_MEMBERSHIP, place);
    membership(late, IP_ADD_MEMBERSHIP, place);
    struct sockaddr_in name = at("0.0.0.0", place.port);
    CHECK(bind(late, NAME(name)) == 0);
    source_membership(chosen, IP_ADD_SOURCE_MEMBERSHIP, place, place.client);
    source_membership(elsewhere, IP_ADD_SOURCE_MEMBERSHIP, place, "10.99.0.1");
    int deaf = opened("0.0.0.0", place.port);
    CHECK(setsockopt(deaf, IPPROTO_IP, IP_MULTICAST_ALL, &zero, sizeof zero) == 0);
    ready();
    await(talk);
    tell(talk);
    for (int i = 0; i < 20; i++) {
        gets(every, 'a');
        gets(exact, 'a');
        gets(late, 'a');
        gets(chosen, 'a');
    }
    gets_nothing(elsewhere);
    gets_nothing(deaf);
    membership(exact, IP_DROP_MEMBERSHIP, place);
    CHECK(close(late) == 0);
    tell(talk);
    for (int i = 0; i < 20; i++)
        gets(every, 'b');
    tell(talk);
    await(talk);
}

void client(struct place place)
{
    int fd = udp_bound(place.client, 0), talk = udp_bound(place.client, place.port + 1);
    struct sockaddr_in peer = at(place.address, place.port + 1), group = at(GROUP, place.port);
    struct ip_mreqn out = {.imr_address = at(place.client, 0).sin_addr};
    CHECK(connect(talk, NAME(peer)) == 0);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out) == 0);
    tell(talk);
    await(talk);
    for (int i = 0; i < 20; i++)
        CHECK(sendto(fd, "a", 1, 0, NAME(group)) == 1);
    await(talk);
    for (int i = 0; i < 20; i++)
        CHECK(sendto(fd, "b", 1, 0, NAME(group)) == 1);
    await(talk);
    tell(talk);
}
