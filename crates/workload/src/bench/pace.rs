//! The times at which requests of an open loop are due: evenly spaced at a rate that several sources share in turn.
//!
//! A source that is late sends what is due at once and leaves nothing out. A latency counts from the time at which a
//! request was due, so that it holds the waiting behind earlier ones (no coordinated omission).

use super::params::SECOND;
use schedlab_base::Ns;

/// The due times of one source.
#[derive(Clone, Copy)]
pub struct Pace {
    /// Requests per second of all sources together; 0: a closed loop, in which the next is due when the last is over.
    rate: u64,
    sources: u64,
    source: u64,
    /// Requests that were due so far.
    taken: u64,
}

impl Pace {
    /// The due times of source number `source` of `sources`.
    pub fn new(rate: u64, source: usize, sources: usize) -> Pace {
        Pace { rate, sources: sources as u64, source: source as u64, taken: 0 }
    }
    /// When the next request is due; `None` in a closed loop.
    pub fn due(&self) -> Option<Ns> {
        if self.rate == 0 {
            return None;
        }
        let number = u128::from(self.taken) * u128::from(self.sources) + u128::from(self.source) + 1;
        Some(Ns((number * u128::from(SECOND) / u128::from(self.rate)) as u64))
    }
    /// The next request is taken up.
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
