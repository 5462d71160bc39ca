/* The extra API at its edges: names that nobody was given, packets that nobody gives back, verdicts that hold, sockets that are
 * not accelerated, sends that stay here. Answers to a peer that echoes datagrams and streams (started first):
 *
 *     extra_edges OWN-ADDRESS PEER-ADDRESS PEER-PORT
 */
#include "check.h"

#include "../../include/mellanox/vma_extra.h"

#include <fcntl.h>
#include <poll.h>

#define FAILS(call, code) CHECK((errno = 0, (call) == -1) && errno == (code))

static struct vma_api_t *api;
static struct sockaddr_in own, peer;
static char buffer[65536];

static int udp(void)
{
    struct timeval patience = {30, 0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    own.sin_port = 0;
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    return fd;
}

static void say(int fd, const char *text)
{
    CHECK(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&peer, sizeof(peer)) == (ssize_t)strlen(text));
}

/* The one packet of a list. */
static struct vma_packet_t *only(void)
{
    struct vma_packets_t *list = (struct vma_packets_t *)buffer;
    CHECK(list->n_packet_num == 1);
    return list->pkts;
}

static void names(void)
{
    int fd = udp(), other = udp(), flags = 0;
    struct sockaddr_in from;
    socklen_t len = sizeof(from);

    say(fd, "first");
    CHECK(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, (struct sockaddr *)&from, &len) == 5);
    CHECK(flags == MSG_VMA_ZCOPY && len == sizeof(from) && from.sin_port == peer.sin_port);
    CHECK(from.sin_addr.s_addr == peer.sin_addr.s_addr);
    struct vma_packet_t *packet = only();
    CHECK(packet->sz_iov == 1 && packet->iov[0].iov_len == 5 && !memcmp(packet->iov[0].iov_base, "first", 5));

    /* Of another socket, made up, null. */
    FAILS(api->free_packets(other, packet, 1), ENOENT);
    struct vma_packet_t *forged = calloc(1, sizeof(*forged) + sizeof(struct iovec));
    uintptr_t made_up[] = {0, 1, 4096, (uintptr_t)packet->packet_id + 1, ~(uintptr_t)0, (uintptr_t)buffer,
                           (uintptr_t)packet->iov[0].iov_base};
    for (unsigned i = 0; i < sizeof(made_up) / sizeof(*made_up); i++) {
        forged->packet_id = (void *)made_up[i];
        FAILS(api->free_packets(fd, forged, 1), ENOENT);
    }
    forged->packet_id = packet->packet_id;
    forged->sz_iov = ~(size_t)0;
    FAILS(api->free_packets(fd, forged, 2), EINVAL);
    FAILS(api->free_packets(-1, packet, 1), EINVAL);
    FAILS(api->free_packets(1, packet, 1), EINVAL);
    /* Once, and not twice. */
    CHECK(api->free_packets(fd, packet, 1) == 0);
    FAILS(api->free_packets(fd, packet, 1), ENOENT);

    /* Too small a buffer takes nothing. */
    say(fd, "second");
    flags = 0;
    FAILS(api->recvfrom_zcopy(fd, buffer, 23, &flags, NULL, NULL), ENOBUFS);
    flags = MSG_PEEK;
    CHECK(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL) == 6);
    CHECK(!(flags & MSG_VMA_ZCOPY) && !memcmp(buffer, "second", 6));
    flags = MSG_VMA_ZCOPY_FORCE;
    CHECK(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL) == 6 && flags == MSG_VMA_ZCOPY);
    CHECK(api->free_packets(fd, only(), 1) == 0);
    flags = MSG_DONTWAIT;
    FAILS(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL), EAGAIN);

    /* What is lent at the end of a socket is gone with it. */
    say(fd, "third");
    flags = 0;
    CHECK(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL) == 5);
    close(fd);
    FAILS(api->free_packets(fd, only(), 1), EINVAL);
    close(other);
    free(forged);
}

/* Nobody gives anything back: the socket goes on by copies at last, and others are lent as before. */
static void hoarder(void)
{
    int fd = udp(), other = udp(), copies = 0;

    for (int i = 0; i < 40000 && copies < 100; i++) {
        int flags = 0;
        say(fd, "again");
        CHECK(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL) == 5);
        copies += !(flags & MSG_VMA_ZCOPY);
    }
    CHECK(copies == 100);
    int flags = MSG_VMA_ZCOPY_FORCE;
    say(fd, "forced");
    FAILS(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL), EIO);
    say(other, "other");
    flags = MSG_VMA_ZCOPY_FORCE;
    CHECK(api->recvfrom_zcopy(other, buffer, sizeof(buffer), &flags, NULL, NULL) == 5);
    CHECK(api->free_packets(other, only(), 1) == 0);
    close(fd);
    close(other);
}

static void *held[8];
static int calls, holds;

static vma_recv_callback_retval_t hold(int fd, size_t sz_iov, struct iovec iov[], struct vma_info_t *info, void *context)
{
    (void)fd;
    CHECK(context == &peer && info->struct_sz == sizeof(*info) && sz_iov == 1);
    CHECK(info->payload_sz == iov[0].iov_len && info->src->sin_port == peer.sin_port);
    calls++;
    if (!memcmp(iov[0].iov_base, "hold", 4)) {
        held[holds++] = info->packet_id;
        return VMA_PACKET_HOLD;
    }
    return !memcmp(iov[0].iov_base, "drop", 4) ? VMA_PACKET_DROP : VMA_PACKET_RECV;
}

static void give_back(int fd, void *id)
{
    struct vma_packet_t *packet = calloc(1, sizeof(*packet));
    packet->packet_id = id;
    CHECK(api->free_packets(fd, packet, 1) == 0);
    FAILS(api->free_packets(fd, packet, 1), ENOENT);
    free(packet);
}

static void verdicts(int is_tcp)
{
    int fd;

    calls = holds = 0;
    if (is_tcp) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0);
    } else {
        fd = udp();
        CHECK(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0);
    }
    CHECK(api->register_recv_callback(fd, hold, &peer) == 0);
    struct pollfd polled = {fd, POLLIN, 0};
    for (int round = 0; round < 2; round++) {
        /* One after the other, so that each is a packet of its own. */
        CHECK(send(fd, "drop", 4, 0) == 4);
        while (calls < 3 * round + 1)
            CHECK(poll(&polled, 1, 10) == 0);
        CHECK(send(fd, "hold", 4, 0) == 4);
        while (calls < 3 * round + 2)
            CHECK(poll(&polled, 1, 10) == 0);
        CHECK(recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) == -1 && errno == EAGAIN);
        CHECK(send(fd, "pass", 4, 0) == 4);
        CHECK(recv(fd, buffer, sizeof(buffer), 0) == 4 && !memcmp(buffer, "pass", 4));
        CHECK(calls == 3 * round + 3 && holds == round + 1);
    }
    give_back(fd, held[0]);
    give_back(fd, held[1]);
    CHECK(api->register_recv_callback(fd, NULL, NULL) == 0);
    CHECK(send(fd, "drop", 4, 0) == 4);
    CHECK(recv(fd, buffer, sizeof(buffer), 0) == 4 && calls == 6);
    close(fd);
}

/* A stream by pieces: what is kept closes the window, which is no end. */
static void stream(void)
{
    static char pattern[1 << 20];
    size_t sent = 0, got = 0;
    struct vma_packet_t **kept = calloc(1 << 16, sizeof(*kept));
    unsigned many = 0, copies = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (char)(i * 7 + i / 251);
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    while (got < sizeof(pattern)) {
        struct pollfd polled = {fd, POLLIN | (sent < sizeof(pattern) ? POLLOUT : 0), 0};
        CHECK(poll(&polled, 1, 30000) == 1);
        if (polled.revents & POLLOUT) {
            ssize_t n = send(fd, pattern + sent, sizeof(pattern) - sent, 0);
            sent += n > 0 ? n : 0;
        }
        int flags = 0;
        ssize_t n = api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL);
        if (n < 0) {
            CHECK(errno == EAGAIN);
            continue;
        }
        CHECK(n > 0);
        if (!(flags & MSG_VMA_ZCOPY)) {
            CHECK(!memcmp(buffer, pattern + got, n));
            copies++;
            got += n;
            continue;
        }
        struct vma_packets_t *list = (struct vma_packets_t *)buffer;
        char *next = (char *)list->pkts;
        for (size_t i = 0; i < list->n_packet_num; i++) {
            struct vma_packet_t *packet = (struct vma_packet_t *)next;
            CHECK(packet->sz_iov == 1 && !memcmp(packet->iov[0].iov_base, pattern + got, packet->iov[0].iov_len));
            got += packet->iov[0].iov_len;
            /* Half of them are kept to the end. */
            struct vma_packet_t *copy = calloc(1, sizeof(*copy));
            copy->packet_id = packet->packet_id;
            if (i % 2)
                kept[many++] = copy;
            else {
                CHECK(api->free_packets(fd, copy, 1) == 0);
                free(copy);
            }
            next += sizeof(*packet) + packet->sz_iov * sizeof(struct iovec);
        }
    }
    printf("stream: %u kept, %u copies\n", many, copies);
    for (unsigned i = 0; i < many; i++) {
        CHECK(api->free_packets(fd, kept[i], 1) == 0);
        FAILS(api->free_packets(fd, kept[i], 1), ENOENT);
    }
    close(fd);
}

/* Nothing of a dummy send arrives, and what follows it does. */
static void dummies(void)
{
    int fd = udp(), tcp = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_UNIX, SOCK_DGRAM, 0), flags;
    unsigned char header[128];
    uint16_t len = sizeof(header);
    struct sockaddr_in name;
    socklen_t name_len = sizeof(name);

    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0);
    CHECK(connect(tcp, (struct sockaddr *)&peer, sizeof(peer)) == 0);
    /* The neighbour is known from here on. */
    CHECK(send(fd, "hello", 5, 0) == 5 && recv(fd, buffer, sizeof(buffer), 0) == 5);
    CHECK(send(tcp, "hello", 5, 0) == 5 && recv(tcp, buffer, sizeof(buffer), 0) == 5);
    for (int i = 0; i < 100; i++) {
        CHECK(send(fd, "dummy", 5, VMA_SND_FLAGS_DUMMY) == 5);
        CHECK(send(tcp, "dummy", 5, VMA_SND_FLAGS_DUMMY) == 5);
    }
    FAILS(send(tcp, buffer, 20000, VMA_SND_FLAGS_DUMMY), EAGAIN);
    FAILS(send(local, "dummy", 5, VMA_SND_FLAGS_DUMMY), EINVAL);
    CHECK(send(fd, "real", 4, 0) == 4 && recv(fd, buffer, sizeof(buffer), 0) == 4 && !memcmp(buffer, "real", 4));
    CHECK(send(tcp, "real", 4, 0) == 4 && recv(tcp, buffer, sizeof(buffer), 0) == 4 && !memcmp(buffer, "real", 4));

    /* Headers as they would be sent: 14 + 20 + 8, and 14 + 20 + 20. */
    CHECK(getsockname(fd, (struct sockaddr *)&name, &name_len) == 0);
    CHECK(api->get_socket_network_header(fd, NULL, &len) == 0 && len == 42);
    len = 41;
    FAILS(api->get_socket_network_header(fd, header, &len), ENOBUFS);
    len = sizeof(header);
    CHECK(api->get_socket_network_header(fd, header, &len) == 0 && len == 42);
    CHECK(header[12] == 8 && header[13] == 0 && header[14] >> 4 == 4 && header[23] == IPPROTO_UDP);
    CHECK(!memcmp(header + 26, &name.sin_addr, 4) && !memcmp(header + 30, &peer.sin_addr, 4));
    CHECK(!memcmp(header + 34, &name.sin_port, 2) && !memcmp(header + 36, &peer.sin_port, 2));
    len = sizeof(header);
    CHECK(api->get_socket_network_header(tcp, header, &len) == 0 && len == 54 && header[23] == IPPROTO_TCP);
    FAILS(api->get_socket_network_header(-1, header, &len), EINVAL);

    /* Rings. */
    int rings[2] = {-1, -1};
    CHECK(api->get_socket_rings_num(fd) == 1 && api->get_socket_rings_num(local) == 0);
    CHECK(api->get_socket_rings_fds(fd, rings, 2) == 1 && rings[0] >= 0);
    FAILS(api->get_socket_rings_fds(fd, NULL, 2), EINVAL);
    FAILS(api->get_socket_rings_fds(fd, rings, 0), EINVAL);
    CHECK(api->get_socket_tx_ring_fd(fd, (struct sockaddr *)&peer, sizeof(peer)) == rings[0]);
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FAILS(api->get_socket_tx_ring_fd(fd, (struct sockaddr *)&name, sizeof(name)), ENODATA);
    FAILS(api->get_socket_tx_ring_fd(fd, NULL, 0), EINVAL);
    struct vma_completion_t completion;
    FAILS(api->socketxtreme_poll(rings[0], &completion, 1, 0), EOPNOTSUPP);
    FAILS(api->socketxtreme_free_vma_packets(NULL, 1), EOPNOTSUPP);

    /* Options. */
    void *word = &completion, *told = NULL;
    socklen_t word_len = sizeof(told);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, &word, sizeof(word)) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, &told, &word_len) == 0 && told == word);
    FAILS(setsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, &word, 4), EINVAL);
    FAILS(setsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, NULL, 8), EINVAL);
    /* As sockperf's --set-sock-accl sets it. */
    CHECK(setsockopt(fd, SOL_SOCKET, 100, NULL, 0) == 0);
    FAILS(setsockopt(fd, SOL_SOCKET, 100, &word, 2), EINVAL);
    uint32_t tag = 77, tag_told = 0;
    word_len = sizeof(tag_told);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, sizeof(tag)) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag_told, &word_len) == 0 && tag_told == 77);
    struct vma_ring_type_attr profile = {.ring_type = VMA_RING_PACKET};
    int key = 0, again = 0;
    CHECK(api->vma_add_ring_profile(&profile, &key) == 0 && key > 0);
    CHECK(api->vma_add_ring_profile(&profile, &again) == 0 && again == key);
    profile.ring_type = VMA_RING_EXTERNAL_MEM;
    FAILS(api->vma_add_ring_profile(&profile, &again), EOPNOTSUPP);
    struct vma_ring_alloc_logic_attr logic = {.comp_mask = VMA_RING_ALLOC_MASK_RING_PROFILE_KEY,
                                              .ring_alloc_logic = RING_LOGIC_PER_SOCKET,
                                              .ring_profile_key = (uint32_t)key};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &logic, sizeof(logic)) == 0);
    logic.ring_profile_key = 1000;
    FAILS(setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &logic, sizeof(logic)), EINVAL);
    struct iovec memory = {buffer, sizeof(buffer)};
    FAILS(setsockopt(fd, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, &memory, sizeof(memory)), EOPNOTSUPP);
    struct {
        struct cmsghdr header;
        struct vma_cmsg_ioctl_user_alloc_t allocator;
    } message = {{.cmsg_len = CMSG_LEN(sizeof(struct vma_cmsg_ioctl_user_alloc_t)), .cmsg_level = SOL_SOCKET,
                  .cmsg_type = CMSG_VMA_IOCTL_USER_ALLOC},
                 {VMA_IOCTL_USER_ALLOC_RX, malloc, free}};
    FAILS(api->ioctl(&message, sizeof(message)), EOPNOTSUPP);
    message.allocator.flags = 0;
    FAILS(api->ioctl(&message, sizeof(message)), EINVAL);
    struct vma_modify_ring_attr pace = {.ring_fd = -1, .cq_moderation = {48, 50}};
    FAILS(api->vma_modify_ring(NULL), EINVAL);
    pace.comp_bit_mask = VMA_MODIFY_RING_CQ_MODERATION;
    FAILS(api->vma_modify_ring(&pace), EINVAL);
    CHECK(api->get_socket_rings_fds(fd, &pace.ring_fd, 1) == 1);
    pace.comp_bit_mask = 0;
    FAILS(api->vma_modify_ring(&pace), EINVAL);
    pace.comp_bit_mask = 4 | VMA_MODIFY_RING_CQ_MODERATION;
    FAILS(api->vma_modify_ring(&pace), EINVAL);
    pace.comp_bit_mask = VMA_MODIFY_RING_CQ_ARM;
    CHECK(api->vma_modify_ring(&pace) == 0);

    /* Receiving ends. */
    int on = 1;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, &on, sizeof(on)) == 0);
    flags = MSG_DONTWAIT;
    CHECK(recv(fd, buffer, sizeof(buffer), flags) <= 0);
    close(fd);
    close(tcp);
    close(local);
}

static void *kernel_sockets(void *unused)
{
    (void)unused;
    CHECK(api->thread_offload(0, pthread_self()) == 0);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), flags = 0;
    struct timeval patience = {30, 0};
    own.sin_port = 0;
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    CHECK(api->get_socket_rings_num(fd) == 0);
    FAILS(api->register_recv_callback(fd, hold, NULL), EINVAL);
    say(fd, "plain");
    CHECK(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL) == 5 && flags == 0);
    CHECK(!memcmp(buffer, "plain", 5));
    flags = MSG_VMA_ZCOPY_FORCE;
    FAILS(api->recvfrom_zcopy(fd, buffer, sizeof(buffer), &flags, NULL, NULL), EIO);
    FAILS(api->free_packets(fd, NULL, 0), EINVAL);
    close(fd);
    CHECK(api->thread_offload(1, pthread_self()) == 0);
    fd = udp();
    CHECK(api->get_socket_rings_num(fd) == 1);
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char rule[128];

    CHECK(argc == 4 && (api = vma_get_api()));
    own.sin_family = peer.sin_family = AF_INET;
    CHECK(inet_pton(AF_INET, argv[1], &own.sin_addr) == 1 && inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1);
    peer.sin_port = htons((unsigned short)atoi(argv[3]));
    alarm(300);

    names();
    hoarder();
    verdicts(0);
    verdicts(1);
    stream();
    dummies();
    CHECK(pthread_create(&thread, NULL, kernel_sockets, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(api->dump_fd_stats(0, 3) == 0);

    /* A bad line changes nothing, and a good one after it does. */
    int before = udp();
    FAILS(api->add_conf_rule("use nonsense"), EINVAL);
    FAILS(api->add_conf_rule(NULL), EINVAL);
    snprintf(rule, sizeof(rule), "use os udp_receiver %s:*", argv[1]);
    CHECK(api->add_conf_rule(rule) == 0);
    int after = udp();
    CHECK(api->get_socket_rings_num(before) == 1 && api->get_socket_rings_num(after) == 0);
    puts("passed");
    return 0;
}
