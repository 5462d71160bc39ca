/* A thread waits on a UDP socket without a port; another thread gives it one, by sendto, connect or bind, and an answer
 * comes: every kind of wait ends with it. */
#include "wait_before.h"

static int waited; /* the socket that is waited on */
static int idle;   /* an eventfd that nobody writes */
static char byte;

static int by_recv(void)
{
    return (int)recv(waited, &byte, 1, 0);
}

static int by_recvfrom(void)
{
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    int got = (int)recvfrom(waited, &byte, 1, 0, (struct sockaddr *)&from, &length);
    CHECK(got != 1 || (length == sizeof from && from.sin_family == AF_INET));
    return got;
}

static int by_recvmsg(void)
{
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    return (int)recvmsg(waited, &message, 0);
}

static int by_recvmmsg(void)
{
    struct iovec piece = {&byte, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
    CHECK(recvmmsg(waited, &message, 1, 0, NULL) == 1);
    return (int)message.msg_len;
}

static int by_read(void)
{
    return (int)read(waited, &byte, 1);
}

static int by_readv(void)
{
    struct iovec piece = {&byte, 1};
    return (int)readv(waited, &piece, 1);
}

static int taken(void)
{
    return (int)recv(waited, &byte, 1, MSG_DONTWAIT);
}

static int by_poll(void)
{
    struct pollfd one = {.fd = waited, .events = POLLIN};
    CHECK(poll(&one, 1, -1) == 1 && one.revents == POLLIN);
    return taken();
}

static int by_ppoll_beside(void)
{
    struct pollfd both[2] = {{.fd = idle, .events = POLLIN}, {.fd = waited, .events = POLLIN}};
    sigset_t none;
    sigemptyset(&none);
    CHECK(ppoll(both, 2, NULL, &none) == 1 && both[0].revents == 0 && both[1].revents == POLLIN);
    return taken();
}

static int by_select(void)
{
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(waited, &reads);
    CHECK(select(waited + 1, &reads, NULL, NULL, NULL) == 1 && FD_ISSET(waited, &reads));
    return taken();
}

static int by_pselect_beside(void)
{
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(waited, &reads);
    FD_SET(idle, &reads);
    int last = waited > idle ? waited : idle;
    CHECK(pselect(last + 1, &reads, NULL, NULL, NULL, NULL) == 1);
    CHECK(FD_ISSET(waited, &reads) && !FD_ISSET(idle, &reads));
    return taken();
}

static int by_epoll(void)
{
    int set = epoll_create1(0);
    added(set, waited, EPOLLIN, 77);
    struct epoll_event event;
    CHECK(epoll_wait(set, &event, 1, -1) == 1 && event.events == EPOLLIN && event.data.u64 == 77);
    CHECK(close(set) == 0);
    return taken();
}

static const struct {
    const char *name;
    int (*wait)(void);
} waits[] = {
    {"recv", by_recv},       {"recvfrom", by_recvfrom}, {"recvmsg", by_recvmsg},       {"recvmmsg", by_recvmmsg},
    {"read", by_read},       {"readv", by_readv},       {"poll", by_poll},             {"ppoll", by_ppoll_beside},
    {"select", by_select},   {"pselect", by_pselect_beside}, {"epoll", by_epoll},
};

static void *wait_by(void *argument)
{
    int (*wait)(void) = *(int (**)(void))argument;
    CHECK(wait() == 1 && byte == 'x');
    return NULL;
}

void client(struct place place)
{
    struct sockaddr_in to = at(place.address, place.port), own = at(place.client, place.port + 2);
    int asks = socket(AF_INET, SOCK_DGRAM, 0);
    idle = eventfd(0, 0);
    CHECK(asks >= 0 && idle >= 0);
    for (unsigned row = 0; row < sizeof waits / sizeof *waits; row++)
        for (int how = 0; how < 3; how++) {
            waited = socket(AF_INET, SOCK_DGRAM, 0);
            CHECK(waited >= 0);
            byte = 0;
            pthread_t thread = started(wait_by, (void *)&waits[row].wait);
            if (how == 0) {
                CHECK(sendto(waited, "x", 1, 0, NAME(to)) == 1);
            } else if (how == 1) {
                CHECK(connect(waited, NAME(to)) == 0 && send(waited, "x", 1, 0) == 1);
            } else {
                CHECK(bind(waited, NAME(own)) == 0);
                answer_at(asks, to, place.port + 2);
            }
            ended(thread, waits[row].name, how);
            CHECK(close(waited) == 0);
        }
    end_server(asks, to);
}

void server(struct place place)
{
    serve(place);
}
