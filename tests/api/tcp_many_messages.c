/* recvmmsg(2) and sendmmsg(2) on a stream: as many calls, wherever the connection is, and wherever it moves in between. */
#include "api.h"

enum { COUNT = 3, EACH = 4, ALL = COUNT * EACH, ROUNDS = 300 };

struct several {
    char text[ALL];
    struct iovec pieces[COUNT];
    struct mmsghdr messages[COUNT];
};

static void prepare(struct several *several)
{
    memset(several, 0, sizeof *several);
    for (int i = 0; i < COUNT; i++) {
        several->pieces[i] = (struct iovec){.iov_base = several->text + i * EACH, .iov_len = EACH};
        several->messages[i].msg_hdr = (struct msghdr){.msg_iov = &several->pieces[i], .msg_iovlen = 1};
    }
}

static void all_went(const struct several *several)
{
    for (int i = 0; i < COUNT; i++)
        CHECK(several->messages[i].msg_len == EACH);
}

static void send_several(int fd, int round)
{
    struct several several;
    prepare(&several);
    for (int i = 0; i < ALL; i++)
        several.text[i] = (char)(round + i);
    CHECK(sendmmsg(fd, several.messages, COUNT, MSG_NOSIGNAL) == COUNT);
    all_went(&several);
}

static void receive_several(int fd, int round)
{
    struct several several;
    prepare(&several);
    CHECK(recvmmsg(fd, several.messages, COUNT, MSG_WAITALL, NULL) == COUNT);
    all_went(&several);
    for (int i = 0; i < ALL; i++)
        CHECK(several.text[i] == (char)(round + i));
}

void server(struct place place)
{
    int fd = tcp_serve_one(place), nodelay = 1;
    struct several several;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        receive_several(fd, round);
        send_several(fd, round);
    }
    prepare(&several);
    CHECK_ERRNO(recvmmsg(fd, several.messages, COUNT, MSG_DONTWAIT, NULL), EAGAIN);
    tell(fd);
    CHECK(recvmmsg(fd, several.messages, COUNT, MSG_WAITFORONE, NULL) == 1);
    CHECK(several.messages[0].msg_len == 2 && memcmp(several.text, "ab", 2) == 0);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), nodelay = 1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        send_several(fd, round);
        receive_several(fd, round);
    }
    await(fd);
    CHECK(send(fd, "ab", 2, MSG_NOSIGNAL) == 2);
    await(fd);
}
