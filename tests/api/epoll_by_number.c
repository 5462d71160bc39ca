/* An epoll set that was made by syscall(2) before the first socket, as ivykis (syslog-ng) makes its sets. */
#include "api.h"
#include <sys/syscall.h>

#define ROUNDS 100

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), datagrams = udp_connected(place.address, place.port);
    pings(fd, ROUNDS);
    pings(datagrams, ROUNDS);
}

void server(struct place place)
{
    int set = (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
    CHECK(set >= 0);
    int listener = tcp_listening(place.address, place.port), datagrams = udp_bound(place.address, place.port);
    add_readable(set, listener);
    add_readable(set, datagrams);
    ready();
    CHECK(next_readable(set) == listener);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    add_readable(set, fd);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(next_readable(set) == fd);
        await(fd);
        tell(fd);
    }
    for (int i = 0; i < ROUNDS;) {
        int which = next_readable(set);
        if (which == fd) { /* the client's end, which may come before its last datagram is taken */
            await_end(fd);
            CHECK(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0);
            continue;
        }
        CHECK(which == datagrams);
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        char byte;
        CHECK(recvfrom(datagrams, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
        CHECK(sendto(datagrams, &byte, 1, 0, NAME(from)) == 1);
        i++;
    }
}
