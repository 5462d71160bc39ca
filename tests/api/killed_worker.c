/* A process that SIGKILL ends cannot say goodbye. Its peers hear of the end all the same, also one that only waits, or that
 * nobody had accepted yet. */
#include "api.h"

/* A child, and the pipe by which it says that it has its connection. */
static pid_t worker(int *said)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    *said = ends[child == 0];
    CHECK(close(ends[child != 0]) == 0);
    return child;
}

static void is_ready(int said)
{
    char byte;
    CHECK(read(said, &byte, 1) == 1);
    CHECK(close(said) == 0);
}

static void kill_it(pid_t child)
{
    int status;
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static void stays(int fd, int said)
{
    char word[4];
    recv_all(fd, word, sizeof word);
    CHECK(write(said, "!", 1) == 1);
    for (;;)
        pause();
}

/* The end of a peer that was killed: end of file or a reset. */
static void hears_the_end(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);
    CHECK(got == 0 || (got == -1 && errno == ECONNRESET));
    CHECK(close(fd) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), said;
    pid_t child = worker(&said);
    if (child == 0)
        stays(accept(listener, NULL, NULL), said);
    ready();
    is_ready(said);
    kill_it(child);
    /* This one lives, so the dead are buried. */
    int control = accept(listener, NULL, NULL);
    CHECK(control >= 0);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    send_all(fd, "word", 4);
    hears_the_end(fd);
    await(control);
    child = worker(&said);
    if (child == 0) { /* never accepts */
        tcp_listening(place.address, place.port + 1);
        CHECK(write(said, "!", 1) == 1);
        for (;;)
            pause();
    }
    is_ready(said);
    tell(control);
    await(control);
    kill_it(child);
    await(control);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), said;
    send_all(fd, "word", 4);
    hears_the_end(fd);
    int control = tcp_connected(place.address, place.port);
    pid_t child = worker(&said);
    if (child == 0)
        stays(tcp_connected(place.address, place.port), said);
    is_ready(said);
    kill_it(child);
    tell(control);
    await(control);
    fd = tcp_connected(place.address, place.port + 1);
    send_all(fd, "word", 4);
    tell(control);
    hears_the_end(fd);
    tell(control);
}
