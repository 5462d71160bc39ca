/* Descriptors added to a set before bind, listen and connect; what connecting reports, level and edge triggered. */
#include "api.h"

static int events_of(int set, int timeout)
{
    struct epoll_event got[4];
    int count = epoll_wait(set, got, 4, timeout);
    CHECK(count >= 0 && count <= 1);
    return count ? (int)got[0].events : 0;
}

static int added(int set, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    return fd;
}

void server(struct place place)
{
    int set = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in name = at(place.address, place.port);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    added(set, listener, EPOLLIN);
    CHECK(bind(listener, NAME(name)) == 0);
    CHECK(listen(listener, 4) == 0);
    ready();
    CHECK(events_of(set, PATIENCE_MS) & EPOLLIN);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(events_of(set, 50) == 0);
    await(fd);
    tell(fd);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(fd);
}

void client(struct place place)
{
    int level = epoll_create1(0), edge = epoll_create1(0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1;
    struct sockaddr_in to = at(place.address, place.port);
    socklen_t length = sizeof error;
    added(level, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    added(edge, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    CHECK(events_of(level, PATIENCE_MS) == (EPOLLOUT | EPOLLHUP)); /* not connected */
    CHECK(events_of(edge, PATIENCE_MS) == (EPOLLOUT | EPOLLHUP));
    CHECK(events_of(edge, 20) == 0);
    CHECK_ERRNO(connect(fd, NAME(to)), EINPROGRESS);
    CHECK(events_of(level, PATIENCE_MS) == EPOLLOUT);
    CHECK(events_of(edge, PATIENCE_MS) == EPOLLOUT);
    CHECK(events_of(edge, 20) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
    CHECK(connect(fd, NAME(to)) == 0); /* tells that it succeeded, once */
    CHECK_ERRNO(connect(fd, NAME(to)), EISCONN);
    tell(fd);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
    CHECK(epoll_ctl(level, EPOLL_CTL_MOD, fd, &event) == 0);
    CHECK(events_of(level, PATIENCE_MS) & EPOLLIN);
    CHECK(polled(fd, POLLRDHUP) == POLLRDHUP);
    CHECK(events_of(level, PATIENCE_MS) == (EPOLLIN | EPOLLRDHUP));
    CHECK((events_of(edge, PATIENCE_MS) & (EPOLLIN | EPOLLRDHUP)) == (EPOLLIN | EPOLLRDHUP));
    char byte;
    CHECK(recv(fd, &byte, 1, 0) == 1);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    CHECK(events_of(level, PATIENCE_MS) == (EPOLLIN | EPOLLRDHUP));
}
