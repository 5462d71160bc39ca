/* Two streams at once on one connection, by two threads, in pieces of random size, while the connection moves. Every
 * word is known in advance.
 *
 *     moving listen ADDRESS PORT MIB     moving connect ADDRESS PORT MIB
 *
 * Says what the process holds after a quarter of what it receives and at the end, and the longest time in which
 * nothing came; then waits for a line, so that others can look at it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

static int fd;
static uint64_t chunks;

static void die(const char *what)
{
    fprintf(stderr, "moving: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

/* splitmix64: the word at `index` of a stream. */
static uint64_t word_at(uint64_t index)
{
    uint64_t word = (index + 1) * 0x9E3779B97F4A7C15ull;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

/* Streams differ: the one to the listener begins at word 0, the other far behind. */
static uint64_t stream_from(int is_listener)
{
    return is_listener ? 1ull << 40 : 0;
}

static void fill(uint64_t *words, uint64_t first)
{
    for (uint64_t i = 0; i < CHUNK / 8; i++)
        words[i] = word_at(first + i);
}

/* As many bytes as are left at most, and half of the time few. */
static size_t some(unsigned *seed, size_t left)
{
    size_t most = rand_r(seed) % 2 ? 2048 : CHUNK;
    size_t count = 1 + (size_t)rand_r(seed) % most;
    return count < left ? count : left;
}

static void *send_all(void *is_listener)
{
    static uint64_t words[CHUNK / 8];
    unsigned seed = 1;
    for (uint64_t chunk = 0; chunk < chunks; chunk++) {
        fill(words, stream_from(is_listener != NULL) + chunk * (CHUNK / 8));
        for (size_t done = 0; done < CHUNK;) {
            size_t wanted = some(&seed, CHUNK - done);
            ssize_t count = send(fd, (char *)words + done, wanted, MSG_NOSIGNAL);
            if (count != (ssize_t)wanted)
                die("send");
            done += (size_t)count;
        }
    }
    return NULL;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void say_what_is_held(const char *when)
{
    int count = 0;
    long pages = 0, resident = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    FILE *statm = fopen("/proc/self/statm", "r");
    if (fscanf(statm, "%ld %ld", &pages, &resident) != 2)
        die("statm");
    fclose(statm);
    printf("%s: %d descriptors, %ld KiB\n", when, count, resident * 4);
    fflush(stdout);
}

static void receive_all(int is_listener)
{
    static uint64_t words[CHUNK / 8], wanted[CHUNK / 8];
    unsigned seed = 2;
    double last = now_ms(), longest = 0;
    for (uint64_t chunk = 0; chunk < chunks; chunk++) {
        for (size_t done = 0; done < CHUNK;) {
            struct pollfd polled = {.fd = fd, .events = POLLIN};
            if (rand_r(&seed) % 4 == 0 && poll(&polled, 1, -1) != 1)
                die("poll");
            ssize_t count = recv(fd, (char *)words + done, some(&seed, CHUNK - done), 0);
            if (count <= 0) {
                fprintf(stderr, "after %llu chunks and %zu bytes: ", (unsigned long long)chunk, done);
                die("recv");
            }
            done += (size_t)count;
            double now = now_ms();
            longest = now - last > longest ? now - last : longest;
            last = now;
        }
        fill(wanted, stream_from(!is_listener) + chunk * (CHUNK / 8));
        if (memcmp(words, wanted, CHUNK) != 0) {
            const char *got = (const char *)words, *right = (const char *)wanted;
            int first = 0, last = CHUNK - 1;
            while (got[first] == right[first])
                first++;
            while (got[last] == right[last])
                last--;
            fprintf(stderr, "chunk %llu, bytes %d to %d (%02x.. for %02x..): ", (unsigned long long)chunk, first, last,
                    got[first] & 255, right[first] & 255);
            errno = 0;
            die("other bytes than were sent");
        }
        if (chunk == chunks / 4)
            say_what_is_held("quarter");
    }
    printf("longest pause: %.0f ms\n", longest);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        die("usage: moving listen|connect ADDRESS PORT MIB");
    int is_listener = strcmp(argv[1], "listen") == 0, one = 1;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || inet_pton(AF_INET, argv[2], &name.sin_addr) != 1)
        die("socket");
    if (is_listener) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&name, sizeof name) != 0 || listen(fd, 1) != 0)
            die("listen");
        fd = accept(fd, NULL, NULL);
        if (fd < 0)
            die("accept");
    } else if (connect(fd, (struct sockaddr *)&name, sizeof name) != 0) {
        die("connect");
    }
    chunks = (uint64_t)atoi(argv[4]) * (1 << 20) / CHUNK;
    pthread_t sender;
    pthread_create(&sender, NULL, send_all, is_listener ? &one : NULL);
    receive_all(is_listener);
    pthread_join(sender, NULL);
    say_what_is_held("end");
    getchar();
    return 0;
}
