// SPDX-License-Identifier: MIT OR Apache-2.0
// The program on the interface: packets of our flows go to our AF_XDP sockets, everything else to the kernel.
//
// A packet is looked up by (protocol, local, remote), then by (protocol, local) with the remote side zero. A hit
// names lanes; a lane owns one slot of the socket map per receive queue. An empty slot passes, so a flow whose lane
// is gone falls back to the kernel by itself.
//
// Where the UDP sockets of several processes share a port, the hash of the remote side chooses one's lane. A TCP listener
// is one lane's: what several processes have is the kernel's.
//
// A connection that the kernel has stays the kernel's, whoever listens on its port: it moved there because the child of
// a fork uses it, or past an exec; or it is older than the listener, whose port another server had before.
//
// Floods of SYNs are kept out of the receive ring: flood.h bounds them, syn_cookie.h answers what is beyond.
//
// What never reaches us on purpose:
// - tagged frames (VLAN): they belong to another interface (eth0.7) with addresses of its own, even where those
//   look the same;
// - fragments of UDP, and UDP with IP options: the kernel reassembles and parses, and delivers to the shadow socket
//   on the same port. Later fragments carry no ports, so all fragments of a datagram must take that one way;
// - ICMP other than errors that quote one of our flows.
// TCP of a flow of ours never goes to the kernel, which knows no such connection and would answer with a reset: a segment
// with IP options goes to the engine, and fragments do, which puts them together. Later ones carry no ports and follow
// the first by its identification; one that overtakes it starves in the kernel's reassembly, and TCP sends it again.
#include "syn_cookie.h"

// Both are mirrored in crates/xdp/src/steering.rs; all of it in network byte order.
struct flow {
	__be32 local, remote;
	__be16 local_port, remote_port;
	__u8 protocol, zero[3];
};

enum { MEMBERS = 40 };

struct group {
	__u8 lanes;		// the first so many of member
	__u8 zero;
	__u16 queues;		// slots per lane: one for each receive queue of the interface
	__u32 kernels;		// new connections are: only those that are under way come to a lane; of a connection:
				// it is, once the kernel has one of the same endpoints
	__u64 packets, bytes;	// redirected, counted here
	__u8 member[MEMBERS];	// lanes
};

struct ports {
	__be16 source, destination;
};

// Of a fragmented segment of ours: what its fragments have in common, and whose they are.
struct fragmented {
	__be32 local, remote;
	__be16 identification;
	__u8 zero[2];
};

struct owner {
	__u32 first_slot;	// the lane's
	__u32 queues;
};

struct icmp_error {
	__u8 type, code;
	__be16 checksum;
	__be32 rest;
	struct iphdr quoted;
};

enum { ICMP_UNREACHABLE = 3, ICMP_TIME_EXCEEDED = 11, ICMP_PARAMETER = 12 };

// Made by the loader: flows is a hash of struct flow to struct group, begun a least-recently-used hash of struct flow to
// lane (connections that were not accepted yet, whose peers are told if the lane's process is killed), fragments another
// of struct fragmented to struct owner, sockets an XSKMAP.
struct map flows SECTION(".maps"), begun SECTION(".maps"), fragments SECTION(".maps"), sockets SECTION(".maps");

INLINE __u32 hash(const struct flow *flow)
{
	__u32 h = flow->remote ^ ((__u32)flow->remote_port << 16 | flow->local_port);

	h = (h ^ h >> 16) * 0x7feb352d;
	h = (h ^ h >> 15) * 0x846ca68b;
	return h ^ h >> 16;
}

// The lane of several that a packet without an entry of its own goes to.
INLINE __u32 choose(const struct group *group, const struct flow *exact)
{
	__u32 lane = group->lanes ? hash(exact) % group->lanes : 0;

	if (lane >= MEMBERS)
		return 0;
	return group->member[lane];
}

// Whether the kernel has a socket of this very connection. TIME-WAIT is one: it knows when a SYN may follow.
INLINE int is_kernels(struct xdp_md *packet, const struct flow *flow)
{
	struct bpf_sock_tuple tuple = { .ipv4 = { flow->remote, flow->local, flow->remote_port, flow->local_port } };
	struct bpf_sock *socket = find_socket(packet, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	__u32 state;

	if (!socket)
		return 0;
	state = socket->state;
	release_socket(socket);
	return state != BPF_TCP_LISTEN;
}

INLINE struct group *find(struct flow *flow, __u32 *lane)
{
	struct group *group = map_lookup(&flows, flow);
	struct flow exact = *flow;

	if (group && !group->packets && flow->protocol == IPPROTO_TCP) {
		map_update(&proven, &flow->remote, lane, BPF_ANY);
		map_delete(&begun, flow);
	}
	if (!group) {
		flow->remote = 0;
		flow->remote_port = 0;
		group = map_lookup(&flows, flow);
	}
	if (!group)
		return 0;
	*lane = group->lanes == 1 ? group->member[0] : choose(group, &exact);
	return group;
}

// `first`: the first segment of a connection. `length`: of the packet, as its IP header has it. `whole`: what further
// fragments of it have in common; 0: it is not fragmented.
INLINE int steer_to(struct xdp_md *packet, struct flow *flow, int first, __u32 length, const struct fragmented *whole)
{
	struct owner owner = {};
	__u32 lane = 0, slot;
	struct flow exact = *flow;
	struct group *group = find(flow, &lane);
	struct flood *flood;

	if (!group || packet->rx_queue_index >= group->queues)
		return XDP_PASS;
	// (`find` left no remote side in the flow of a listener.)
	if (!flow->remote && flow->protocol == IPPROTO_TCP &&
	    ((first && group->kernels) || is_kernels(packet, &exact)))
		return XDP_PASS;
	if (flow->remote && group->kernels && is_kernels(packet, &exact))
		return XDP_PASS;
	slot = lane * group->queues + packet->rx_queue_index;
	if (redirect_map(&sockets, slot, XDP_PASS) != XDP_REDIRECT)
		return XDP_PASS;
	if (first && !flow->remote) {
		flood = exceeded(lane, exact.remote);
		if (flood)
			return answer(packet, flood);
		map_update(&begun, &exact, &lane, BPF_ANY);
	}
	if (whole) {
		owner.first_slot = lane * group->queues;
		owner.queues = group->queues;
		map_update(&fragments, whole, &owner, BPF_ANY);
	}
	__sync_fetch_and_add(&group->packets, 1);
	__sync_fetch_and_add(&group->bytes, sizeof(struct ethhdr) + length);
	return XDP_REDIRECT;
}

// A later fragment of TCP.
INLINE int steer_fragment(struct xdp_md *packet, const struct fragmented *whole)
{
	struct owner *owner = map_lookup(&fragments, whole);

	if (!owner || packet->rx_queue_index >= owner->queues)
		return XDP_PASS;
	return redirect_map(&sockets, owner->first_slot + packet->rx_queue_index, XDP_PASS);
}

// An error about a packet that we sent: the quoted header has our side as its source.
INLINE int steer_error(struct xdp_md *packet, struct icmp_error *icmp, void *end, __u32 length)
{
	struct flow flow = {};
	struct ports *ports;

	if ((void *)(icmp + 1) > end)
		return XDP_PASS;
	if (icmp->type != ICMP_UNREACHABLE && icmp->type != ICMP_TIME_EXCEEDED && icmp->type != ICMP_PARAMETER)
		return XDP_PASS;
	if (icmp->quoted.version != 4 || icmp->quoted.ihl < 5)
		return XDP_PASS;
	if (icmp->quoted.protocol != IPPROTO_TCP && icmp->quoted.protocol != IPPROTO_UDP)
		return XDP_PASS;
	if (icmp->quoted.frag_off & NETWORK16(FRAGMENT_OFFSET))
		return XDP_PASS;
	ports = (void *)&icmp->quoted + icmp->quoted.ihl * 4;
	if ((void *)(ports + 1) > end)
		return XDP_PASS;
	flow.local = icmp->quoted.saddr;
	flow.remote = icmp->quoted.daddr;
	flow.local_port = ports->source;
	flow.remote_port = ports->destination;
	flow.protocol = icmp->quoted.protocol;
	return steer_to(packet, &flow, 0, length, 0);
}

SECTION("xdp.frags") int steer(struct xdp_md *packet)
{
	void *end = (void *)(long)packet->data_end;
	struct ethhdr *ethernet = (void *)(long)packet->data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct flow flow = {};
	struct fragmented whole = {};
	struct ports *ports;
	int first = 0, is_part;
	__u32 zero = 0, mtu;
	struct flood *flood = map_lookup(&floods, &zero);

	// A driver may take a program and never run it. (Written once: all processors share it.)
	if (flood && !flood->ran)
		flood->ran = 1;
	if ((void *)(ip + 1) > end || ethernet->h_proto != NETWORK16(ETH_P_IP))
		return XDP_PASS;
	if (ip->version != 4 || ip->ihl < 5)
		return XDP_PASS;
	is_part = ip->protocol == IPPROTO_TCP && ip->frag_off & NETWORK16(MORE_FRAGMENTS | FRAGMENT_OFFSET);
	if (is_part) {
		whole.local = ip->daddr;
		whole.remote = ip->saddr;
		whole.identification = ip->id;
	}
	if (ip->frag_off & NETWORK16(FRAGMENT_OFFSET))
		return is_part ? steer_fragment(packet, &whole) : XDP_PASS;
	ports = (void *)ip + ip->ihl * 4;
	switch (ip->protocol) {
	case IPPROTO_TCP:
		break;
	case IPPROTO_UDP:
		if (ip->ihl != 5 || ip->frag_off & NETWORK16(MORE_FRAGMENTS))
			return XDP_PASS;
		// Several datagrams that were sent as one (UDP_SEGMENT), on an interface that does not cut them: where
		// they end only the kernel knows.
		mtu = NETWORK16(ip->tot_len);
		if (check_mtu(packet, 0, &mtu, 0, 0))
			return XDP_PASS;
		break;
	case IPPROTO_ICMP:
		if (ip->frag_off & NETWORK16(MORE_FRAGMENTS))
			return XDP_PASS;
		return steer_error(packet, (void *)ports, end, NETWORK16(ip->tot_len));
	default:
		return XDP_PASS;
	}
	if ((void *)(ports + 1) > end)
		return XDP_PASS;
	flow.local = ip->daddr;
	flow.remote = ip->saddr;
	flow.local_port = ports->destination;
	flow.remote_port = ports->source;
	flow.protocol = ip->protocol;
	if (ip->protocol == IPPROTO_TCP && (void *)ports + 14 <= end)
		first = (((__u8 *)ports)[13] & (SYN | ACK)) == SYN;
	return steer_to(packet, &flow, first, NETWORK16(ip->tot_len), is_part ? &whole : 0);
}
