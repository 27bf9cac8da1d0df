//! The `haltpoll` governor (5.4): an idle CPU of a guest polls for a while before it halts, because a halt costs a trip
//! to the hypervisor and back. The polling time grows after a halt that polling could have replaced, and shrinks after
//! a halt longer than any polling. Integers, ns; pure.

/// The longest polling time (guest_halt_poll_ns).
const LONGEST_NS: u64 = 200_000;
/// The first polling time above zero (guest_halt_poll_grow_start).
const FIRST_NS: u64 = 50_000;
/// Factor of growth and of shrinking (guest_halt_poll_grow, guest_halt_poll_shrink).
const FACTOR: u64 = 2;

/// The next step of an idle CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HaltChoice {
    /// Poll for work for this time, ns, with the tick on.
    Poll(u64),
    Halt,
}

/// The governor's memory of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Haltpoll {
    limit_ns: u64,
    /// Whether it polled to the end in vain.
    in_vain: bool,
}

impl Haltpoll {
    pub fn choose(&self) -> HaltChoice {
        if self.limit_ns == 0 || self.in_vain { HaltChoice::Halt } else { HaltChoice::Poll(self.limit_ns) }
    }
    /// Polling ended. `in_vain`: its time was over and no work had come.
    pub fn polled(&mut self, in_vain: bool) {
        self.in_vain = in_vain;
    }
    /// The CPU was halted for this time.
    pub fn halted(&mut self, stay_ns: u64) {
        self.in_vain = false;
        if stay_ns > self.limit_ns && stay_ns <= LONGEST_NS {
            self.limit_ns = (self.limit_ns * FACTOR).clamp(FIRST_NS, LONGEST_NS);
        } else if stay_ns > LONGEST_NS {
            self.limit_ns /= FACTOR;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_halts_make_it_poll_and_longer_each_time() {
        let mut g = Haltpoll::default();
        assert_eq!(g.choose(), HaltChoice::Halt, "at first it halts");
        let after = |g: &mut Haltpoll, stay| {
            g.halted(stay);
            g.choose()
        };
        assert_eq!(after(&mut g, 30_000), HaltChoice::Poll(50_000));
        assert_eq!(after(&mut g, 40_000), HaltChoice::Poll(50_000), "this would have been polled through");
        assert_eq!(after(&mut g, 60_000), HaltChoice::Poll(100_000));
        assert_eq!(after(&mut g, 200_000), HaltChoice::Poll(200_000));
        assert_eq!(after(&mut g, 200_000), HaltChoice::Poll(200_000), "never longer");
        assert_eq!(after(&mut g, 200_001), HaltChoice::Poll(100_000));
        (0..20).for_each(|_| g.halted(4_000_000));
        assert_eq!(g.choose(), HaltChoice::Halt);
    }

    #[test]
    fn a_cpu_that_polled_in_vain_halts_next_and_polls_again_after() {
        let mut g = Haltpoll::default();
        g.halted(150_000);
        g.polled(true);
        assert_eq!(g.choose(), HaltChoice::Halt);
        g.halted(100_000);
        assert_eq!(g.choose(), HaltChoice::Poll(100_000));
        g.polled(false);
        assert_eq!(g.choose(), HaltChoice::Poll(100_000));
    }
}
