/* Accepted sockets have their listener's options; a connect from a chosen address without a chosen port finds one. */
#include "api.h"

static void set(int fd, int level, int name, int value)
{
    CHECK(setsockopt(fd, level, name, &value, sizeof value) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    struct linger linger = {.l_onoff = 1, .l_linger = 3}, got = {0};
    struct timeval limit = {.tv_sec = 77}, kept = {0};
    socklen_t length = sizeof got;
    set(listener, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(listener, SOL_SOCKET, SO_RCVLOWAT, 3);
    set(listener, SOL_SOCKET, SO_PRIORITY, 2);
    set(listener, IPPROTO_TCP, TCP_NODELAY, 1);
    set(listener, IPPROTO_TCP, TCP_KEEPIDLE, 99);
    set(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, 12345);
    set(listener, IPPROTO_IP, IP_TTL, 44);
    CHECK(setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(fd, SOL_SOCKET, SO_RCVLOWAT) == 3);
    CHECK(option(fd, SOL_SOCKET, SO_PRIORITY) == 0); /* but not this one */
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 99);
    CHECK(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == 12345);
    CHECK(option(fd, IPPROTO_IP, IP_TTL) == 44);
    CHECK(option(fd, IPPROTO_IP, IP_MTU) == 1500);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &length) == 0 && got.l_onoff == 1 && got.l_linger == 3);
    length = sizeof kept;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kept, &length) == 0 && kept.tv_sec == 77);
    char name[16] = {0}, text[8];
    length = sizeof name;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && strcmp(name, "reno") == 0);
    tell(fd);
    /* SO_RCVLOWAT. Linux would leave a recv asleep that has taken the first byte: those that follow are fewer than three. */
    CHECK(polled(fd, POLLIN) == POLLIN);
    CHECK(recv(fd, text, sizeof text, 0) >= 3);
    CHECK(fcntl(fd, F_GETFL) == O_RDWR); /* but no descriptor flags */
}

void client(struct place place)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in mine = at(place.client, 0), to = at(place.address, place.port), name;
    socklen_t length = sizeof name;
    set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    CHECK(bind(fd, NAME(mine)) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0 && name.sin_port == 0);
    CHECK(connect(fd, NAME(to)) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0 && name.sin_port != 0);
    CHECK(name.sin_addr.s_addr == mine.sin_addr.s_addr);
    await(fd);
    CHECK(send(fd, "a", 1, 0) == 1);
    usleep(50000);
    CHECK(send(fd, "bc", 2, 0) == 2);
    await_end(fd);
}
