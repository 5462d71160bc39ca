/* A thread waits in recv, another closes the descriptor: the call goes on as long as it takes, on that connection and no
 * other, though the number is given out again at once. shutdown() ends such a wait. */
#include "api.h"
#include <pthread.h>

static int waiting_on[3];
static char heard[3];
static volatile pid_t ids[3];

static void *waits(void *argument)
{
    long i = (long)argument;
    ids[i] = gettid();
    ssize_t count = recv(waiting_on[i], &heard[i], 1, 0);
    CHECK(count == (i == 2 ? 0 : 1));
    return NULL;
}

static pthread_t start(long i)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, (void *)i) == 0);
    EVENTUALLY(ids[i] != 0);
    /* Before its wait it sleeps for moments at most. */
    for (int asleep = 0; asleep < 5; usleep(10000))
        asleep = state_of(ids[i]) == 'S' ? asleep + 1 : 0;
    return thread;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    int first = accept(listener, NULL, NULL), udp = udp_bound(place.address, place.port + 1);
    CHECK(first >= 0);
    waiting_on[0] = first;
    waiting_on[1] = udp;
    pthread_t threads[2] = {start(0), start(1)};
    CHECK(close(first) == 0);
    CHECK(close(udp) == 0);
    int second = accept(listener, NULL, NULL);
    CHECK(second >= 0);
    tell(second);
    recv_all(second, &heard[2], 1);
    CHECK(heard[2] == 's'); /* the waiting thread took nothing of this connection */
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(heard[0] == 'f' && heard[1] == 'u');
    waiting_on[2] = second;
    pthread_t third = start(2);
    CHECK(shutdown(second, SHUT_RD) == 0);
    CHECK(pthread_join(third, NULL) == 0);
    CHECK(close(listener) == 0);
}

void client(struct place place)
{
    int first = tcp_connected(place.address, place.port);
    usleep(400000);
    int second = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    await(second);
    CHECK(send(second, "s", 1, 0) == 1);
    usleep(50000);
    CHECK(send(first, "f", 1, 0) == 1);
    CHECK(send(udp, "u", 1, 0) == 1);
    await_end(first); /* closed when the call returned */
    await_end(second);
}
