/* A child that only runs another program does not disturb the parent's connection. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    for (int i = 0; i < 4; i++) {
        await(fd);
        tell(fd);
    }
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    tell(fd);
    await(fd);
    CHECK(system("true") == 0);
    tell(fd);
    await(fd);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    tell(fd);
    await(fd);
    FILE *pipe = popen("echo hello", "r");
    char text[16];
    CHECK(pipe && fgets(text, sizeof text, pipe) && strcmp(text, "hello\n") == 0 && pclose(pipe) == 0);
    tell(fd);
    await(fd);
}
