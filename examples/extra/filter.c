/* A receive callback that drops every second datagram before it is queued. Ends with an empty datagram, which always passes.
 *
 *     LD_PRELOAD=libvma.so ./filter ADDRESS PORT
 */
#include "example.h"

struct counts {
    unsigned long long seen, dropped;
};

static vma_recv_callback_retval_t every_second(int fd, size_t sz_iov, struct iovec iov[], struct vma_info_t *info,
                                               void *context)
{
    struct counts *counts = context;

    (void)fd, (void)sz_iov, (void)iov;
    if (info->payload_sz == 0)
        return VMA_PACKET_RECV;
    if (++counts->seen % 2)
        return VMA_PACKET_RECV;
    counts->dropped++;
    return VMA_PACKET_DROP;
}

int main(int argc, char **argv)
{
    char buffer[2048];
    struct counts counts = {0, 0};
    unsigned long long received = 0;
    ssize_t got;

    if (argc != 3) {
        fprintf(stderr, "usage: filter ADDRESS PORT\n");
        return 2;
    }
    struct vma_api_t *api = api_or_stop(VMA_EXTRA_API_REGISTER_RECV_CALLBACK);
    int fd = bound_socket(SOCK_DGRAM, argv[1], argv[2]);
    if (api->register_recv_callback(fd, every_second, &counts))
        stop("register_recv_callback");
    puts("ready");
    fflush(stdout);
    while ((got = recv(fd, buffer, sizeof(buffer), 0)) > 0)
        received++;
    if (got < 0)
        stop("recv");
    printf("seen %llu dropped %llu received %llu\n", counts.seen, counts.dropped, received);
    return 0;
}
