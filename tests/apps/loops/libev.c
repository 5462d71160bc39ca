/* libev: the loop is woken to start what other threads queue. */
#include "queue.h"
#include <ev.h>

static struct ev_loop *loop;
static ev_async told;

static void *run(void *unused)
{
    ev_run(loop, 0);
    return unused;
}

static void readable(struct ev_loop *of, ev_io *io, int events)
{
    struct watched *one = io->data;
    (void)of;
    (void)events;
    one->ready(one);
}

static void start_queued(struct ev_loop *of, ev_async *async, int events)
{
    (void)async;
    (void)events;
    for (struct watched *one; (one = next_queued());) {
        ev_io *io = malloc(sizeof *io);
        CHECK(io);
        ev_io_init(io, readable, one->fd, EV_READ);
        io->data = one;
        one->library = io;
        ev_io_start(of, io);
    }
}

static void start_loop(void)
{
    pthread_t thread;
    loop = ev_loop_new(EVBACKEND_EPOLL);
    ev_async_init(&told, start_queued);
    ev_async_start(loop, &told);
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
}

static void watch(struct watched *one)
{
    queue(one);
    ev_async_send(loop, &told);
}

static void unwatch(struct watched *one)
{
    ev_io_stop(loop, one->library);
    free(one->library);
}
