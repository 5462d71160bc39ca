/* Zero-copy receive: adds up what arrives where it lies. With UDP until an empty datagram comes, with TCP until the peer
 * closes. A receive that cannot be done without a copy (what came by the kernel) is one with a copy.
 *
 *     LD_PRELOAD=libvma.so ./zero_copy udp|tcp ADDRESS PORT
 */
#include "example.h"

int main(int argc, char **argv)
{
    static char buffer[65536];
    unsigned long long packets = 0, bytes = 0, sum = 0, copies = 0;

    if (argc != 4) {
        fprintf(stderr, "usage: zero_copy udp|tcp ADDRESS PORT\n");
        return 2;
    }
    struct vma_api_t *api = api_or_stop(VMA_EXTRA_API_RECVFROM_ZCOPY | VMA_EXTRA_API_FREE_PACKETS);
    int is_tcp = !strcmp(argv[1], "tcp");
    int fd = bound_socket(is_tcp ? SOCK_STREAM : SOCK_DGRAM, argv[2], argv[3]);
    if (is_tcp && listen(fd, 1))
        stop("listen");
    puts("ready");
    fflush(stdout);
    if (is_tcp && (fd = accept(fd, NULL, NULL)) < 0)
        stop("accept");

    for (;;) {
        int flags = 0;
        ssize_t got = api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL);
        if (got < 0)
            stop("recvfrom_zcopy");
        if (got == 0)
            break;
        bytes += got;
        if (!(flags & MSG_VMA_ZCOPY)) {
            for (ssize_t i = 0; i < got; i++)
                sum += (unsigned char)buffer[i];
            copies++;
            continue;
        }
        struct vma_packets_t *list = (struct vma_packets_t *)buffer;
        char *next = (char *)list->pkts;
        for (size_t n = 0; n < list->n_packet_num; n++) {
            struct vma_packet_t *packet = (struct vma_packet_t *)next;
            for (size_t piece = 0; piece < packet->sz_iov; piece++) {
                unsigned char *start = packet->iov[piece].iov_base;
                for (size_t i = 0; i < packet->iov[piece].iov_len; i++)
                    sum += start[i];
            }
            next += sizeof(*packet) + packet->sz_iov * sizeof(struct iovec);
            packets++;
        }
        if (api->free_packets(fd, list->pkts, list->n_packet_num))
            stop("free_packets");
    }
    printf("packets %llu bytes %llu sum %llu copies %llu\n", packets, bytes, sum, copies);
    return 0;
}
