/* A child of a fork makes a datagram socket its standard input, which leaves it to the kernel there. The parent goes on
   using the socket, and the child hears what the parent leaves, however much that was. */
#include "api.h"

enum { ROUNDS = 8000 };

static void child(int fd, int done)
{
    char byte;
    CHECK(dup2(fd, 0) == 0);
    CHECK(write(done, "x", 1) == 1);
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    struct pollfd one = {.fd = 0, .events = POLLIN};
    do {
        CHECK(poll(&one, 1, PATIENCE_MS) == 1);
    } while (recvfrom(0, &byte, 1, MSG_DONTWAIT | MSG_PEEK, (struct sockaddr *)&from, &len) != 1 || byte != 'c');
    CHECK(recvfrom(0, &byte, 1, 0, (struct sockaddr *)&from, &len) == 1);
    CHECK(sendto(0, "d", 1, 0, (struct sockaddr *)&from, len) == 1);
    _exit(0);
}

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port), pipes[2], status;
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    char byte;
    CHECK(pipe(pipes) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        child(fd, pipes[1]);
    CHECK(read(pipes[0], &byte, 1) == 1);
    ready();
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &len) == 1);
        CHECK(byte == 'p');
        CHECK(sendto(fd, "p", 1, 0, (struct sockaddr *)&from, len) == 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    char byte;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(send(fd, "p", 1, 0) == 1);
        CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'p');
    }
    CHECK(send(fd, "c", 1, 0) == 1);
    CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'd');
}
