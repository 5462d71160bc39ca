/* Workers that take turns to accept, by a lock, and one that is busy while the others are not: a client is served by whoever
 * accepts next, whichever worker's part it came to. */
#include "api.h"

enum { WORKERS = 4, TURNS = 60 };

static void serve(int fd)
{
    char byte;
    CHECK(fd >= 0 && recv(fd, &byte, 1, 0) == 1);
    if (byte == 'B') /* busy until the client goes, without a call of its own in between */
        recv(fd, &byte, 1, 0);
    else
        tell(fd);
    CHECK(close(fd) == 0);
}

/* As Apache's: whoever has the lock waits for a client, and accepts it. */
static void take_turns(int listener, int lock)
{
    for (;;) {
        struct flock whole = {.l_type = F_WRLCK};
        CHECK(fcntl(lock, F_SETLKW, &whole) == 0);
        CHECK(polled(listener, POLLIN) == POLLIN);
        int fd = accept(listener, NULL, NULL);
        whole.l_type = F_UNLCK;
        CHECK(fcntl(lock, F_SETLK, &whole) == 0);
        serve(fd);
    }
}

static void serve_as_they_come(int listener)
{
    for (;;)
        serve(accept(listener, NULL, NULL));
}

void server(struct place place)
{
    char name[] = "/tmp/api-turns-XXXXXX";
    int lock = mkstemp(name), told = tcp_listening(place.address, place.port), status;
    CHECK(lock >= 0 && unlink(name) == 0);
    int first = tcp_listening(place.address, place.port + 1), second = tcp_listening(place.address, place.port + 2);
    pid_t workers[2 * WORKERS];
    for (int i = 0; i < 2 * WORKERS; i++) {
        CHECK((workers[i] = fork()) >= 0);
        if (workers[i] == 0 && i < WORKERS)
            take_turns(first, lock);
        if (workers[i] == 0)
            serve_as_they_come(second);
    }
    ready();
    int control = accept(told, NULL, NULL);
    CHECK(control >= 0);
    await(control);
    for (int i = 0; i < 2 * WORKERS; i++) {
        CHECK(kill(workers[i], SIGTERM) == 0);
        CHECK(waitpid(workers[i], &status, 0) == workers[i]);
    }
}

static void ask(struct place place, int port)
{
    int fd = tcp_connected(place.address, port);
    tell(fd);
    await(fd);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port), busy[WORKERS - 1];
    for (int i = 0; i < TURNS; i++)
        ask(place, place.port + 1);
    ask(place, place.port + 2);
    for (int i = 0; i < WORKERS - 1; i++) {
        busy[i] = tcp_connected(place.address, place.port + 2);
        send_all(busy[i], "B", 1);
    }
    for (int i = 0; i < TURNS; i++)
        ask(place, place.port + 2);
    tell(control);
}
