/* An epoll set that no library sees made (an inline system call): what is put into it is heard. */
#include "api.h"
#include <sys/syscall.h>

#define ROUNDS 100

static int unseen_set(void)
{
    long result = SYS_epoll_create1;
    __asm__ volatile("syscall" : "+a"(result) : "D"(0L) : "rcx", "r11", "memory");
    CHECK(result >= 0);
    return (int)result;
}

static void echo(int set, int datagrams)
{
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    char byte;
    CHECK(next_readable(set) == datagrams);
    CHECK(recvfrom(datagrams, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
    CHECK(sendto(datagrams, &byte, 1, 0, NAME(from)) == 1);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), datagrams = udp_connected(place.address, place.port);
    /* By then the server's sockets are in use outside of the set. */
    pings(fd, ROUNDS);
    await(fd);
    pings(fd, ROUNDS);
    pings(datagrams, ROUNDS);
    CHECK(close(tcp_connected(place.address, place.port)) == 0);
    await(fd);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), datagrams = udp_bound(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, ROUNDS);
    int set = unseen_set();
    add_readable(set, listener);
    add_readable(set, datagrams);
    add_readable(set, fd);
    tell(fd);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(next_readable(set) == fd);
        answers(fd, 1);
    }
    for (int i = 0; i < ROUNDS; i++)
        echo(set, datagrams);
    CHECK(next_readable(set) == listener);
    CHECK(accept(listener, NULL, NULL) >= 0);
    tell(fd);
}
