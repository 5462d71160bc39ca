/* What a vfork child does about signals before it becomes another program, it does for itself: gdbserver's sets all of
 * them to their defaults. The parent's handlers stay, and what ends the child ends nobody's connections. */
#include "api.h"

static volatile sig_atomic_t came;

static void on_signal(int signal)
{
    came = signal;
}

/* Runs in memory that it shares, so it does as little as can be. */
static void resets_all(void)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    for (int signal = 1; signal < 32; signal++)
        sigaction(signal, &by_default, NULL);
}

static int status_of(pid_t child)
{
    int status;
    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

void client(struct place place)
{
    static const int signals[] = {SIGIO, SIGUSR1, SIGTERM, SIGALRM};
    int fd = tcp_connected(place.address, place.port);
    pings(fd, 50);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        CHECK(signal(signals[i], on_signal) == SIG_DFL);

    pid_t child = vfork();
    if (child == 0) {
        resets_all();
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now;
        CHECK(sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == on_signal);
        CHECK(raise(signals[i]) == 0);
        CHECK(came == signals[i]);
    }
    pings(fd, 50);

    /* A handler of the child's is not the parent's. */
    child = vfork();
    if (child == 0) {
        signal(SIGUSR2, on_signal);
        signal(SIGUSR1, SIG_IGN);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    CHECK(signal(SIGUSR2, SIG_DFL) == SIG_DFL);
    CHECK(signal(SIGUSR1, SIG_DFL) == on_signal);

    /* The child dies, by a default that the parent has, too, and by one of its own. */
    child = vfork();
    if (child == 0) {
        raise(SIGUSR2);
        _exit(0);
    }
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2);
    pings(fd, 50);
    child = vfork();
    if (child == 0) {
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
        _exit(0);
    }
    status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    pings(fd, 50);
}

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    answers(fd, 200);
    await_end(fd);
}
