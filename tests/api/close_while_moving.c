/* One thread sends by a descriptor, byte by byte, so that its connection may change its carrier at any of them; another one
 * closes it after a moment, and has a new one made, mostly under the same number. The peer hears the end of the first, and the
 * second works. So it is with datagrams, where the second socket has the port of the first. */
#include "api.h"
#include <pthread.h>

enum { ROUNDS = 400, LONGEST_US = 300, LAST = 'n' };

static int number;
static volatile int is_closed;
static struct sockaddr_in peer;

static void *sends(void *unused)
{
    (void)unused;
    /* What comes after the close may reach the next connection, and is not its last byte. */
    while (!is_closed)
        (void)!send(number, "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return NULL;
}

static void *receives(void *unused)
{
    char byte;
    (void)unused;
    while (!is_closed)
        (void)!recv(number, &byte, 1, MSG_DONTWAIT);
    return NULL;
}

/* Closes the descriptor while another thread calls by it. */
static void closes(void *(*calls)(void *))
{
    pthread_t thread;
    is_closed = 0;
    CHECK(pthread_create(&thread, NULL, calls, NULL) == 0);
    for (long long end = rand() % LONGEST_US, spent = 0; spent < end; spent += 10)
        usleep(10);
    CHECK(close(number) == 0);
    is_closed = 1;
    CHECK(pthread_join(thread, NULL) == 0);
}

static int accepted(int listener)
{
    struct timeval limit = {.tv_sec = PATIENCE_MS / 2000};
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    return fd;
}

void server(struct place place)
{
    char byte;
    ssize_t count;
    int listener = tcp_listening(place.address, place.port), talk = udp_bound(place.address, place.port + 1);
    ready();
    for (int round = 0; round < ROUNDS; round++) {
        int first = accepted(listener);
        while ((count = recv(first, &byte, 1, 0)) == 1)
            CHECK(byte == 'a');
        CHECK(count == 0 || errno == ECONNRESET);
        CHECK(close(first) == 0);
        int second = accepted(listener);
        do
            CHECK(recv(second, &byte, 1, 0) == 1);
        while (byte != LAST);
        CHECK(send(second, &byte, 1, 0) == 1);
        await_end(second);
        CHECK(close(second) == 0);
    }
    int control = accepted(listener);
    struct pollfd both[2] = {{.fd = talk, .events = POLLIN}, {.fd = control, .events = POLLIN}};
    while (poll(both, 2, PATIENCE_MS) > 0 && both[1].revents == 0) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        CHECK(recvfrom(talk, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
        if (byte == LAST)
            CHECK(sendto(talk, &byte, 1, 0, (struct sockaddr *)&from, length) == 1);
    }
    await_end(control);
}

static void streams(void)
{
    char byte = LAST;
    for (int round = 0; round < ROUNDS; round++) {
        number = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(number >= 0 && connect(number, NAME(peer)) == 0);
        closes(sends);
        int next = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(next >= 0 && connect(next, NAME(peer)) == 0);
        send_all(next, &byte, 1);
        recv_all(next, &byte, 1);
        CHECK(byte == LAST && close(next) == 0);
    }
}

/* Asks until it is answered. */
static void asks(int fd)
{
    char byte = LAST;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    do
        CHECK(send(fd, &byte, 1, 0) == 1);
    while (poll(&one, 1, 200) == 0);
    CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == 1 && byte == LAST);
}

static void datagrams(struct place place)
{
    int control = tcp_connected(place.address, place.port);
    peer.sin_port = htons((unsigned short)(place.port + 1));
    for (int round = 0; round < ROUNDS; round++) {
        number = udp_bound(place.client, place.port + 2);
        CHECK(connect(number, NAME(peer)) == 0);
        closes(round % 2 ? sends : receives);
        int next = udp_bound(place.client, place.port + 2);
        CHECK(connect(next, NAME(peer)) == 0);
        asks(next);
        asks(next);
        CHECK(close(next) == 0);
    }
    CHECK(close(control) == 0);
}

void client(struct place place)
{
    peer = at(place.address, place.port);
    srand(7);
    streams();
    datagrams(place);
}
