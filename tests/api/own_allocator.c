/* A program with an allocator of its own, whose lock stands still around a fork, as jemalloc's and tcmalloc's do when they are
 * linked into the program. It forks while its threads allocate and its connections work; children use what they inherit. */
#include "api.h"
#include <pthread.h>
#include <stdint.h>

#define CLASSES 32
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(64) char arena[512 << 20];
static size_t used;
static struct block {
    struct block *next;
    size_t class;
} *unused[CLASSES];

static void stop(void)
{
    pthread_mutex_lock(&lock);
}

static void go_on(void)
{
    pthread_mutex_unlock(&lock);
}

/* Where a block's memory begins is its own affair: the compiler knows what malloc means. */
static struct block *of(void *memory)
{
    char *volatile at = memory;
    return (struct block *)at - 1;
}

/* At the first allocation, as those do. */
static void begin(void)
{
    static int begun;
    if (__atomic_exchange_n(&begun, 1, __ATOMIC_SEQ_CST) == 0)
        pthread_atfork(stop, go_on, go_on);
}

/* Blocks are powers of two, behind sixteen bytes. */
void *malloc(size_t size)
{
    size_t class = 5;
    begin();
    while (((size_t)1 << class) < size + sizeof(struct block))
        class++;
    if (class >= CLASSES)
        return NULL;
    pthread_mutex_lock(&lock);
    struct block *block = unused[class];
    if (block)
        unused[class] = block->next;
    else if (used + ((size_t)1 << class) <= sizeof arena) {
        block = (struct block *)(arena + used);
        used += (size_t)1 << class;
    }
    pthread_mutex_unlock(&lock);
    if (block == NULL)
        return NULL;
    block->class = class;
    return block + 1;
}

void free(void *memory)
{
    if (memory == NULL)
        return;
    struct block *block = of(memory);
    pthread_mutex_lock(&lock);
    block->next = unused[block->class];
    unused[block->class] = block;
    pthread_mutex_unlock(&lock);
}

void *calloc(size_t count, size_t size)
{
    void *volatile memory = malloc(count * size);
    return memory ? memset(memory, 0, count * size) : NULL;
}

void *realloc(void *memory, size_t size)
{
    void *other = malloc(size);
    if (memory && other) {
        size_t had = ((size_t)1 << of(memory)->class) - sizeof(struct block);
        memcpy(other, memory, had < size ? had : size);
        free(memory);
    }
    return other;
}

/* Large alignments are given away for good. */
int posix_memalign(void **memory, size_t alignment, size_t size)
{
    pthread_mutex_lock(&lock);
    uintptr_t at = ((uintptr_t)arena + used + sizeof(struct block) + alignment - 1) & ~(alignment - 1);
    size_t end = at + size - (uintptr_t)arena;
    int fits = end <= sizeof arena;
    if (fits)
        used = (end + 31) & ~(size_t)31;
    pthread_mutex_unlock(&lock);
    if (!fits)
        return ENOMEM;
    ((struct block *)at - 1)->class = 4; /* a list that nobody takes from */
    *memory = (void *)at;
    return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    void *memory = NULL;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

void *memalign(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}

static volatile int over;

static void *allocates(void *argument)
{
    while (!over) {
        void *volatile some = malloc(100);
        free(some);
    }
    return argument;
}

static void fork_and_serve(int listener, int fd)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0);
    for (int i = 0; i < 8; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            void *volatile some = malloc(1000);
            CHECK(some);
            free(some);
            if (i == 7) {
                int one = accept(listener, NULL, NULL);
                CHECK(one >= 0);
                answers(one, 3);
            }
            _exit(0);
        }
        answers(fd, 3);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    fork_and_serve(listener, fd);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    for (int i = 0; i < 8; i++)
        pings(fd, 3);
    int one = tcp_connected(place.address, place.port);
    pings(one, 3);
}
