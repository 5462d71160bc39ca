/* The echo program over plain sockets, for libraries that say when a descriptor is readable. A library gives `start_loop`,
 * which runs a loop in a thread of its own, `watch`, which any thread may call, and `unwatch`, called by the loop's. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include "loops.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>

struct watched {
    int fd;
    void (*ready)(struct watched *);
    void *library; /* its own */
};

static void start_loop(void);
static void watch(struct watched *);
static void unwatch(struct watched *);

static struct watched *watched(int fd, void (*ready)(struct watched *))
{
    struct watched *one = calloc(1, sizeof *one);
    CHECK(one && fd >= 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
    one->fd = fd;
    one->ready = ready;
    return one;
}

/* The server. */

static void echo_stream(struct watched *one)
{
    char bytes[4096];
    ssize_t size = recv(one->fd, bytes, sizeof bytes, 0);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size > 0 && send(one->fd, bytes, (size_t)size, MSG_NOSIGNAL) == size)
        return;
    unwatch(one);
    close(one->fd);
    free(one);
}

static void accept_one(struct watched *one)
{
    int fd = accept(one->fd, NULL, NULL), on = 1;
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(watched(fd, echo_stream));
}

static void echo_datagram(struct watched *one)
{
    char bytes[4096];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    ssize_t size = recvfrom(one->fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length);
    if (size >= 0)
        sendto(one->fd, bytes, (size_t)size, 0, (struct sockaddr *)&from, length);
}

static void serve(struct sockaddr_in name)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), datagrams = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    /* In the loop before it is bound. */
    watch(watched(datagrams, echo_datagram));
    usleep(20000);
    CHECK(bind(datagrams, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(bind(listener, (struct sockaddr *)&name, sizeof name) == 0 && listen(listener, 64) == 0);
    watch(watched(listener, accept_one));
    pause();
}

/* The client. */

struct flow {
    struct watched watched;
    struct sockaddr_in to;
    int is_stream;
    unsigned number, got;
    atomic_uint round;
    char answer[SIZE];
};

static void ask(struct flow *flow)
{
    char message[SIZE];
    fill(message, flow->number, flow->round);
    if (flow->is_stream)
        CHECK(send(flow->watched.fd, message, SIZE, MSG_NOSIGNAL) == SIZE);
    else
        CHECK(sendto(flow->watched.fd, message, SIZE, 0, (struct sockaddr *)&flow->to, sizeof flow->to) == SIZE);
}

static void answered(struct watched *one)
{
    struct flow *flow = (struct flow *)one;
    ssize_t size = recv(one->fd, flow->answer + flow->got, SIZE - flow->got, 0);
    if (size < 0 && errno == EAGAIN)
        return;
    CHECK(size > 0);
    flow->got += (unsigned)size;
    if (flow->got < SIZE)
        return;
    flow->got = 0;
    if (is_answer(flow->answer, flow->number, flow->round)) {
        flow->round++;
        ask(flow);
    } else {
        /* Of a datagram that was sent again. */
        CHECK(!flow->is_stream);
    }
}

static int ask_all(struct sockaddr_in to, unsigned seconds)
{
    static struct flow flows[2 * FLOWS];
    unsigned rounds[2 * FLOWS] = {0}, before[2 * FLOWS];
    for (unsigned number = 0; number < 2 * FLOWS; number++) {
        struct flow *flow = &flows[number];
        int on = 1, is_stream = number < FLOWS;
        int fd = socket(AF_INET, is_stream ? SOCK_STREAM : SOCK_DGRAM, 0);
        *flow = (struct flow){.to = to, .is_stream = is_stream, .number = number};
        if (is_stream) {
            CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
            CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
        }
        CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
        flow->watched = (struct watched){.fd = fd, .ready = answered};
        watch(&flow->watched);
        usleep(20000);
        /* A datagram socket gets its port here, in a thread that the loop's does not know. */
        ask(flow);
    }
    int is_late = 1;
    for (unsigned second = 0; second < seconds || (is_late && second < seconds + PATIENCE); second++) {
        memcpy(before, rounds, sizeof before);
        sleep(1);
        is_late = 0;
        for (unsigned number = 0; number < 2 * FLOWS; number++) {
            rounds[number] = flows[number].round;
            is_late |= rounds[number] == 0;
            if (!flows[number].is_stream && rounds[number] == before[number])
                ask(&flows[number]);
        }
    }
    return report(rounds, 2 * FLOWS, seconds);
}

int main(int count, char **words)
{
    CHECK(count >= 4);
    struct sockaddr_in name = named(words[2], words[3]);
    start_loop();
    usleep(50000);
    if (strcmp(words[1], "server") == 0)
        serve(name);
    return ask_all(name, (unsigned)atoi(words[4]));
}

#endif
