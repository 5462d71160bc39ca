/* A receive that waits for all, or for SO_RCVLOWAT, and a send that waits for all to be taken, give their whole count when
 * a child of fork gets the connection while they wait: what has been moved until then is neither lost nor counted twice. */
#include "api.h"
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

enum { FIRST = 7, REST = 33, ALL = FIRST + REST, MANY = 24, BULK = 6 << 20 };

static char text[ALL], big[BULK];
static pid_t waiting;
static int moved, control;

static char letter(int i)
{
    return (char)('0' + i % 64);
}

/* Forks when the main thread sleeps in its call; the child uses the connection, and the peer hears of it. */
static void *fork_under_it(void *unused)
{
    (void)unused;
    EVENTUALLY(state_of(waiting) == 'S');
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int bytes;
        CHECK(ioctl(moved, FIONREAD, &bytes) == 0);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    tell(control);
    return NULL;
}

static void are_letters(int count)
{
    for (int i = 0; i < count; i++)
        CHECK(text[i] == letter(i));
}

static ssize_t gather(int fd, int pieces, int flags)
{
    struct iovec vector[MANY];
    for (int i = 0; i < pieces; i++) {
        int from = ALL * i / pieces, to = ALL * (i + 1) / pieces;
        vector[i] = (struct iovec){.iov_base = text + from, .iov_len = (size_t)(to - from)};
    }
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = (size_t)pieces};
    return flags < 0 ? readv(fd, vector, pieces) : recvmsg(fd, &message, flags);
}

static void low_water(int fd, int low)
{
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low) == 0);
}

static void all(int fd)
{
    CHECK(recv(fd, text, ALL, MSG_WAITALL) == ALL);
    are_letters(ALL);
}

static void all_of_many_pieces(int fd)
{
    CHECK(gather(fd, MANY, MSG_WAITALL) == ALL);
    are_letters(ALL);
}

static void all_looked_at(int fd)
{
    CHECK(recv(fd, text, ALL, MSG_PEEK | MSG_WAITALL) == ALL);
    are_letters(ALL);
    recv_all(fd, text, ALL);
}

static void all_but_some_thrown_away(int fd)
{
    CHECK(recv(fd, NULL, ALL - 2, MSG_TRUNC | MSG_WAITALL) == ALL - 2);
    recv_all(fd, text, 2);
    CHECK(text[0] == letter(ALL - 2) && text[1] == letter(ALL - 1));
}

static void at_least_some(int fd)
{
    low_water(fd, FIRST + 1);
    CHECK(recv(fd, text, ALL, 0) == ALL);
    are_letters(ALL);
}

static void at_least_some_of_many_pieces(int fd)
{
    low_water(fd, ALL);
    CHECK(gather(fd, MANY, -1) == ALL);
    are_letters(ALL);
}

static void all_until_the_end(int fd)
{
    char more[ALL + 1];
    CHECK(recv(fd, more, sizeof more, MSG_WAITALL) == ALL);
    memcpy(text, more, ALL);
    are_letters(ALL);
}

static void all_is_sent(int fd)
{
    CHECK(send(fd, big, BULK, 0) == BULK);
}

static void all_pieces_are_sent(int fd)
{
    struct iovec vector[MANY];
    for (int i = 0; i < MANY; i++)
        vector[i] = (struct iovec){.iov_base = big + BULK / MANY * i, .iov_len = BULK / MANY};
    CHECK(writev(fd, vector, MANY) == BULK / MANY * MANY);
    send_all(fd, big + BULK / MANY * MANY, BULK % MANY);
}

static void all_of_a_file_is_sent(int fd)
{
    int file = (int)syscall(SYS_memfd_create, "bulk", 0);
    CHECK(file >= 0 && write(file, big, BULK) == BULK);
    CHECK(sendfile(fd, file, &(off_t){0}, BULK) == BULK);
    CHECK(close(file) == 0);
}

static const struct {
    void (*call)(int fd);
    /* Whether the server sends, and the client looks whether all came. */
    int sends;
} CALLS[] = {
    {all, 0},           {all_of_many_pieces, 0}, {all_looked_at, 0},
    {all_but_some_thrown_away, 0}, {at_least_some, 0},      {at_least_some_of_many_pieces, 0},
    {all_until_the_end, 0}, {all_is_sent, 1},        {all_pieces_are_sent, 1},
    {all_of_a_file_is_sent, 1},
};
enum { COUNT = sizeof CALLS / sizeof *CALLS };

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    waiting = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < BULK; i++)
        big[i] = letter(i);
    ready();
    control = accept(listener, NULL, NULL);
    CHECK(control >= 0);
    for (int i = 0; i < COUNT; i++) {
        pthread_t thread;
        moved = accept(listener, NULL, NULL);
        CHECK(moved >= 0);
        /* It is no new one when it moves. */
        answers(moved, 20);
        CHECK(pthread_create(&thread, NULL, fork_under_it, NULL) == 0);
        memset(text, 0, sizeof text);
        CALLS[i].call(moved);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(close(moved) == 0);
    }
    await_end(control);
}

void client(struct place place)
{
    char sent[ALL];
    for (int i = 0; i < ALL; i++)
        sent[i] = letter(i);
    control = tcp_connected(place.address, place.port);
    for (int i = 0; i < COUNT; i++) {
        int fd = tcp_connected(place.address, place.port);
        pings(fd, 20);
        if (!CALLS[i].sends)
            send_all(fd, sent, FIRST);
        await(control);
        if (!CALLS[i].sends) {
            send_all(fd, sent + FIRST, REST);
            CHECK(shutdown(fd, SHUT_WR) == 0);
        } else {
            recv_all(fd, big, BULK);
            for (int at = 0; at < BULK; at++)
                CHECK(big[at] == letter(at));
        }
        await_end(fd);
        CHECK(close(fd) == 0);
    }
}
