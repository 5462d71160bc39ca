/* A process forks while its peer has bytes to read. The peer shuts down its side before it reads them: the end arrives. */
#include "api.h"

#define ROUNDS 20

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    char words[5];
    ready();
    int fd = accept(listener, NULL, NULL), control = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && control >= 0);
    answers(fd, ROUNDS);
    await(control); /* it has sent, and forked */
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await(control); /* it has seen the end */
    recv_all(fd, words, sizeof words);
    CHECK(memcmp(words, "words", sizeof words) == 0);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), control = tcp_connected(place.address, place.port), status;
    pings(fd, ROUNDS);
    send_all(fd, "words", 5);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    tell(control);
    await_end(fd);
    tell(control);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(control);
}
