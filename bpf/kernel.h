// SPDX-License-Identifier: MIT OR Apache-2.0
// What a program needs of the kernel: sections, byte order, maps and helper functions. Only UAPI headers.
#pragma once
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NETWORK16(x) ((__be16)__builtin_bswap16(x))
#define NETWORK32(x) ((__be32)__builtin_bswap32(x))
#else
#error "made for little-endian machines: syn_cookie.h hashes words as they lie in memory"
#endif

enum { DONT_FRAGMENT = 0x4000, MORE_FRAGMENTS = 0x2000, FRAGMENT_OFFSET = 0x1fff };

// A map that the loader makes (crates/xdp/src/program.rs), linked by its name.
struct map {
	int by_loader;
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const map_delete)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static long (*const map_update)(void *map, const void *key, const void *value, __u64 flags) =
	(void *)BPF_FUNC_map_update_elem;
static long (*const redirect_map)(void *map, __u64 key, __u64 flags) = (void *)BPF_FUNC_redirect_map;
static struct bpf_sock *(*const find_socket)(void *packet, struct bpf_sock_tuple *tuple, __u32 size, __u64 netns,
					     __u64 flags) = (void *)BPF_FUNC_skc_lookup_tcp;
static long (*const release_socket)(void *socket) = (void *)BPF_FUNC_sk_release;
static __u64 (*const nanoseconds)(void) = (void *)BPF_FUNC_ktime_get_ns;
// `length`: in, bytes behind the link's header; out, the MTU. Not 0: the packet is longer.
static long (*const check_mtu)(void *packet, __u32 interface, __u32 *length, int more, __u64 flags) =
	(void *)BPF_FUNC_check_mtu;
static long (*const adjust_tail)(struct xdp_md *packet, int by) = (void *)BPF_FUNC_xdp_adjust_tail;
