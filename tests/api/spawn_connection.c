/* A program that is started beside this one goes on with a connection: as its standard input and output by posix_spawn and
 * by vfork, dup2 and exec (what Python's subprocess does), under its own number when the child lets it open, and after fork
 * without ever being used there. */
#include "api.h"
#include <spawn.h>

#define ROUNDS 30
#define WAYS 5

extern char **environ;

static char number[16];
static char *words[6];

/* The new program. */
static void afterwards(void)
{
    char text[5];
    int fd = atoi(getenv("NUMBER")), out = fd == 0 ? 1 : fd;
    for (int done = 0; done < 5; done++)
        CHECK(read(fd, text + done, 1) == 1);
    CHECK(memcmp(text, "after", 5) == 0);
    CHECK(write(out, "program", 7) == 7);
}

static pid_t start(int way, int fd)
{
    pid_t child;
    posix_spawn_file_actions_t actions;
    snprintf(number, sizeof number, "%d", way == 0 || way == 1 ? 0 : fd);
    CHECK(setenv("NUMBER", number, 1) == 0);
    CHECK(fcntl(fd, F_SETFD, way == 2 || way == 4 ? 0 : FD_CLOEXEC) == 0);
    switch (way) {
    case 0:
        CHECK(posix_spawn_file_actions_init(&actions) == 0);
        CHECK(posix_spawn_file_actions_adddup2(&actions, fd, 0) == 0);
        CHECK(posix_spawn_file_actions_adddup2(&actions, fd, 1) == 0);
        CHECK(posix_spawn(&child, words[0], &actions, NULL, words, environ) == 0);
        CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
        return child;
    case 1:
        if ((child = vfork()) == 0) {
            dup2(fd, 0);
            dup2(fd, 1);
            execve(words[0], words, environ);
            _exit(1);
        }
        break;
    case 2:
        CHECK(posix_spawnp(&child, words[0], NULL, NULL, words, environ) == 0);
        break;
    case 3:
        if ((child = vfork()) == 0) {
            fcntl(fd, F_SETFD, 0);
            execve(words[0], words, environ);
            _exit(1);
        }
        break;
    case 4:
        if ((child = fork()) == 0) {
            execve(words[0], words, environ);
            _exit(1);
        }
        break;
    }
    CHECK(child > 0);
    return child;
}

void server(struct place place)
{
    if (getenv("NUMBER") != NULL)
        return afterwards();
    char program[256] = {0}, port[16], text[3];
    int listener = tcp_listening(place.address, place.port), fd[WAYS + 1];
    snprintf(port, sizeof port, "%d", place.port);
    CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    char *all[] = {program, "server", (char *)place.address, port, (char *)place.client, NULL};
    memcpy(words, all, sizeof words);
    CHECK(fcntl(listener, F_SETFD, FD_CLOEXEC) == 0);
    ready();
    for (int way = 0; way <= WAYS; way++) {
        CHECK((fd[way] = accept(listener, NULL, NULL)) >= 0);
        CHECK(fcntl(fd[way], F_SETFD, FD_CLOEXEC) == 0);
        answers(fd[way], ROUNDS);
    }
    for (int way = 0; way < WAYS; way++) {
        int status;
        pid_t child = start(way, fd[way]);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        /* It is still this program's as well. */
        recv_all(fd[way], text, 3);
        CHECK(memcmp(text, "own", 3) == 0);
        CHECK(close(fd[way]) == 0);
    }
    /* And what was not passed on is as it was. */
    answers(fd[WAYS], ROUNDS);
}

void client(struct place place)
{
    int fd[WAYS + 1];
    char text[7];
    for (int way = 0; way <= WAYS; way++) {
        fd[way] = tcp_connected(place.address, place.port);
        pings(fd[way], ROUNDS);
    }
    for (int way = 0; way < WAYS; way++) {
        send_all(fd[way], "after", 5);
        recv_all(fd[way], text, 7);
        CHECK(memcmp(text, "program", 7) == 0);
        send_all(fd[way], "own", 3);
        await_end(fd[way]);
    }
    pings(fd[WAYS], ROUNDS);
}
