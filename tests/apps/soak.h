/* What both halves of the soak share: the known stream, the counters, the mode. */
#ifndef SOAK_H
#define SOAK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* What a connection begins with: the stream's name and how many bytes go each way. */
struct header {
    uint64_t seed, up, down;
};

/* After everything arrived, the server says so: a stream that merely ended is no verdict. */
#define VERDICT '!'

enum mode { STRICT, STORM, IDLE };

struct totals {
    atomic_ulong complete, refused, reset, timeout, cut, served, udp_sent, udp_echoed, wrong;
};

extern struct totals totals;
extern atomic_int mode;

void serve(struct sockaddr_in *address);

/* splitmix64: the word at `index` of the stream called `seed`. */
static inline uint64_t word_at(uint64_t seed, uint64_t index)
{
    uint64_t word = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

static inline void fill(uint64_t seed, uint64_t at, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++, at++)
        bytes[i] = (unsigned char)(word_at(seed, at / 8) >> (at % 8 * 8));
}

/* Index of the first byte that is not the stream's, or -1. */
static inline long differs(uint64_t seed, uint64_t at, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++, at++)
        if (bytes[i] != (unsigned char)(word_at(seed, at / 8) >> (at % 8 * 8)))
            return (long)i;
    return -1;
}

static inline void wrong(const char *what, uint64_t seed, uint64_t at)
{
    atomic_fetch_add(&totals.wrong, 1);
    dprintf(1, "WRONG %s (stream %llx, at %llu, errno %d)\n", what, (unsigned long long)seed, (unsigned long long)at,
            errno);
}

static inline uint64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* Closes so that the peer sees a reset, not an end. */
static inline void reset(int fd)
{
    struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

#endif
