/* Sockets that libc made and used, in requests of asynchronous I/O, Linux's (io_submit) and POSIX' (aio_read): polls,
 * reads and writes of a connection, a listener and a UDP socket. What cannot be read is EFAULT. */
#include "api.h"
#include <aio.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <sys/syscall.h>

#define ROUNDS 300

static aio_context_t context;

static void begin(void)
{
    CHECK(syscall(SYS_io_setup, 4, &context) == 0);
}

static void submit(struct iocb *request, int operation, int fd, void *buffer, size_t length)
{
    *request = (struct iocb){.aio_lio_opcode = (uint16_t)operation,
                             .aio_fildes = (uint32_t)fd,
                             .aio_buf = (uint64_t)(uintptr_t)buffer,
                             .aio_nbytes = length};
    CHECK(syscall(SYS_io_submit, context, 1L, &request) == 1);
}

static long long result(void)
{
    struct io_event event;
    struct timespec limit = {.tv_sec = PATIENCE_MS / 1000};
    CHECK(syscall(SYS_io_getevents, context, 1L, 1L, &event, &limit) == 1);
    return event.res;
}

static long long done(int operation, int fd, void *buffer, size_t length)
{
    struct iocb request;
    submit(&request, operation, fd, buffer, length);
    return result();
}

/* The poll is there before what it waits for: the peer is told on `channel` when it is. */
static void poll_for_input(int fd, int channel)
{
    struct iocb request;
    submit(&request, IOCB_CMD_POLL, fd, (void *)(uintptr_t)POLLIN, 0);
    tell(channel);
    CHECK(result() & POLLIN);
}

static void wait_for(struct aiocb *request, ssize_t bytes)
{
    const struct aiocb *list[] = {request};
    struct timespec limit = {.tv_sec = PATIENCE_MS / 1000};
    CHECK(aio_suspend(list, 1, &limit) == 0);
    CHECK(aio_error(request) == 0);
    CHECK(aio_return(request) == bytes);
}

static void by_posix(int fd, char *question, char *answer, size_t length)
{
    struct aiocb reads = {.aio_fildes = fd, .aio_buf = question, .aio_nbytes = length};
    struct aiocb writes = {.aio_fildes = fd, .aio_buf = answer, .aio_nbytes = length};
    CHECK(aio_read(&reads) == 0);
    wait_for(&reads, (ssize_t)length);
    CHECK(aio_write(&writes) == 0);
    wait_for(&writes, (ssize_t)length);
}

void server(struct place place)
{
    char byte;
    int listener = tcp_listening(place.address, place.port), datagrams = udp_bound(place.address, place.port);
    int posix = tcp_listening(place.address, place.port + 1);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, ROUNDS);
    begin();
    poll_for_input(fd, fd);
    CHECK(done(IOCB_CMD_PREAD, fd, &byte, 1) == 1 && byte == '?');
    CHECK(done(IOCB_CMD_PWRITE, fd, "!", 1) == 1);
    poll_for_input(listener, fd);
    int other = accept(listener, NULL, NULL);
    CHECK(other >= 0);
    await(other);
    poll_for_input(datagrams, fd);
    CHECK(recv(datagrams, &byte, 1, 0) == 1 && byte == 'd');
    CHECK(close(other) == 0);

    other = accept(posix, NULL, NULL);
    CHECK(other >= 0);
    answers(other, ROUNDS);
    by_posix(other, &byte, "!", 1);
    CHECK(byte == '?');
    struct aiocb request = {.aio_fildes = datagrams, .aio_lio_opcode = LIO_READ, .aio_buf = &byte, .aio_nbytes = 1};
    struct aiocb *list[] = {NULL, &request};
    tell(other);
    CHECK(lio_listio(LIO_WAIT, list, 2, NULL) == 0);
    CHECK(aio_return(&request) == 1 && byte == 'e');

    struct iocb *nowhere = (struct iocb *)8;
    CHECK_ERRNO(syscall(SYS_io_submit, context, 1L, &nowhere), EFAULT);
    CHECK_ERRNO(syscall(SYS_io_submit, context, 1L, (struct iocb **)8), EFAULT);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), datagrams = udp_connected(place.address, place.port);
    pings(fd, ROUNDS);
    await(fd);
    send_all(fd, "?", 1);
    await(fd);
    await(fd);
    int other = tcp_connected(place.address, place.port);
    tell(other);
    await(fd);
    CHECK(send(datagrams, "d", 1, 0) == 1);
    await_end(other);
    CHECK(close(other) == 0);

    other = tcp_connected(place.address, place.port + 1);
    pings(other, ROUNDS);
    struct aiocb writes = {.aio_fildes = other, .aio_buf = "?", .aio_nbytes = 1};
    CHECK(aio_write(&writes) == 0);
    wait_for(&writes, 1);
    await(other);
    await(other);
    begin();
    CHECK(done(IOCB_CMD_PWRITE, datagrams, "e", 1) == 1);
    await(fd);
    CHECK(close(fd) == 0);
}
