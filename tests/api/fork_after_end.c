/* What was sent to a peer that has closed has ended the connection, and so it stays when the process forks. */
#include "api.h"

#define ROUNDS 20

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    answers(fd, ROUNDS);
    CHECK(close(fd) == 0);
}

static int peer_name(int fd)
{
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    return getpeername(fd, (struct sockaddr *)&name, &length);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), status;
    pings(fd, ROUNDS);
    await_end(fd);
    CHECK(peer_name(fd) == 0);
    CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == 1);
    EVENTUALLY(peer_name(fd) == -1);
    CHECK_ERRNO(peer_name(fd), ENOTCONN);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_ERRNO(peer_name(fd), ENOTCONN);
    CHECK_ERRNO(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
}
