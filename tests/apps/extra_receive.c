/* Receives until SIGINT, by recv or without a copy, and looks at the first bytes of each message only, as a feed handler does
 * that passes most of them over. Prints the nanoseconds of CPU that each KiB took.
 *
 *     receive recv|zero udp|tcp ADDRESS PORT
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

int main(int argc, char **argv)
{
    static char buffer[65536];
    struct sigaction ends = {.sa_handler = stop};
    struct sockaddr_in name = {.sin_family = AF_INET};
    int one = 1, zero = argc > 1 && !strcmp(argv[1], "zero");
    double kib = 0, began = 0;
    unsigned looked = 0;

    if (argc != 5 || inet_pton(AF_INET, argv[3], &name.sin_addr) != 1)
        return 2;
    struct vma_api_t *api = vma_get_api();
    int is_tcp = !strcmp(argv[2], "tcp");
    int fd = socket(AF_INET, is_tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    name.sin_port = htons((unsigned short)atoi(argv[4]));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sigaction(SIGINT, &ends, NULL);
    if (!api || bind(fd, (struct sockaddr *)&name, sizeof(name)) || (is_tcp && listen(fd, 1)))
        return 1;
    puts("ready");
    fflush(stdout);
    if (is_tcp)
        fd = accept(fd, NULL, NULL);
    while (!over) {
        int flags = 0;
        ssize_t got = zero ? api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL)
                           : recv(fd, buffer, sizeof(buffer), 0);
        if (got <= 0)
            break;
        if (kib == 0)
            began = cpu();
        kib += got / 1024.0;
        if (!(flags & MSG_VMA_ZCOPY)) {
            looked += (unsigned char)buffer[0];
            continue;
        }
        struct vma_packets_t *list = (struct vma_packets_t *)buffer;
        char *next = (char *)list->pkts;
        for (size_t n = 0; n < list->n_packet_num; n++) {
            struct vma_packet_t *packet = (struct vma_packet_t *)next;
            looked += *(unsigned char *)packet->iov[0].iov_base;
            next += sizeof(*packet) + packet->sz_iov * sizeof(struct iovec);
        }
        if (api->free_packets(fd, list->pkts, list->n_packet_num))
            return 1;
    }
    printf("received %.0f KiB, ns %.3f (%u)\n", kib, (cpu() - began) / kib, looked);
    return 0;
}
