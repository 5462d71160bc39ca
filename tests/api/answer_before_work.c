/* A server that has many requests before it answers one and goes to other work: the answer leaves, also where answers to
 * many share system calls. */
#include "api.h"

#define COUNT 16

/* Made by the client, looked for by calls that no socket layer sees. */
static const char *note(struct place place)
{
    static char path[64];
    /* Who runs both roles may not be the only one of its kind. */
    snprintf(path, sizeof path, "/tmp/sidestep-answered-%d-%d", getppid(), place.port);
    return path;
}

void server(struct place place)
{
    struct epoll_event events[COUNT];
    int set = epoll_create1(0), listener = tcp_listening(place.address, place.port);
    CHECK(unlink(note(place)) == 0 || errno == ENOENT);
    ready();
    for (int i = 0; i < COUNT; i++) {
        struct epoll_event in = {.events = EPOLLIN, .data.fd = accept(listener, NULL, NULL)};
        CHECK(in.data.fd >= 0);
        set_nonblocking(in.data.fd);
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, in.data.fd, &in) == 0);
    }
    EVENTUALLY(epoll_wait(set, events, COUNT, PATIENCE_MS) == COUNT);
    /* A round in which nothing is done is a quick one. */
    CHECK(epoll_wait(set, events, COUNT, 0) == COUNT);
    await(events[0].data.fd);
    tell(events[0].data.fd);
    CHECK_ERRNO(recv(events[0].data.fd, &(char){0}, 1, 0), EAGAIN);
    EVENTUALLY(access(note(place), F_OK) == 0);
    CHECK(unlink(note(place)) == 0);
    for (int i = 1; i < COUNT; i++) {
        await(events[i].data.fd);
        tell(events[i].data.fd);
    }
}

void client(struct place place)
{
    struct pollfd fds[COUNT];
    for (int i = 0; i < COUNT; i++) {
        fds[i] = (struct pollfd){.fd = tcp_connected(place.address, place.port), .events = POLLIN};
        tell(fds[i].fd);
    }
    CHECK(poll(fds, COUNT, PATIENCE_MS) == 1);
    int file = open(note(place), O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0 && close(file) == 0);
    for (int i = 0; i < COUNT; i++)
        await(fds[i].fd);
}
