/* Threads with the smallest stack there may be make all the usual calls, the first ones of the process among them. */
#include "api.h"
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

static struct place place;
static int listener, connection, datagrams;

/* Runs `body` in a thread that has the smallest stack, and below it what nobody may touch. */
static void in_small_thread(void *(*body)(void *))
{
    long size = sysconf(_SC_THREAD_STACK_MIN), page = sysconf(_SC_PAGESIZE);
    size = size < 16384 ? 16384 : size;
    char *memory = mmap(NULL, (size_t)(size + page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + page, (size_t)size, PROT_READ | PROT_WRITE) == 0);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, memory + page, (size_t)size) == 0);
    CHECK(pthread_create(&thread, &attributes, body, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *listens(void *nothing)
{
    listener = tcp_listening(place.address, place.port);
    datagrams = udp_bound(place.address, place.port + 1);
    return nothing;
}

static void *serves(void *nothing)
{
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    char bytes[64];
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, 20);
    CHECK(recvfrom(datagrams, bytes, sizeof bytes, 0, (struct sockaddr *)&peer, &length) == 1);
    CHECK(sendto(datagrams, bytes, 1, 0, NAME(peer)) == 1);
    await_end(fd);
    CHECK(close(fd) == 0);
    CHECK(close(listener) == 0);
    return nothing;
}

void server(struct place given)
{
    place = given;
    in_small_thread(listens);
    ready();
    in_small_thread(serves);
}

static void *connects(void *nothing)
{
    connection = tcp_connected(place.address, place.port);
    datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    return nothing;
}

static void *waits(void *nothing)
{
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd one = {.fd = connection, .events = POLLIN};
    struct timeval second = {.tv_sec = 1};
    fd_set some;
    CHECK(poll(&one, 1, 10) == 0);
    FD_ZERO(&some);
    FD_SET(connection, &some);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, connection, &event) == 0);
    CHECK(epoll_wait(set, &event, 1, 10) == 0);
    pings(connection, 10);
    tell(connection);
    CHECK(poll(&one, 1, 5000) == 1);
    CHECK(select(connection + 1, &some, NULL, NULL, &second) == 1);
    CHECK(epoll_wait(set, &event, 1, 5000) == 1);
    await(connection);
    CHECK(close(set) == 0);
    return nothing;
}

static void *messages(void *nothing)
{
    struct sockaddr_in to = at(place.address, place.port + 1);
    struct tcp_info info;
    socklen_t length = sizeof info;
    char bytes[8] = "!";
    struct iovec piece = {.iov_base = bytes, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    for (int i = 0; i < 9; i++) {
        CHECK(sendmsg(connection, &message, 0) == 1);
        CHECK(recvmsg(connection, &message, 0) == 1);
    }
    CHECK(getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
    CHECK(sendto(datagrams, bytes, 1, 0, NAME(to)) == 1);
    CHECK(recv(datagrams, bytes, sizeof bytes, 0) == 1);
    int other = dup(connection);
    CHECK(other >= 0 && close(other) == 0);
    CHECK(shutdown(connection, SHUT_WR) == 0);
    await_end(connection);
    CHECK(close(connection) == 0);
    return nothing;
}

void client(struct place given)
{
    place = given;
    in_small_thread(connects);
    in_small_thread(waits);
    in_small_thread(messages);
}
