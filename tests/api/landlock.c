/* Landlock's rules for TCP ports hold, for a program that sets them itself and for one that begins under them: a connect that
 * they deny fails, and one that they allow succeeds though no port may be bound. */
#include "api.h"
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { PINGS = 300 };

#ifndef LANDLOCK_RULE_NET_PORT
struct landlock_net_port_attr {
    __u64 allowed_access, port;
};
#define LANDLOCK_RULE_NET_PORT 2
#define LANDLOCK_ACCESS_NET_BIND_TCP 1ULL
#define LANDLOCK_ACCESS_NET_CONNECT_TCP 2ULL
#endif

/* Connections to this port only. */
static void only(int port)
{
    __u64 handled[2] = {0, LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP};
    struct landlock_net_port_attr rule = {.allowed_access = LANDLOCK_ACCESS_NET_CONNECT_TCP, .port = (__u64)port};
    int rules = (int)syscall(SYS_landlock_create_ruleset, handled, sizeof handled, 0);
    CHECK(rules >= 0);
    CHECK(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_NET_PORT, &rule, 0) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_landlock_restrict_self, rules, 0) == 0);
    CHECK(close(rules) == 0);
}

static void exchange(int fd)
{
    for (int i = 0; i < PINGS; i++) {
        tell(fd);
        await(fd);
    }
}

static void try_both(struct place place)
{
    int denied = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = at(place.address, place.port);
    CHECK(denied >= 0);
    CHECK_ERRNO(connect(denied, NAME(name)), EACCES);
    int allowed = tcp_connected(place.address, place.port + 1);
    tell(allowed);
    await(allowed);
    CHECK(close(allowed) == 0);
    struct sockaddr_in any = at("0.0.0.0", place.port + 3);
    CHECK_ERRNO(bind(denied, NAME(any)), EACCES);
    CHECK(close(denied) == 0);
}

static void echo(int fd)
{
    char byte;
    CHECK(fd >= 0);
    while (recv(fd, &byte, 1, 0) == 1)
        CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
    CHECK(close(fd) == 0);
}

void server(struct place place)
{
    int first = tcp_listening(place.address, place.port), second = tcp_listening(place.address, place.port + 1);
    ready();
    int fd = accept(first, NULL, NULL);
    CHECK(fd >= 0);
    for (int i = 0; i < PINGS; i++) {
        await(fd);
        tell(fd);
    }
    /* Of the program itself, and of one under its rules. */
    echo(accept(second, NULL, NULL));
    echo(fd);
    echo(accept(second, NULL, NULL));
}

void client(struct place place)
{
    if (getenv("BEGINS_CONFINED") != NULL)
        return try_both(place);
    int fd = tcp_connected(place.address, place.port);
    exchange(fd);
    only(place.port + 1);
    try_both(place);

    exchange(fd);
    CHECK(close(fd) == 0);
    char port[16];
    snprintf(port, sizeof port, "%d", place.port);
    CHECK(setenv("BEGINS_CONFINED", "1", 1) == 0);
    execl("/proc/self/exe", "landlock", "client", place.address, port, place.client, (char *)NULL);
    CHECK(0);
}
