/* libevent: events are added by other threads than the loop's. */
#include "sockets.h"
#include <event2/event.h>
#include <event2/thread.h>

static struct event_base *base;

static void *run(void *unused)
{
    event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY);
    return unused;
}

static void start_loop(void)
{
    pthread_t thread;
    CHECK(evthread_use_pthreads() == 0);
    base = event_base_new();
    CHECK(base && pthread_create(&thread, NULL, run, NULL) == 0);
}

static void readable(evutil_socket_t fd, short what, void *one)
{
    (void)fd;
    (void)what;
    ((struct watched *)one)->ready(one);
}

static void watch(struct watched *one)
{
    one->library = event_new(base, one->fd, EV_READ | EV_PERSIST, readable, one);
    CHECK(one->library && event_add(one->library, NULL) == 0);
}

static void unwatch(struct watched *one)
{
    event_free(one->library);
}
