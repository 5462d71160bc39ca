/* A thread waits on an epoll set in which nothing is connected; another thread adds a socket to it, or connects one that is
 * in it: the wait ends with that socket's event, under the word that it was added with. */
#include "wait_before.h"

enum { WAITERS = 3 };

static int waited; /* the set, or what stands for it */
static struct epoll_event seen[WAITERS];

static void *by_epoll_wait(void *seen)
{
    CHECK(epoll_wait(waited, seen, 1, -1) == 1);
    return NULL;
}

static void *by_epoll_pwait(void *seen)
{
    sigset_t none;
    sigemptyset(&none);
    CHECK(epoll_pwait(waited, seen, 1, 15000, &none) == 1);
    return NULL;
}

static void *by_epoll_pwait2(void *seen)
{
    struct timespec longer = {.tv_sec = PATIENCE_MS / 1000, .tv_nsec = 1};
    CHECK(epoll_pwait2(waited, seen, 1, &longer, NULL) == 1);
    return NULL;
}

/* Waits on the set's descriptor, then asks the set. */
static void *by_poll(void *seen)
{
    struct pollfd one = {.fd = waited, .events = POLLIN};
    CHECK(poll(&one, 1, -1) == 1 && one.revents == POLLIN);
    CHECK(epoll_wait(waited, seen, 1, PATIENCE_MS) == 1);
    return NULL;
}

/* The set is in another one, which is waited on. */
static void *by_outer(void *seen)
{
    int outer = epoll_create1(0);
    added(outer, waited, EPOLLIN, 5);
    struct epoll_event event;
    CHECK(epoll_wait(outer, &event, 1, -1) == 1 && event.data.u64 == 5);
    CHECK(epoll_wait(waited, seen, 1, PATIENCE_MS) == 1);
    CHECK(close(outer) == 0);
    return NULL;
}

static void *(*const waits[])(void *) = {by_epoll_wait, by_epoll_pwait, by_epoll_pwait2, by_poll, by_outer};
static const char *const names[] = {"epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "outer"};

static struct place peer;
static struct sockaddr_in to, stream_to;
static int asks;

static int fresh(int kind)
{
    int fd = socket(AF_INET, kind, 0);
    CHECK(fd >= 0);
    return fd;
}

/* Each makes one event, and returns the descriptor that it is of. */
static int adds_udp(void)
{
    int fd = udp_connected(peer.address, peer.port);
    added(waited, fd, EPOLLIN, 77);
    CHECK(send(fd, "x", 1, 0) == 1);
    return fd;
}

static int adds_tcp(void)
{
    int fd = tcp_connected(peer.address, peer.port + 1);
    added(waited, fd, EPOLLIN, 77);
    CHECK(send(fd, "x", 1, 0) == 1);
    return fd;
}

static int dormant;

static int connects(void)
{
    set_nonblocking(dormant);
    CHECK_ERRNO(connect(dormant, NAME(stream_to)), EINPROGRESS);
    return dormant;
}

static int binds_and_connects(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    CHECK(bind(dormant, NAME(any)) == 0 && connect(dormant, NAME(to)) == 0);
    CHECK(send(dormant, "x", 1, 0) == 1);
    return dormant;
}

static int sends(void)
{
    CHECK(sendto(dormant, "x", 1, 0, NAME(to)) == 1);
    return dormant;
}

static int listens(void)
{
    struct sockaddr_in own = at(peer.client, peer.port + 2);
    int one = 1;
    CHECK(setsockopt(dormant, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(dormant, NAME(own)) == 0 && listen(dormant, 4) == 0);
    connect_to(asks, to, peer.port + 2);
    return dormant;
}

static const struct {
    const char *name;
    int (*make)(void);
    int dormant; /* the kind of the socket that is in the set before */
    unsigned events;
} ways[] = {
    {"adds UDP", adds_udp, 0, EPOLLIN},
    {"adds TCP", adds_tcp, 0, EPOLLIN},
    {"connects", connects, SOCK_STREAM, EPOLLOUT},
    {"binds and connects", binds_and_connects, SOCK_DGRAM, EPOLLIN},
    {"sends", sends, SOCK_DGRAM, EPOLLIN},
    {"listens", listens, SOCK_STREAM, EPOLLIN},
};

static void one_waits(unsigned way, unsigned by)
{
    char row[64];
    snprintf(row, sizeof row, "%s, %s", ways[way].name, names[by]);
    struct epoll_event event;
    int idle = eventfd(0, 0);
    waited = epoll_create1(0);
    if (way % 2)
        added(waited, idle, EPOLLIN, 1);
    if (ways[way].dormant) {
        dormant = fresh(ways[way].dormant);
        /* Not connected is told once. */
        added(waited, dormant, ways[way].events | EPOLLET, 77);
        while (epoll_wait(waited, &event, 1, 0) == 1)
            ;
    }
    pthread_t thread = started(waits[by], &seen[0]);
    int fd = ways[way].make();
    ended(thread, row, 0);
    if (seen[0].data.u64 != 77 || !(seen[0].events & ways[way].events))
        fprintf(stderr, "%s: event %x of %llu\n", row, seen[0].events, (unsigned long long)seen[0].data.u64);
    CHECK(seen[0].data.u64 == 77 && seen[0].events & ways[way].events);
    if (ways[way].make == listens) {
        /* The server's connect must not be reset before it returns. */
        int accepted = accept(fd, NULL, NULL);
        CHECK(accepted >= 0 && close(accepted) == 0);
    }
    CHECK(close(fd) == 0 && close(idle) == 0 && close(waited) == 0);
}

/* What stays ready wakes one after the other. */
static void several_wait(void)
{
    pthread_t threads[WAITERS];
    waited = epoll_create1(0);
    for (int i = 0; i < WAITERS; i++)
        threads[i] = started(by_epoll_wait, &seen[i]);
    int fd = adds_udp();
    for (int i = 0; i < WAITERS; i++) {
        ended(threads[i], "several", i);
        CHECK(seen[i].data.u64 == 77 && seen[i].events == EPOLLIN);
    }
    CHECK(close(fd) == 0 && close(waited) == 0);
}

void client(struct place place)
{
    peer = place;
    to = at(place.address, place.port);
    stream_to = at(place.address, place.port + 1);
    asks = fresh(SOCK_DGRAM);
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++)
        for (unsigned by = 0; by < sizeof waits / sizeof *waits; by++)
            one_waits(way, by);
    several_wait();
    end_server(asks, to);
}

void server(struct place place)
{
    serve(place);
}
