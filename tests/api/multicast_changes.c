/* What a feed handler's groups live through: routes that change between join and leave, sources added and taken away, sources
 * that are blocked, interfaces named in all ways, sockets of one port that come and go, memberships that errors leave as they
 * were. After each change one datagram goes to each of two groups, and each socket hears what the kernel says it does. */
#include "api.h"

#include <net/if.h>
#include <stdarg.h>

#define INTERFACE "net0"
#define OTHER "other0"
#define ONE "239.88.0.1"
#define TWO "239.88.0.2"
#define STRANGER "10.99.0.1"

static struct place here;
static int talk, step;

static int opened(const char *address)
{
    return udp_for_groups(at(address, here.port));
}

/* A membership by address, index, or neither, which the route decides. */
static int member(int fd, int name, const char *group, const char *address, const char *interface)
{
    struct ip_mreqn one = {.imr_multiaddr = at(group, 0).sin_addr,
                           .imr_address = at(address ? address : "0.0.0.0", 0).sin_addr,
                           .imr_ifindex = interface ? (int)if_nametoindex(interface) : 0};
    return setsockopt(fd, IPPROTO_IP, name, &one, interface ? sizeof one : sizeof(struct ip_mreq));
}

/* The same by the protocol-independent calls. */
static int any_member(int fd, int name, const char *group, const char *interface)
{
    struct group_req one = {.gr_interface = interface ? if_nametoindex(interface) : 0};
    struct sockaddr_in address = at(group, 0);
    memcpy(&one.gr_group, &address, sizeof address);
    return setsockopt(fd, IPPROTO_IP, name, &one, sizeof one);
}

static int source_member(int fd, int name, const char *group, const char *source)
{
    struct ip_mreq_source one = {.imr_multiaddr = at(group, 0).sin_addr, .imr_interface = at(here.address, 0).sin_addr,
                                 .imr_sourceaddr = at(source, 0).sin_addr};
    return setsockopt(fd, IPPROTO_IP, name, &one, sizeof one);
}

static int any_source_member(int fd, int name, const char *group, const char *source)
{
    struct group_source_req one = {.gsr_interface = if_nametoindex(INTERFACE)};
    struct sockaddr_in address = at(group, 0), from = at(source, 0);
    memcpy(&one.gsr_group, &address, sizeof address);
    memcpy(&one.gsr_source, &from, sizeof from);
    return setsockopt(fd, IPPROTO_IP, name, &one, sizeof one);
}

/* The client sends one datagram to each group. Which sockets hear which is said as "1", "2", "12" or "" for each. */
static void heard(const char *what, int count, ...)
{
    va_list list;
    step++;
    tell(talk);
    await(talk);
    va_start(list, count);
    for (int i = 0; i < count; i++) {
        int fd = va_arg(list, int), got[2], left;
        const char *wanted = va_arg(list, const char *);
        for (const char *group = wanted; *group; group++)
            if (recv(fd, got, sizeof got, 0) != sizeof got || got[0] != step || got[1] != *group - '0') {
                fprintf(stderr, "%s: socket %d of %d was to hear \"%s\" in step %d, and of group %c there is %d of step %d\n",
                        what, i + 1, count, wanted, step, *group, got[1], got[0]);
                exit(1);
            }
        left = recv(fd, got, sizeof got, MSG_DONTWAIT);
        if (left != -1 || errno != EAGAIN) {
            fprintf(stderr, "%s: socket %d of %d was to hear \"%s\" in step %d, and hears %d of step %d\n", what, i + 1, count,
                    wanted, step, got[1], got[0]);
            exit(1);
        }
    }
    va_end(list);
}

static void route(const char *interface)
{
    char command[128];
    snprintf(command, sizeof command, "LD_PRELOAD= ip route replace 224.0.0.0/4 dev %s", interface);
    CHECK(system(command) == 0);
}

/* A route that changes: what was joined by it stays where it was, and what is joined or left by it goes by the new one. */
static void routes(void)
{
    int fd = opened("0.0.0.0");
    route(INTERFACE);
    CHECK(member(fd, IP_ADD_MEMBERSHIP, ONE, NULL, NULL) == 0);
    heard("by the route", 1, fd, "1");
    route(OTHER);
    heard("after the route's change", 1, fd, "1");
    CHECK(any_member(fd, MCAST_JOIN_GROUP, TWO, NULL) == 0);
    heard("the second is joined elsewhere", 1, fd, "1");
    CHECK_ERRNO(member(fd, IP_DROP_MEMBERSHIP, ONE, NULL, NULL), EADDRNOTAVAIL);
    heard("it was not left", 1, fd, "1");
    route(INTERFACE);
    CHECK_ERRNO(any_member(fd, MCAST_LEAVE_GROUP, TWO, NULL), EADDRNOTAVAIL);
    CHECK(any_member(fd, MCAST_JOIN_GROUP, TWO, INTERFACE) == 0);
    heard("the second on both", 1, fd, "12");
    CHECK(any_member(fd, MCAST_LEAVE_GROUP, TWO, OTHER) == 0);
    heard("the second on one", 1, fd, "12");
    CHECK(member(fd, IP_DROP_MEMBERSHIP, ONE, here.address, NULL) == 0);
    heard("left by address", 1, fd, "2");
    CHECK(any_member(fd, MCAST_LEAVE_GROUP, TWO, NULL) == 0);
    heard("left by the route", 1, fd, "");
    close(fd);
}

/* Sources, and errors that change nothing. */
static void sources(void)
{
    int fd = opened("0.0.0.0"), group = opened(ONE);
    CHECK(source_member(fd, IP_ADD_SOURCE_MEMBERSHIP, ONE, STRANGER) == 0);
    CHECK(any_source_member(group, MCAST_JOIN_SOURCE_GROUP, ONE, here.client) == 0);
    heard("a stranger's", 2, fd, "", group, "1");
    CHECK(any_source_member(fd, MCAST_JOIN_SOURCE_GROUP, ONE, here.client) == 0);
    heard("the client's, too", 2, fd, "1", group, "1");
    CHECK_ERRNO(source_member(fd, IP_ADD_SOURCE_MEMBERSHIP, ONE, here.client), EADDRNOTAVAIL);
    CHECK_ERRNO(member(fd, IP_ADD_MEMBERSHIP, ONE, here.address, NULL), EADDRINUSE);
    heard("twice is an error", 2, fd, "1", group, "1");
    CHECK(source_member(fd, IP_DROP_SOURCE_MEMBERSHIP, ONE, here.client) == 0);
    heard("the client's no more", 2, fd, "", group, "1");
    CHECK(source_member(fd, IP_ADD_SOURCE_MEMBERSHIP, ONE, here.client) == 0);
    CHECK(member(fd, IP_DROP_MEMBERSHIP, ONE, here.address, NULL) == 0);
    heard("all sources left", 2, fd, "", group, "1");
    CHECK(member(fd, IP_ADD_MEMBERSHIP, ONE, NULL, INTERFACE) == 0);
    CHECK_ERRNO(member(fd, IP_ADD_MEMBERSHIP, ONE, NULL, INTERFACE), EADDRINUSE);
    CHECK_ERRNO(member(fd, IP_DROP_MEMBERSHIP, TWO, NULL, INTERFACE), EADDRNOTAVAIL);
    CHECK_ERRNO(member(fd, IP_ADD_MEMBERSHIP, "10.1.2.3", NULL, INTERFACE), EINVAL);
    heard("from any source", 2, fd, "1", group, "1");
    CHECK(source_member(fd, IP_BLOCK_SOURCE, ONE, here.client) == 0);
    heard("blocked", 2, fd, "", group, "1");
    CHECK(source_member(fd, IP_UNBLOCK_SOURCE, ONE, here.client) == 0);
    heard("not blocked", 2, fd, "1", group, "1");
    CHECK(any_source_member(fd, MCAST_BLOCK_SOURCE, ONE, STRANGER) == 0);
    heard("a stranger is blocked", 2, fd, "1", group, "1");
    CHECK_ERRNO(source_member(fd, IP_ADD_SOURCE_MEMBERSHIP, ONE, STRANGER), EINVAL);
    heard("a source where others are blocked", 2, fd, "1", group, "1");
    CHECK(member(fd, IP_DROP_MEMBERSHIP, ONE, here.address, NULL) == 0);
    CHECK(member(fd, IP_ADD_MEMBERSHIP, ONE, here.address, NULL) == 0);
    CHECK(source_member(fd, IP_ADD_SOURCE_MEMBERSHIP, ONE, STRANGER) == 0);
    heard("a source makes it a membership of sources", 2, fd, "", group, "1");
    CHECK(source_member(fd, IP_DROP_SOURCE_MEMBERSHIP, ONE, STRANGER) == 0);
    CHECK(member(fd, IP_ADD_MEMBERSHIP, ONE, here.address, NULL) == 0);
    heard("a membership anew", 2, fd, "1", group, "1");
    close(group);
    heard("one is closed", 1, fd, "1");
    close(fd);
}

/* A list of sources at once. */
static void lists(void)
{
    int fd = opened("0.0.0.0");
    char room[sizeof(struct ip_msfilter) + sizeof(struct in_addr)] = {0};
    struct ip_msfilter *filter = (struct ip_msfilter *)room;
    struct in_addr *sources = &filter->imsf_slist[0];
    filter->imsf_multiaddr = at(TWO, 0).sin_addr;
    filter->imsf_interface = at(here.address, 0).sin_addr;
    filter->imsf_fmode = MCAST_INCLUDE;
    filter->imsf_numsrc = 1;
    CHECK(source_member(fd, IP_ADD_SOURCE_MEMBERSHIP, TWO, STRANGER) == 0);
    heard("a stranger's", 1, fd, "");
    sources[0] = at(here.client, 0).sin_addr;
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, filter, IP_MSFILTER_SIZE(1)) == 0);
    heard("a list with the client", 1, fd, "2");
    filter->imsf_fmode = MCAST_EXCLUDE;
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, filter, IP_MSFILTER_SIZE(1)) == 0);
    heard("all but the client", 1, fd, "");
    filter->imsf_numsrc = 0;
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, filter, IP_MSFILTER_SIZE(0)) == 0);
    heard("all", 1, fd, "2");
    close(fd);
}

/* Sockets of one group and port: each has its copy, whoever comes and goes. */
static void company(void)
{
    int one = 1, first = opened("0.0.0.0"), second = opened(ONE), third, all = opened("0.0.0.0");
    CHECK(member(first, IP_ADD_MEMBERSHIP, ONE, here.address, NULL) == 0);
    heard("who has not joined and does not want all", 3, first, "1", second, "", all, "");
    CHECK(setsockopt(all, IPPROTO_IP, IP_MULTICAST_ALL, &one, sizeof one) == 0);
    CHECK(setsockopt(second, IPPROTO_IP, IP_MULTICAST_ALL, &one, sizeof one) == 0);
    heard("who wants all that the host has joined", 3, first, "1", second, "1", all, "1");
    CHECK(member(second, IP_ADD_MEMBERSHIP, TWO, here.address, NULL) == 0);
    heard("bound to another group", 3, first, "1", second, "1", all, "12");
    third = dup(first);
    CHECK(third >= 0 && close(first) == 0);
    heard("a duplicate is a member", 3, third, "1", second, "1", all, "12");
    CHECK(close(third) == 0);
    heard("the member is gone", 2, second, "", all, "2");
    third = opened("0.0.0.0");
    CHECK(member(third, IP_ADD_MEMBERSHIP, ONE, here.address, NULL) == 0);
    heard("another member came", 3, third, "1", second, "1", all, "12");
    close(second);
    close(third);
    heard("all are gone", 1, all, "");
    close(all);
}

/* A member that is connected hears its peer alone, and hears all again when it is not. */
static void connected(void)
{
    int fd = opened("0.0.0.0");
    struct sockaddr_in stranger = at(here.client, 7), none = {.sin_family = AF_UNSPEC};
    CHECK(member(fd, IP_ADD_MEMBERSHIP, ONE, here.address, NULL) == 0);
    heard("not connected", 1, fd, "1");
    CHECK(connect(fd, NAME(stranger)) == 0);
    heard("connected to another", 1, fd, "");
    CHECK(connect(fd, NAME(none)) == 0);
    /* The port is the system's again where the program had not bound one; this one had. */
    heard("not connected any more", 1, fd, "1");
    close(fd);
}

void server(struct place place)
{
    here = place;
    struct sockaddr_in peer = at(place.client, place.port + 1);
    talk = udp_bound(place.address, place.port + 1);
    CHECK(connect(talk, NAME(peer)) == 0);
    CHECK(system("export LD_PRELOAD=; ip link del " OTHER " 2> /dev/null; ip link add " OTHER " type veth peer name other1 && ip address add"
                 " 10.98.8.1/24 dev " OTHER " && ip link set other1 up && ip link set " OTHER " up") == 0);
    route(INTERFACE);
    ready();
    await(talk);
    routes();
    sources();
    lists();
    company();
    connected();
    CHECK(send(talk, ".", 1, 0) == 1);
    CHECK(system("LD_PRELOAD= ip link del " OTHER) == 0);
}

void client(struct place place)
{
    int fd = udp_bound(place.client, 0), name[2] = {0};
    struct ip_mreqn out = {.imr_address = at(place.client, 0).sin_addr};
    struct sockaddr_in peer = at(place.address, place.port + 1);
    char word = '!';
    talk = udp_bound(place.client, place.port + 1);
    CHECK(connect(talk, NAME(peer)) == 0);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out) == 0);
    tell(talk);
    for (;;) {
        CHECK(recv(talk, &word, 1, 0) == 1);
        if (word != '!')
            return;
        name[0]++;
        for (int group = 1; group < 3; group++) {
            struct sockaddr_in to = at(group == 1 ? ONE : TWO, place.port);
            name[1] = group;
            CHECK(sendto(fd, name, sizeof name, 0, NAME(to)) == sizeof name);
        }
        tell(talk);
    }
}
