//! Dice that decide whether to make a newidle pass over a domain (NI_RANDOM, 6.19; backported to 6.1.192 and 6.12.107).
//!
//! Each CPU counts, per domain, its calls and those that pulled a task, as sums that are halved every 512 calls. If n
//! of 1024 calls pull a task, it makes about n + 1 of 1024 passes. A success counts for as many calls as the dice
//! refuse on average. A fresh domain is assumed to succeed half of the time. With NI_RATE (7.x as read in 7.3) CPUs
//! that took long for those calls get an addition: 1024 in 4 s. Draws are keyed by CPU, domain and call.

/// Number of calls at which the ratio is computed and the sums are halved.
const CALLS: u32 = 1024;
pub const SIDES: u64 = 1024;

/// One CPU's record of its newidle passes over one domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dice {
    calls: u32,
    successes: u32,
    /// Number of passes that are made of 1024.
    ratio: u32,
    /// When the ratio was last computed, ns.
    since_ns: u64,
    /// Number of draws so far, which keys the next draw.
    pub thrown: u64,
}

impl Default for Dice {
    fn default() -> Dice {
        Dice { calls: 512, successes: 256, ratio: 512, since_ns: 0, thrown: 0 }
    }
}

impl Dice {
    /// Whether the dice allow a pass, given the side `draw` of [`SIDES`]. A success then counts [`Dice::weight`] calls.
    pub fn lets(&self, draw: u64) -> bool {
        draw <= u64::from(self.ratio) + 1
    }
    /// Number of calls that one success counts for, including refused ones.
    pub fn weight(&self) -> u32 {
        let passes = self.ratio + 1;
        (CALLS + passes / 2) / passes
    }
    /// Ends a call at `now_ns`. `success` is 0 if it was refused or pulled nothing, else its weight.
    pub fn called(&mut self, success: u32, rate: bool, now_ns: u64) {
        self.calls += 1;
        self.successes += success;
        if self.calls < CALLS {
            return;
        }
        let took = if rate { (now_ns - self.since_ns) >> 22 } else { 0 };
        let ratio = u64::from(self.successes) + took;
        // 7.3 bounds the ratio, 6.1 does not. In both, a ratio of all sides of the dice allows every pass.
        self.ratio = ratio.min(SIDES) as u32;
        (self.since_ns, self.calls, self.successes) = (now_ns, self.calls / 2, self.successes / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dice of a CPU whose passes never pull anything, after `calls` calls that are `gap_ns` apart.
    fn fruitless(calls: u64, rate: bool, gap_ns: u64) -> Dice {
        let mut d = Dice::default();
        (0..calls).for_each(|i| d.called(0, rate, i * gap_ns));
        d
    }

    /// Passes made of 1024 calls.
    fn made(d: &Dice) -> usize {
        (0..SIDES).filter(|draw| d.lets(*draw)).count()
    }

    #[test]
    fn a_fresh_domain_makes_half_of_its_passes_and_a_fruitless_one_hardly_any() {
        assert_eq!(made(&Dice::default()), 514);
        assert_eq!(made(&fruitless(512, false, 0)), 258, "after 512 calls a quarter");
        assert_eq!(made(&fruitless(512 * 12, false, 0)), 2, "what is left when nothing is ever found");
    }

    #[test]
    fn a_success_stands_for_the_calls_that_were_refused() {
        assert_eq!(Dice::default().weight(), 2);
        assert_eq!(fruitless(512 * 12, false, 0).weight(), 1024);
        // A CPU whose every pass pulls something makes more and more of them, until a success counts as one call.
        let mut d = Dice::default();
        for call in 0..5_000u64 {
            let won = d.lets(call * 997 % SIDES);
            d.called(if won { d.weight() } else { 0 }, false, 0);
        }
        assert!(d.weight() == 1 && made(&d) > 683, "{d:?}");
    }

    #[test]
    fn with_the_rate_a_cpu_that_seldom_goes_idle_looks_every_time() {
        assert_eq!(made(&fruitless(512 * 12, true, 8_400_000)), 1024, "512 calls in 4.3 s");
        assert_eq!(made(&fruitless(512 * 12, true, 100_000)), 14, "512 calls in 51 ms: 12 of 1024 on top");
        assert_eq!(made(&fruitless(512 * 12, false, 8_400_000)), 2, "without it time does not count");
    }
}
