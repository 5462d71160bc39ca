/*
 * What a program may ask of libvma.so beyond the socket calls: zero-copy receive, a filter for what arrives, completions
 * instead of readiness, rules and statistics at run time. Binary compatible with libvma 9.3 to 9.8.
 *
 *     struct vma_api_t *api = vma_get_api();
 *     if (api && api->vma_extra_supported_mask & VMA_EXTRA_API_RECVFROM_ZCOPY) ...
 *
 * Without the library vma_get_api() answers NULL, and the program goes on with the socket calls. A function whose bit is
 * clear in the mask is there and fails with EOPNOTSUPP. docs/extra-api.md says what each function does on which sockets.
 *
 * Functions return -1 and set errno where they fail, unless said otherwise. They may be called from any thread.
 */
#ifndef VMA_EXTRA_H
#define VMA_EXTRA_H

#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VMA_PACKED __attribute__((packed))

/* ---- flags ------------------------------------------------------------------------------------------------ */

/* recvfrom_zcopy, on the way in: fail with EIO rather than copy. */
#define MSG_VMA_ZCOPY_FORCE 0x01000000
/* recvfrom_zcopy, on the way out: nothing was copied, the buffer holds a struct vma_packets_t. */
#define MSG_VMA_ZCOPY 0x00040000
/* send, sendto, sendmsg, sendmmsg: go the whole way but for the last step. Nothing leaves; caches are warm afterwards. */
#define VMA_SND_FLAGS_DUMMY MSG_SYN

/* ---- options of setsockopt and getsockopt, level SOL_SOCKET ------------------------------------------------- */

/* get, of descriptor -1: a struct vma_api_t * */
#define SO_VMA_GET_API 2800
/* set, get: a void *, told with each completion of the socket */
#define SO_VMA_USER_DATA 2801
/* set: struct vma_ring_alloc_logic_attr */
#define SO_VMA_RING_ALLOC_LOGIC 2810
/* set: struct iovec, memory for a ring */
#define SO_VMA_RING_USER_MEMORY 2811
/* set, get: uint32_t, a mark of the socket's flows */
#define SO_VMA_FLOW_TAG 2820
/* set: int, the socket receives nothing more */
#define SO_VMA_SHUTDOWN_RX 2821

/* Type of the message that ioctl() of the API takes to set an allocator: struct vma_cmsg_ioctl_user_alloc_t. */
#define CMSG_VMA_IOCTL_USER_ALLOC 2900

/* ---- packets of recvfrom_zcopy and of the receive callback -------------------------------------------------- */

/* One packet that the library lends: give it back with free_packets. */
struct VMA_PACKED vma_packet_t {
    void *packet_id;
    size_t sz_iov;
    struct iovec iov[];
};

/* What recvfrom_zcopy writes into the buffer. Packets follow each other without gaps, each with its own pieces. */
struct VMA_PACKED vma_packets_t {
    size_t n_packet_num;
    struct vma_packet_t pkts[];
};

/* What the receive callback is told of a packet. Valid during the call. */
struct VMA_PACKED vma_info_t {
    /* Bytes of this structure. */
    size_t struct_sz;
    /* For free_packets, if the callback says VMA_PACKET_HOLD. */
    void *packet_id;
    struct sockaddr_in *src;
    struct sockaddr_in *dst;
    size_t payload_sz;
    /* What passed the callback and waits to be received. */
    uint32_t socket_ready_pkt_count;
    uint32_t socket_ready_byte_count;
    struct {
        /* Zero: the interface tells no time. */
        struct timespec hw_raw;
        /* When the packet was taken in, CLOCK_REALTIME. */
        struct timespec sw;
    } packet_timestamps;
};

typedef enum {
    /* The packet is forgotten. */
    VMA_PACKET_DROP = 0,
    /* The packet waits to be received, as without a callback. */
    VMA_PACKET_RECV = 1,
    /* The program has the packet from now on, until free_packets. */
    VMA_PACKET_HOLD = 2
} vma_recv_callback_retval_t;

/* Called in a thread that is in a socket call of the program; may use all socket calls itself. */
typedef vma_recv_callback_retval_t (*vma_recv_callback_t)(int fd, size_t sz_iov, struct iovec iov[],
                                                          struct vma_info_t *vma_info, void *context);

/* ---- completions (VMA_SOCKETXTREME=1) ----------------------------------------------------------------------- */

/* Bits of vma_completion_t.events above those of epoll. */
enum {
    VMA_SOCKETXTREME_PACKET_SHIFT = 32,
    VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED_SHIFT = 33
};
#define VMA_SOCKETXTREME_PACKET (1ULL << VMA_SOCKETXTREME_PACKET_SHIFT)
#define VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED (1ULL << VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED_SHIFT)

/* A piece of a packet. */
struct vma_buff_t {
    struct vma_buff_t *next;
    void *payload;
    uint16_t len;
};

struct vma_packet_desc_t {
    size_t num_bufs;
    uint16_t total_len;
    struct vma_buff_t *buff_lst;
    /* Zero: the interface tells no time. */
    struct timespec hw_timestamp;
};

struct vma_completion_t {
    /* With VMA_SOCKETXTREME_PACKET. */
    struct vma_packet_desc_t packet;
    /* EPOLL... and VMA_SOCKETXTREME_... */
    uint64_t events;
    /* The descriptor, or what SO_VMA_USER_DATA set. */
    uint64_t user_data;
    /* The peer. */
    struct sockaddr_in src;
    /* With VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED. */
    int listen_fd;
};

/* ---- rings -------------------------------------------------------------------------------------------------- */

typedef enum {
    RING_LOGIC_PER_INTERFACE = 0,
    RING_LOGIC_PER_IP = 1,
    RING_LOGIC_PER_SOCKET = 10,
    RING_LOGIC_PER_USER_ID = 11,
    RING_LOGIC_PER_THREAD = 20,
    RING_LOGIC_PER_CORE = 30,
    RING_LOGIC_PER_CORE_ATTACH_THREADS = 31,
    RING_LOGIC_LAST = 32
} ring_logic_t;

enum {
    VMA_RING_ALLOC_MASK_RING_PROFILE_KEY = 1 << 0,
    VMA_RING_ALLOC_MASK_RING_USER_ID = 1 << 1,
    VMA_RING_ALLOC_MASK_RING_INGRESS = 1 << 2,
    VMA_RING_ALLOC_MASK_RING_ENGRESS = 1 << 3
};

/* Value of SO_VMA_RING_ALLOC_LOGIC. comp_mask says which members hold something. */
struct vma_ring_alloc_logic_attr {
    uint32_t comp_mask;
    ring_logic_t ring_alloc_logic;
    uint32_t ring_profile_key;
    uint32_t user_id;
    uint32_t ingress : 1;
    uint32_t engress : 1;
    uint32_t reserved : 30;
};

/* Value of SO_MAX_PACING_RATE, beside a uint32_t of bytes per second. */
struct vma_rate_limit_t {
    uint32_t rate; /* kbit/s */
    uint32_t max_burst_sz;
    uint16_t typical_pkt_sz;
};

typedef enum { VMA_RING_PACKET = 0, VMA_RING_EXTERNAL_MEM = 1 } vma_ring_type;

struct vma_packet_queue_ring_attr {
    uint32_t comp_mask;
};

struct vma_external_mem_attr {
    uint32_t comp_mask;
};

struct vma_ring_type_attr {
    uint32_t comp_mask;
    vma_ring_type ring_type;
    union {
        struct vma_packet_queue_ring_attr ring_pktq;
        struct vma_external_mem_attr ring_ext;
    };
};

enum { VMA_MODIFY_RING_CQ_MODERATION = 1 << 0, VMA_MODIFY_RING_CQ_ARM = 1 << 1 };

struct vma_cq_moderation_attr {
    uint32_t cq_moderation_count;
    uint32_t cq_moderation_period_usec;
};

struct vma_modify_ring_attr {
    uint32_t comp_bit_mask;
    int ring_fd;
    union {
        struct vma_cq_moderation_attr cq_moderation;
    };
};

enum { VMA_IOCTL_USER_ALLOC_TX = 1 << 0, VMA_IOCTL_USER_ALLOC_RX = 1 << 1 };

struct VMA_PACKED vma_cmsg_ioctl_user_alloc_t {
    uint8_t flags;
    void *(*memalloc)(size_t size);
    void (*memfree)(void *memory);
};

/* The registers of an adapter of one maker: declared so that programs compile, and never filled in. */
struct vma_mlx_hw_device_data {
    uint32_t vendor_specific[50];
};

/* ---- the table ---------------------------------------------------------------------------------------------- */

/* Bits of vma_extra_supported_mask: what works here. */
enum {
    VMA_EXTRA_API_REGISTER_RECV_CALLBACK = 1 << 0,
    VMA_EXTRA_API_RECVFROM_ZCOPY = 1 << 1,
    VMA_EXTRA_API_FREE_PACKETS = 1 << 2,
    VMA_EXTRA_API_ADD_CONF_RULE = 1 << 3,
    VMA_EXTRA_API_THREAD_OFFLOAD = 1 << 4,
    VMA_EXTRA_API_DUMP_FD_STATS = 1 << 5,
    VMA_EXTRA_API_SOCKETXTREME_POLL = 1 << 6,
    VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS = 1 << 7,
    VMA_EXTRA_API_SOCKETXTREME_REF_VMA_BUFF = 1 << 8,
    VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_BUFF = 1 << 9,
    VMA_EXTRA_API_GET_SOCKET_RINGS_NUM = 1 << 10,
    VMA_EXTRA_API_GET_SOCKET_RINGS_FDS = 1 << 11,
    VMA_EXTRA_API_GET_SOCKET_TX_RING_FD = 1 << 12,
    VMA_EXTRA_API_GET_SOCKET_NETWORK_HEADER = 1 << 13,
    VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS = 1 << 14,
    VMA_EXTRA_API_ADD_RING_PROFILE = 1 << 16,
    VMA_EXTRA_API_REGISTER_MEMORY_ON_RING = 1 << 17,
    VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING = 1 << 18,
    VMA_EXTRA_API_MODIFY_RING = 1 << 20,
    VMA_EXTRA_API_IOCTL = 1 << 21
};

struct VMA_PACKED vma_api_t {
    /* Sets the filter of a socket, or with NULL takes it away. EINVAL: not an accelerated socket. */
    int (*register_recv_callback)(int s, vma_recv_callback_t callback, void *context);

    /* As recvfrom, but without a copy where *flags says MSG_VMA_ZCOPY afterwards. Bytes of payload. */
    ssize_t (*recvfrom_zcopy)(int s, void *buf, size_t len, int *flags, struct sockaddr *from, socklen_t *fromlen);

    /* Gives packets back. EINVAL: not an accelerated socket; ENOENT: one of them is not lent, those before it are free. */
    int (*free_packets)(int s, struct vma_packet_t *pkts, size_t count);

    /* A line of libvma.conf, before all others of its kind. Sockets that were decided about stay as they are. */
    int (*add_conf_rule)(const char *config_line);

    /* Whether sockets that this thread makes from now on may be accelerated. */
    int (*thread_offload)(int offload, pthread_t tid);

    /* What happened on the sockets of a ring, up to ncompletions; never waits. fd: of get_socket_rings_fds. */
    int (*socketxtreme_poll)(int fd, struct vma_completion_t *completions, unsigned int ncompletions, int flags);

    /* The rings that a socket receives by: how many, and their descriptors (how many were written). */
    int (*get_socket_rings_num)(int fd);
    int (*get_socket_rings_fds)(int fd, int *ring_fds, int ring_fds_sz);

    /* The ring by which a datagram to this address leaves. */
    int (*get_socket_tx_ring_fd)(int sock_fd, struct sockaddr *to, socklen_t tolen);

    /* Gives packets of completions back, with all their buffers. */
    int (*socketxtreme_free_vma_packets)(struct vma_packet_desc_t *packets, int num);

    /* One more, or one less, holds the buffer. How many do then. */
    int (*socketxtreme_ref_vma_buff)(struct vma_buff_t *buff);
    int (*socketxtreme_free_vma_buff)(struct vma_buff_t *buff);

    /* Logs what is known of a socket, or of all (fd 0), at a level of VMA_TRACELEVEL. */
    int (*dump_fd_stats)(int fd, int log_level);

    int (*vma_add_ring_profile)(struct vma_ring_type_attr *profile, int *key);

    /* Ethernet, IP and transport headers as the next packet would have them. In *len the room, then the length. */
    int (*get_socket_network_header)(int fd, void *ptr, uint16_t *len);

    int (*get_ring_direct_descriptors)(int fd, struct vma_mlx_hw_device_data *data);
    int (*register_memory_on_ring)(int fd, void *addr, size_t length, uint32_t *key);
    int (*deregister_memory_on_ring)(int fd, void *addr, size_t length);
    int (*vma_modify_ring)(struct vma_modify_ring_attr *mr_data);

    uint64_t vma_extra_supported_mask;

    /* Messages of level SOL_SOCKET as in msg_control. */
    int (*ioctl)(void *cmsg_hdr, size_t cmsg_len);
};

/* The table, or NULL without the library. Always the same; nothing needs to be given back. */
static inline struct vma_api_t *vma_get_api(void)
{
    struct vma_api_t *api = NULL;
    socklen_t len = sizeof(api);

    return getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &api, &len) == 0 ? api : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
