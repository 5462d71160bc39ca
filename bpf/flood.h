// SPDX-License-Identifier: MIT OR Apache-2.0
// A flood of SYNs must not fill the receive ring, where everybody else's packets wait too: only so many first segments
// pass to a lane until it has found its rings empty, and beyond that some more from addresses that a connection stood
// with before (Linux prefers proven peers, too, when its queue of half-open connections fills up). What is beyond
// this is answered by the program itself (syn_cookie.h), or dropped.
#pragma once
#include "kernel.h"

enum { LANES = 64 };

// One for the interface; mirrored in crates/xdp/src/flood.rs, which maps it.
struct flood {
	__u32 most;		// first segments from anybody
	__u32 most_proven;	// from addresses that are known
	__u16 mss;		// what answers announce; 0: nothing is answered
	__u8 mac[6];		// what is sent elsewhere is not answered
	__u64 key[2];		// of cookies
	__u64 ahead;		// nanoseconds of the owner's monotonic clock before ours (it may live in a time namespace)
	__u64 answered, refused;	// counted here
	__u64 ran;		// set here, cleared by who wants to know
	__u32 passed[LANES];	// counted here; a lane that has caught up writes 0
};

// floods is an array of one struct flood, proven a least-recently-used hash of addresses.
struct map floods SECTION(".maps"), proven SECTION(".maps");

// The bounds, if a first segment to a listener is one too many for the lane. Processors race: a few more pass, no harm.
INLINE struct flood *exceeded(__u32 lane, __be32 source)
{
	__u32 zero = 0, passed;
	struct flood *flood = map_lookup(&floods, &zero);

	if (!flood || lane >= LANES)
		return 0;
	passed = flood->passed[lane];
	if (passed >= flood->most && (passed >= flood->most_proven || !map_lookup(&proven, &source)))
		return flood;
	__sync_fetch_and_add(&flood->passed[lane], 1);
	return 0;
}
