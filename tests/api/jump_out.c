/* A handler leaves calls that wait by siglongjmp: the calls are over, as the kernel's would be. What another thread closes ends
 * at once, though the thread that jumped makes no call any more; the number's next socket, and those that go on, work. */
#include "api.h"
#include <pthread.h>
#include <setjmp.h>

static sigjmp_buf back;

static void on_alarm(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static void alarm_in(long ms)
{
    struct itimerval timer = {.it_value = {.tv_usec = ms * 1000}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

enum way { RECV, PEEK_ALL, POLL, SELECT, EPOLL, SEND, ACCEPT, WAYS };

/* Waits on `fd` by one of the calls, for ever. */
static void wait_on(int fd, enum way way)
{
    static char block[1 << 16];
    fd_set set;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    int epoll;
    switch (way) {
    case RECV:
        recv(fd, block, 1, 0);
        break;
    case PEEK_ALL:
        recv(fd, block, 2, MSG_PEEK | MSG_WAITALL);
        break;
    case POLL:
        poll(&one, 1, -1);
        break;
    case SELECT:
        FD_ZERO(&set);
        FD_SET(fd, &set);
        select(fd + 1, &set, NULL, NULL, NULL);
        break;
    case EPOLL:
        epoll = epoll_create1(EPOLL_CLOEXEC);
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
        epoll_wait(epoll, &event, 1, -1);
        break;
    case SEND:
        for (;;)
            CHECK(send(fd, block, sizeof block, MSG_NOSIGNAL) > 0);
    case ACCEPT:
        accept(fd, NULL, NULL);
        break;
    case WAYS:
        break;
    }
    CHECK(!"the wait ended by itself");
}

static void jump_out_of(int fd, enum way way)
{
    if (sigsetjmp(back, 1) == 0) {
        alarm_in(way == SEND ? 500 : 50);
        wait_on(fd, way);
    }
}

static void *closes(void *argument)
{
    CHECK(close(*(int *)argument) == 0);
    return NULL;
}

/* The calling thread makes no call that concerns the socket. */
static void close_elsewhere(int fd)
{
    pthread_t thread;
    sigset_t alarms, before;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    CHECK(pthread_sigmask(SIG_BLOCK, &alarms, &before) == 0);
    CHECK(pthread_create(&thread, NULL, closes, &fd) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), udp = udp_bound(place.address, place.port + 1);
    struct sigaction action = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    ready();
    int control = accept(listener, NULL, NULL);
    CHECK(control >= 0);
    jump_out_of(listener, ACCEPT);
    for (enum way way = RECV; way <= SEND; way++) {
        tell(control);
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        if (way == PEEK_ALL)
            CHECK(polled(fd, POLLIN) == POLLIN);
        jump_out_of(fd, way);
        if (way != PEEK_ALL && way != SEND) {
            tell(fd);
            await(fd);
            jump_out_of(udp, way);
        }
        close_elsewhere(fd);
        await(control); /* the client heard the end */
    }
    tell(control);
    await(udp);
    jump_out_of(listener, ACCEPT);
    close_elsewhere(listener);
    listener = tcp_listening(place.address, place.port + 2);
    tell(control);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    await(fd);
    tell(fd);
    await_end(control);
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    for (enum way way = RECV; way <= SEND; way++) {
        char block[1 << 16];
        ssize_t count;
        await(control);
        int fd = tcp_connected(place.address, place.port);
        if (way == PEEK_ALL)
            tell(fd);
        if (way == SEND)
            usleep(700000);
        if (way != PEEK_ALL && way != SEND) {
            await(fd);
            tell(fd);
        }
        while ((count = recv(fd, block, sizeof block, 0)) > 0)
            ;
        CHECK(count == 0 || (way == PEEK_ALL && errno == ECONNRESET));
        CHECK(close(fd) == 0);
        tell(control);
    }
    await(control);
    tell(udp);
    await(control);
    int fd = tcp_connected(place.address, place.port + 2);
    tell(fd);
    await(fd);
}
