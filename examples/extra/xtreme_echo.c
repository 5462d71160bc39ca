/* An echo server by completions: TCP and UDP on one port. Connections are accepted by the poll itself, and what it tells of a
 * packet is where the packet lies. Ends when a datagram says "quit".
 *
 *     VMA_SOCKETXTREME=1 LD_PRELOAD=libvma.so ./xtreme_echo ADDRESS PORT
 */
#include "example.h"

#include <sys/epoll.h>

enum { BATCH = 16 };

static unsigned long long accepted, packets, bytes, closed;

static int is_quit(const struct vma_packet_desc_t *packet)
{
    return packet->total_len == 4 && !memcmp(packet->buff_lst->payload, "quit", 4);
}

static void answer(int fd, int is_datagram, struct vma_completion_t *completion)
{
    struct vma_packet_desc_t *packet = &completion->packet;
    struct iovec pieces[64];
    struct msghdr message = {.msg_iov = pieces};

    for (struct vma_buff_t *buff = packet->buff_lst; buff && message.msg_iovlen < 64; buff = buff->next) {
        pieces[message.msg_iovlen].iov_base = buff->payload;
        pieces[message.msg_iovlen++].iov_len = buff->len;
    }
    if (is_datagram) {
        message.msg_name = &completion->src;
        message.msg_namelen = sizeof(completion->src);
    }
    if (sendmsg(fd, &message, 0) != packet->total_len)
        stop("sendmsg");
    packets++;
    bytes += packet->total_len;
}

int main(int argc, char **argv)
{
    struct vma_completion_t completions[BATCH];
    int ring, quits = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: xtreme_echo ADDRESS PORT\n");
        return 2;
    }
    struct vma_api_t *api = api_or_stop(VMA_EXTRA_API_SOCKETXTREME_POLL | VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS |
                                        VMA_EXTRA_API_GET_SOCKET_RINGS_FDS);
    int listener = bound_socket(SOCK_STREAM, argv[1], argv[2]);
    int datagrams = bound_socket(SOCK_DGRAM, argv[1], argv[2]);
    if (listen(listener, 16))
        stop("listen");
    /* Both stand on the one interface that has the address. */
    if (api->get_socket_rings_fds(listener, &ring, 1) != 1)
        stop("get_socket_rings_fds");
    puts("ready");
    fflush(stdout);

    while (!quits) {
        int count = api->socketxtreme_poll(ring, completions, BATCH, 0);
        if (count < 0)
            stop("socketxtreme_poll");
        for (int i = 0; i < count; i++) {
            struct vma_completion_t *completion = &completions[i];
            int fd = (int)completion->user_data;

            if (completion->events & VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED)
                accepted += completion->listen_fd == listener;
            if (completion->events & VMA_SOCKETXTREME_PACKET) {
                if (fd == datagrams && is_quit(&completion->packet))
                    quits = 1;
                else
                    answer(fd, fd == datagrams, completion);
                if (api->socketxtreme_free_vma_packets(&completion->packet, 1))
                    stop("socketxtreme_free_vma_packets");
            }
            if (completion->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
                close(fd);
                closed++;
            }
        }
    }
    printf("accepted %llu packets %llu bytes %llu closed %llu\n", accepted, packets, bytes, closed);
    return 0;
}
