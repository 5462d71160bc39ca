/* A storm of signals whose handlers use the same sockets as the main program, or leave by siglongjmp. */
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static int pair[2], other[2];
static volatile int sent, jumps;
static sigjmp_buf out;
static volatile sig_atomic_t may_jump;

static void on_alarm(int signal)
{
    int before = errno;
    if (send(pair[1], "s", 1, MSG_DONTWAIT) == 1)
        sent++;
    close(dup(pair[0]));
    errno = before;
    if (may_jump && ++jumps % 2)
        siglongjmp(out, 1);
}

int main(void)
{
    tcp_pair(pair);
    tcp_pair(other);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 300}, {0, 300}}, stop = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);

    volatile int got = 0;
    char bytes[64];
    for (volatile int round = 0; round < 20000; round++) {
        CHECK(passes(other[round % 2], other[1 - round % 2]));
        int size = recv(pair[0], bytes, sizeof bytes, MSG_DONTWAIT);
        CHECK(size > 0 || errno == EAGAIN);
        got += size > 0 ? size : 0;
        sigset_t mask;
        CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && !sigismember(&mask, SIGALRM));
    }
    CHECK(sent > 0);

    /* Jumps out of a recv that blocks; what was sent stays counted. */
    for (volatile int round = 0; round < 200; round++) {
        if (sigsetjmp(out, 1) == 0) {
            may_jump = 1;
            for (;;)
                recv(other[0], bytes, 1, 0);
        }
        may_jump = 0;
    }
    CHECK(setitimer(ITIMER_REAL, &stop, NULL) == 0);
    while (got < sent) {
        int size = recv(pair[0], bytes, sizeof bytes, 0);
        CHECK(size > 0);
        got += size;
    }
    CHECK(got == sent && passes(other[0], other[1]) && passes(other[1], other[0]));
    return 0;
}
