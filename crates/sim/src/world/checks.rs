//! What must hold of hosts in every turn and at the end of a world. What must hold of packets, and of connections after
//! each call, is in `checker`.

use super::World;
use stack::census::Census;

impl World {
    pub(super) fn check_memory(&mut self, host: usize) {
        let h = &self.hosts[host];
        let (attached, most) = (h.device.attached(), h.plan.attached_max as usize);
        if attached > most {
            self.ledger.alarm(|| format!("{attached} frames of the card are held, {most} are allowed"));
        }
        let bytes = h.device.living_bytes();
        let sockets = h.apps.len() + 2;
        if bytes > sockets * SOCKET_BYTES_MAX {
            self.ledger.alarm(|| format!("{bytes} bytes of frames are held for {sockets} sockets"));
        }
    }

    /// After the network healed and long enough: everything that could be done is done.
    pub(super) fn check_done(&mut self) {
        self.ledger.host = usize::MAX;
        for i in 0..self.ledger.conversations.len() {
            let c = self.ledger.conversations[i].clone();
            self.report.conversations_done += u64::from(c.ends.iter().all(|end| end.done));
            let left = |side: usize| c.ends[side].begun && !c.ends[side].done && c.ends[1 - side].done;
            if c.kept_alive && (left(0) || left(1)) {
                self.ledger.alarm(|| format!("conversation {i} hangs in spite of keepalive: {:?}", c.ends));
            }
            if c.rude || c.is_lost_cookie() {
                continue;
            }
            if !c.ends.iter().all(|end| end.done && end.saw_end) {
                self.ledger
                    .alarm(|| format!("conversation {i} hangs though the network healed: {:?}", c.ends));
            }
        }
        for h in 0..self.hosts.len() {
            if self.hosts[h].apps.iter().any(|app| app.is_late_writer()) {
                self.ledger.alarm(|| format!("host {h} has a writer that never got to write"));
            }
        }
        self.ledger.check_greetings();
    }

    /// All sockets are closed and TIME-WAIT is over: no frame, timer, event or socket is left.
    pub(super) fn check_empty(&mut self) {
        for i in 0..self.hosts.len() {
            self.ledger.host = i;
            let h = &mut self.hosts[i];
            let (living, attached) = (h.device.living(), h.device.attached());
            if living != 0 {
                self.ledger.alarm(|| format!("{living} frames are left at the end, {attached} of the card"));
            }
            let now = h.clock(self.now);
            let census = h.stack.census();
            if census != Census::default() {
                self.ledger.alarm(|| format!("left at the end: {census:?}"));
            }
            if let Some(due) = h.stack.next_timer() {
                let in_ns = due.0 as i64 - now.0 as i64;
                self.ledger.alarm(|| format!("a timer is left at the end, due in {in_ns} ns"));
            }
            if h.stack.wants_flush() {
                self.ledger.alarm(|| "something waits to be sent at the end".to_string());
            }
        }
    }
}

const SOCKET_BYTES_MAX: usize = 16 << 20;
