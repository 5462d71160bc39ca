/* Forks of all kinds while threads hammer the hooks; children use sockets and their own new ones. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static volatile int stop;

static void *hammer(void *unused)
{
    int pair[2];
    tcp_pair(pair);
    while (!stop) {
        int other = socket(AF_INET, SOCK_DGRAM, 0);
        CHECK(other >= 0 && passes(pair[0], pair[1]) && close(other) == 0);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, hammer, NULL) == 0);
    for (int round = 0; round < 60; round++) {
        pid_t child = round % 3 == 2 ? _Fork() : fork();
        CHECK(child >= 0);
        if (child == 0) {
            int pair[2];
            tcp_pair(pair);
            _exit(passes(pair[0], pair[1]) ? 0 : 1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    /* With an argument the process ends while its threads are at work. */
    if (count == 1) {
        stop = 1;
        for (int i = 0; i < 3; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
