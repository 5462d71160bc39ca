/* Ends that libc brings about by itself: daemon(3), whose parent's end must leave connections to the child, and quick_exit,
 * whose peer hears of it. */
#include "api.h"

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), told = tcp_listening(place.address, place.port + 1), status;
    int done[2];
    char byte;
    CHECK(pipe(done) == 0);
    ready();
    int control = accept(told, NULL, NULL), fd = accept(listener, NULL, NULL);
    CHECK(control >= 0 && fd >= 0);
    await(fd);
    tell(fd);
    CHECK(close(fd) == 0);
    fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(daemon(1, 1) == 0);
        await(fd);
        tell(fd);
        await_end(fd);
        CHECK(write(done[1], "!", 1) == 1);
        _exit(0);
    }
    CHECK(close(fd) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(read(done[0], &byte, 1) == 1);
    await(control);
}

/* In a process of its own. */
static void daemonize(struct place place, int done)
{
    int fd = tcp_connected(place.address, place.port);
    CHECK(daemon(1, 1) == 0);
    tell(fd);
    await(fd);
    await_end(fd);
    CHECK(write(done, "!", 1) == 1);
    fd = tcp_connected(place.address, place.port);
    tell(fd);
    await(fd);
    CHECK(write(done, "!", 1) == 1);
    quick_exit(0);
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port + 1), done[2], status;
    char byte;
    CHECK(pipe(done) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        daemonize(place, done[1]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(read(done[0], &byte, 1) == 1);
    CHECK(read(done[0], &byte, 1) == 1);
    tell(control);
}
