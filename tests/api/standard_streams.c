/* A connection that becomes descriptor 0 or 1 of its own program: stdio reads and writes it, beside the number that it had.
 * The same for a UDP socket, for one that connects only afterwards, and for fd 0 from dup. */
#include "api.h"

#define ROUNDS 30

void server(struct place place)
{
    char line[32];
    int listener = tcp_listening(place.address, place.port), datagrams = udp_bound(place.address, place.port + 1);
    ready();
    int first = accept(listener, NULL, NULL), second = accept(listener, NULL, NULL);
    CHECK(first >= 0 && second >= 0);
    answers(first, ROUNDS);
    answers(second, ROUNDS);
    CHECK(dup2(first, 0) == 0);
    CHECK(dup2(first, 1) == 1);
    tell(first);
    CHECK(fgets(line, sizeof line, stdin) != NULL && strcmp(line, "a line\n") == 0);
    CHECK(printf("an answer\n") == 10 && fflush(stdout) == 0);
    await(first);
    CHECK(close(0) == 0 && close(1) == 0);
    tell(first);
    CHECK(close(first) == 0);
    CHECK(dup(second) == 0);
    CHECK(close(second) == 0);
    clearerr(stdin);
    CHECK(fgets(line, sizeof line, stdin) != NULL && strcmp(line, "once more\n") == 0);
    CHECK(dup2(datagrams, 1) == 1);
    tell(0);
    CHECK(recv(datagrams, line, sizeof line, 0) == 1);
    CHECK(close(0) == 0);
}

void client(struct place place)
{
    char line[32];
    int first = tcp_connected(place.address, place.port), second = tcp_connected(place.address, place.port);
    pings(first, ROUNDS);
    pings(second, ROUNDS);
    await(first);
    send_all(first, "a line\n", 7);
    recv_all(first, line, 10);
    CHECK(memcmp(line, "an answer\n", 10) == 0);
    tell(first);
    await(first);
    await_end(first);
    send_all(second, "once more\n", 10);
    await(second);
    /* Connected when it is standard output already. */
    struct sockaddr_in to = at(place.address, place.port + 1);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0 && dup2(fd, 1) == 1);
    CHECK(connect(fd, NAME(to)) == 0);
    CHECK(putchar('x') == 'x' && fflush(stdout) == 0);
    await_end(second);
}
