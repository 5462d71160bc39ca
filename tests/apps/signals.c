/* Handlers run as installed, queries return what was installed, and blocked calls end or restart as in signal(7). */
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/time.h>

static int pair[2];
static volatile sig_atomic_t ran;
static volatile int sender;
static char *volatile stack_address;

static void plain(int signal)
{
    char here;
    stack_address = &here;
    ran += signal;
}

static void another(int signal)
{
    ran += 1000;
}

static void with_info(int signal, siginfo_t *info, void *context)
{
    CHECK(context != NULL && info->si_signo == signal);
    sender = info->si_pid;
    ran++;
}

/* Runs while recv blocks: the first alarm interrupts or not, the handler sends what recv waits for at the second. */
static volatile int alarms;

static void feed(int signal)
{
    if (++alarms == 2)
        CHECK(send(pair[1], "y", 1, 0) == 1);
}

static int blocked_recv(void)
{
    struct itimerval twice = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000};
    struct itimerval stop = {0};
    char byte;
    alarms = 0;
    setitimer(ITIMER_REAL, &twice, NULL);
    int size = recv(pair[0], &byte, 1, 0), why = errno;
    setitimer(ITIMER_REAL, &stop, NULL);
    if (size < 0) {
        send(pair[1], "z", 1, 0);
        CHECK(recv(pair[0], &byte, 1, 0) == 1);
    }
    errno = why;
    return size;
}

static void queries(void)
{
    struct sigaction action = {.sa_handler = plain, .sa_flags = SA_RESTART | SA_NODEFER}, old;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0);
    CHECK(old.sa_handler == plain && (old.sa_flags & ~0x04000000) == (SA_RESTART | SA_NODEFER));
    CHECK(sigismember(&old.sa_mask, SIGUSR2) && !sigismember(&old.sa_mask, SIGINT));
    CHECK(raise(SIGUSR1) == 0 && ran == SIGUSR1);
    CHECK(signal(SIGUSR1, another) == plain);
    CHECK(raise(SIGUSR1) == 0 && ran == SIGUSR1 + 1000);
    CHECK(signal(SIGUSR1, SIG_IGN) == another);
    CHECK(raise(SIGUSR1) == 0 && ran == SIGUSR1 + 1000);
    CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(1000, &action, NULL) == -1 && errno == EINVAL);
    CHECK(signal(SIGSTOP, plain) == SIG_ERR && errno == EINVAL);
    CHECK(sigaction(-1, NULL, &old) == -1 && errno == EINVAL);
}

static void deliveries(void)
{
    struct sigaction action = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO | SA_RESETHAND}, old;
    ran = 0;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0 && kill(getpid(), SIGUSR2) == 0);
    CHECK(ran == 1 && sender == getpid());
    CHECK(sigaction(SIGUSR2, NULL, &old) == 0 && old.sa_handler == SIG_DFL);

    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&stack, NULL) == 0);
    action = (struct sigaction){.sa_handler = plain, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0 && raise(SIGUSR2) == 0);
    CHECK(stack_address > alternate && stack_address < alternate + sizeof alternate);

    CHECK(sysv_signal(SIGUSR2, another) == plain && raise(SIGUSR2) == 0);
    CHECK(signal(SIGUSR2, SIG_DFL) == SIG_DFL);
    CHECK(sigset(SIGRTMIN + 3, another) == SIG_DFL && sigset(SIGRTMIN + 3, SIG_DFL) == another);
}

static void restarts(void)
{
    struct sigaction action = {.sa_handler = feed};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(blocked_recv() == -1 && errno == EINTR && alarms == 1);
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(blocked_recv() == 1 && alarms == 2);
    CHECK(siginterrupt(SIGALRM, 1) == 0);
    CHECK(blocked_recv() == -1 && errno == EINTR);
    CHECK(signal(SIGALRM, feed) == feed);
    CHECK(blocked_recv() == -1 && errno == EINTR);
    CHECK(siginterrupt(SIGALRM, 0) == 0);
    CHECK(blocked_recv() == 1);
    CHECK(signal(SIGALRM, SIG_IGN) == feed);
    struct itimerval once = {.it_value.tv_usec = 5000};
    setitimer(ITIMER_REAL, &once, NULL);
    struct pollfd one = {.fd = pair[0], .events = POLLIN};
    CHECK(poll(&one, 1, 30) == 0);
    /* poll is never restarted. */
    CHECK(signal(SIGALRM, feed) == SIG_IGN);
    alarms = 5;
    setitimer(ITIMER_REAL, &once, NULL);
    CHECK(poll(&one, 1, -1) == -1 && errno == EINTR);
}

int main(void)
{
    tcp_pair(pair);
    queries();
    deliveries();
    restarts();
    return 0;
}
