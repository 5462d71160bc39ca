/* Receives until SIGINT by recv and without a copy in turns of some MiB, so that what else the machine does meets both, and
 * looks at the first bytes of each message only, as a feed handler does that passes most of them over. Prints the nanoseconds
 * of CPU that each KiB took by either way.
 *
 *     receive udp|tcp ADDRESS PORT wake|nap
 *
 * `wake`: it sleeps in the receive; most of what that costs is waking. `nap`: it takes each millisecond what came meanwhile.
 */
#include "../../include/mellanox/vma_extra.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void stop(int number)
{
    (void)number;
    over = 1;
}

static double cpu(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1e9 + used.tv_nsec;
}

/* What came by one way, and the CPU that it took. */
struct way {
    double kib, ns;
};

/* Long beside the queue, since what one turn leaves there was paid for by it and is read by the next. */
#define TURN_KIB (16 * 1024.0)

/* Between two looks of a receiver that takes what came meanwhile; what comes in that time has room in QUEUE. */
#define NAP_NS (1000 * 1000)
#define QUEUE (4 << 20)

static char buffer[65536];
static int flags_of_calls;
static unsigned looked;

static ssize_t by_recv(int fd)
{
    ssize_t got = recv(fd, buffer, sizeof(buffer), flags_of_calls);

    if (got > 0)
        looked += (unsigned char)buffer[0];
    return got;
}

static ssize_t without_copy(struct vma_api_t *api, int fd)
{
    struct vma_packets_t *list = (struct vma_packets_t *)buffer;
    char *next = (char *)list->pkts;
    int flags = flags_of_calls;
    ssize_t got = api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL);

    if (got <= 0)
        return got;
    if (!(flags & MSG_VMA_ZCOPY)) {
        looked += (unsigned char)buffer[0];
        return got;
    }
    for (size_t n = 0; n < list->n_packet_num; n++) {
        struct vma_packet_t *packet = (struct vma_packet_t *)next;
        looked += *(unsigned char *)packet->iov[0].iov_base;
        next += sizeof(*packet) + packet->sz_iov * sizeof(struct iovec);
    }
    return api->free_packets(fd, list->pkts, list->n_packet_num) ? -1 : got;
}

int main(int argc, char **argv)
{
    struct sigaction ends = {.sa_handler = stop};
    struct sockaddr_in name = {.sin_family = AF_INET};
    struct way ways[2] = {{0, 0}, {0, 0}};
    int one = 1, queue = QUEUE;

    if (argc != 5 || inet_pton(AF_INET, argv[2], &name.sin_addr) != 1)
        return 2;
    struct vma_api_t *api = vma_get_api();
    flags_of_calls = strcmp(argv[4], "nap") ? 0 : MSG_DONTWAIT;
    int is_tcp = !strcmp(argv[1], "tcp");
    int fd = socket(AF_INET, is_tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    name.sin_port = htons((unsigned short)atoi(argv[3]));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof(queue));
    sigaction(SIGINT, &ends, NULL);
    if (!api || bind(fd, (struct sockaddr *)&name, sizeof(name)) || (is_tcp && listen(fd, 1)))
        return 1;
    puts("ready");
    fflush(stdout);
    if (is_tcp)
        fd = accept(fd, NULL, NULL);
    for (unsigned turn = 0; !over; turn++) {
        struct way *way = &ways[turn % 2];
        double began = cpu(), kib = 0;
        ssize_t got;

        while (kib < TURN_KIB && !over) {
            got = way == &ways[1] ? without_copy(api, fd) : by_recv(fd);
            if (got > 0)
                kib += got / 1024.0;
            else if (got < 0 && errno == EAGAIN)
                nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
            else
                break;
        }
        if (kib < TURN_KIB)
            break;
        /* The first of each opens the lane, or moves the connection. */
        if (turn < 2)
            continue;
        way->kib += kib;
        way->ns += cpu() - began;
    }
    for (unsigned n = 0; n < 2; n++)
        printf("%s: %.0f KiB, ns %.3f (%u)\n", n ? "zero" : "recv", ways[n].kib, ways[n].ns / ways[n].kib, looked);
    return 0;
}
