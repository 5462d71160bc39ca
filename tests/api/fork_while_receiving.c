/* A process forks while one of its threads receives. The child closes its copy and lives on: the parent's end is the
 * connection's. */
#include "api.h"
#include <pthread.h>

enum { ROUNDS = 40 };

static pid_t receiver;

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    answers(fd, ROUNDS);
    int control = udp_bound(place.address, place.port + 1);
    tell(fd); /* the control socket stands */
    await(control); /* the child has closed its copy */
    tell(fd);
    await_end(fd);
    struct sockaddr_in name = at(place.client, place.port + 2);
    CHECK(sendto(control, "!", 1, 0, NAME(name)) == 1);
    CHECK(close(control) == 0);
}

static void *receives(void *argument)
{
    receiver = gettid();
    await(*(int *)argument);
    return NULL;
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), closed[2], seen[2], status;
    char byte;
    pthread_t thread;
    pings(fd, ROUNDS);
    await(fd);
    CHECK(pipe(closed) == 0 && pipe(seen) == 0);
    CHECK(pthread_create(&thread, NULL, receives, &fd) == 0);
    EVENTUALLY(receiver != 0 && state_of(receiver) == 'S');
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(fd) == 0 && close(seen[1]) == 0);
        CHECK(write(closed[1], "!", 1) == 1);
        CHECK(read(seen[0], &byte, 1) == 0);
        _exit(0);
    }
    CHECK(close(seen[0]) == 0);
    CHECK(read(closed[0], &byte, 1) == 1);
    int control = udp_connected(place.address, place.port + 1), word = udp_bound(place.client, place.port + 2);
    tell(control);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(close(fd) == 0);
    await(word); /* the server saw the end, and the child lives */
    CHECK(close(seen[1]) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}
