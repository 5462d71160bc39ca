/* IPv4 through AF_INET6 sockets: a listener on [::] and a client with a mapped address talk, and both see the names that an
 * AF_INET6 socket shows, before and after their connection went over from the kernel to the wire. */
#include "api.h"

#define ROUNDS 2000

static struct sockaddr_in6 mapped(const char *address, int port)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    char text[64];
    snprintf(text, sizeof text, "::ffff:%s", address);
    CHECK(inet_pton(AF_INET6, text, &name.sin6_addr) == 1);
    return name;
}

static void check_name(const struct sockaddr_in6 *name, socklen_t length, const char *address, int port)
{
    struct sockaddr_in6 wanted = mapped(address, port);
    CHECK(length == sizeof *name && name->sin6_family == AF_INET6);
    CHECK(memcmp(&name->sin6_addr, &wanted.sin6_addr, sizeof wanted.sin6_addr) == 0);
    CHECK(port == 0 || name->sin6_port == wanted.sin6_port);
}

static void check_names(int fd, const char *own, int own_port, const char *peer, int peer_port)
{
    struct sockaddr_in6 name;
    socklen_t length = sizeof name;
    CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
    check_name(&name, length, own, own_port);
    length = sizeof name;
    CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
    check_name(&name, length, peer, peer_port);
    /* Room for less. */
    char few[8];
    length = sizeof few;
    CHECK(getpeername(fd, (struct sockaddr *)few, &length) == 0 && length == sizeof name);
    CHECK(option(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET6);
}

void server(struct place place)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(place.port), .sin6_addr = in6addr_any}, peer;
    socklen_t length = sizeof peer;
    int listener = socket(AF_INET6, SOCK_STREAM, 0), off = 0, on = 1;
    CHECK(setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(listener, NAME(any)) == 0 && listen(listener, 8) == 0);
    ready();
    int fd = accept(listener, (struct sockaddr *)&peer, &length);
    CHECK(fd >= 0);
    check_name(&peer, length, place.client, 0);
    check_names(fd, place.address, place.port, place.client, 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char buffer[512];
        CHECK(epoll_wait(set, &event, 1, PATIENCE_MS) == 1 && event.events == EPOLLIN);
        ssize_t count = recv(fd, buffer, sizeof buffer, 0);
        CHECK(count > 0 && send(fd, buffer, count, 0) == count);
    }
    check_names(fd, place.address, place.port, place.client, 0);
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
    await_end(fd);
}

void client(struct place place)
{
    struct sockaddr_in6 name = mapped(place.address, place.port);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(connect(fd, NAME(name)) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char out[512], in[512];
        size_t length = 1 + i % sizeof out;
        memset(out, i, length);
        send_all(fd, out, length);
        recv_all(fd, in, length);
        CHECK(memcmp(in, out, length) == 0);
    }
    check_names(fd, place.client, 0, place.address, place.port);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(fd);
}
