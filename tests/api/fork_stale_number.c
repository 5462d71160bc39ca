/* A number that was closed past every hook is given to a client that waits for accept while its listener goes to the
 * kernel before a fork. What had the number is a connection that an earlier child may still use. */
#include "api.h"

#include <sys/syscall.h>

static void closed_unseen(int fd)
{
#ifdef __x86_64__
    long result = SYS_close;
    __asm__ volatile("syscall" : "+a"(result) : "D"((long)fd) : "rcx", "r11", "memory");
    CHECK(result == 0);
#else
    CHECK(close(fd) == 0);
#endif
}

static void waits_for_end(int fd)
{
    char byte;
    CHECK(read(fd, &byte, 1) == 0);
}

void server(struct place place)
{
    int first = tcp_listening(place.address, place.port), life[2], status;
    ready();
    int fd = accept(first, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, 4);
    CHECK(pipe(life) == 0);
    pid_t elder = fork();
    CHECK(elder >= 0);
    if (elder == 0) {
        CHECK(close(life[1]) == 0);
        waits_for_end(life[0]);
        _exit(0);
    }
    int second = tcp_listening(place.address, place.port + 1);
    tell(fd);
    CHECK(polled(second, POLLIN) == POLLIN);
    closed_unseen(fd);

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int client = accept(second, NULL, NULL);
        CHECK(client >= 0);
        answers(client, 4);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(close(life[1]) == 0);
    CHECK(waitpid(elder, &status, 0) == elder && status == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    pings(fd, 4);
    await(fd);
    int other = tcp_connected(place.address, place.port + 1);
    pings(other, 4);
}
