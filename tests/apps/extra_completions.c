/* socketxtreme from the client's side and at its edges: what a connect, an answer and an end are told as, who holds a buffer, addresses
 * that are none, and buffers that nobody gives back. Under VMA_SOCKETXTREME=1; talks to a peer that echoes (started first):
 *
 *     extra_completions OWN-ADDRESS PEER-ADDRESS PEER-PORT
 */
#include "check.h"

#include "../../include/mellanox/vma_extra.h"

#include <sys/epoll.h>
#include <time.h>

#define FAILS(call, code) CHECK((errno = 0, (call) == -1) && errno == (code))

static struct vma_api_t *api;
static struct sockaddr_in own, peer;
static int ring;
static uint64_t seen;

/* The next completion of a socket. Events of others, and those that are not asked for, are passed over and remembered in seen. */
static struct vma_completion_t next(uint64_t user_data, uint64_t wanted)
{
    struct vma_completion_t completion;

    for (;;) {
        int count = api->socketxtreme_poll(ring, &completion, 1, 0);
        CHECK(count == 0 || count == 1);
        if (count == 0)
            continue;
        CHECK(completion.user_data == user_data);
        seen |= completion.events;
        if (completion.events & wanted)
            return completion;
        CHECK(!(completion.events & VMA_SOCKETXTREME_PACKET));
    }
}

static void a_connection(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 1;
    socklen_t len = sizeof(error);
    void *mark = &peer;
    struct vma_completion_t completion;

    CHECK(setsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, &mark, sizeof(mark)) == 0);
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == -1 && errno == EINPROGRESS);
    CHECK(api->get_socket_rings_num(fd) == 1 && api->get_socket_rings_fds(fd, &ring, 1) == 1);
    completion = next((uintptr_t)mark, EPOLLOUT);
    CHECK(completion.src.sin_port == peer.sin_port && completion.src.sin_addr.s_addr == peer.sin_addr.s_addr);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);

    CHECK(send(fd, "hello", 5, 0) == 5);
    completion = next((uintptr_t)mark, VMA_SOCKETXTREME_PACKET);
    struct vma_packet_desc_t *packet = &completion.packet;
    struct vma_buff_t *buff = packet->buff_lst;
    CHECK(packet->num_bufs == 1 && packet->total_len == 5 && buff->len == 5 && !buff->next);
    CHECK(!memcmp(buff->payload, "hello", 5));

    /* Who holds it. */
    CHECK(api->socketxtreme_ref_vma_buff(buff) == 2);
    CHECK(api->socketxtreme_free_vma_packets(packet, 1) == 0);
    CHECK(!memcmp(buff->payload, "hello", 5));
    CHECK(api->socketxtreme_free_vma_buff(buff) == 0);
    FAILS(api->socketxtreme_free_vma_buff(buff), EINVAL);
    FAILS(api->socketxtreme_ref_vma_buff(buff), EINVAL);
    FAILS(api->socketxtreme_free_vma_packets(packet, 1), EINVAL);

    /* Addresses that are none. */
    char *made_up[] = {NULL, (char *)1, (char *)buff + 1, (char *)buff - 24, (char *)&completion, (char *)~(uintptr_t)0};
    for (unsigned i = 0; i < sizeof(made_up) / sizeof(*made_up); i++) {
        FAILS(api->socketxtreme_free_vma_buff((struct vma_buff_t *)made_up[i]), EINVAL);
        packet->buff_lst = (struct vma_buff_t *)made_up[i];
        FAILS(api->socketxtreme_free_vma_packets(packet, 1), EINVAL);
    }
    FAILS(api->socketxtreme_free_vma_packets(NULL, 1), EINVAL);
    FAILS(api->socketxtreme_free_vma_packets(packet, -1), EINVAL);
    FAILS(api->socketxtreme_poll(1, &completion, 1, 0), EBADFD);

    /* What the program writes into its own view changes nothing of ours. */
    CHECK(send(fd, "again", 5, 0) == 5);
    completion = next((uintptr_t)mark, VMA_SOCKETXTREME_PACKET);
    completion.packet.buff_lst->next = (struct vma_buff_t *)0x1234;
    CHECK(api->socketxtreme_free_vma_packets(&completion.packet, 1) == 0);

    /* The end, told once. */
    CHECK(shutdown(fd, SHUT_WR) == 0);
    seen = 0;
    completion = next((uintptr_t)mark, EPOLLRDHUP);
    CHECK(completion.events & EPOLLIN && !(seen & EPOLLERR));
    for (int i = 0; i < 1000; i++)
        CHECK(api->socketxtreme_poll(ring, &completion, 1, 0) == 0);
    close(fd);
}

/* Nobody gives anything back: packets wait at last, and come when there is room again. */
static void a_hoarder(void)
{
    enum { MOST = 20000 };
    struct vma_packet_desc_t *kept = calloc(MOST, sizeof(*kept));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), count = 0;
    struct vma_completion_t completion;
    time_t sent = 0;

    own.sin_port = 0;
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0);
    CHECK(api->get_socket_rings_fds(fd, &ring, 1) == 1);
    while (count < MOST) {
        char byte;
        int is_there = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
        if (api->socketxtreme_poll(ring, &completion, 1, 0) && completion.events & VMA_SOCKETXTREME_PACKET) {
            CHECK(completion.user_data == (uint64_t)fd && completion.packet.total_len == 8);
            kept[count++] = completion.packet;
            sent = 0;
        } else if (is_there) {
            /* And is not told. */
            break;
        } else if (!sent || time(NULL) > sent + 1) {
            /* One at a time, and once more after a second: it may be lost. */
            CHECK(sendto(fd, "datagram", 8, 0, (struct sockaddr *)&peer, sizeof(peer)) == 8);
            sent = time(NULL);
        }
    }
    CHECK(count > 10000 && count < MOST);
    CHECK(api->socketxtreme_free_vma_packets(kept, count) == 0);
    FAILS(api->socketxtreme_free_vma_packets(kept, count), EINVAL);
    completion = next((uint64_t)fd, VMA_SOCKETXTREME_PACKET);
    /* Buffers outlive their sockets. */
    close(fd);
    CHECK(!memcmp(completion.packet.buff_lst->payload, "datagram", 8));
    CHECK(api->socketxtreme_free_vma_packets(&completion.packet, 1) == 0);
    printf("held %d\n", count);
    free(kept);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4 && (api = vma_get_api()));
    own.sin_family = peer.sin_family = AF_INET;
    CHECK(inet_pton(AF_INET, argv[1], &own.sin_addr) == 1 && inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1);
    peer.sin_port = htons((unsigned short)atoi(argv[3]));
    alarm(300);
    a_connection();
    a_hoarder();
    puts("passed");
    return 0;
}
