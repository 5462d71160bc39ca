/* exec(2) of a file that is no program: the connections go on, and what waited for them too. */
#include "api.h"
#include <sys/stat.h>

#define ROUNDS 20

static void echo(int fd)
{
    await(fd);
    tell(fd);
}

void server(struct place place)
{
    int fd = tcp_serve_one(place), copy = dup(fd), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK(copy >= 0 && set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    for (int i = 0; i < ROUNDS; i++)
        echo(i % 2 ? fd : copy);
    char path[] = "/tmp/sidestep-no-program-XXXXXX", *words[] = {path, NULL};
    int file = mkstemp(path);
    CHECK(file >= 0 && write(file, "\1\2\3\4", 4) == 4 && fchmod(file, 0755) == 0 && close(file) == 0);
    CHECK_ERRNO(execv(path, words), ENOEXEC);
    CHECK(unlink(path) == 0);
    tell(fd);
    for (int i = 0; i < 4; i++) {
        struct epoll_event got = {0};
        CHECK(epoll_wait(set, &got, 1, PATIENCE_MS) == 1 && got.data.fd == fd && got.events == EPOLLIN);
        CHECK(polled(copy, POLLIN) == POLLIN);
        echo(i % 2 ? fd : copy);
    }
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
    await_end(copy);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    pings(fd, ROUNDS);
    await(fd);
    pings(fd, 4);
}
