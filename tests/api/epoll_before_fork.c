/* A set made before fork, with a listener, a pipe, a set within it and a connection: workers that inherit it wait on it, and
 * are told of everything that it held. */
#include "api.h"

#define WORKERS 2
#define CLIENTS 24

static void add(int set, int fd, unsigned events, unsigned long long data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* Answers clients until the pipe says that it is over; never sees what it did not ask for. */
static void work(int set, int listener, int end, int begun)
{
    struct epoll_event events[4];
    CHECK(epoll_wait(set, events, 4, 0) == 0);
    CHECK(write(begun, "!", 1) == 1);
    for (;;) {
        int count = epoll_wait(set, events, 4, PATIENCE_MS);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == 0xeeee) {
                char byte;
                CHECK(read(end, &byte, 1) == 0);
                return;
            }
            CHECK(events[i].data.u64 == 0x1111);
            int fd = accept(listener, NULL, NULL);
            CHECK(fd >= 0 || errno == EAGAIN); /* another worker was faster */
            if (fd >= 0) {
                fcntl(fd, F_SETFL, 0);
                await(fd);
                tell(fd);
                await_end(fd);
                close(fd);
            }
        }
    }
}

/* A child that waits for a connection of its parent, through a set within the set. */
static void serve(int outer, int fd)
{
    struct epoll_event event;
    CHECK(epoll_wait(outer, &event, 1, PATIENCE_MS) == 1 && event.data.u64 == 0x2222);
    await(fd);
    tell(fd);
    await_end(fd);
    CHECK(epoll_wait(outer, &event, 1, PATIENCE_MS) == 1 && event.data.u64 == 0x2222);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), pipes[2], begun[2], status;
    int control = tcp_listening(place.address, place.port + 1);
    int set = epoll_create1(0), inner = epoll_create1(EPOLL_CLOEXEC), outer = epoll_create1(0);
    CHECK(pipe(pipes) == 0 && pipe(begun) == 0);
    set_nonblocking(listener);
    add(set, listener, EPOLLIN, 0x1111);
    add(set, pipes[0], EPOLLIN, 0xeeee);
    ready();
    CHECK(polled(listener, POLLIN) == POLLIN);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    add(inner, fd, EPOLLIN | EPOLLRDHUP, 0x3333);
    add(outer, inner, EPOLLIN, 0x2222);
    pid_t child = fork();
    if (child == 0) {
        serve(outer, fd);
        _exit(0);
    }
    CHECK(close(fd) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        CHECK(workers[i] >= 0);
        if (workers[i] == 0) {
            close(pipes[1]);
            work(set, listener, pipes[0], begun[1]);
            _exit(0);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        char byte;
        CHECK(read(begun[0], &byte, 1) == 1);
    }
    fd = accept(control, NULL, NULL);
    CHECK(fd >= 0);
    tell(fd);
    await_end(fd); /* the client has had enough */
    close(pipes[1]);
    for (int i = 0; i < WORKERS; i++)
        CHECK(waitpid(workers[i], &status, 0) == workers[i] && status == 0);
    /* The parent's set is as it was. */
    struct epoll_event event;
    CHECK(epoll_wait(set, &event, 1, 0) == 1 && event.data.u64 == 0xeeee);
}

static void ask(int fd)
{
    tell(fd);
    await(fd);
    close(fd);
}

void client(struct place place)
{
    ask(tcp_connected(place.address, place.port));
    int over = tcp_connected(place.address, place.port + 1);
    await(over);
    for (int i = 0; i < CLIENTS; i++)
        ask(tcp_connected(place.address, place.port));
    close(over);
}
