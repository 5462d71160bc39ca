/* What the programs share in which a wait begins before its socket can hear: threads that wait, and a server that answers
 * where it is told to. */
#ifndef WAIT_BEFORE_H
#define WAIT_BEFORE_H

#include "api.h"
#include <pthread.h>
#include <sys/eventfd.h>

/* A thread, asleep in its wait in all probability. (One that is not yet makes the row easier, never wrong.) */
static inline pthread_t started(void *(*wait)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait, argument) == 0);
    usleep(30000);
    return thread;
}

/* The wait ended; it says itself whether rightly. */
static inline void ended(pthread_t thread, const char *row, int how)
{
    struct timespec until;
    CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_sec += PATIENCE_MS / 1000;
    int code = pthread_timedjoin_np(thread, NULL, &until);
    if (code != 0) {
        fprintf(stderr, "%s, %d: still waits\n", row, how);
        errno = code;
        failed(__FILE__, __LINE__, "the wait ends");
    }
}

static inline void added(int set, int fd, unsigned events, unsigned long long word)
{
    struct epoll_event event = {.events = events, .data.u64 = word};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* A datagram for the server: what it is to do, and with which port of the client. */
struct order {
    char what;
    unsigned short port;
} __attribute__((packed));

static inline void answer_at(int fd, struct sockaddr_in server, int port)
{
    struct order order = {'p', (unsigned short)port};
    CHECK(sendto(fd, &order, sizeof order, 0, NAME(server)) == sizeof order);
}

static inline void connect_to(int fd, struct sockaddr_in server, int port)
{
    struct order order = {'c', (unsigned short)port};
    CHECK(sendto(fd, &order, sizeof order, 0, NAME(server)) == sizeof order);
}

static inline void end_server(int fd, struct sockaddr_in server)
{
    CHECK(sendto(fd, "q", 1, 0, NAME(server)) == 1);
}

/* Echoes a byte to each connection at the second port. */
static inline void *serve_streams(void *listener)
{
    for (;;) {
        char byte;
        int fd = accept(*(int *)listener, NULL, NULL);
        CHECK(fd >= 0);
        if (recv(fd, &byte, 1, 0) == 1)
            CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
        close(fd);
    }
    return NULL;
}

/* Echoes datagrams and carries orders out, until it is told to end. */
static inline void serve(struct place place)
{
    static int listener;
    int udp = udp_bound(place.address, place.port);
    listener = tcp_listening(place.address, place.port + 1);
    pthread_t streams;
    CHECK(pthread_create(&streams, NULL, serve_streams, &listener) == 0);
    ready();
    for (;;) {
        struct order order = {0};
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(udp, &order, sizeof order, 0, (struct sockaddr *)&from, &length);
        CHECK(got >= 1);
        struct sockaddr_in to = at(place.client, order.port);
        if (order.what == 'q')
            return;
        if (order.what == 'p') {
            CHECK(sendto(udp, "x", 1, 0, NAME(to)) == 1);
        } else if (order.what == 'c') {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            CHECK(connect(fd, NAME(to)) == 0 && close(fd) == 0);
        } else {
            CHECK(sendto(udp, &order, got, 0, NAME(from)) == got);
        }
    }
}

#endif
