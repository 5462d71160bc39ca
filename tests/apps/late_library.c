/* A library with a thread that goes on until the library's destructor, which runs after that of the preloaded one, has
 * waited for a few more of its rounds. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

enum { ROUNDS = 200 };

static atomic_int ending, rounds;
static pthread_t thread;
static int pair[2], pipes[2], set;

static void *goes_round(void *nothing)
{
    struct epoll_event event;
    char byte;

    while (rounds < ROUNDS) {
        CHECK(write(pipes[1], "x", 1) == 1 && read(pipes[0], &byte, 1) == 1);
        CHECK(epoll_wait(set, &event, 1, 0) == 0);
        CHECK(recv(pair[0], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
        rounds += ending;
    }
    return nothing;
}

void late_begin(void)
{
    struct epoll_event event = {.events = EPOLLIN};

    tcp_pair(pair);
    set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event) == 0);
    CHECK(pipe(pipes) == 0);
    CHECK(pthread_create(&thread, NULL, goes_round, NULL) == 0);
}

__attribute__((destructor)) static void late_end(void)
{
    ending = 1;
    CHECK(pthread_join(thread, NULL) == 0);
}
