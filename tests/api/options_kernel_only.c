/* Options that guard a socket hold, on listeners and on connections that stand: IP_MINTTL drops what came over a router
 * (RFC 5082), TCP_MD5SIG_EXT whoever does not sign (RFC 2385). A thread that waits on the connection meanwhile is served. */
#include "api.h"
#include <pthread.h>

enum { PINGS = 30, NEAR = 255, QUIET_MS = 300 };

static void only_near(int fd)
{
    int near = NEAR;
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MINTTL, &near, sizeof near) == 0);
    CHECK(option(fd, IPPROTO_IP, IP_MINTTL) == NEAR);
}

static void send_near(int fd)
{
    int near = NEAR;
    CHECK(setsockopt(fd, IPPROTO_IP, IP_TTL, &near, sizeof near) == 0);
}

/* A listener that signs with everybody. */
static void sign(int fd)
{
    struct tcp_md5sig key = {.tcpm_flags = TCP_MD5SIG_FLAG_PREFIX, .tcpm_prefixlen = 0, .tcpm_keylen = 4};
    struct sockaddr_in any = {.sin_family = AF_INET};
    memcpy(&key.tcpm_addr, &any, sizeof any);
    memcpy(key.tcpm_key, "word", 4);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG_EXT, &key, sizeof key) == 0);
}

static void *waits(void *fd)
{
    await(*(int *)fd);
    return NULL;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    int guarded = tcp_listening(place.address, place.port + 1), signing = tcp_listening(place.address, place.port + 2);
    only_near(guarded);
    sign(signing);
    ready();

    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, PINGS);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, &fd) == 0);
    usleep(50000);
    only_near(fd);
    tell(fd);
    CHECK(pthread_join(thread, NULL) == 0);

    int other = accept(guarded, NULL, NULL);
    CHECK(other >= 0);
    tell(other);
    await(fd);
}

static int begun(const char *address, int port)
{
    struct sockaddr_in name = at(address, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    CHECK_ERRNO(connect(fd, NAME(name)), EINPROGRESS);
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    CHECK(poll(&one, 1, QUIET_MS) == 0);
    return fd;
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    pings(fd, PINGS);
    await(fd);
    /* From far: not heard until it comes from near. */
    tell(fd);
    struct pollfd one = {.fd = fd, .events = POLLIN};
    CHECK(poll(&one, 1, QUIET_MS) == 0);
    send_near(fd);

    CHECK(close(begun(place.address, place.port + 2)) == 0);
    int other = begun(place.address, place.port + 1);
    send_near(other);
    CHECK(polled(other, POLLOUT) == POLLOUT);
    CHECK(fcntl(other, F_SETFL, 0) == 0);
    await(other);
    tell(fd);
}
