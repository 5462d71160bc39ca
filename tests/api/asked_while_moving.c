/* One thread talks on a connection, first in small messages, then in bulk, so that it may change its carrier; another one asks
 * about it all the while. What it hears is what is true of any connection that stands. At the end one shuts down while the other
 * receives. */
#include "api.h"
#include <pthread.h>
#include <sys/select.h>

enum { CONNECTIONS = 24, SMALL = 60, LARGE = 12, PIECE = 60000 };

static int asked;
static struct place peer;
static volatile int over;

static void ask_poll(void)
{
    struct pollfd one = {.fd = asked, .events = POLLOUT | POLLRDHUP};
    CHECK(poll(&one, 1, 0) >= 0 && (one.revents & ~POLLOUT) == 0);
    one.events = POLLIN | POLLRDHUP;
    CHECK(poll(&one, 1, 5) >= 0 && (one.revents & ~POLLIN) == 0);
}

static void ask_select(void)
{
    fd_set urgent;
    struct timeval none = {0};
    FD_ZERO(&urgent);
    FD_SET(asked, &urgent);
    int count = select(asked + 1, NULL, NULL, &urgent, &none);
    CHECK(count == 0);
}

static void ask_epoll(void)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
    int set = epoll_create1(0);
    CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, asked, &event) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(epoll_wait(set, &event, 1, 1) == 0 || event.events == EPOLLIN);
    CHECK(close(set) == 0);
}

static void ask_names(void)
{
    struct sockaddr_in name, whole = at(peer.address, peer.port);
    socklen_t length = sizeof name;
    CHECK(getpeername(asked, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin_port == whole.sin_port && name.sin_addr.s_addr == whole.sin_addr.s_addr);
    length = sizeof name;
    CHECK(getsockname(asked, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin_port != 0 && name.sin_addr.s_addr == inet_addr(peer.client));
}

static void ask_state(void)
{
    struct sockaddr_in whole = at(peer.address, peer.port);
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(getsockopt(asked, SOL_SOCKET, SO_ERROR, &value, &length) == 0 && value == 0);
    CHECK(ioctl(asked, FIONREAD, &value) == 0 && value >= 0);
    CHECK_ERRNO(connect(asked, NAME(whole)), EISCONN);
    CHECK_ERRNO(listen(asked, 1), EINVAL);
    CHECK_ERRNO(accept(asked, NULL, NULL), EINVAL);
}

static void *asks(void *unused)
{
    (void)unused;
    while (!over) {
        ask_poll();
        ask_select();
        ask_epoll();
        ask_names();
        ask_state();
    }
    return NULL;
}

static void *receives_all(void *moved)
{
    char piece[4096];
    ssize_t count, total = 0;
    while ((count = recv(asked, piece, sizeof piece, 0)) > 0)
        total += count;
    CHECK(count == 0);
    *(ssize_t *)moved = total;
    return NULL;
}

void server(struct place place)
{
    static char piece[PIECE];
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept(listener, NULL, NULL);
        ssize_t count;
        CHECK(fd >= 0);
        while ((count = recv(fd, piece, sizeof piece, 0)) > 0)
            send_all(fd, piece, (size_t)count);
        CHECK(count == 0 && close(fd) == 0);
    }
}

static void echo(const char *data, char *back, size_t length)
{
    send_all(asked, data, length);
    recv_all(asked, back, length);
    CHECK(memcmp(data, back, length) == 0);
}

void client(struct place place)
{
    static char data[PIECE], back[PIECE];
    ssize_t total;
    pthread_t thread;
    peer = place;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 / 3);
    for (int i = 0; i < CONNECTIONS; i++) {
        asked = tcp_connected(place.address, place.port);
        over = 0;
        CHECK(pthread_create(&thread, NULL, asks, NULL) == 0);
        for (int round = 0; round < SMALL; round++)
            echo(data, back, 64);
        for (int round = 0; round < LARGE; round++)
            echo(data, back, sizeof data);
        over = 1;
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(pthread_create(&thread, NULL, receives_all, &total) == 0);
        for (int round = 0; round < SMALL; round++)
            send_all(asked, data, 64);
        CHECK(shutdown(asked, SHUT_WR) == 0);
        CHECK(pthread_join(thread, NULL) == 0 && total == SMALL * 64);
        CHECK(close(asked) == 0);
    }
}
