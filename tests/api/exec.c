/* exec(2) by way of a shell: sockets that listen, are bound, or have nothing yet go on in the new program; connections that
 * are close-on-exec end in order, with what was sent. */
#include "api.h"

#define ROUNDS 20

static int number(const char *name)
{
    const char *word = getenv(name);
    CHECK(word != NULL);
    return atoi(word);
}

static void remember(const char *name, int fd)
{
    char word[16];
    snprintf(word, sizeof word, "%d", fd);
    CHECK(setenv(name, word, 1) == 0);
}

/* The new program, with the descriptors of the old one. */
static void afterwards(struct place place)
{
    int listener = number("LISTENER"), udp = number("UDP"), idle = number("IDLE");
    struct sockaddr_in name = at(place.address, place.port + 2);
    char byte;
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    await(fd);
    CHECK(recv(udp, &byte, 1, 0) == 1);
    int one = 1;
    CHECK(setsockopt(idle, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(idle, NAME(name)) == 0 && listen(idle, 1) == 0);
    int fresh = tcp_listening(place.address, place.port + 3);
    tell(fd);
    int other = accept(idle, NULL, NULL);
    CHECK(other >= 0);
    tell(other);
    await_end(other);
    /* And what it makes itself is as any. */
    int ours = accept(fresh, NULL, NULL);
    CHECK(ours >= 0);
    answers(ours, ROUNDS);
    await_end(ours);
}

void server(struct place place)
{
    if (getenv("LISTENER") != NULL)
        return afterwards(place);
    char program[256] = {0}, port[16];
    snprintf(port, sizeof port, "%d", place.port);
    int listener = tcp_listening(place.address, place.port);
    remember("LISTENER", listener);
    remember("UDP", udp_bound(place.address, place.port + 1));
    remember("IDLE", socket(AF_INET, SOCK_STREAM, 0));
    CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    ready();
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(fd >= 0);
    await(fd);
    /* Not there: nothing happens to the connection. */
    char *none[] = {"/no/such/program", NULL};
    CHECK_ERRNO(execv(none[0], none), ENOENT);
    CHECK_ERRNO(execvp("no-such-program", none), ENOENT);
    CHECK_ERRNO(execl(none[0], "x", NULL), ENOENT);
    CHECK_ERRNO(execlp("no-such-program", "x", NULL), ENOENT);
    CHECK_ERRNO(execle(none[0], "x", NULL, none + 1), ENOENT);
    for (int i = 0; i < ROUNDS; i++)
        tell(fd);
    execlp("sh", "sh", "-c", "exec \"$0\" \"$@\"", program, "server", place.address, port, place.client, NULL);
    CHECK(!"exec");
}

void client(struct place place)
{
    struct sockaddr_in name = at(place.address, place.port + 1);
    int fd = tcp_connected(place.address, place.port), udp = socket(AF_INET, SOCK_DGRAM, 0);
    tell(fd);
    for (int i = 0; i < ROUNDS; i++)
        await(fd);
    await_end(fd);
    close(fd);
    fd = tcp_connected(place.address, place.port);
    CHECK(sendto(udp, "x", 1, 0, NAME(name)) == 1);
    tell(fd);
    await(fd);
    int other = tcp_connected(place.address, place.port + 2);
    await(other);
    close(other);
    int fresh = tcp_connected(place.address, place.port + 3);
    pings(fresh, ROUNDS);
}
