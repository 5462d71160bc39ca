/* SO_MAX_PACING_RATE: data leaves no faster than the socket's limit, or than that which it has from its listener, until
 * the limit is lifted; TCP_INFO tells it. A socket for datagrams takes the option too. */
#include "api.h"

enum {
    RATE = 1000000,
    LENGTH = 600000,
    /* What may go ahead of the rate: Linux lets the first ten segments pass. */
    AHEAD = 100000,
};

static char bytes[LENGTH];

static double seconds(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void limit(int fd, unsigned rate)
{
    CHECK(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) == 0);
    CHECK((unsigned)option(fd, SOL_SOCKET, SO_MAX_PACING_RATE) == rate);
}

/* Of what is sent, the peer says when it has all. */
static double send_for(int fd)
{
    double begin = seconds();
    send_all(fd, bytes, sizeof bytes);
    await(fd);
    return seconds() - begin;
}

static void take(int fd)
{
    recv_all(fd, bytes, sizeof bytes);
    tell(fd);
}

/* struct tcp_info: tcpi_max_pacing_rate. */
static unsigned long told_rate(int fd)
{
    unsigned char info[120];
    unsigned long rate;
    socklen_t length = sizeof info;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length) == 0 && length == sizeof info);
    memcpy(&rate, info + 112, sizeof rate);
    return rate;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), udp = udp_bound(place.address, place.port + 1);
    char byte;
    limit(listener, 2 * RATE);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    take(fd);
    CHECK(option(fd, SOL_SOCKET, SO_MAX_PACING_RATE) == 2 * RATE);
    CHECK(told_rate(fd) == 2 * RATE);
    CHECK(send_for(fd) >= (double)(LENGTH - AHEAD) / (2 * RATE));
    take(fd);
    CHECK(recv(udp, &byte, 1, 0) == 1);
    await_end(fd);
}

void client(struct place place)
{
    struct sockaddr_in name = at(place.address, place.port);
    unsigned long none = ~0UL;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    limit(fd, RATE);
    CHECK(connect(fd, NAME(name)) == 0);
    CHECK(told_rate(fd) == RATE);
    CHECK(send_for(fd) >= (double)(LENGTH - AHEAD) / RATE);
    take(fd);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &none, sizeof none) == 0);
    CHECK(option(fd, SOL_SOCKET, SO_MAX_PACING_RATE) == -1 && told_rate(fd) == ~0UL);
    send_for(fd);
    int udp = udp_connected(place.address, place.port + 1);
    limit(udp, RATE);
    CHECK(send(udp, "!", 1, 0) == 1);
}
