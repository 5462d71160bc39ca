/* IPsec policies hold: nothing that one selects leaves in the clear or comes in unprotected, neither on connections that
 * stood when the policy came, nor on new ones; and all goes on once it is gone. */
#include "api.h"

enum { PINGS = 50, QUIET_MS = 300 };

static void policy(const char *what, const char *from, const char *to, const char *rest)
{
    char line[300];
    snprintf(line, sizeof line, "LD_PRELOAD= ip xfrm policy %s src %s/32 dst %s/32 %s", what, from, to, rest);
    CHECK(system(line) == 0);
}

/* A test that fails leaves none behind. */
static void no_policies(void)
{
    CHECK(system("LD_PRELOAD= ip xfrm policy flush") == 0);
}

/* A byte goes, and comes back or not. */
static int answered(int fd)
{
    CHECK(send(fd, "!", 1, MSG_NOSIGNAL) == 1);
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, QUIET_MS) == 1;
}

void server(struct place place)
{
    const char *guard = "dir in tmpl proto ah mode transport level required";
    int listener = tcp_listening(place.address, place.port), guarded = tcp_listening(place.address, place.port + 1);
    atexit(no_policies);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    char byte;
    while (recv(fd, &byte, 1, 0) == 1 && byte == '!')
        CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == 1);

    /* The listener hears nobody until the policy is gone. Other ports than this one are not in it, so that the roles can talk. */
    char selector[80];
    snprintf(selector, sizeof selector, "proto tcp dport %d %s", place.port + 1, guard);
    policy("add", place.client, place.address, selector);
    tell(fd);
    await(fd);
    snprintf(selector, sizeof selector, "proto tcp dport %d dir in", place.port + 1);
    policy("delete", place.client, place.address, selector);
    int other = accept(guarded, NULL, NULL);
    CHECK(other >= 0);
    tell(other);
    await_end(other);
}

void client(struct place place)
{
    atexit(no_policies);
    int fd = tcp_connected(place.address, place.port);
    pings(fd, PINGS);
    policy("add", place.client, place.address, "dir out action block");
    for (long long began = now_ms(); answered(fd);) {
        CHECK(now_ms() - began < PATIENCE_MS);
        await(fd);
    }
    int other = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = at(place.address, place.port + 1);
    CHECK(other >= 0);
    CHECK_ERRNO(connect(other, NAME(name)), EPERM);
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(datagrams >= 0);
    CHECK_ERRNO(sendto(datagrams, "x", 1, 0, NAME(name)), EPERM);
    policy("delete", place.client, place.address, "dir out");
    await(fd);

    CHECK(send(fd, "?", 1, MSG_NOSIGNAL) == 1);
    await(fd);
    CHECK(close(other) == 0);
    long long began = now_ms();
    int got;
    do {
        other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK(other >= 0);
        CHECK_ERRNO(connect(other, NAME(name)), EINPROGRESS);
        struct pollfd one = {.fd = other, .events = POLLOUT};
        got = poll(&one, 1, QUIET_MS);
        if (got)
            CHECK(close(other) == 0);
    } while (got && now_ms() - began < PATIENCE_MS);
    CHECK(!got);
    tell(fd);
    CHECK(polled(other, POLLOUT) == POLLOUT);
    CHECK(polled(other, POLLIN) == POLLIN);
    await(other);
}
