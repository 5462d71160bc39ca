/* A handler leaves a blocked recv by siglongjmp, many times; the socket and the hooks go on working. */
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf out;

static void on_alarm(int signal)
{
    siglongjmp(out, 1);
}

int main(void)
{
    int pair[2];
    char byte;
    tcp_pair(pair);
    CHECK(signal(SIGALRM, on_alarm) == SIG_DFL);
    for (volatile int round = 0; round < 20; round++) {
        if (sigsetjmp(out, 1) == 0) {
            struct itimerval soon = {.it_value.tv_usec = 2000};
            setitimer(ITIMER_REAL, &soon, NULL);
            recv(pair[0], &byte, 1, 0);
            CHECK(!"recv returned");
        }
        CHECK(passes(pair[0], pair[1]) && passes(pair[1], pair[0]));
    }
    return 0;
}
