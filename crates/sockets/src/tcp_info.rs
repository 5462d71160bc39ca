//! struct tcp_info (include/uapi/linux/tcp.h), laid out from what the engine tells.

use stack::tcp::{Info, State};

/// Bytes of the structure (Linux 6.18). What is asked for shorter is cut, as the kernel does it.
pub(crate) const LEN: usize = 280;

/// Linux's TCP_INFINITE_SSTHRESH.
const SSTHRESH_UNKNOWN: u32 = 0x7fff_ffff;

fn micros(span: core::time::Duration) -> u32 {
    span.as_micros().min(u128::from(u32::MAX)) as u32
}

fn millis(span: core::time::Duration) -> u32 {
    span.as_millis().min(u128::from(u32::MAX)) as u32
}

/// As the kernel says that there is none.
fn limit(rate: u64) -> u64 {
    if rate == 0 { u64::MAX } else { rate }
}

/// The structure's bytes.
pub(crate) fn bytes(info: &Info, state: State) -> [u8; LEN] {
    let mut out = [0u8; LEN];
    // TCPI_OPT_TIMESTAMPS 1, SACK 2, WSCALE 4, ECN 8, ECN_SEEN 16.
    let options = u8::from(info.timestamps)
        | u8::from(info.sack) << 1
        | u8::from(info.snd_wscale.is_some()) << 2
        | u8::from(info.ecn) << 3
        | u8::from(info.ecn_seen) << 4;
    let scales = info.snd_wscale.unwrap_or(0) & 15 | info.rcv_wscale.unwrap_or(0) << 4;
    out[..7].copy_from_slice(&[
        state.number(),
        info.ca_state,
        info.retransmits,
        info.probes,
        info.backoff,
        options,
        scales,
    ]);
    let words = [
        micros(info.rto),
        micros(info.ato),
        info.snd_mss,
        info.rcv_mss,
        info.unacked,
        info.sacked,
        info.lost,
        info.retrans,
        0,
        millis(info.last_data_sent),
        0,
        millis(info.last_data_recv),
        millis(info.last_ack_recv),
        info.pmtu,
        info.rcv_ssthresh,
        micros(info.rtt),
        micros(info.rttvar),
        info.snd_ssthresh.unwrap_or(SSTHRESH_UNKNOWN),
        info.snd_cwnd,
        info.advmss,
        info.reordering,
        micros(info.rcv_rtt),
        info.rcv_space,
        info.total_retrans,
    ];
    for (i, word) in words.iter().enumerate() {
        out[8 + 4 * i..12 + 4 * i].copy_from_slice(&word.to_ne_bytes());
    }
    // 104: pacing_rate and max_pacing_rate, then what was added over the years.
    let pace = limit(info.max_pacing_rate);
    put64(&mut out, 104, &[pace, pace, info.bytes_acked, info.bytes_received]);
    let segments = [
        info.segs_out,
        info.segs_in,
        info.notsent_bytes,
        micros(info.min_rtt),
        info.data_segs_in,
        info.data_segs_out,
    ];
    put32(&mut out, 136, &segments);
    // 160: delivery_rate is not measured, nor are 192: delivered and delivered_ce.
    put64(
        &mut out,
        168,
        &[info.busy_time, info.rwnd_limited, info.sndbuf_limited].map(|span| span.as_micros() as u64),
    );
    put64(&mut out, 200, &[info.bytes_sent, info.bytes_retrans]);
    // 224: rcv_ooopack is not counted, nor is 236: rehash.
    put32(&mut out, 216, &[info.dsack_dups, info.reord_seen, 0, info.snd_wnd, info.rcv_wnd]);
    let timeouts = u32::from(info.total_rto) | u32::from(info.total_rto_recoveries) << 16;
    put32(&mut out, 240, &[timeouts, millis(info.total_rto_time)]);
    // 248: what accurate ECN counts, which the engine does not speak.
    out
}

fn put64(out: &mut [u8], at: usize, values: &[u64]) {
    for (i, value) in values.iter().enumerate() {
        out[at + 8 * i..at + 8 * i + 8].copy_from_slice(&value.to_ne_bytes());
    }
}

fn put32(out: &mut [u8], at: usize, values: &[u32]) {
    for (i, value) in values.iter().enumerate() {
        out[at + 4 * i..at + 4 * i + 4].copy_from_slice(&value.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_kernel_has_them() {
        let info = Info {
            snd_cwnd: 10,
            bytes_acked: 7,
            snd_wnd: 65_535,
            snd_mss: 1448,
            total_rto: 5,
            total_rto_recoveries: 3,
            ..Info::default()
        };
        let out = bytes(&info, State::Established);
        let word = |at: usize| u32::from_ne_bytes([out[at], out[at + 1], out[at + 2], out[at + 3]]);
        // Offsets of struct tcp_info: snd_mss 16, snd_cwnd 80, bytes_acked 120, snd_wnd 228.
        assert_eq!((out[0], word(16), word(80), word(120), word(228)), (1, 1448, 10, 7, 65_535));
        // snd_ssthresh 76, total_rto and total_rto_recoveries 240.
        assert_eq!((word(76), word(240)), (0x7fff_ffff, 3 << 16 | 5));
    }
}
