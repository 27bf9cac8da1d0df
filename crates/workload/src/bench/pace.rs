//! The due times of requests in an open loop: evenly spaced, and divided among several sources in turn.
//!
//! A late source sends all due requests at once and skips none. Latencies count from a request's due time, so they
//! include waiting behind earlier requests (no coordinated omission).

use super::params::SECOND;
use schedlab_base::Ns;

/// The due times of one source.
#[derive(Clone, Copy)]
pub struct Pace {
    /// Requests per second of all sources; 0: a closed loop, where a request is due when the previous one is done.
    rate: u64,
    sources: u64,
    source: u64,
    /// Number of requests so far.
    taken: u64,
}

impl Pace {
    pub fn new(rate: u64, source: usize, sources: usize) -> Pace {
        Pace { rate, sources: sources as u64, source: source as u64, taken: 0 }
    }
    /// Due time of the next request; `None` in a closed loop.
    pub fn due(&self) -> Option<Ns> {
        if self.rate == 0 {
            return None;
        }
        let number = u128::from(self.taken) * u128::from(self.sources) + u128::from(self.source) + 1;
        Some(Ns((number * u128::from(SECOND) / u128::from(self.rate)) as u64))
    }
    /// Takes the next request.
    pub fn take(&mut self) {
        self.taken += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_take_turns_and_a_closed_loop_has_no_due_time() {
        let mut paces = [0, 1, 2].map(|n| Pace::new(1_000, n, 3));
        let due: Vec<u64> = (0..6)
            .map(|k| {
                let due = paces[k % 3].due().unwrap();
                paces[k % 3].take();
                due.0
            })
            .collect();
        assert_eq!(due, [1, 2, 3, 4, 5, 6].map(|ms| ms * 1_000_000));
        assert_eq!(Pace::new(0, 0, 1).due(), None);
    }
}
