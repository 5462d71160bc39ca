/* Handlers run while connect(2) waits for a peer that does not answer, at once: one that was installed with SA_RESTART and counts,
 * and one that leaves the call by siglongjmp. */
#include "api.h"
#include <pthread.h>
#include <setjmp.h>

enum { FILLERS = 4 };

static sigjmp_buf back;
static volatile sig_atomic_t counted;

static void count_it(int number)
{
    (void)number;
    counted++;
}

static void leave(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static pthread_t connecting;

/* One signal that is counted, and when it was, one that ends the call. */
static void *signals(void *unused)
{
    (void)unused;
    usleep(100000);
    CHECK(pthread_kill(connecting, SIGUSR1) == 0);
    EVENTUALLY(counted == 1);
    CHECK(pthread_kill(connecting, SIGUSR2) == 0);
    return NULL;
}

void server(struct place place)
{
    struct sockaddr_in name = at(place.address, place.port + 1);
    int full = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(full >= 0 && bind(full, NAME(name)) == 0 && listen(full, 0) == 0);
    int listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    await_end(fd);
}

void client(struct place place)
{
    struct sockaddr_in name = at(place.address, place.port + 1);
    struct sigaction counts = {.sa_handler = count_it, .sa_flags = SA_RESTART}, leaves = {.sa_handler = leave};
    int control = tcp_connected(place.address, place.port);
    pthread_t thread;
    CHECK(sigaction(SIGUSR1, &counts, NULL) == 0 && sigaction(SIGUSR2, &leaves, NULL) == 0);
    for (int i = 0; i < FILLERS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK(fd >= 0 && (connect(fd, NAME(name)) == 0 || errno == EINPROGRESS));
        usleep(20000);
    }
    connecting = pthread_self();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && pthread_create(&thread, NULL, signals, NULL) == 0);
    if (sigsetjmp(back, 1) == 0) {
        connect(fd, NAME(name));
        CHECK(!"the wait ended by itself");
    }
    CHECK(counted == 1 && pthread_join(thread, NULL) == 0);
    CHECK(close(fd) == 0);
    /* The number's next socket is as any. */
    fd = tcp_connected(place.address, place.port);
    CHECK(close(fd) == 0 && close(control) == 0);
}
