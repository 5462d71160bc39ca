//! A sender that sends its oldest byte again and again, though nothing is lost, has not learned how long the path is.

/// Of one direction of a connection.
#[derive(Default)]
pub struct Needless {
    /// Timeouts since the network was disturbed last.
    times: u32,
    /// How often the network had been disturbed by then, and from which position on nothing was sent before.
    disturbed: u64,
    from: u64,
}

impl Needless {
    /// A segment is about to be sent; what lies before `sent_end` was sent before.
    pub fn on_sent(&mut self, disturbed: u64, sent_end: u64) {
        if self.disturbed != disturbed {
            *self = Needless { times: 0, disturbed, from: sent_end };
        }
    }

    /// The byte at `begin` is sent again by a timeout.
    pub fn on_timeout(&mut self, begin: u64) -> Result<(), String> {
        if begin < self.from {
            return Ok(());
        }
        self.times += 1;
        match self.times <= TIMES_MAX {
            true => Ok(()),
            false => Err(format!("position {begin}: timeout {} on a path that loses nothing", self.times)),
        }
    }
}

/// Until the path is measured anew: without timestamps a segment must be sent once, and answered, for each sample.
const TIMES_MAX: u32 = 16;
