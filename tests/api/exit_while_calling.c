/* A process exits while its other threads are inside calls on the same connection: the peer hears of the end at once, as
 * after a close, whatever those threads held at that moment. They themselves see nothing of it. */
#include "api.h"
#include <pthread.h>

enum { ROUNDS = 40, THREADS = 3 };

static int said[2];

static void *calls(void *argument)
{
    int fd = *(int *)argument;
    char byte;
    while (recv(fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN)
        continue;
    CHECK(write(said[1], "?", 1) == 1); /* nobody may get here */
    return NULL;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int i = 0; i < ROUNDS; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        CHECK(polled(fd, POLLIN) == POLLIN); /* at once */
        await_end(fd);
        CHECK(close(fd) == 0);
    }
    CHECK(close(listener) == 0);
}

void client(struct place place)
{
    CHECK(pipe(said) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int fd = tcp_connected(place.address, place.port);
            for (int j = 0; j < THREADS; j++) {
                pthread_t thread;
                CHECK(pthread_create(&thread, NULL, calls, &fd) == 0);
            }
            usleep(2000);
            if (i % 2)
                _exit(0);
            exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        struct pollfd one = {.fd = said[0], .events = POLLIN};
        CHECK(poll(&one, 1, 0) == 0);
    }
}
