/* A set whose connections are gone has nothing but what the kernel reports for a long time; then a connection comes while
 * a thread sleeps on it, and another one while two do. */
#include "api.h"
#include <pthread.h>
#include <sys/eventfd.h>

#define WAITS 300
#define EXCHANGES 40

static int set;

static void add(int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = fd};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void again(int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = fd};
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
}

static int next(void)
{
    struct epoll_event event;
    CHECK(epoll_wait(set, &event, 1, PATIENCE_MS) == 1);
    CHECK(event.events == EPOLLIN);
    return event.data.fd;
}

/* Asks and waits for the answer in the set. */
static void exchange(int fd)
{
    tell(fd);
    CHECK(next() == fd);
    await(fd);
    again(fd);
}

static void *sleeper(void *argument)
{
    (void)argument;
    return (void *)(long)next();
}

/* Threads sleep on the set while connections are added and spoken to: each is woken by one. */
static void wake(struct place place, int count)
{
    pthread_t threads[2];
    int fds[2], found[2];
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, sleeper, NULL) == 0);
    usleep(50000);
    for (int i = 0; i < count; i++) {
        fds[i] = tcp_connected(place.address, place.port);
        add(fds[i]);
        tell(fds[i]);
    }
    for (int i = 0; i < count; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0);
        found[i] = (int)(long)result;
        await(found[i]);
        again(found[i]);
    }
    CHECK(count == 1 || found[0] != found[1]);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < EXCHANGES; j++)
            exchange(fds[i]);
        close(fds[i]);
    }
}

void client(struct place place)
{
    int other = eventfd(1, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = other}, got;
    CHECK((set = epoll_create1(0)) >= 0);
    CHECK(other >= 0);
    for (int round = 0; round < 4; round++) {
        wake(place, 1 + round % 2);
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, other, &event) == 0);
        for (int i = 0; i < WAITS; i++)
            CHECK(epoll_wait(set, &got, 1, i % 2 ? -1 : 0) == 1 && got.data.fd == other);
        CHECK(epoll_ctl(set, EPOLL_CTL_DEL, other, NULL) == 0);
        for (int i = 0; i < WAITS; i++)
            CHECK(epoll_wait(set, &got, 1, 0) == 0);
    }
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), fds[2] = {-1, -1};
    ready();
    for (int round = 0; round < 4; round++) {
        int count = 1 + round % 2;
        for (int i = 0; i < count; i++) {
            CHECK((fds[i] = accept(listener, NULL, NULL)) >= 0);
            await(fds[i]);
            tell(fds[i]);
        }
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < EXCHANGES; j++) {
                await(fds[i]);
                tell(fds[i]);
            }
            await_end(fds[i]);
            close(fds[i]);
        }
    }
}
