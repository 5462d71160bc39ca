/* Asynchronous I/O polls an epoll set (IOCB_CMD_POLL): it hears of the sockets in it, of one that is added later, and of one
 * in a set that is in it. */
#include "api.h"
#include <linux/aio_abi.h>
#include <stdint.h>
#include <sys/syscall.h>

#define ROUNDS 40

static aio_context_t context;

/* The poll is there before what it waits for, of which the peer is told. */
static void hears(int set, int fd)
{
    struct iocb request = {
        .aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = (uint32_t)set, .aio_buf = (uint64_t)POLLIN};
    struct iocb *list[] = {&request};
    struct io_event event;
    struct timespec limit = {.tv_sec = PATIENCE_MS / 1000};
    CHECK(syscall(SYS_io_submit, context, 1L, list) == 1);
    tell(fd);
    CHECK(syscall(SYS_io_getevents, context, 1L, 1L, &event, &limit) == 1);
    CHECK(event.res & POLLIN);
    CHECK(next_readable(set) >= 0);
    await(fd);
    tell(fd);
}

static int accepted(int listener)
{
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    answers(fd, ROUNDS);
    return fd;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), set = epoll_create1(0), inner = epoll_create1(0);
    CHECK(set >= 0 && inner >= 0 && syscall(SYS_io_setup, 4, &context) == 0);
    ready();
    int first = accepted(listener), second = accepted(listener), third = accepted(listener);
    add_readable(set, first);
    hears(set, first);
    add_readable(set, second);
    hears(set, second);
    add_readable(inner, third);
    add_readable(set, inner);
    hears(set, third);
}

void client(struct place place)
{
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = tcp_connected(place.address, place.port);
        pings(fds[i], ROUNDS);
    }
    for (int i = 0; i < 3; i++) {
        await(fds[i]);
        tell(fds[i]);
        await(fds[i]);
    }
}
