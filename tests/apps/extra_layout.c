/* The layout of vma_extra.h, as programs have it that were compiled against libvma's own: offsets and values, and at run time that
 * the table is found in both ways, or in none. Prints "there" or "absent". */
#define _GNU_SOURCE
#include "../../include/mellanox/vma_extra.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OFFSET(type, member, at) _Static_assert(offsetof(struct type, member) == (at), #type "." #member)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)

SIZE(vma_api_t, 168);
OFFSET(vma_api_t, register_recv_callback, 0);
OFFSET(vma_api_t, recvfrom_zcopy, 8);
OFFSET(vma_api_t, free_packets, 16);
OFFSET(vma_api_t, add_conf_rule, 24);
OFFSET(vma_api_t, thread_offload, 32);
OFFSET(vma_api_t, socketxtreme_poll, 40);
OFFSET(vma_api_t, get_socket_rings_num, 48);
OFFSET(vma_api_t, get_socket_rings_fds, 56);
OFFSET(vma_api_t, get_socket_tx_ring_fd, 64);
OFFSET(vma_api_t, socketxtreme_free_vma_packets, 72);
OFFSET(vma_api_t, socketxtreme_ref_vma_buff, 80);
OFFSET(vma_api_t, socketxtreme_free_vma_buff, 88);
OFFSET(vma_api_t, dump_fd_stats, 96);
OFFSET(vma_api_t, vma_add_ring_profile, 104);
OFFSET(vma_api_t, get_socket_network_header, 112);
OFFSET(vma_api_t, get_ring_direct_descriptors, 120);
OFFSET(vma_api_t, register_memory_on_ring, 128);
OFFSET(vma_api_t, deregister_memory_on_ring, 136);
OFFSET(vma_api_t, vma_modify_ring, 144);
OFFSET(vma_api_t, vma_extra_supported_mask, 152);
OFFSET(vma_api_t, ioctl, 160);

SIZE(vma_buff_t, 24);
OFFSET(vma_buff_t, payload, 8);
OFFSET(vma_buff_t, len, 16);
SIZE(vma_packet_desc_t, 40);
OFFSET(vma_packet_desc_t, total_len, 8);
OFFSET(vma_packet_desc_t, buff_lst, 16);
OFFSET(vma_packet_desc_t, hw_timestamp, 24);
SIZE(vma_completion_t, 80);
OFFSET(vma_completion_t, events, 40);
OFFSET(vma_completion_t, user_data, 48);
OFFSET(vma_completion_t, src, 56);
OFFSET(vma_completion_t, listen_fd, 72);
SIZE(vma_packet_t, 16);
OFFSET(vma_packet_t, sz_iov, 8);
OFFSET(vma_packet_t, iov, 16);
SIZE(vma_packets_t, 8);
OFFSET(vma_packets_t, pkts, 8);
SIZE(vma_info_t, 80);
OFFSET(vma_info_t, packet_id, 8);
OFFSET(vma_info_t, src, 16);
OFFSET(vma_info_t, dst, 24);
OFFSET(vma_info_t, payload_sz, 32);
OFFSET(vma_info_t, socket_ready_pkt_count, 40);
OFFSET(vma_info_t, socket_ready_byte_count, 44);
OFFSET(vma_info_t, packet_timestamps, 48);
OFFSET(vma_info_t, packet_timestamps.sw, 64);
SIZE(vma_rate_limit_t, 12);
SIZE(vma_ring_alloc_logic_attr, 20);
OFFSET(vma_ring_alloc_logic_attr, ring_alloc_logic, 4);
OFFSET(vma_ring_alloc_logic_attr, ring_profile_key, 8);
OFFSET(vma_ring_alloc_logic_attr, user_id, 12);
SIZE(vma_modify_ring_attr, 16);
OFFSET(vma_modify_ring_attr, ring_fd, 4);
OFFSET(vma_modify_ring_attr, cq_moderation.cq_moderation_period_usec, 12);
SIZE(vma_ring_type_attr, 12);
OFFSET(vma_ring_type_attr, ring_type, 4);
SIZE(vma_cmsg_ioctl_user_alloc_t, 17);
OFFSET(vma_cmsg_ioctl_user_alloc_t, memalloc, 1);
OFFSET(vma_cmsg_ioctl_user_alloc_t, memfree, 9);
SIZE(vma_mlx_hw_device_data, 200);

_Static_assert(VMA_SND_FLAGS_DUMMY == 0x400, "dummy");
_Static_assert(VMA_SOCKETXTREME_PACKET == 0x100000000ULL, "packet");
_Static_assert(VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED == 0x200000000ULL, "accepted");
_Static_assert(VMA_EXTRA_API_IOCTL == 0x200000, "ioctl");

int main(void)
{
    struct vma_api_t *api = vma_get_api();
    struct vma_api_t *(*found)(void) = (struct vma_api_t * (*)(void)) dlsym(RTLD_DEFAULT, "vma_get_api");

    if (!api) {
        puts("absent");
        return found != NULL;
    }
    if (!found || found() != api || vma_get_api() != api)
        return 2;
    /* As anybody else who asks the kernel about -1. */
    int value = 0;
    socklen_t len = sizeof(value);
    errno = 0;
    if (getsockopt(-1, SOL_SOCKET, SO_ERROR, &value, &len) != -1 || errno != EBADF)
        return 3;
    /* Room for half a pointer. */
    len = 4;
    if (getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &value, &len) != -1)
        return 4;
    /* Every slot is there, also those whose bit is clear. */
    void *slots[21];
    memcpy(slots, api, sizeof(slots));
    for (int slot = 0; slot < 21; slot++)
        if (!slots[slot] && slot != 19)
            return 5;
    /* What no adapter of ours can do says so. */
    uint32_t key;
    struct vma_mlx_hw_device_data data;
    uint64_t clear = VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS | VMA_EXTRA_API_REGISTER_MEMORY_ON_RING |
                     VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING;
    if (api->vma_extra_supported_mask & clear)
        return 6;
    if (api->get_ring_direct_descriptors(3, &data) != -1 || errno != EOPNOTSUPP)
        return 7;
    if (api->register_memory_on_ring(3, &key, sizeof(key), &key) != -1 || errno != EOPNOTSUPP)
        return 8;
    puts("there");
    return 0;
}
