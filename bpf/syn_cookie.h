// SPDX-License-Identifier: MIT OR Apache-2.0
// Answers to SYNs by which nothing is remembered (RFC 4987, 3.6): the packet becomes its own SYN-ACK and goes back. What
// the answer proves comes back in an ACK, which goes to a lane like any other packet, and the engine knows it:
// crates/stack/src/tcp/cookie.rs says what a cookie looks like, and must agree with `cookie` here.
//
// The answer has no options but the MSS: no window scale, no SACK, no timestamps; that is what such a connection
// does without. What the engine would not answer is not answered here either: frames for others, sources that cannot
// be, flags that make no sense. Checksums of the SYN are not verified: of a local peer they are not even complete
// (CHECKSUM_PARTIAL), and an answer to what was damaged on the way finds nobody who waits for it.
#pragma once
#include "flood.h"

struct tcp {
	__be16 source, destination;
	__be32 sequence, acknowledgment;
	__u8 length, flags;	// length: of the header in words << 4
	__be16 window, checksum, urgent;
};

struct mss {
	__u8 kind, length;
	__be16 value;
};

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum { NOTHING = 0, PADDING = 1, MSS = 2 };
enum { OPTIONS_READ = 8, MSS_UNSAID = 536 };
enum { ANSWER_LENGTH = sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct tcp) + sizeof(struct mss) };

#define ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))

INLINE void sip_round(__u64 *v)
{
	v[0] += v[1], v[1] = ROTATE(v[1], 13) ^ v[0], v[0] = ROTATE(v[0], 32);
	v[2] += v[3], v[3] = ROTATE(v[3], 16) ^ v[2];
	v[0] += v[3], v[3] = ROTATE(v[3], 21) ^ v[0];
	v[2] += v[1], v[1] = ROTATE(v[1], 17) ^ v[2], v[2] = ROTATE(v[2], 32);
}

// SipHash-1-3 of three words.
INLINE __u64 sip_hash(const __u64 *key, __u64 a, __u64 b, __u64 c)
{
	__u64 v[4] = { key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
		       key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573 };
	__u64 message[4] = { a, b, c, (__u64)24 << 56 };

#pragma unroll
	for (int i = 0; i < 4; i++) {
		v[3] ^= message[i];
		sip_round(v);
		v[0] ^= message[i];
	}
	v[2] ^= 0xff;
	sip_round(v), sip_round(v), sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// Our initial number for a SYN: minute mod 32 << 27 | row of the MSS << 24 | 24 bits of the keyed hash of all there is.
INLINE __u32 cookie(const struct flood *flood, const struct iphdr *ip, const struct tcp *tcp, __u16 mss)
{
	__u64 minute = (nanoseconds() + flood->ahead) / 60000000000;
	__u32 row = (mss >= 536) + (mss >= 1220) + (mss >= 1300) + (mss >= 1400) + (mss >= 1440) + (mss >= 1460) +
		    (mss >= 8960);
	__u64 hash = sip_hash(flood->key, (__u64)ip->saddr << 32 | ip->daddr,
			      (__u64)tcp->sequence << 32 | (__u32)tcp->source << 16 | tcp->destination,
			      minute << 3 | row);

	return (__u32)minute << 27 | row << 24 | (hash & 0xffffff);
}

// The MSS among the first options of a header.
INLINE __u16 peer_mss(const struct tcp *tcp, const void *end)
{
	const __u8 *option = (const void *)(tcp + 1), *last = (const void *)tcp + (tcp->length >> 4) * 4;

	for (int i = 0; i < OPTIONS_READ; i++) {
		if (option + 4 > last || (const void *)option + 4 > end || option[0] == NOTHING)
			break;
		if (option[0] == MSS)
			return (__u16)(option[2] << 8 | option[3]);
		if (option[0] != PADDING && option[1] < 2)
			break;
		option += option[0] == PADDING ? 1 : option[1];
	}
	return MSS_UNSAID;
}

INLINE int is_same(const __u8 *mac, const __u8 *other)
{
	const __u16 *a = (const void *)mac, *b = (const void *)other;

	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

INLINE int is_answerable(const struct flood *flood, const struct ethhdr *ethernet, const struct iphdr *ip,
			 const struct tcp *tcp)
{
	__u8 network = ip->saddr & 0xff;

	return flood->mss && is_same(ethernet->h_dest, flood->mac) && !(ethernet->h_source[0] & 1) &&
	       ip->ihl == 5 && !(ip->frag_off & NETWORK16(MORE_FRAGMENTS)) &&
	       // This network, loopback, groups and what is reserved; ourselves (LAND).
	       network != 0 && network != 127 && network < 224 && ip->saddr != ip->daddr &&
	       tcp->source && (tcp->flags & (FIN | SYN | RST | ACK)) == SYN && tcp->length >= 5 << 4;
}

// A checksum of words as they lie in memory, to be stored likewise.
INLINE __be16 checksum(__u64 sum, const void *words, int length)
{
#pragma unroll
	for (int i = 0; i < length / 2; i++)
		sum += ((const __u16 *)words)[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__be16)~((sum & 0xffff) + (sum >> 16));
}

// A first segment to a listener becomes its answer, or is dropped.
INLINE int answer(struct xdp_md *packet, struct flood *flood)
{
	void *end = (void *)(long)packet->data_end;
	struct ethhdr *ethernet = (void *)(long)packet->data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct tcp *tcp = (void *)(ip + 1), reply = {};
	struct mss *mss;
	struct iphdr header = {};
	__u8 peer[6];

	if ((void *)(tcp + 1) > end || !is_answerable(flood, ethernet, ip, tcp))
		goto refused;
	reply.source = tcp->destination;
	reply.destination = tcp->source;
	reply.sequence = NETWORK32(cookie(flood, ip, tcp, peer_mss(tcp, end)));
	reply.acknowledgment = NETWORK32(NETWORK32(tcp->sequence) + 1);
	reply.length = (sizeof(reply) + sizeof(*mss)) << 2;
	reply.flags = SYN | ACK;
	reply.window = 0xffff;
	header.version = 4;
	header.ihl = 5;
	header.tot_len = NETWORK16(ANSWER_LENGTH - sizeof(*ethernet));
	header.frag_off = NETWORK16(DONT_FRAGMENT);
	header.ttl = 64;
	header.protocol = IPPROTO_TCP;
	header.saddr = ip->daddr;
	header.daddr = ip->saddr;
	header.check = checksum(0, &header, sizeof(header));

	// The length that IP states: to ask for the frame's takes Linux 5.18, and padding behind an answer harms nobody. From
	// here on the old pointers are void.
	if (adjust_tail(packet, ANSWER_LENGTH - (int)(sizeof(*ethernet) + NETWORK16(ip->tot_len))))
		goto refused;
	end = (void *)(long)packet->data_end;
	ethernet = (void *)(long)packet->data;
	ip = (void *)(ethernet + 1);
	tcp = (void *)(ip + 1);
	mss = (void *)(tcp + 1);
	if ((void *)(mss + 1) > end)
		goto refused;
	__builtin_memcpy(peer, ethernet->h_source, 6);
	__builtin_memcpy(ethernet->h_source, ethernet->h_dest, 6);
	__builtin_memcpy(ethernet->h_dest, peer, 6);
	*ip = header;
	*tcp = reply;
	*mss = (struct mss){ MSS, sizeof(*mss), NETWORK16(flood->mss) };
	tcp->checksum = checksum((__u64)header.saddr + header.daddr + NETWORK16(IPPROTO_TCP) +
				 NETWORK16(sizeof(*tcp) + sizeof(*mss)), tcp, sizeof(*tcp) + sizeof(*mss));
	__sync_fetch_and_add(&flood->answered, 1);
	return XDP_TX;
refused:
	__sync_fetch_and_add(&flood->refused, 1);
	return XDP_DROP;
}
