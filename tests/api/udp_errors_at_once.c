/* An error that has come is told by the next send and by SO_ERROR: neither waits until somebody looks for packets. */
#include "api.h"

enum { TRIES = 50, MOST = 40, BATCHES = 100, COMES_US = 300, PAUSE_US = 2000 };

#define RATE "/proc/sys/net/ipv4/icmp_ratelimit"

/* An ICMP error for each datagram, as far as the limit for all goes; the rate before. */
static int limited_to(int rate)
{
    int before;
    FILE *file = fopen(RATE, "r+");
    CHECK(file != NULL && fscanf(file, "%d", &before) == 1);
    rewind(file);
    CHECK(fprintf(file, "%d\n", rate) > 0 && fclose(file) == 0);
    return before;
}

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port), before = limited_to(0);
    char byte;
    ready();
    CHECK(recv(fd, &byte, 1, 0) == 1);
    limited_to(before);
}

static long long now_us(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static int by_option(int fd)
{
    return option(fd, SOL_SOCKET, SO_ERROR);
}

static int by_send(int fd)
{
    return send(fd, "x", 1, 0) == 1 ? 0 : errno;
}

/* A busy machine delays single errors, but not those of each batch. */
static int at_once(int fd, int (*error)(int))
{
    for (int batch = 0; batch < BATCHES; batch++) {
        int told = 0;
        for (int i = 0; i < TRIES; i++) {
            char byte;
            CHECK(send(fd, "x", 1, 0) == 1);
            for (long long until = now_us() + COMES_US; now_us() < until;)
                ;
            told += error(fd) == ECONNREFUSED;
            usleep(PAUSE_US);
            /* What came late, and what the second send drew. */
            while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == ECONNREFUSED)
                ;
        }
        if (told >= MOST)
            return 1;
    }
    return 0;
}

void client(struct place place)
{
    int closed = udp_connected(place.address, place.port + 5), fd = udp_connected(place.address, place.port);
    CHECK(at_once(closed, by_option));
    CHECK(at_once(closed, by_send));
    tell(fd);
}
