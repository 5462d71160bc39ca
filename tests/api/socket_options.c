/* Options keep what was set, before and after connecting, and refuse what makes no sense. */
#include "api.h"

static void set(int fd, int level, int name, int value)
{
    CHECK(setsockopt(fd, level, name, &value, sizeof value) == 0);
}

static void keeps(int fd, int level, int name, int value)
{
    set(fd, level, name, value);
    CHECK(option(fd, level, name) == value);
}

static void common(int fd)
{
    keeps(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    keeps(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    keeps(fd, SOL_SOCKET, SO_BROADCAST, 1);
    keeps(fd, SOL_SOCKET, SO_PRIORITY, 3);
    keeps(fd, IPPROTO_IP, IP_TOS, 0x10);
    keeps(fd, IPPROTO_IP, IP_TTL, 33);
    set(fd, SOL_SOCKET, SO_RCVBUF, 50000);
    CHECK(option(fd, SOL_SOCKET, SO_RCVBUF) == 100000); /* the kernel doubles it */
    set(fd, SOL_SOCKET, SO_SNDBUF, 50000);
    CHECK(option(fd, SOL_SOCKET, SO_SNDBUF) == 100000);
    int one = 1;
    CHECK_ERRNO(setsockopt(fd, SOL_SOCKET, 9999, &one, sizeof one), ENOPROTOOPT);
    CHECK_ERRNO(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, 1), EINVAL);
    CHECK_ERRNO(setsockopt(fd, IPPROTO_IP, IP_TTL, &(int){300}, sizeof(int)), EINVAL);
    socklen_t length = sizeof one;
    CHECK_ERRNO(getsockopt(fd, SOL_SOCKET, 9999, &one, &length), ENOPROTOOPT);
}

static void of_tcp(int fd)
{
    common(fd);
    keeps(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    keeps(fd, IPPROTO_TCP, TCP_NODELAY, 0);
    keeps(fd, IPPROTO_TCP, TCP_KEEPIDLE, 77);
    keeps(fd, IPPROTO_TCP, TCP_KEEPINTVL, 11);
    keeps(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
    keeps(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);
    struct linger linger = {.l_onoff = 1, .l_linger = 5}, got = {0};
    socklen_t length = sizeof got;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &length) == 0);
    CHECK(got.l_onoff == 1 && got.l_linger == 5);
    linger.l_onoff = 0;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK_ERRNO(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){0}, sizeof(int)), EINVAL);
}

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    of_tcp(fd);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = at(place.address, place.port);
    common(udp);
    of_tcp(tcp);
    CHECK(connect(tcp, NAME(to)) == 0);
    of_tcp(tcp);
    await(tcp);
    struct tcp_info info;
    socklen_t length = sizeof info;
    CHECK(getsockopt(tcp, IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
    CHECK(info.tcpi_state == TCP_ESTABLISHED);
    CHECK(option(tcp, IPPROTO_TCP, TCP_MAXSEG) > 500);
}
