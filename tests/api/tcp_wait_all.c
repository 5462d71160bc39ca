/* A connection on which every receive waits for all (MSG_WAITALL) is like any other: it is accelerated, what is received
 * is whole, by recv and by recvmsg, and SO_RCVTIMEO limits the call, not each of the parts in which its bytes come. */
#include "api.h"

enum { ALL = 40, ROUNDS = 3000, LIMIT_MS = 300, PARTS = 12, PAUSE_MS = 60 };

static void receive_all(int fd, char *text, int round)
{
    struct iovec pieces[2] = {{.iov_base = text, .iov_len = 7}, {.iov_base = text + 7, .iov_len = ALL - 7}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    if (round % 2)
        CHECK(recv(fd, text, ALL, MSG_WAITALL) == ALL);
    else
        CHECK(recvmsg(fd, &message, MSG_WAITALL) == ALL && message.msg_flags == 0);
    for (int i = 0; i < ALL; i++)
        CHECK(text[i] == (char)(round + i));
}

static void send_in_parts(int fd, int round)
{
    char text[ALL];
    int first = round % ALL;
    for (int i = 0; i < ALL; i++)
        text[i] = (char)(round + i);
    send_all(fd, text, first);
    send_all(fd, text + first, ALL - first);
}

void server(struct place place)
{
    int fd = tcp_serve_one(place), nodelay = 1;
    char text[ALL];
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        receive_all(fd, text, round);
        send_in_parts(fd, round);
    }
    struct timeval limit = {.tv_usec = LIMIT_MS * 1000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    tell(fd);
    ssize_t got = recv(fd, text, ALL, MSG_WAITALL);
    CHECK(got > 0 && got < PARTS);
    /* What is left comes, and is the last. */
    limit.tv_usec = 0;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(recv(fd, text + got, ALL - got, MSG_WAITALL) == PARTS - got);
    for (int i = 0; i < PARTS; i++)
        CHECK(text[i] == (char)('a' + i));
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), nodelay = 1;
    char text[ALL];
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        send_in_parts(fd, round);
        receive_all(fd, text, round);
    }
    await(fd);
    for (int i = 0; i < PARTS; i++) {
        text[0] = (char)('a' + i);
        CHECK(send(fd, text, 1, MSG_NOSIGNAL) == 1);
        usleep(PAUSE_MS * 1000);
    }
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(fd);
}
