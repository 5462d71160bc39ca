/* A registration belongs to the open socket, not to the number that it was made by: it outlives a close of that number while
 * a duplicate is there, and ends with the last one. */
#include "api.h"

static int set;

static void added(int fd, unsigned events, unsigned long long word)
{
    struct epoll_event event = {.events = events, .data.u64 = word};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* The words of all events that come at once, as bits. */
static unsigned words_of(int timeout)
{
    struct epoll_event got[8];
    unsigned words = 0;
    int count = epoll_wait(set, got, 8, timeout);
    CHECK(count >= 0);
    for (int i = 0; i < count; i++)
        words |= 1u << got[i].data.u64;
    return words;
}

/* Nothing comes, now or shortly. */
static void quiet(void)
{
    CHECK(words_of(60) == 0);
}

static void asks(int fd)
{
    char byte;
    CHECK(send(fd, "x", 1, 0) == 1);
    CHECK(recv(fd, &byte, 1, MSG_PEEK) == 1);
}

static void a_duplicate_keeps_it(int fd, struct sockaddr_in other)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 9};
    char byte;
    int copy = dup(fd), number = fd;
    CHECK(copy >= 0);
    added(fd, EPOLLIN, 1);
    CHECK(close(fd) == 0);
    asks(copy);
    CHECK(words_of(PATIENCE_MS) == 1u << 1);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_DEL, number, &event), EBADF);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_MOD, copy, &event), ENOENT);
    /* The number becomes another socket's, which has a registration of its own. */
    int next = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(next == number && connect(next, NAME(other)) == 0);
    CHECK_ERRNO(epoll_ctl(set, EPOLL_CTL_MOD, next, &event), ENOENT);
    added(next, EPOLLIN, 2);
    CHECK(words_of(PATIENCE_MS) == 1u << 1);
    asks(next);
    CHECK(words_of(PATIENCE_MS) == (1u << 1 | 1u << 2));
    added(copy, EPOLLIN, 3);
    CHECK(words_of(PATIENCE_MS) == (1u << 1 | 1u << 2 | 1u << 3));
    CHECK(recv(copy, &byte, 1, 0) == 1 && words_of(PATIENCE_MS) == 1u << 2);
    CHECK(close(next) == 0);
    quiet();
    asks(copy);
    CHECK(words_of(PATIENCE_MS) == (1u << 1 | 1u << 3));
    CHECK(close(copy) == 0);
    quiet();
}

/* dup2 puts another file in the place of the number. */
static void replaced(int fd)
{
    int copy = dup(fd), pipes[2];
    CHECK(pipe(pipes) == 0);
    added(fd, EPOLLIN, 1);
    CHECK(dup2(pipes[0], fd) == fd);
    added(fd, EPOLLIN, 2);
    quiet();
    asks(copy);
    CHECK(words_of(PATIENCE_MS) == 1u << 1);
    CHECK(dup2(pipes[0], copy) == copy);
    quiet();
    CHECK(write(pipes[1], "x", 1) == 1 && words_of(PATIENCE_MS) == 1u << 2);
    CHECK(close(fd) == 0 && close(copy) == 0 && close(pipes[0]) == 0 && close(pipes[1]) == 0);
    quiet();
}

/* Of two registrations of one socket that is often quiet, the newer one goes. */
static void one_of_two_goes(int fd)
{
    char byte;
    int copy = dup(fd);
    CHECK(copy >= 0);
    added(fd, EPOLLIN, 1);
    added(copy, EPOLLIN, 3);
    quiet();
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, copy, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(words_of(10) == 0);
    CHECK(send(copy, "x", 1, 0) == 1);
    CHECK(words_of(PATIENCE_MS) == 1u << 1);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    quiet();
    CHECK(close(fd) == 0 && close(copy) == 0);
}

/* Registered before it has a port, by a number that is gone when it gets one. */
static void dormant(struct sockaddr_in to)
{
    char byte;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), copy = dup(fd);
    added(fd, EPOLLIN, 1);
    CHECK(close(fd) == 0);
    CHECK(sendto(copy, "x", 1, 0, NAME(to)) == 1);
    CHECK(words_of(PATIENCE_MS) == 1u << 1);
    CHECK(recv(copy, &byte, 1, 0) == 1);
    quiet();
    CHECK(close(copy) == 0);
}

void client(struct place place)
{
    struct sockaddr_in to = at(place.address, place.port);
    set = epoll_create1(0);
    a_duplicate_keeps_it(udp_connected(place.address, place.port), to);
    a_duplicate_keeps_it(tcp_connected(place.address, place.port + 1), to);
    replaced(udp_connected(place.address, place.port));
    replaced(tcp_connected(place.address, place.port + 1));
    one_of_two_goes(tcp_connected(place.address, place.port + 1));
    dormant(to);
    int end = udp_connected(place.address, place.port);
    CHECK(send(end, "q", 1, 0) == 1);
}

void server(struct place place)
{
    int udp = udp_bound(place.address, place.port), listener = tcp_listening(place.address, place.port + 1);
    struct pollfd fds[8] = {{.fd = udp, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
    int count = 2;
    ready();
    for (;;) {
        char byte;
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        CHECK(poll(fds, count, -1) > 0);
        if (fds[0].revents) {
            CHECK(recvfrom(udp, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
            if (byte == 'q')
                return;
            CHECK(sendto(udp, &byte, 1, 0, NAME(from)) == 1);
        }
        for (int i = 2; i < count; i++)
            if (fds[i].revents && recv(fds[i].fd, &byte, 1, 0) == 1)
                CHECK(send(fds[i].fd, &byte, 1, MSG_NOSIGNAL) == 1);
            else if (fds[i].revents)
                fds[i].fd = -1;
        if (fds[1].revents)
            fds[count++] = (struct pollfd){.fd = accept(listener, NULL, NULL), .events = POLLIN};
    }
}
