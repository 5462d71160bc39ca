/* A child waits for its parent, which is stopped, to let go of a connection: a signal whose default action ends
 * processes ends it all the same, before its parent goes on. */
#include "api.h"

/* Nobody but this one lets the parent go on. */
static void ends(int waits, pid_t parent)
{
    pid_t child;
    CHECK(read(waits, &child, sizeof child) == sizeof child);
    EVENTUALLY(state_of(parent) == 'T');
    EVENTUALLY(state_of(child) == 'S');
    CHECK(kill(child, SIGTERM) == 0);
    EVENTUALLY(state_of(child) == 'Z');
    CHECK(kill(parent, SIGCONT) == 0);
    exit(0);
}

static void waits(int fd, int tells, pid_t parent)
{
    char byte;
    pid_t self = getpid();
    CHECK(kill(parent, SIGSTOP) == 0);
    EVENTUALLY(state_of(parent) == 'T');
    CHECK(write(tells, &self, sizeof self) == sizeof self);
    recv(fd, &byte, 1, 0);
    CHECK(!"the wait ended by itself");
}

void server(struct place place)
{
    int status, ends_of[2], listener = tcp_listening(place.address, place.port);
    pid_t self = getpid();
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, 100);
    CHECK(pipe(ends_of) == 0);
    pid_t killer = fork();
    CHECK(killer >= 0);
    if (killer == 0)
        ends(ends_of[0], self);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        waits(fd, ends_of[1], self);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK(waitpid(killer, &status, 0) == killer && status == 0);
    tell(fd);
    await(fd);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    pings(fd, 100);
    await(fd);
    tell(fd);
    await_end(fd);
}
