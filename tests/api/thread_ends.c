/* Destructors of thread-locals use sockets: a pool closes its connection politely, waits for the answer, connects again. The
 * calls work there as anywhere, and nobody else notices. */
#include "api.h"
#include <pthread.h>

/* What thread_local objects of C++ are registered by. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;

static struct sockaddr_in to, stream_to;
static int polite;

/* The answer comes late, so each wait sleeps. */
static void asks(int fd)
{
    CHECK(send(fd, "s", 1, 0) == 1);
}

static void destructor(void *argument)
{
    char byte;
    (void)argument;
    asks(polite);
    CHECK(recv(polite, &byte, 1, 0) == 1);
    asks(polite);
    CHECK(polled(polite, POLLIN) == POLLIN && recv(polite, &byte, 1, 0) == 1);
    int set = epoll_create1(0), udp = socket(AF_INET, SOCK_DGRAM, 0), again = socket(AF_INET, SOCK_STREAM, 0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, polite, &event) == 0);
    asks(polite);
    CHECK(epoll_wait(set, &event, 1, PATIENCE_MS) == 1 && recv(polite, &byte, 1, 0) == 1);
    CHECK(sendto(udp, "s", 1, 0, NAME(to)) == 1 && recv(udp, &byte, 1, 0) == 1);
    CHECK(connect(again, NAME(stream_to)) == 0);
    asks(again);
    CHECK(recv(again, &byte, 1, 0) == 1);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(close(again) == 0 && close(udp) == 0 && close(set) == 0 && close(polite) == 0);
}

static void *thread(void *argument)
{
    char byte;
    /* First registered, hence last called. */
    CHECK(__cxa_thread_atexit_impl(destructor, NULL, &__dso_handle) == 0);
    asks(polite);
    CHECK(recv(polite, &byte, 1, 0) == 1);
    return argument;
}

void client(struct place place)
{
    char byte;
    to = at(place.address, place.port);
    stream_to = at(place.address, place.port + 1);
    int other = tcp_connected(place.address, place.port + 1);
    for (int i = 0; i < 3; i++) {
        pthread_t id;
        polite = tcp_connected(place.address, place.port + 1);
        CHECK(pthread_create(&id, NULL, thread, NULL) == 0 && pthread_join(id, NULL) == 0);
        asks(other);
        CHECK(recv(other, &byte, 1, 0) == 1);
    }
    int end = udp_connected(place.address, place.port);
    CHECK(send(end, "q", 1, 0) == 1);
}

static void *echo_late(void *argument)
{
    int fd = (int)(long)argument;
    char byte;
    while (recv(fd, &byte, 1, 0) == 1) {
        usleep(30000);
        CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
    }
    close(fd);
    return NULL;
}

static void *accepts(void *listener)
{
    for (;;) {
        long fd = accept(*(int *)listener, NULL, NULL);
        pthread_t id;
        CHECK(fd >= 0 && pthread_create(&id, NULL, echo_late, (void *)fd) == 0);
    }
    return NULL;
}

void server(struct place place)
{
    static int listener;
    pthread_t id;
    int udp = udp_bound(place.address, place.port);
    listener = tcp_listening(place.address, place.port + 1);
    CHECK(pthread_create(&id, NULL, accepts, &listener) == 0);
    ready();
    for (;;) {
        char byte;
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        CHECK(recvfrom(udp, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
        if (byte == 'q')
            return;
        usleep(30000);
        CHECK(sendto(udp, &byte, 1, 0, NAME(from)) == 1);
    }
}
