/* Sockets that libc made and used, in the hands of io_uring: a connection goes on, a listener accepts, a UDP socket receives. */
#include "api.h"
#include <linux/io_uring.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define ROUNDS 300

static int ring;
static struct io_uring_params made;
static char *submissions, *completions;
static struct io_uring_sqe *requests;

static void *mapped(size_t length, off_t what)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void begin(void)
{
    ring = (int)syscall(SYS_io_uring_setup, 4, &made);
    CHECK(ring >= 0);
    submissions = mapped(made.sq_off.array + made.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
    completions = mapped(made.cq_off.cqes + made.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    requests = mapped(made.sq_entries * sizeof *requests, IORING_OFF_SQES);
}

static uint32_t *word(char *memory, uint32_t offset)
{
    return (uint32_t *)(void *)(memory + offset);
}

/* One request, and its result. */
static int done(int operation, int fd, void *buffer, unsigned length)
{
    uint32_t tail = *word(submissions, made.sq_off.tail), at = tail & *word(submissions, made.sq_off.ring_mask);
    requests[at] = (struct io_uring_sqe){
        .opcode = (uint8_t)operation, .fd = fd, .addr = (uint64_t)(uintptr_t)buffer, .len = length};
    word(submissions, made.sq_off.array)[at] = at;
    __atomic_store_n(word(submissions, made.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    uint32_t head = *word(completions, made.cq_off.head);
    CHECK(__atomic_load_n(word(completions, made.cq_off.tail), __ATOMIC_ACQUIRE) != head);
    struct io_uring_cqe *all = (struct io_uring_cqe *)(void *)(completions + made.cq_off.cqes);
    int result = all[head & *word(completions, made.cq_off.ring_mask)].res;
    __atomic_store_n(word(completions, made.cq_off.head), head + 1, __ATOMIC_RELEASE);
    return result;
}

static void by_ring(int fd)
{
    char text[8];
    CHECK(done(IORING_OP_RECV, fd, text, 1) == 1 && text[0] == '?');
    CHECK(done(IORING_OP_SEND, fd, "!", 1) == 1);
}

void server(struct place place)
{
    char byte;
    int listener = tcp_listening(place.address, place.port), datagrams = udp_bound(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        await(fd);
        tell(fd);
    }
    begin();
    tell(fd);
    by_ring(fd);
    int other = done(IORING_OP_ACCEPT, listener, NULL, 0);
    CHECK(other >= 0);
    by_ring(other);
    CHECK(done(IORING_OP_RECV, datagrams, &byte, 1) == 1 && byte == 'd');
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    for (int i = 0; i < ROUNDS; i++) {
        tell(fd);
        await(fd);
    }
    await(fd);
    send_all(fd, "?", 1);
    await(fd);
    begin();
    int other = tcp_connected(place.address, place.port), datagrams = udp_connected(place.address, place.port);
    CHECK(done(IORING_OP_SEND, other, "?", 1) == 1);
    await(other);
    CHECK(done(IORING_OP_SEND, datagrams, "d", 1) == 1);
    char answer;
    CHECK(done(IORING_OP_RECV, fd, &answer, 1) == 1 && answer == '!');
    CHECK(close(fd) == 0);
}
