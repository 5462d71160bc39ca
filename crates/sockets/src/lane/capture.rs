//! Copies of frames for readers that wish for them (`sidestep capture`): makes the rings, gives them to the lanes, and
//! takes them back once nobody reads. By the worker twice a second, and when a lane opens. `docs/design/capture.md`.
//! What a process leaves at its end is the reader's to remove, which may not have come to open it.

use super::Lane;
use crate::counts;
use crate::runtime::Runtime;
use capture::{Ring, Stage, Wish, Writer};
use std::ffi::CString;
use std::sync::Arc;

/// A reader whose pulse stands still for so long has left.
const LEFT_NS: u64 = 10_000_000_000;

/// A lane's frames are copied.
pub(crate) struct Running {
    ring: Arc<Ring>,
    path: CString,
    pulse: u64,
    felt_at: u64,
}

/// Does what readers wish, for one lane. (The lock of `running` is not for the calls of the application: nobody waits
/// for files.)
pub(crate) fn attend_lane(runtime: &Runtime, lane: &Lane, now: u64) {
    let control = counts::segment().control();
    let wish = Wish::of(control.capture());
    let mut running = lane.capture.lock();
    if let Some(current) = &mut *running {
        let is_read = current.is_read(now);
        if is_read && wish == Some(current.ring.wish()) {
            return;
        }
        let ended = lane.lock().device.set_tap(None);
        drop(ended);
        current.ring.reached(Stage::Closed);
        let _ = sys::file::unlink(&current.path);
        if !is_read {
            logger::info!("{}: nobody reads the captured frames any more", lane.name);
            control.end_capture(current.ring.wish().word(), 0);
        }
        *running = None;
        if !is_read {
            return;
        }
    }
    let Some(wish) = wish else { return };
    match Running::begin(runtime, lane, wish, now) {
        Ok(begun) => {
            let writer = Box::new(Writer::new(begun.ring.clone()));
            lane.lock().device.set_tap(Some(writer));
            begun.ring.reached(Stage::Live);
            logger::info!("{}: frames are captured", lane.name);
            *running = Some(begun);
        }
        Err(errno) => {
            logger::warning!(
                "{}: frames cannot be captured: no file for them ({why})",
                lane.name,
                why = sys::Errno(errno)
            );
            control.end_capture(wish.word(), errno);
        }
    }
}

impl Running {
    fn begin(runtime: &Runtime, lane: &Lane, wish: Wish, now: u64) -> sys::Result<Running> {
        let name = capture::file_name(sys::process::pid() as u32, lane.slot);
        let path = counts::path(&runtime.parameters.stats_shmem_dir, &name).ok_or(libc::ENOENT)?;
        // For nobody but this user and root: these are packets.
        let file = counts::make_file(&path, wish.file_length(), 0o600)?;
        let ring = Ring::create(file.raw(), wish, lane.link, &lane.name);
        let ring = ring.inspect_err(|_| _ = sys::file::unlink(&path))?;
        Ok(Running { ring, path, pulse: 0, felt_at: now })
    }

    fn is_read(&mut self, now: u64) -> bool {
        let pulse = self.ring.pulse();
        if pulse != self.pulse {
            (self.pulse, self.felt_at) = (pulse, now);
        }
        now.saturating_sub(self.felt_at) < LEFT_NS
    }
}
