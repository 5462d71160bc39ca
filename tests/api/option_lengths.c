/* An option's length may be more than its value has, or nothing at all: the kernel reads an int of most. */
#include "api.h"
#include <sys/mman.h>

static const int options[][2] = {
    {SOL_SOCKET, SO_KEEPALIVE}, {SOL_SOCKET, SO_RCVBUF},  {SOL_SOCKET, SO_PRIORITY},    {SOL_SOCKET, SO_RCVLOWAT},
    {IPPROTO_IP, IP_TOS},       {IPPROTO_IP, IP_TTL},     {IPPROTO_TCP, TCP_NODELAY},   {IPPROTO_TCP, TCP_KEEPIDLE},
    {IPPROTO_TCP, TCP_CORK},    {IPPROTO_IP, IP_RECVTTL}, {IPPROTO_TCP, TCP_USER_TIMEOUT}, {IPPROTO_IP, IP_MTU_DISCOVER},
    {IPPROTO_IP, IP_MULTICAST_TTL}, {SOL_SOCKET, SO_TIMESTAMP},
};

/* `last` is the last int of its page. */
static void set_all(int fd, const int *last)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        int level = options[i][0], name = options[i][1];
        CHECK(setsockopt(fd, level, name, last, 1 << 16) == 0 || errno == EINVAL || errno == ENOPROTOOPT);
        /* Some options of IP may have no value at all: it is zero then. */
        CHECK(setsockopt(fd, level, name, NULL, 0) == 0 || errno == EINVAL || errno == ENOPROTOOPT);
    }
}

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    answers(fd, 40);
    await_end(fd);
}

void client(struct place place)
{
    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, (size_t)page, PROT_NONE) == 0);
    int *last = (int *)(pages + page) - 1;
    *last = 1;
    int idle = socket(AF_INET, SOCK_STREAM, 0), udp = udp_connected(place.address, place.port);
    CHECK(idle >= 0);
    set_all(idle, last);
    set_all(udp, last);
    int fd = tcp_connected(place.address, place.port);
    set_all(fd, last);
    pings(fd, 40);
    set_all(fd, last);
}
