/* A UDP socket whose datagrams the child of a fork receives: those that came before the fork, between it and the first
 * receive, and afterwards, all in order; whether the parent waits, closes its descriptor, or ends. */
#include "api.h"

/* At a time. */
#define COUNT 20

enum { KEPT = 1, CLOSED, POLLED, ENDS, PORTS };

/* The next ones, from this number on. */
static void hears(int fd, int number, int is_polled)
{
    for (int end = number + COUNT; number < end; number++) {
        int got = -1;
        if (is_polled)
            CHECK(polled(fd, POLLIN) == POLLIN);
        CHECK(recv(fd, &got, sizeof got, is_polled ? MSG_DONTWAIT : 0) == sizeof got);
        CHECK(got == number);
    }
}

static void says(const int fds[], int ports, int number)
{
    for (int end = number + COUNT; number < end; number++)
        for (int port = KEPT; port < ports; port++)
            CHECK(send(fds[port], &number, sizeof number, 0) == sizeof number);
}

/* The bytes by which the processes of the server keep in step. */
static void pass(int fd)
{
    CHECK(write(fd, "!", 1) == 1);
}

static void wait_for(int fd)
{
    char byte;
    CHECK(read(fd, &byte, 1) == 1);
}

/* What the child does that receives. */
static int receives(int fd, int is_polled, int go, int done)
{
    alarm(PATIENCE_MS / 1000);
    wait_for(go);
    hears(fd, 0, is_polled);
    hears(fd, COUNT, is_polled);
    pass(done);
    hears(fd, 2 * COUNT, is_polled);
    pass(done);
    return 0;
}

/* A parent that ends as soon as all that is to come meanwhile is there. */
static void ends(struct place place, int go, int child_goes, int done)
{
    int fd = udp_bound(place.address, place.port + ENDS);
    pass(done);
    wait_for(go);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        exit(receives(fd, 0, child_goes, done));
    pass(done);
    wait_for(go);
    exit(0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), fds[PORTS], go[PORTS][2], done[PORTS][2], end[2], status;
    pid_t children[PORTS];
    CHECK(pipe(end) == 0);
    for (int port = KEPT; port < PORTS; port++)
        CHECK(pipe(go[port]) == 0 && pipe(done[port]) == 0);
    children[ENDS] = fork();
    CHECK(children[ENDS] >= 0);
    if (children[ENDS] == 0) {
        close(listener);
        ends(place, end[0], go[ENDS][0], done[ENDS][1]);
    }
    wait_for(done[ENDS][0]);
    for (int port = KEPT; port < ENDS; port++)
        fds[port] = udp_bound(place.address, place.port + port);
    ready();
    int control = accept(listener, NULL, NULL);
    CHECK(control >= 0);
    await(control); /* the first are there */
    for (int port = KEPT; port < ENDS; port++) {
        children[port] = fork();
        CHECK(children[port] >= 0);
        if (children[port] == 0) {
            close(control);
            exit(receives(fds[port], port == POLLED, go[port][0], done[port][1]));
        }
    }
    pass(end[1]);
    wait_for(done[ENDS][0]);
    tell(control);
    await(control); /* and those that come meanwhile */
    CHECK(close(fds[CLOSED]) == 0);
    pass(end[1]);
    CHECK(waitpid(children[ENDS], &status, 0) == children[ENDS] && status == 0);
    for (int port = KEPT; port < PORTS; port++) {
        pass(go[port][1]);
        wait_for(done[port][0]);
    }
    tell(control);
    for (int port = KEPT; port < PORTS; port++)
        wait_for(done[port][0]);
    for (int port = KEPT; port < ENDS; port++)
        CHECK(waitpid(children[port], &status, 0) == children[port] && status == 0);
    tell(control);
    hears(fds[KEPT], 3 * COUNT, 0); /* it is the parent's as ever */
    tell(control);
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port), fds[PORTS];
    for (int port = KEPT; port < PORTS; port++)
        fds[port] = udp_connected(place.address, place.port + port);
    for (int number = 0; number < 4 * COUNT; number += COUNT) {
        says(fds, number < 3 * COUNT ? PORTS : KEPT + 1, number);
        if (number < 2 * COUNT)
            tell(control);
        await(control);
    }
}
