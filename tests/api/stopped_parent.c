/* A child uses a connection of its parent while that is stopped: a call that may not wait returns, a signal interrupts one that
 * waits, and the connection works once the parent goes on. */
#include "api.h"

static void on_alarm(int signal)
{
    (void)signal;
}

static void child(int fd)
{
    char byte;
    pid_t parent = getppid();
    struct sigaction action = {.sa_handler = on_alarm};
    /* Again and again: the first one may come before the wait. */
    struct itimerval often = {.it_value = {.tv_usec = 300000}, .it_interval = {.tv_usec = 300000}}, never = {0};
    CHECK(kill(parent, SIGSTOP) == 0);
    EVENTUALLY(state_of(parent) == 'T');
    /* Nobody but this child lets its parent go on: a call that waits for that ends with the test. */
    CHECK_ERRNO(recv(fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), EINTR);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(kill(parent, SIGCONT) == 0);
    tell(fd);
    await(fd);
    tell(fd);
    exit(0);
}

void server(struct place place)
{
    int status, listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    for (int i = 0; i < 100; i++) {
        await(fd);
        tell(fd);
    }
    pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0)
        child(fd);
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    for (int i = 0; i < 100; i++) {
        tell(fd);
        await(fd);
    }
    await(fd);
    tell(fd);
    await(fd);
    await_end(fd);
}
