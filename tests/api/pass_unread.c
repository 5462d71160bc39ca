/* A connection is given to another process while bytes of its peer are unread. That one gets all of them, whether the
 * peer goes on calling, waits for something else, closes the connection or ends; its buffers are small. */
#include "api.h"

#include <stdint.h>

#define ROUNDS 20
/* Pieces that are read before. */
#define READ_BEFORE 60
#define PIECE 60000
#define LENGTH_MOST (1 << 20)

static char byte_at(unsigned at) { return (char)(at % 251); }

static void small(int fd, int which)
{
    int length = 16 << 10;
    CHECK(setsockopt(fd, SOL_SOCKET, which, &length, sizeof length) == 0);
}

/* Takes connections that are passed, each with how much is to come, and says when it has seen that and the end. */
static void reads(int channel)
{
    for (;;) {
        uint32_t length, at = 0;
        ssize_t got = recv(channel, &length, sizeof length, 0);
        if (got == 0)
            _exit(0);
        CHECK(got == sizeof length);
        int fd = passed_fd(channel);
        char piece[4000];
        while (at < length) {
            got = recv(fd, piece, sizeof piece, 0);
            CHECK(got > 0);
            for (ssize_t i = 0; i < got; i++, at++)
                CHECK(piece[i] == byte_at(at));
        }
        CHECK(at == length);
        tell(channel);
        await_end(fd);
        CHECK(close(fd) == 0);
        tell(channel);
    }
}

void server(struct place place)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, pair[2], status;
    struct sockaddr_in name = at(place.address, place.port);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(pair[0]) == 0);
        reads(pair[1]);
    }
    CHECK(close(pair[1]) == 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    small(listener, SO_RCVBUF);
    CHECK(bind(listener, NAME(name)) == 0 && listen(listener, 16) == 0);
    ready();
    int control = accept(listener, NULL, NULL);
    CHECK(control >= 0);
    for (int waits = 0; waits < 3; waits++) {
        uint32_t length;
        char bytes[PIECE];
        int fd = accept(listener, NULL, NULL);
        answers(fd, ROUNDS);
        for (int i = 0; i < READ_BEFORE; i++) {
            recv_all(fd, bytes, sizeof bytes);
            tell(fd);
        }
        recv_all(control, (char *)&length, sizeof length);
        send_all(pair[0], (char *)&length, sizeof length);
        pass_fd(pair[0], fd);
        if (waits != 0)
            tell(control); /* it may close */
        await(pair[0]);
        if (waits == 0)
            tell(control);
        await(pair[0]);
    }
    CHECK(close(pair[0]) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Returns a connection with bytes that nobody has read. */
static int sent(struct place place, int control)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    uint32_t length = 0;
    char bytes[PIECE] = {0};
    struct sockaddr_in name = at(place.address, place.port);
    small(fd, SO_SNDBUF);
    CHECK(connect(fd, NAME(name)) == 0);
    pings(fd, ROUNDS);
    for (int i = 0; i < READ_BEFORE; i++) {
        send_all(fd, bytes, sizeof bytes);
        await(fd);
    }
    for (;;) {
        char piece[4000];
        for (int i = 0; i < (int)sizeof piece; i++)
            piece[i] = byte_at(length + (unsigned)i);
        ssize_t got = length < LENGTH_MOST ? send(fd, piece, sizeof piece, MSG_DONTWAIT) : -1;
        if (got < 0)
            break;
        length += (uint32_t)got;
    }
    CHECK(length > 0);
    send_all(control, (char *)&length, sizeof length);
    return fd;
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port);
    int fd = sent(place, control);
    await(control); /* and calls nothing on the connection meanwhile */
    CHECK(close(fd) == 0);
    fd = sent(place, control);
    await(control);
    CHECK(close(fd) == 0);
    sent(place, control);
    await(control);
}
