/* libuv: the loop is woken to poll what other threads queue. */
#include "queue.h"
#include <uv.h>

static uv_loop_t loop;
static uv_async_t told;

static void *run(void *unused)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    return unused;
}

static void readable(uv_poll_t *poll, int status, int events)
{
    struct watched *one = poll->data;
    (void)status;
    (void)events;
    one->ready(one);
}

static void start_queued(uv_async_t *async)
{
    (void)async;
    for (struct watched *one; (one = next_queued());) {
        uv_poll_t *poll = malloc(sizeof *poll);
        CHECK(poll && uv_poll_init(&loop, poll, one->fd) == 0);
        poll->data = one;
        one->library = poll;
        CHECK(uv_poll_start(poll, UV_READABLE, readable) == 0);
    }
}

static void start_loop(void)
{
    pthread_t thread;
    CHECK(uv_loop_init(&loop) == 0 && uv_async_init(&loop, &told, start_queued) == 0);
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
}

static void watch(struct watched *one)
{
    queue(one);
    uv_async_send(&told);
}

static void release(uv_handle_t *poll)
{
    free(poll);
}

static void unwatch(struct watched *one)
{
    uv_poll_stop(one->library);
    uv_close(one->library, release);
}
