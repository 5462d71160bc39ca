/* pthread_cancel ends a thread in recv, in poll and in epoll_wait, and the socket remains usable. */
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

void server(struct place place)
{
    void *(*bodies[])(void *) = {in_recv, in_poll, in_epoll};
    fd = tcp_serve_one(place);
    set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    for (int i = 0; i < 3; i++) {
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
