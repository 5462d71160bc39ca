/* A process forks while bytes of its peer are unread: both have them, whatever the peer does from then on. It has been
 * killed before, it is killed afterwards without another call, or it waits for something else. */
#include "api.h"

#define ROUNDS 20
#define LENGTH 60000
/* Pieces of this length that are read before. */
#define READ_BEFORE 4

static char byte_at(int at) { return (char)(at % 251); }

/* What is left of the stream, from byte `at` on, and its end. */
static void await_rest(int fd, int at)
{
    char piece[1000];
    ssize_t got;
    while ((got = recv(fd, piece, sizeof piece, 0)) > 0)
        for (ssize_t i = 0; i < got; i++, at++)
            CHECK(piece[i] == byte_at(at));
    CHECK(got == 0);
    CHECK(at == LENGTH);
}

static void begins(int fd)
{
    char bytes[LENGTH];
    answers(fd, ROUNDS);
    for (int i = 0; i < READ_BEFORE; i++) {
        recv_all(fd, bytes, sizeof bytes);
        tell(fd);
    }
}

/* Reads a part in the child, the rest in this process. */
static void shared_out(int fd)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char part[LENGTH / 3];
        struct pollfd one = {.fd = fd, .events = POLLIN};
        CHECK(poll(&one, 1, PATIENCE_MS) == 1 && one.revents & POLLIN);
        CHECK(recv(fd, part, sizeof part, MSG_WAITALL) == (ssize_t)sizeof part);
        for (int i = 0; i < (int)sizeof part; i++)
            CHECK(part[i] == byte_at(i));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    char next;
    CHECK(recv(fd, &next, 1, MSG_PEEK) == 1 && next == byte_at(LENGTH / 3));
    await_rest(fd, LENGTH / 3);
    CHECK(close(fd) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), status;
    ready();
    int control = accept(listener, NULL, NULL);
    CHECK(control >= 0);

    int fd = accept(listener, NULL, NULL);
    begins(fd);
    await(control); /* it is dead */
    shared_out(fd);
    tell(control);

    fd = accept(listener, NULL, NULL);
    begins(fd);
    await(control); /* it has sent */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    tell(control);
    await(control); /* it is dead */
    shared_out(fd);
    tell(control);

    fd = accept(listener, NULL, NULL);
    begins(fd);
    await(control); /* it has sent, and waits for something else until all that is read */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char part[LENGTH];
        CHECK(recv(fd, part, sizeof part, MSG_WAITALL) == LENGTH);
        for (int i = 0; i < LENGTH; i++)
            CHECK(part[i] == byte_at(i));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    tell(control);
    await_end(fd);
}

/* A process that sends, says so by a pipe, and waits there to be told to end. */
static pid_t sender(struct place place, int *said, int *told)
{
    int says[2], tells[2];
    CHECK(pipe(says) == 0 && pipe(tells) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char bytes[LENGTH] = {0}, byte;
        int fd = tcp_connected(place.address, place.port);
        pings(fd, ROUNDS);
        for (int i = 0; i < READ_BEFORE; i++) {
            send_all(fd, bytes, sizeof bytes);
            await(fd);
        }
        for (int i = 0; i < LENGTH; i++)
            bytes[i] = byte_at(i);
        send_all(fd, bytes, sizeof bytes);
        CHECK(write(says[1], "!", 1) == 1);
        CHECK(read(tells[0], &byte, 1) == 1);
        _exit(0);
    }
    *said = says[0];
    *told = tells[1];
    return child;
}

static void killed(pid_t child)
{
    int status;
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port), said, told, status;
    char byte;

    pid_t child = sender(place, &said, &told);
    CHECK(read(said, &byte, 1) == 1);
    killed(child);
    tell(control);
    await(control);

    child = sender(place, &said, &told);
    CHECK(read(said, &byte, 1) == 1);
    tell(control);
    await(control);
    killed(child);
    tell(control);
    await(control);

    child = sender(place, &said, &told);
    CHECK(read(said, &byte, 1) == 1);
    tell(control);
    await(control);
    CHECK(write(told, "!", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}
