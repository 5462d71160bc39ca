/* A feed handler: hundreds of groups on one socket and on many, joined by each of the four calls, by address, by index and by
 * the route; each datagram once where its group and source were asked for, and nowhere else. */
#include "api.h"

#include <net/if.h>

#define GROUPS 300
#define SOCKETS 100
#define INTERFACE "net0"

static struct in_addr group(int number)
{
    return (struct in_addr){htonl(0xef4d0000u + 0x100u * (unsigned)(1 + number / 200) + (unsigned)(1 + number % 200))};
}

static struct sockaddr_in named(struct in_addr address, int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr = address};
}

/* Joins as feed handlers do, each time by another call; with a source where there is one. */
static void join(int fd, int number, struct place place, const char *source)
{
    struct sockaddr_in wanted = named(group(number), 0), from = at(source ? source : "0.0.0.0", 0);
    int by = source ? 4 + number % 2 : number % 4;
    if (by < 3) {
        struct ip_mreqn join = {.imr_multiaddr = wanted.sin_addr};
        if (by == 0)
            join.imr_address = at(place.address, 0).sin_addr;
        if (by == 1)
            join.imr_ifindex = (int)if_nametoindex(INTERFACE);
        /* 2: neither, which the route decides. */
        CHECK(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, by == 2 ? sizeof(struct ip_mreq) : sizeof join) == 0);
    } else if (by == 3) {
        struct group_req join = {.gr_interface = if_nametoindex(INTERFACE)};
        memcpy(&join.gr_group, &wanted, sizeof wanted);
        CHECK(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &join, sizeof join) == 0);
    } else if (by == 4) {
        struct ip_mreq_source join = {.imr_multiaddr = wanted.sin_addr, .imr_interface = at(place.address, 0).sin_addr,
                                      .imr_sourceaddr = from.sin_addr};
        CHECK(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &join, sizeof join) == 0);
    } else {
        struct group_source_req join = {.gsr_interface = if_nametoindex(INTERFACE)};
        memcpy(&join.gsr_group, &wanted, sizeof wanted);
        memcpy(&join.gsr_source, &from, sizeof from);
        CHECK(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &join, sizeof join) == 0);
    }
}

static int opened(struct in_addr address, int port)
{
    return udp_for_groups(named(address, port));
}

static void gets(int fd, int number)
{
    int got = -1;
    CHECK(recv(fd, &got, sizeof got, 0) == sizeof got && got == number);
}

static void gets_nothing(int fd)
{
    char byte;
    CHECK_ERRNO(recv(fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
}

static void write_to(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

void server(struct place place)
{
    int talk = udp_bound(place.address, place.port + 1), many[SOCKETS];
    struct sockaddr_in peer = at(place.client, place.port + 1);
    struct in_addr any = {0};
    CHECK(connect(talk, NAME(peer)) == 0);
    write_to("/proc/sys/net/ipv4/igmp_max_memberships", "1000");
    CHECK(system("LD_PRELOAD= ip route replace 224.0.0.0/4 dev " INTERFACE) == 0);

    int all = opened(any, place.port), chosen = opened(any, place.port + 3), others = opened(any, place.port + 3);
    for (int i = 0; i < GROUPS; i++)
        join(all, i, place, NULL);
    for (int i = 0; i < SOCKETS; i++) {
        many[i] = opened(i % 2 ? group(i) : any, place.port + 2);
        join(many[i], i, place, NULL);
    }
    for (int i = 0; i < SOCKETS; i++) {
        join(chosen, i, place, place.client);
        join(others, i, place, "10.99.0.1");
    }
    ready();
    await(talk);
    tell(talk);
    for (int i = 0; i < GROUPS; i++) {
        gets(all, i);
        if (i < SOCKETS) {
            gets(many[i], i);
            gets(chosen, i);
            gets_nothing(many[(i + 1) % SOCKETS]);
        }
        tell(talk);
    }
    gets_nothing(all);
    gets_nothing(chosen);
    gets_nothing(others);
    /* Whoever leaves one group hears the others. */
    struct ip_mreqn leave = {.imr_multiaddr = group(7)};
    CHECK(setsockopt(all, IPPROTO_IP, IP_DROP_MEMBERSHIP, &leave, sizeof leave) == 0);
    tell(talk);
    gets(all, 8);
    gets_nothing(all);
    tell(talk);
}

void client(struct place place)
{
    int fd = udp_bound(place.client, 0), talk = udp_bound(place.client, place.port + 1);
    struct sockaddr_in peer = at(place.address, place.port + 1);
    struct ip_mreqn out = {.imr_address = at(place.client, 0).sin_addr};
    CHECK(connect(talk, NAME(peer)) == 0);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out) == 0);
    tell(talk);
    await(talk);
    for (int i = 0; i < GROUPS; i++) {
        for (int port = 0; port < 4; port += port ? 1 : 2) {
            struct sockaddr_in to = named(group(i), place.port + port);
            if (port == 0 || i < SOCKETS)
                CHECK(sendto(fd, &i, sizeof i, 0, NAME(to)) == sizeof i);
        }
        await(talk);
    }
    await(talk);
    for (int i = 7; i < 9; i++) {
        struct sockaddr_in to = named(group(i), place.port);
        CHECK(sendto(fd, &i, sizeof i, 0, NAME(to)) == sizeof i);
    }
    await(talk);
}
