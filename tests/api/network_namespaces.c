/* A socket belongs to the network namespace that it was made in: after unshare or setns new ones leave by the new
 * namespace, or not at all, and old ones by the old. */
#include "api.h"
#include <sched.h>

enum { PINGS = 200 };

static void exchange(int fd)
{
    for (int i = 0; i < PINGS; i++) {
        tell(fd);
        await(fd);
    }
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    int datagrams = udp_bound(place.address, place.port);
    ready();
    for (int connection = 0; connection < 2; connection++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        char byte;
        while (recv(fd, &byte, 1, 0) == 1)
            CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
        CHECK(close(fd) == 0);
    }
    /* What was sent in the other namespace did not come here. */
    char byte;
    CHECK_ERRNO(recv(datagrams, &byte, 1, MSG_DONTWAIT), EAGAIN);
}

void client(struct place place)
{
    int old = tcp_connected(place.address, place.port);
    int sender = socket(AF_INET, SOCK_DGRAM, 0), home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK(sender >= 0 && home >= 0);
    exchange(old);

    CHECK(unshare(CLONE_NEWNET) == 0);
    struct sockaddr_in name = at(place.address, place.port);
    int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(tcp >= 0 && udp >= 0);
    CHECK_ERRNO(connect(tcp, NAME(name)), ENETUNREACH);
    CHECK_ERRNO(sendto(udp, "x", 1, 0, NAME(name)), ENETUNREACH);
    CHECK_ERRNO(connect(udp, NAME(name)), ENETUNREACH);
    exchange(old);
    CHECK(close(old) == 0);

    CHECK(setns(home, CLONE_NEWNET) == 0);
    int new = tcp_connected(place.address, place.port);
    exchange(new);
    CHECK_ERRNO(sendto(udp, "x", 1, 0, NAME(name)), ENETUNREACH);
    CHECK(close(new) == 0);
}
