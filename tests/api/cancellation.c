/* pthread_cancel ends a thread in recv, in poll and in epoll_wait, and one whose calls never wait; the socket remains usable. */
#include "api.h"
#include <pthread.h>

static int fd, set;

static void *in_recv(void *argument)
{
    char byte;
    (void)argument;
    (void)recv(fd, &byte, 1, 0);
    return NULL;
}

static void *in_poll(void *argument)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    (void)argument;
    (void)poll(&one, 1, -1);
    return NULL;
}

static void *in_epoll(void *argument)
{
    struct epoll_event got;
    (void)argument;
    (void)epoll_wait(set, &got, 1, -1);
    return NULL;
}

/* Calls that return at once are cancellation points, too: each is the only one of its thread. */

static int out, listener;

static void *in_sends(void *argument)
{
    (void)argument;
    for (;;)
        (void)send(out, "x", 1, MSG_DONTWAIT);
    return NULL;
}

static void *in_writes(void *argument)
{
    (void)argument;
    for (;;)
        (void)write(out, "x", 1);
    return NULL;
}

static void *in_looks(void *argument)
{
    char byte;
    (void)argument;
    for (;;)
        (void)recv(fd, &byte, 1, MSG_DONTWAIT);
    return NULL;
}

static void *in_short_polls(void *argument)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    (void)argument;
    for (;;)
        (void)poll(&one, 1, 0);
    return NULL;
}

static void *in_short_epolls(void *argument)
{
    struct epoll_event got;
    (void)argument;
    for (;;)
        (void)epoll_wait(set, &got, 1, 0);
    return NULL;
}

static void *in_accepts(void *argument)
{
    (void)argument;
    for (;;)
        (void)accept(listener, NULL, NULL);
    return NULL;
}

static void *in_closes(void *argument)
{
    (void)argument;
    for (;;)
        (void)close(-1);
    return NULL;
}

void server(struct place place)
{
    void *(*bodies[])(void *) = {in_recv,        in_poll,         in_epoll,   in_sends, in_writes, in_looks,
                                 in_short_polls, in_short_epolls, in_accepts, in_closes};
    struct sockaddr_in to = at(place.client, place.port + 1);
    CHECK((out = socket(AF_INET, SOCK_DGRAM, 0)) >= 0);
    CHECK(connect(out, NAME(to)) == 0);
    listener = tcp_listening(place.address, place.port + 2);
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    fd = tcp_serve_one(place);
    set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    for (int i = 0; i < (int)(sizeof bodies / sizeof *bodies); i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, bodies[i], NULL) == 0);
        usleep(50000);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    tell(fd);
    await(fd);
}

void client(struct place place)
{
    int own = tcp_connected(place.address, place.port);
    await(own);
    tell(own);
    await_end(own);
}
