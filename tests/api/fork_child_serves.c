/* The classic server: the parent accepts, the child serves; the parent's close does not end the connection. */
#include "api.h"

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int i = 0; i < 2; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(PATIENCE_MS / 1000);
            close(listener);
            await(fd);
            tell(fd);
            await_end(fd);
            exit(0);
        }
        CHECK(close(fd) == 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

void client(struct place place)
{
    for (int i = 0; i < 2; i++) {
        int fd = tcp_connected(place.address, place.port);
        tell(fd);
        await(fd);
        CHECK(close(fd) == 0);
    }
}
