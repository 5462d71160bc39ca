/* Timeouts of every kind of wait arrive in the right unit, and select writes back what is left. */
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* The wait ended without an event, and took its 30 ms (a busy machine may take longer, never a hundred times). */
#define TAKES_30_MS(wait)                                                                                              \
    do {                                                                                                               \
        double begun = now();                                                                                          \
        CHECK((wait) == 0);                                                                                            \
        double took = now() - begun;                                                                                   \
        CHECK(took > 0.0295 && took < 3);                                                                              \
    } while (0)

int main(void)
{
    int pair[2];
    tcp_pair(pair);
    struct pollfd one = {.fd = pair[0], .events = POLLIN};
    struct timespec exact = {.tv_nsec = 30000000};
    struct epoll_event event = {.events = EPOLLIN, .data.fd = 7};
    int set = epoll_create1(EPOLL_CLOEXEC);
    fd_set reads;
    CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event) == 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event) == -1 && errno == EEXIST);
    CHECK(epoll_create(0) == -1 && errno == EINVAL);
    int second_set = epoll_create(1);
    CHECK(second_set >= 0 && close(second_set) == 0);

    TAKES_30_MS(poll(&one, 1, 30));
    TAKES_30_MS(ppoll(&one, 1, &exact, NULL));
    CHECK(exact.tv_nsec == 30000000);
    FD_ZERO(&reads);
    FD_SET(pair[0], &reads);
    TAKES_30_MS(pselect(pair[0] + 1, &reads, NULL, NULL, &exact, NULL));
    struct timeval loose = {.tv_usec = 30000};
    FD_SET(pair[0], &reads);
    TAKES_30_MS(select(pair[0] + 1, &reads, NULL, NULL, &loose));
    CHECK(loose.tv_sec == 0 && loose.tv_usec == 0);
    TAKES_30_MS(epoll_wait(set, &event, 1, 30));
    TAKES_30_MS(epoll_pwait(set, &event, 1, 30, NULL));
    TAKES_30_MS(epoll_pwait2(set, &event, 1, &exact, NULL));

    CHECK(send(pair[1], "x", 1, 0) == 1);
    CHECK(poll(&one, 1, -1) == 1 && one.revents == POLLIN);
    FD_SET(pair[0], &reads);
    loose = (struct timeval){.tv_sec = 60};
    CHECK(select(pair[0] + 1, &reads, NULL, NULL, &loose) == 1 && FD_ISSET(pair[0], &reads));
    CHECK(loose.tv_sec >= 50 && loose.tv_sec <= 60);
    event.data.fd = 0;
    CHECK(epoll_wait(set, &event, 1, -1) == 1 && event.data.fd == 7);
    loose = (struct timeval){.tv_sec = -1};
    CHECK(select(0, NULL, NULL, NULL, &loose) == -1 && errno == EINVAL);
    exact.tv_nsec = 1000000000;
    CHECK(ppoll(&one, 1, &exact, NULL) == -1 && errno == EINVAL);
    return 0;
}
