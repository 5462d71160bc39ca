/* The serving half: one thread, epoll, non-blocking sockets; TCP streams of known content, and an echo of datagrams. */
#include "soak.h"
#include <sys/epoll.h>

/* Connections at one time; others wait in the backlog. */
#define CONNECTIONS 256
/* A connection that makes no progress for so long is reset: its client was killed or has abandoned it. */
#define PATIENCE_MS 4000

struct connection {
    int fd; /* 0: free */
    int ended;
    struct header header;
    uint64_t heard, received, sent, moved_ms;
};

static struct connection connections[CONNECTIONS];

static void finish(struct connection *c, int well)
{
    if (well)
        close(c->fd);
    else
        reset(c->fd);
    atomic_fetch_add(&totals.served, (unsigned long)well);
    memset(c, 0, sizeof *c);
}

/* -1: over; 0: no more for now; 1: go on. */
static int take(struct connection *c)
{
    static unsigned char bytes[64 * 1024];
    int in_header = c->heard < sizeof c->header;
    unsigned char *to = in_header ? (unsigned char *)&c->header + c->heard : bytes;
    size_t room = in_header ? sizeof c->header - c->heard : sizeof bytes;
    ssize_t count = recv(c->fd, to, room, 0);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    c->moved_ms = now_ms();
    if (count == 0) {
        c->ended = 1;
        return in_header || c->received != c->header.up ? -1 : 0;
    }
    if (in_header) {
        c->heard += (uint64_t)count;
        return 1;
    }
    long at = differs(c->header.seed, c->received, bytes, (size_t)count);
    if (at >= 0 || c->received + (uint64_t)count > c->header.up)
        wrong("byte at the server", c->header.seed, c->received + (uint64_t)(at < 0 ? 0 : at));
    c->received += (uint64_t)count;
    return 1;
}

/* As `take`. The verdict is one byte after the stream, and waits for the client's end. */
static int give(struct connection *c)
{
    unsigned char bytes[32 * 1024];
    if (c->heard < sizeof c->header)
        return 0;
    uint64_t left = c->header.down - c->sent;
    if (c->sent > c->header.down || (left == 0 && !c->ended))
        return 0;
    size_t count = left < sizeof bytes ? (size_t)left : sizeof bytes;
    fill(~c->header.seed, c->sent, bytes, count);
    if (left == 0)
        bytes[count++] = VERDICT;
    ssize_t done = send(c->fd, bytes, count, MSG_NOSIGNAL);
    if (done < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    c->sent += (uint64_t)done;
    c->moved_ms = now_ms();
    return 1;
}

static void move(struct connection *c)
{
    int more = 1;
    while (more == 1 && !c->ended)
        more = take(c);
    if (more >= 0)
        for (more = 1; more == 1;)
            more = give(c);
    if (more < 0)
        finish(c, 0);
    else if (c->ended && c->sent > c->header.down)
        finish(c, 1);
}

static void take_in(int listener, int set)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct connection *c = connections;
        while (c < connections + CONNECTIONS && c->fd)
            c++;
        if (c == connections + CONNECTIONS) {
            reset(fd);
            continue;
        }
        memset(c, 0, sizeof *c);
        c->fd = fd;
        c->moved_ms = now_ms();
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
        if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0)
            wrong("epoll_ctl", 0, 0);
    }
}

static void echo(int fd)
{
    unsigned char bytes[9000];
    struct sockaddr_in from;
    for (;;) {
        socklen_t length = sizeof from;
        ssize_t count = recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        if (count < 0)
            return;
        sendto(fd, bytes, (size_t)count, MSG_DONTWAIT, (struct sockaddr *)&from, length);
    }
}

void serve(struct sockaddr_in *address)
{
    int one = 1, set = epoll_create1(0);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    while (bind(listener, (struct sockaddr *)address, sizeof *address) != 0)
        usleep(10000); /* the address is away for a moment */
    while (bind(datagrams, (struct sockaddr *)address, sizeof *address) != 0)
        usleep(10000);
    if (listen(listener, 64) != 0)
        wrong("listen", 0, 0);
    struct epoll_event tcp = {.events = EPOLLIN, .data.ptr = &listener}, udp = {.events = EPOLLIN, .data.ptr = &datagrams};
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &tcp);
    epoll_ctl(set, EPOLL_CTL_ADD, datagrams, &udp);
    dprintf(1, "ready\n");
    for (;;) {
        struct epoll_event events[32];
        int count = epoll_wait(set, events, 32, 500);
        for (int i = 0; i < count; i++) {
            void *what = events[i].data.ptr;
            if (what == &listener)
                take_in(listener, set);
            else if (what == &datagrams)
                echo(datagrams);
            else if (((struct connection *)what)->fd)
                move(what);
        }
        uint64_t now = now_ms();
        for (struct connection *c = connections; c < connections + CONNECTIONS; c++)
            if (c->fd && now - c->moved_ms > PATIENCE_MS)
                finish(c, 0);
    }
}
