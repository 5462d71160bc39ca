/* A member of a group that only the kernel can serve from now on (it becomes descriptor 0) has what waited for it, and what
 * comes next. So have the other members of its port: each datagram once. */
#include "api.h"

#define GROUP "239.88.0.3"

enum { WAITING = 3, ROUNDS = 20 };

static int talk;

static int member(struct place place)
{
    int fd = udp_for_groups(at("0.0.0.0", place.port));
    struct ip_mreqn join = {.imr_multiaddr = at(GROUP, 0).sin_addr, .imr_address = at(place.address, 0).sin_addr};
    CHECK(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) == 0);
    return fd;
}

static void next(int fd, struct place place, int wanted)
{
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    int got = -1;
    CHECK(recvfrom(fd, &got, sizeof got, 0, (struct sockaddr *)&from, &length) == sizeof got);
    if (got != wanted)
        fprintf(stderr, "%d instead of %d\n", got, wanted);
    CHECK(got == wanted && from.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
}

static void nothing(int fd)
{
    int got = -1;
    ssize_t count = recv(fd, &got, sizeof got, MSG_DONTWAIT);
    if (count >= 0)
        fprintf(stderr, "%d once more\n", got);
    CHECK(count == -1 && errno == EAGAIN);
}

/* The client has sent one more. */
static void sent(void)
{
    tell(talk);
    await(talk);
}

void server(struct place place)
{
    struct sockaddr_in peer = at(place.client, place.port + 1);
    int said = 0, null = open("/dev/null", O_RDONLY);
    talk = udp_bound(place.address, place.port + 1);
    CHECK(connect(talk, NAME(peer)) == 0);
    ready();
    await(talk);
    for (int round = 0; round < ROUNDS; round++) {
        int fd = member(place);
        for (int i = 0; i < WAITING; i++)
            sent();
        CHECK(polled(fd, POLLIN) == POLLIN && dup2(fd, 0) == 0);
        sent();
        for (int i = 0; i <= WAITING; i++)
            next(fd, place, ++said);
        nothing(fd);
        CHECK(close(fd) == 0 && dup2(null, 0) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int first = member(place), second = member(place);
        sent();
        next(first, place, ++said);
        CHECK(polled(second, POLLIN) == POLLIN && dup2(first, 0) == 0);
        sent();
        next(second, place, said++);
        next(second, place, said);
        next(first, place, said);
        nothing(first);
        nothing(second);
        CHECK(close(first) == 0 && dup2(null, 0) == 0 && close(second) == 0);
    }
    CHECK(send(talk, ".", 1, 0) == 1);
}

void client(struct place place)
{
    int fd = udp_bound(place.client, 0), number = 0;
    struct ip_mreqn out = {.imr_address = at(place.client, 0).sin_addr};
    struct sockaddr_in peer = at(place.address, place.port + 1), group = at(GROUP, place.port);
    char word = '!';
    talk = udp_bound(place.client, place.port + 1);
    CHECK(connect(talk, NAME(peer)) == 0);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out) == 0);
    tell(talk);
    for (;;) {
        CHECK(recv(talk, &word, 1, 0) == 1);
        if (word != '!')
            return;
        number++;
        CHECK(sendto(fd, &number, sizeof number, 0, NAME(group)) == sizeof number);
        tell(talk);
    }
}
