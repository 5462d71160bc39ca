/* A connection between the same addresses and ports as one that lives is refused, in this process and in another one, and
 * that one goes on. */
#include "api.h"

enum { LOCAL = 1 };

/* Wants what another socket has. */
static void refused(struct sockaddr_in local, struct sockaddr_in remote)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, NAME(local)) == 0);
    CHECK_ERRNO(connect(fd, NAME(remote)), EADDRNOTAVAIL);
    CHECK(close(fd) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    pings(fd, 5);
    await_end(fd);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    struct sockaddr_in local = at(place.client, place.port + LOCAL), remote = at(place.address, place.port);
    int status, one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, NAME(local)) == 0);
    CHECK(connect(fd, NAME(remote)) == 0);
    answers(fd, 1);
    refused(local, remote);
    answers(fd, 2);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        refused(local, remote);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    answers(fd, 2);
    CHECK(close(fd) == 0);
}
