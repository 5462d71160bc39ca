/* splice(2) between sockets and pipes: whole streams intact, what blocks and what does not, what it refuses. */
#include "api.h"
#include <pthread.h>

#define SIZE 1000000
#define PIECE 300000

static unsigned char pattern(long at)
{
    return (unsigned char)(at * 31 + at / 251);
}

static void check(const unsigned char *data, long from, long count)
{
    for (long i = 0; i < count; i++)
        CHECK(data[i] == pattern(from + i));
}

static void read_all(int fd, void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t count = read(fd, (char *)data + done, length - done);
        CHECK(count > 0);
        done += (size_t)count;
    }
}

/* From one socket to the same one back, by way of a pipe. */
static void echo(int fd, long size)
{
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    for (long done = 0; done < size;) {
        size_t want = (size_t)(size - done < PIECE ? size - done : PIECE);
        ssize_t in = splice(fd, NULL, pipes[1], NULL, want, SPLICE_F_MOVE | SPLICE_F_MORE);
        CHECK(in > 0);
        for (ssize_t out = 0; out < in;) {
            unsigned flags = done + in < size ? SPLICE_F_MORE : 0;
            ssize_t count = splice(pipes[0], NULL, fd, NULL, (size_t)(in - out), flags);
            CHECK(count > 0);
            out += count;
        }
        done += in;
    }
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

static void refusals(int fd)
{
    int pipes[2];
    loff_t offset = 0;
    char byte;
    CHECK(pipe(pipes) == 0);
    CHECK_ERRNO(splice(fd, NULL, pipes[1], &offset, 5, 0), ESPIPE);
    CHECK_ERRNO(splice(pipes[0], &offset, fd, NULL, 5, 0), ESPIPE);
    CHECK_ERRNO(splice(fd, &offset, pipes[1], NULL, 5, SPLICE_F_NONBLOCK), EINVAL);
    CHECK_ERRNO(splice(fd, NULL, fd, NULL, 5, 0), EINVAL);
    CHECK_ERRNO(splice(fd, NULL, pipes[1], NULL, 5, 0x100), EINVAL);
    CHECK_ERRNO(splice(fd, NULL, -1, NULL, 5, 0), EBADF);
    CHECK_ERRNO(splice(pipes[1], NULL, fd, NULL, 5, 0), EBADF);
    CHECK(splice(fd, NULL, pipes[1], NULL, 0, 0) == 0);
    CHECK_ERRNO(splice(pipes[0], NULL, fd, NULL, 5, SPLICE_F_NONBLOCK), EAGAIN);
    CHECK(write(pipes[1], "kept", 4) == 4);
    CHECK(close(pipes[1]) == 0);
    CHECK(splice(pipes[0], NULL, fd, NULL, 100, 0) == 4);
    CHECK(splice(pipes[0], NULL, fd, NULL, 100, 0) == 0); /* nobody writes any more */
    CHECK(read(pipes[0], &byte, 1) == 0);
    CHECK(close(pipes[0]) == 0);
}

/* A pipe that is full takes nothing, and nothing is lost. The client has sent 1000 bytes. */
static void full_pipe(int fd)
{
    int pipes[2];
    char filling[4096] = {0};
    unsigned char data[1000];
    long filled = 0;
    ssize_t count;
    CHECK(pipe2(pipes, O_NONBLOCK) == 0);
    CHECK(polled(fd, POLLIN) & POLLIN);
    while ((count = write(pipes[1], filling, sizeof filling)) > 0)
        filled += count;
    CHECK_ERRNO(splice(fd, NULL, pipes[1], NULL, 1000, 0), EAGAIN);
    CHECK_ERRNO(splice(fd, NULL, pipes[1], NULL, 1000, SPLICE_F_NONBLOCK), EAGAIN);
    while (filled > 0) {
        CHECK((count = read(pipes[0], filling, sizeof filling)) > 0);
        filled -= count;
    }
    for (long moved = 0; moved < 1000; moved += count)
        CHECK((count = splice(fd, NULL, pipes[1], NULL, (size_t)(1000 - moved), 0)) > 0);
    read_all(pipes[0], data, 1000);
    check(data, 0, 1000);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

/* Drains the pipe whose other end the main thread splices to; gives back what came. */
static void *drain(void *end)
{
    static unsigned char data[SIZE];
    read_all(*(int *)end, data, SIZE);
    check(data, 0, SIZE);
    return NULL;
}

/* A splice that blocks for room in the pipe goes on when there is some. */
static void blocking_pipe(int fd)
{
    int pipes[2];
    pthread_t thread;
    CHECK(pipe(pipes) == 0);
    CHECK(pthread_create(&thread, NULL, drain, &pipes[0]) == 0);
    for (long done = 0; done < SIZE;) {
        ssize_t count = splice(fd, NULL, pipes[1], NULL, (size_t)(SIZE - done), 0);
        CHECK(count > 0);
        done += count;
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

/* Fills the pipe that the main thread splices from, in pieces that end anywhere. */
static void *fill(void *end)
{
    static unsigned char data[SIZE];
    for (long i = 0; i < SIZE; i++)
        data[i] = pattern(i);
    for (long done = 0, piece = 1; done < SIZE; piece = piece * 7 % 9973) {
        size_t count = (size_t)(piece < SIZE - done ? piece : SIZE - done);
        CHECK(write(*(int *)end, data + done, count) == (ssize_t)count);
        done += (long)count;
    }
    CHECK(close(*(int *)end) == 0);
    return NULL;
}

void server(struct place place)
{
    int fd = tcp_serve_one(place), pipes[2];
    signal(SIGPIPE, SIG_IGN);
    echo(fd, 5);
    refusals(fd);
    await(fd);
    full_pipe(fd);
    tell(fd);
    blocking_pipe(fd);
    echo(fd, SIZE);
    /* A pipe that nobody reads. */
    CHECK(pipe(pipes) == 0 && close(pipes[0]) == 0);
    CHECK(polled(fd, POLLIN) & POLLIN);
    CHECK_ERRNO(splice(fd, NULL, pipes[1], NULL, 5, 0), EPIPE);
    await(fd); /* the byte is still there */
    CHECK(pipe(pipes) == 0);
    set_nonblocking(fd);
    CHECK_ERRNO(splice(fd, NULL, pipes[1], NULL, 5, 0), EAGAIN);
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    tell(fd);
    CHECK(splice(fd, NULL, pipes[1], NULL, 5, 0) == 0);
}

void client(struct place place)
{
    static unsigned char data[SIZE];
    int fd = tcp_connected(place.address, place.port), pipes[2];
    pthread_t thread;
    char text[5];
    send_all(fd, "hello", 5);
    recv_all(fd, text, 5);
    CHECK(memcmp(text, "hello", 5) == 0);
    recv_all(fd, text, 4);
    CHECK(memcmp(text, "kept", 4) == 0);
    for (long i = 0; i < SIZE; i++)
        data[i] = pattern(i);
    tell(fd);
    send_all(fd, data, 1000);
    await(fd);
    send_all(fd, data, SIZE);
    /* A pipe that runs empty now and then, and a window that closes. */
    CHECK(pipe(pipes) == 0);
    CHECK(pthread_create(&thread, NULL, fill, &pipes[1]) == 0);
    long sent = 0, received = 0;
    while (received < SIZE) {
        if (sent < SIZE && sent - received < 100000) {
            ssize_t count = splice(pipes[0], NULL, fd, NULL, 50000, 0);
            CHECK(count > 0);
            sent += count;
        }
        ssize_t count = recv(fd, data + received, (size_t)(SIZE - received), MSG_DONTWAIT);
        CHECK(count > 0 || (count == -1 && errno == EAGAIN));
        received += count > 0 ? count : 0;
        if (sent == SIZE && received < SIZE)
            polled(fd, POLLIN);
    }
    check(data, 0, SIZE);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(splice(pipes[0], NULL, fd, NULL, 50000, 0) == 0);
    tell(fd);
    await(fd);
}
