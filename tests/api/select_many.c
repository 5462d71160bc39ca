/* select beyond FD_SETSIZE with larger sets, sockets in sets of sockets, and a set shared by threads. */
#include "api.h"
#include <pthread.h>
#include <sys/resource.h>

static int set, taken;

static void *takes_one(void *argument)
{
    struct epoll_event got;
    (void)argument;
    /* Until somebody has it, and long enough after that for a second one to be seen. */
    for (int rounds = 0; rounds < PATIENCE_MS / 100; rounds++) {
        int before = __sync_fetch_and_add(&taken, 0);
        if (epoll_wait(set, &got, 1, 100) == 1)
            return (void)__sync_fetch_and_add(&taken, 1), NULL;
        if (before)
            return NULL;
    }
    return NULL;
}

void server(struct place place)
{
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int low = tcp_serve_one(place), fd = fcntl(low, F_DUPFD, 2000), set_of_sets = epoll_create1(0);
    CHECK(fd >= 2000);
    static unsigned long words[4096 / 64];
    char byte;
    tell(fd);
    words[fd / 64] = 1UL << fd % 64;
    CHECK(select(fd + 1, (fd_set *)words, NULL, NULL, NULL) == 1);
    CHECK(words[fd / 64] == 1UL << fd % 64);
    /* One socket in two sets, one of them within a third. */
    set = epoll_create1(0);
    int other = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, oneshot = {.events = EPOLLIN | EPOLLONESHOT}, got;
    CHECK(epoll_ctl(other, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(epoll_ctl(set_of_sets, EPOLL_CTL_ADD, other, &event) == 0);
    CHECK(polled(set_of_sets, POLLIN) == POLLIN);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    struct pollfd one = {.fd = set_of_sets, .events = POLLIN};
    CHECK(poll(&one, 1, 20) == 0);
    CHECK(epoll_wait(set_of_sets, &got, 1, 20) == 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &oneshot) == 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, takes_one, NULL) == 0);
    usleep(50000);
    tell(fd);
    CHECK(epoll_wait(set_of_sets, &got, 1, PATIENCE_MS) == 1);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(taken == 1); /* once, by one of them */
    CHECK(recv(fd, &byte, 1, 0) == 1);
    CHECK_ERRNO(epoll_ctl(other, EPOLL_CTL_ADD, set_of_sets, &event), ELOOP);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    await(fd);
    usleep(50000);
    tell(fd);
    await(fd);
    tell(fd);
    await_end(fd);
}
