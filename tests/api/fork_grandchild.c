/* A connection and a UDP socket that only a grandchild uses, whose parent has sockets of its own. */
#include "api.h"

enum { OWN = 1, DATAGRAMS };

/* What the grandchild does. */
static int serves(int fd, int datagrams)
{
    int number;
    alarm(PATIENCE_MS / 1000);
    await(fd);
    tell(fd);
    for (int wanted = 0; wanted < 3; wanted++)
        CHECK(recv(datagrams, &number, sizeof number, 0) == sizeof number && number == wanted);
    tell(fd);
    await_end(fd);
    return 0;
}

/* The child makes sockets of its own before it forks. */
static int between(struct place place, int fd, int datagrams, int go)
{
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    char byte;
    int status, own = udp_bound(place.address, place.port + OWN);
    CHECK(recvfrom(own, &byte, 1, 0, (struct sockaddr *)&peer, &length) == 1);
    CHECK(sendto(own, &byte, 1, 0, NAME(peer)) == 1);
    pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0)
        exit(serves(fd, datagrams));
    CHECK(write(go, "!", 1) == 1);
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    return 0;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), datagrams = udp_bound(place.address, place.port + DATAGRAMS);
    int go[2], status;
    char byte;
    CHECK(pipe(go) == 0);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    pings(fd, 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(listener);
        exit(between(place, fd, datagrams, go[1]));
    }
    tell(fd);
    CHECK(read(go[0], &byte, 1) == 1);
    CHECK(close(fd) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    int own = udp_connected(place.address, place.port + OWN), datagrams = udp_connected(place.address, place.port + DATAGRAMS);
    answers(fd, 1);
    await(fd);
    /* Until somebody has that port, the peer says that nobody does. */
    char byte;
    EVENTUALLY(send(own, "!", 1, 0) == 1 && recv(own, &byte, 1, MSG_DONTWAIT) == 1);
    tell(fd);
    await(fd);
    for (int number = 0; number < 3; number++)
        CHECK(send(datagrams, &number, sizeof number, 0) == sizeof number);
    await(fd);
    CHECK(close(fd) == 0);
}
