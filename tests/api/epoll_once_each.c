/* A wait reports each descriptor once, also when some of those that were ready have gone to another carrier since. */
#include "api.h"

#define COUNT 6
#define ROUNDS 40

/* All are readable, and none is reported twice. */
static void once_each(int set, const int *fds)
{
    struct epoll_event got[4 * COUNT];
    int found = epoll_wait(set, got, 4 * COUNT, PATIENCE_MS);
    CHECK(found > 0);
    for (int i = 0; i < COUNT; i++) {
        int times = 0;
        for (int j = 0; j < found; j++)
            times += got[j].data.fd == fds[i];
        CHECK(times <= 1);
    }
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), set = epoll_create1(EPOLL_CLOEXEC), fds[COUNT];
    CHECK(set >= 0);
    ready();
    for (int i = 0; i < COUNT; i++) {
        fds[i] = accept(listener, NULL, NULL);
        CHECK(fds[i] >= 0);
        answers(fds[i], ROUNDS);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event) == 0);
    }
    for (int i = 0; i < COUNT; i++)
        tell(fds[i]);
    for (int i = 0; i < COUNT; i++)
        CHECK(polled(fds[i], POLLIN) == POLLIN);
    once_each(set, fds);
    for (int i = 0; i < COUNT / 2; i++) { /* what only the kernel can do */
        int hops = 1;
        CHECK(setsockopt(fds[i], IPPROTO_IP, IP_MINTTL, &hops, sizeof hops) == 0);
        once_each(set, fds);
    }
    for (int i = 0; i < COUNT; i++)
        tell(fds[i]);
}

void client(struct place place)
{
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) {
        fds[i] = tcp_connected(place.address, place.port);
        pings(fds[i], ROUNDS);
    }
    for (int i = 0; i < COUNT; i++) {
        await(fds[i]);
        send_all(fds[i], "x", 1);
    }
    for (int i = 0; i < COUNT; i++)
        await(fds[i]);
}
