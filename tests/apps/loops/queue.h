/* For libraries whose loop must be told in its own thread: what other threads want watched. */
#ifndef QUEUE_H
#define QUEUE_H

#include "sockets.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watched *queued[64];
static unsigned count_queued;

static void queue(struct watched *one)
{
    pthread_mutex_lock(&lock);
    CHECK(count_queued < 64);
    queued[count_queued++] = one;
    pthread_mutex_unlock(&lock);
}

static struct watched *next_queued(void)
{
    pthread_mutex_lock(&lock);
    struct watched *one = count_queued ? queued[--count_queued] : NULL;
    pthread_mutex_unlock(&lock);
    return one;
}

#endif
