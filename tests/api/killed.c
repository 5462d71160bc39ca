/* A signal ends a process that has no handler for it: peers that only wait hear of the end, the parent sees the signal, and
 * the program saw the default action until then, but nothing of its end. */
#include "api.h"
#include <pthread.h>

static const int SIGNALS[] = {SIGHUP, SIGINT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2,
                              SIGVTALRM, SIGPROF, SIGIO, SIGSTKFLT, SIGPWR};
enum { COUNT = sizeof SIGNALS / sizeof *SIGNALS };

static void sees_the_default(int signal)
{
    struct sigaction action;
    CHECK(sigaction(signal, NULL, &action) == 0);
    CHECK(action.sa_handler == SIG_DFL && (action.sa_flags & (SA_RESTART | SA_ONSTACK)) == 0);
    CHECK(!sigismember(&action.sa_mask, SIGUSR1));
}

/* The child of a fork that is to be ended; the parent returns with its number. */
static pid_t victim(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    struct sigaction none = {.sa_handler = SIG_DFL};
    for (int i = 0; child == 0 && i < COUNT; i++)
        CHECK(sigaction(SIGNALS[i], &none, NULL) == 0);
    return child;
}

static void ends_by(pid_t child, int signal)
{
    int status;
    CHECK(kill(child, signal) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
}

struct witness {
    int fd, said;
};

static void *waits(void *argument)
{
    struct witness *witness = argument;
    char byte;
    recv(witness->fd, &byte, 1, 0);
    CHECK(write(witness->said, "?", 1) == 1); /* nobody may get here */
    return NULL;
}

static void connect_and_wait(struct place place, int i, int said)
{
    int fd = tcp_connected(place.address, place.port);
    char byte;
    sees_the_default(SIGNALS[i]);
    if (i % 3 == 1) { /* a handler of its own, and back */
        struct sigaction action, none = {.sa_handler = SIG_DFL};
        CHECK(signal(SIGNALS[i], SIG_IGN) == SIG_DFL);
        CHECK(sigaction(SIGNALS[i], &none, &action) == 0 && action.sa_handler == SIG_IGN);
        sees_the_default(SIGNALS[i]);
    }
    send_all(fd, "last words", 10);
    pthread_t thread;
    struct witness witness = {fd, said};
    CHECK(pthread_create(&thread, NULL, waits, &witness) == 0);
    CHECK(write(said, "!", 1) == 1);
    if (i % 2 == 0)
        recv(fd, &byte, 1, 0);
    for (;;)
        pause();
}

void server(struct place place)
{
    int said[2], told = tcp_listening(place.address, place.port + 1);
    char byte;
    CHECK(pipe(said) == 0);
    pid_t child = victim(); /* with a lane beside that of its parent */
    if (child == 0) {
        int listener = tcp_listening(place.address, place.port + 2);
        CHECK(write(said[1], "!", 1) == 1);
        CHECK(accept(listener, NULL, NULL) >= 0); /* who is in the queue at its end is reset, on the kernel too */
        CHECK(write(said[1], "!", 1) == 1);
        for (;;)
            pause();
    }
    int listener = tcp_listening(place.address, place.port);
    CHECK(read(said[0], &byte, 1) == 1);
    ready();
    for (int i = 0; i < COUNT; i++) {
        char words[10];
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        recv_all(fd, words, sizeof words);
        CHECK(polled(fd, POLLIN) == POLLIN);
        await_end(fd);
        CHECK(close(fd) == 0);
    }
    int control = accept(told, NULL, NULL);
    CHECK(control >= 0);
    await(control);
    CHECK(read(said[0], &byte, 1) == 1);
    ends_by(child, SIGTERM);
    await(control);
}

void client(struct place place)
{
    int said[2];
    char byte;
    CHECK(pipe(said) == 0);
    for (int i = 0; i < COUNT; i++) {
        pid_t child = victim();
        if (child == 0)
            connect_and_wait(place, i, said[1]);
        CHECK(read(said[0], &byte, 1) == 1);
        usleep(i % 4 == 0 ? 20000 : 0);
        ends_by(child, SIGNALS[i]);
        struct pollfd one = {.fd = said[0], .events = POLLIN};
        CHECK(poll(&one, 1, 0) == 0);
    }
    int fd = tcp_connected(place.address, place.port + 2), control = tcp_connected(place.address, place.port + 1);
    tell(control);
    CHECK(polled(fd, POLLIN) == POLLIN);
    await_end(fd);
    tell(control);
}
