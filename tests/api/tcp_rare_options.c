/* TCP_SYNCNT, TCP_LINGER2, TCP_WINDOW_CLAMP and TCP_NOTSENT_LOWAT do what tcp(7) says. */
#include "api.h"

enum { CLAMP = 5000, BUFFER = 1 << 20, LOW_WATER = 16384, PACKET = 65536 };

static void set(int fd, int level, int name, int value)
{
    CHECK(setsockopt(fd, level, name, &value, sizeof value) == 0);
}

static int made(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    return fd;
}

/* The window that the peer was told. */
static unsigned told_window(int fd)
{
    unsigned info[58];
    socklen_t length = sizeof info;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length) == 0);
    CHECK(length == sizeof info);
    /* tcpi_snd_wnd */
    return info[57];
}

/* A listener whose queue is full answers no SYN. */
static void full(struct place place, int fds[2])
{
    struct sockaddr_in name = at(place.address, place.port + 1);
    fds[0] = made();
    set(fds[0], SOL_SOCKET, SO_REUSEADDR, 1);
    CHECK(bind(fds[0], NAME(name)) == 0);
    CHECK(listen(fds[0], 0) == 0);
}

void server(struct place place)
{
    int nobody[2];
    char byte;
    full(place, nobody);
    int listener = tcp_listening(place.address, place.port);
    ready();

    int clamped = accept(listener, NULL, NULL);
    CHECK(clamped >= 0);
    CHECK(told_window(clamped) > 0 && told_window(clamped) <= CLAMP);
    tell(clamped);
    await_end(clamped);
    CHECK(close(clamped) == 0);

    /* The end of the stream, then at once the reset, without a word from here. */
    int reset = accept(listener, NULL, NULL);
    CHECK(reset >= 0);
    await_end(reset);
    CHECK(polled(reset, 0) & POLLERR);
    CHECK(close(reset) == 0);

    int slow = accept(listener, NULL, NULL);
    CHECK(slow >= 0);
    tell(slow);
    CHECK(recv(slow, &byte, 1, MSG_PEEK) == 1);
    /* The client is done once it has connected to the full listener in vain. */
    int last = accept(listener, NULL, NULL);
    CHECK(last >= 0);
    await_end(last);
}

/* How much there is to know of a connection, beside what the kernel tells of a socket that has none. */
static socklen_t told(int fd)
{
    char info[1024];
    socklen_t length = sizeof info;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length) == 0);
    return length;
}

void client(struct place place)
{
    struct sockaddr_in name = at(place.address, place.port);
    int clamped = made();
    set(clamped, IPPROTO_TCP, TCP_WINDOW_CLAMP, CLAMP);
    CHECK(option(clamped, IPPROTO_TCP, TCP_WINDOW_CLAMP) == CLAMP);
    CHECK(connect(clamped, NAME(name)) == 0);
    await(clamped);
    int unconnected = made();
    CHECK(told(clamped) >= told(unconnected));
    CHECK(close(unconnected) == 0 && close(clamped) == 0);

    int reset = tcp_connected(place.address, place.port);
    set(reset, IPPROTO_TCP, TCP_LINGER2, -1);
    CHECK(close(reset) == 0);

    /* What waits is bounded, however large the buffer. */
    static char data[BUFFER];
    int slow = tcp_connected(place.address, place.port), unsent = 0;
    await(slow);
    set(slow, SOL_SOCKET, SO_SNDBUF, BUFFER);
    set(slow, IPPROTO_TCP, TCP_NOTSENT_LOWAT, LOW_WATER);
    set_nonblocking(slow);
    CHECK(send(slow, data, sizeof data, 0) > 0);
    CHECK(ioctl(slow, 0x894B /* SIOCOUTQNSD */, &unsent) == 0);
    CHECK(unsent <= LOW_WATER + PACKET);

    /* Two connections fill the queue; the third has one more SYN, and not six. */
    int filling[2] = {tcp_connected(place.address, place.port + 1), made()};
    struct sockaddr_in nobody = at(place.address, place.port + 1);
    set_nonblocking(filling[1]);
    CHECK_ERRNO(connect(filling[1], NAME(nobody)), EINPROGRESS);
    usleep(100000);
    int refused = made();
    set(refused, IPPROTO_TCP, TCP_SYNCNT, 1);
    CHECK(option(refused, IPPROTO_TCP, TCP_SYNCNT) == 1);
    CHECK_ERRNO(connect(refused, NAME(nobody)), ETIMEDOUT);

    int last = tcp_connected(place.address, place.port);
    CHECK(close(last) == 0);
}
