/* A set whose first number was closed goes on by another one: members come, change, report and go. */
#include "api.h"
#include <fcntl.h>

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    int first = epoll_create1(0), pipes[2];
    CHECK(pipe(pipes) == 0);
    add_readable(first, listener);
    ready();
    int set = fcntl(first, F_DUPFD_CLOEXEC, 100);
    CHECK(set >= 100);
    CHECK(close(first) == 0);
    int other = epoll_create1(0); /* has the number now */
    CHECK(other == first);
    CHECK(ready_in(set, PATIENCE_MS) == listener);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    add_readable(set, fd);
    add_readable(set, pipes[0]);
    for (int i = 0; i < 20; i++) {
        char byte;
        tell(fd);
        CHECK(ready_in(set, PATIENCE_MS) == fd);
        CHECK(recv(fd, &byte, 1, 0) == 1);
    }
    CHECK(write(pipes[1], "x", 1) == 1);
    CHECK(ready_in(set, PATIENCE_MS) == pipes[0]);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.fd = fd};
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, pipes[0], NULL) == 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
    CHECK(ready_in(set, PATIENCE_MS) == fd);
    CHECK(ready_in(other, 0) == 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == -1 && errno == ENOENT);
    CHECK(ready_in(set, 0) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    for (int i = 0; i < 20; i++) {
        await(fd);
        CHECK(send(fd, "b", 1, 0) == 1);
    }
    await_end(fd);
}
