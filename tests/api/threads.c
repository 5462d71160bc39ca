/* Several threads on one socket and on sockets of their own, at once. */
#include "api.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 200

static struct place where;

static void *one_connection(void *argument)
{
    int fd = (int)(long)argument;
    unsigned char byte;
    while (recv(fd, &byte, 1, 0) == 1) {
        byte++;
        CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
    }
    close(fd);
    return NULL;
}

void server(struct place place)
{
    pthread_t threads[THREADS];
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int i = 0; i < THREADS; i++) {
        long fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        CHECK(pthread_create(&threads[i], NULL, one_connection, (void *)fd) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *one_client(void *argument)
{
    int fd = tcp_connected(where.address, where.port);
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char byte = (unsigned char)i;
        CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
        CHECK(recv(fd, &byte, 1, 0) == 1);
        CHECK(byte == (unsigned char)(i + 1));
    }
    close(fd);
    return NULL;
}

void client(struct place place)
{
    pthread_t threads[THREADS];
    where = place;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, one_client, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
