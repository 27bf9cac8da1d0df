//! The governor that chooses an idle CPU's state, similar to the kernel's `menu`.
//!
//! It predicts how long the CPU will stay idle: until the next timer, or as long as the last eight stays if they agree
//! with each other. It takes the deepest state whose target residency fits. Not modelled: `menu`'s correction by past
//! errors of the timer guess, its caution while tasks wait for I/O, and latency limits of drivers. Integers only; ns.
//! Pure except for the ring of past stays.

use schedlab_machine::IdleState;

/// Number of stays remembered.
const STAYS: usize = 8;
/// A spread of up to this, ns, counts as agreement for any mean.
const SMALL_SPREAD_NS: u128 = 20_000;
/// Longer stays are remembered as this, ns: every state fits such a stay.
const LONGEST_NS: u64 = 1 << 40;

/// Memory of one CPU's stays in idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Governor {
    recent: [u64; STAYS],
    /// Their sum, and the sum of their squares.
    sum: u64,
    squares: u128,
    /// Number of stays recorded, up to eight; fewer than eight predict nothing.
    known: u8,
    next: u8,
}

impl Governor {
    /// The predicted time in idle if the next timer fires `next_timer_ns` from now (`u64::MAX` for none).
    pub fn predict(&self, next_timer_ns: u64) -> u64 {
        self.typical().map_or(next_timer_ns, |typical| typical.min(next_timer_ns))
    }

    /// The state to enter: the deepest whose residency is at most the predicted stay, else the shallowest. Also 0 for a
    /// machine without states, whose CPUs poll.
    pub fn choose(&self, states: &[IdleState], predicted_ns: u64) -> usize {
        states.iter().rposition(|s| s.residency.0 <= predicted_ns).unwrap_or(0)
    }

    /// Records a stay.
    pub fn reflect(&mut self, actual_ns: u64) {
        let new = actual_ns.min(LONGEST_NS);
        let old = std::mem::replace(&mut self.recent[usize::from(self.next)], new);
        self.sum = self.sum + new - old;
        self.squares = self.squares + square(new) - square(old);
        self.next = (self.next + 1) % STAYS as u8;
        self.known = (self.known + 1).min(STAYS as u8);
    }

    /// The mean of the last eight stays, if they agree: their spread is small, or less than a sixth of the mean.
    /// Otherwise the longest stays are left out, one level at a time, as long as six remain. Short stays are never left
    /// out, because an early wakeup is what makes a deep state a mistake.
    fn typical(&self) -> Option<u64> {
        if usize::from(self.known) < STAYS {
            return None;
        }
        let (mut kept, mut sum, mut squares, mut limit) = (STAYS as u64, self.sum, self.squares, u64::MAX);
        while kept * 4 >= STAYS as u64 * 3 {
            let mean = sum / kept;
            let mean_squared = square(mean);
            // The sum of (stay - mean)^2, expanded.
            let spread = squares + u128::from(kept) * mean_squared - 2 * u128::from(mean) * u128::from(sum);
            if agree(quotient(spread, kept), mean_squared) {
                return Some(mean);
            }
            let longest = self.recent.iter().copied().filter(|stay| *stay < limit).max()?;
            let times = self.recent.iter().filter(|stay| **stay == longest).count() as u64;
            (kept, sum) = (kept - times, sum - times * longest);
            squares -= u128::from(times) * square(longest);
            limit = longest;
        }
        None
    }
}

#[inline]
fn square(stay: u64) -> u128 {
    u128::from(stay) * u128::from(stay)
}

/// Nearly all sums fit 64 bits, in which a division is one instruction.
#[inline]
fn quotient(sum: u128, n: u64) -> u128 {
    u64::try_from(sum).map_or_else(|_| sum / u128::from(n), |sum| u128::from(sum / n))
}

/// Whether stays agree: the root of their variance is small, or less than a sixth of the mean. Squares are compared, so
/// no root is needed.
#[inline]
fn agree(variance: u128, mean_squared: u128) -> bool {
    variance <= SMALL_SPREAD_NS * SMALL_SPREAD_NS || 36 * variance < mean_squared
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schedlab_base::Ns;

    fn after(stays: &[u64]) -> Governor {
        let mut g = Governor::default();
        stays.iter().for_each(|s| g.reflect(*s));
        g
    }

    fn states() -> Vec<IdleState> {
        let state = |name: &str, exit, residency| IdleState {
            name: name.into(),
            exit: Ns::us(exit),
            typical: Ns::us(exit),
            residency: Ns::us(residency),
        };
        vec![state("C1", 2, 2), state("C1E", 10, 20), state("C6", 133, 400)]
    }

    #[test]
    fn without_a_pattern_the_next_timer_is_the_guess() {
        assert_eq!(Governor::default().predict(500), 500);
        assert_eq!(after(&[50_000; 7]).predict(9_000_000), 9_000_000, "seven are not enough");
        let scattered = after(&[1_000, 900_000, 40_000, 3_000_000, 200_000, 7_000_000, 90_000, 500_000]);
        assert_eq!(scattered.predict(9_000_000), 9_000_000);
    }

    #[test]
    fn stays_that_agree_are_expected_again_but_not_beyond_the_next_timer() {
        let g = after(&[50_000, 52_000, 48_000, 51_000, 49_000, 50_000, 50_500, 49_500]);
        assert_eq!(g.predict(9_000_000), 50_000);
        assert_eq!(g.predict(30_000), 30_000);
        let long = after(&[
            33_000_000, 31_000_000, 35_000_000, 33_000_000, 34_000_000, 32_000_000, 33_000_000, 33_000_000,
        ]);
        assert_eq!(long.predict(u64::MAX), 33_000_000, "a spread of a millisecond is small beside 33");
    }

    #[test]
    fn up_to_two_long_stays_are_outliers_and_short_ones_are_not() {
        let mut stays = [50_000; 8];
        (stays[2], stays[5]) = (30_000_000, 900_000);
        assert_eq!(after(&stays).predict(9_000_000), 50_000);
        stays[6] = 5_000_000;
        assert_eq!(after(&stays).predict(9_000_000), 9_000_000, "three are too many");
        let mut stays = [5_000_000; 8];
        stays[0] = 1_000;
        assert_eq!(after(&stays).predict(9_000_000), 9_000_000, "a short stay is never left out");
    }

    /// [`Governor::typical`] as `menu` computes it: each round from the stays themselves.
    fn round_by_round(g: &Governor) -> Option<u64> {
        let mut limit = LONGEST_NS;
        loop {
            let kept = || g.recent.iter().copied().filter(|stay| *stay <= limit);
            let count = kept().count();
            if count * 4 < STAYS * 3 {
                return None;
            }
            let n = count as u128;
            let mean = kept().map(u128::from).sum::<u128>() / n;
            let square = |stay: u64| u128::from(stay).abs_diff(mean).pow(2);
            let variance = kept().map(square).sum::<u128>() / n;
            if agree(variance, mean.pow(2)) {
                return u64::try_from(mean).ok();
            }
            limit = kept().max()?.checked_sub(1)?;
        }
    }

    proptest! {
        #[test]
        fn sums_that_are_kept_give_what_the_stays_themselves_give(
            stays in prop::collection::vec((0u64..1 << 41, 0u32..41), 8..30),
            middle in 100_000u64..1 << 39,
            off in prop::collection::vec(0u64..90_000, 8),
        ) {
            let mut g = Governor::default();
            for (stay, shift) in stays {
                g.reflect(stay >> shift);
                if usize::from(g.known) == STAYS {
                    prop_assert_eq!(g.typical(), round_by_round(&g));
                }
            }
            for off in off {
                g.reflect(middle + off);
                prop_assert_eq!(g.typical(), round_by_round(&g));
            }
        }
    }

    #[test]
    fn the_oldest_stay_is_forgotten() {
        let mut g = after(&[5_000_000; 8]);
        (0..8).for_each(|_| g.reflect(60_000));
        assert_eq!(g.predict(u64::MAX), 60_000);
        (0..8).for_each(|_| g.reflect(u64::MAX));
        assert_eq!(g.predict(u64::MAX), LONGEST_NS);
    }

    #[test]
    fn the_deepest_state_that_fits_is_chosen() {
        let (g, s) = (Governor::default(), states());
        let at = |us: u64| g.choose(&s, us * 1000);
        assert_eq!([at(1), at(2), at(19), at(20), at(399), at(400), at(1_000_000)], [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(g.choose(&[], 5), 0);
    }
}
