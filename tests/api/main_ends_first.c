/* The first thread ends by pthread_exit, and the process with the last one: peers hear of it, and its parent. */
#include "api.h"
#include <pthread.h>

static struct place there;

static void *talks(void *unused)
{
    (void)unused;
    usleep(20000); /* until the first thread is gone */
    int fd = tcp_connected(there.address, there.port);
    for (int i = 0; i < 20; i++) {
        tell(fd);
        await(fd);
    }
    return NULL;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    for (int i = 0; i < 20; i++) {
        await(fd);
        tell(fd);
    }
    await_end(fd);
}

void client(struct place place)
{
    pthread_t thread;
    there = place;
    CHECK(pthread_create(&thread, NULL, talks, NULL) == 0);
    pthread_exit(NULL);
}
