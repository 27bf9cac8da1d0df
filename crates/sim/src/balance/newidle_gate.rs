//! The gates of newidle balance: whether a CPU about to go idle looks for work, and how far up.
//!
//! Mirrors the gates of `idle_balance` / `newidle_balance`: 3.4, 4.5 (3.12 to 5.15) and 5.16 to 6.5. Also updates the
//! values that they compare: the mean idle time of a CPU and the most expensive newidle pass of each domain. Times are
//! ns, the decay is in jiffies.

use schedlab_kernel::History;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Gates {
    /// 2.6.32 to 3.11: one fixed threshold.
    Fixed,
    /// 3.12 to 5.15: the fixed threshold, the overload flag (3.19), and each domain's cost.
    FixedAndCost,
    /// 5.16 and later: the overload flag and costs only, so that short idle periods pass.
    Cost,
}

impl Gates {
    /// The gates of a version; 3.12 to 3.18 count as 4.5, without the overload flag.
    pub fn of(history: &History) -> Gates {
        match () {
            () if history.newidle_by_cost => Gates::Cost,
            () if history.newidle_costs => Gates::FixedAndCost,
            () => Gates::Fixed,
        }
    }
}

/// The facts about a CPU when its last task leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnterFacts {
    /// Mean length of its idle periods.
    pub avg_idle_ns: u64,
    /// The tunable; 0 before 2.6.32, which has no such gate.
    pub migration_cost_ns: u64,
    /// Whether the last full pass over the top domain, or an enqueue since, saw a CPU with two tasks (`rd->overload`).
    pub overload: bool,
    /// Cost of the most expensive newidle pass of its lowest domain; 0 without domains.
    pub lowest_cost_ns: u64,
}

/// Why no newidle pass is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Skip {
    /// Idle periods are shorter than a migration costs.
    ShortIdle,
    /// No CPU has a task to give.
    NoOverload,
    /// Idle periods are shorter than the pass itself.
    TooDear,
}

/// Whether a pass begins at all.
///
/// # Errors
/// Why it does not.
pub fn enter(gates: Gates, f: &EnterFacts) -> std::result::Result<(), Skip> {
    if gates != Gates::Cost && f.avg_idle_ns < f.migration_cost_ns {
        return Err(Skip::ShortIdle);
    }
    if gates != Gates::Fixed && !f.overload {
        return Err(Skip::NoOverload);
    }
    if gates == Gates::Cost && f.avg_idle_ns < f.lowest_cost_ns {
        return Err(Skip::TooDear);
    }
    Ok(())
}

/// Whether the next domain up is still worth its cost, after `spent_ns` for lower ones. False ends the pass.
pub fn climb(gates: Gates, avg_idle_ns: u64, spent_ns: u64, domain_cost_ns: u64) -> bool {
    gates == Gates::Fixed || avg_idle_ns >= spent_ns + domain_cost_ns
}

/// Events that may have happened while a domain was balanced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewidleArrivals {
    pub pulled: bool,
    /// Number of tasks the CPU has now.
    pub nr_running: u32,
    pub wakeup_pending: bool,
}

/// Whether the pass ends after a domain because there is work now.
pub fn has_work(gates: Gates, a: &NewidleArrivals) -> bool {
    a.pulled || (gates != Gates::Fixed && a.nr_running > 0) || (gates == Gates::Cost && a.wakeup_pending)
}

/// Cost of one CPU's newidle passes over a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DomainCost {
    /// The most expensive pass, decaying.
    pub max_ns: u64,
    /// Time of the last decay (5.16+: or increase), jiffies; before 5.16 the time of the next decay.
    stamp: u64,
}

impl DomainCost {
    /// The cost of a domain whose most expensive pass so far took `max_ns`.
    pub fn known(max_ns: u64) -> DomainCost {
        DomainCost { max_ns, stamp: 0 }
    }
    /// The cost that is recorded for a pass of `cost_ns` in 6.17 and 6.18, where a pass that pulls nothing makes the
    /// next ones rarer.
    pub fn counted(&self, cost_ns: u64, pulled: bool) -> u64 {
        if pulled { cost_ns } else { self.max_ns * 3 / 2 }
    }
    /// As [`DomainCost::passed`], but the recorded cost is at most `most_ns`; a pass at that bound also delays the
    /// decay.
    pub fn passed_at_most(&mut self, gates: Gates, cost_ns: u64, most_ns: u64, now: u64, hz: u64) {
        self.passed(gates, cost_ns, now, hz);
        self.max_ns = self.max_ns.min(most_ns);
    }
    /// Records a pass over the domain that took `cost_ns`.
    pub fn passed(&mut self, gates: Gates, cost_ns: u64, now: u64, hz: u64) {
        if cost_ns > self.max_ns {
            self.max_ns = cost_ns;
            if gates == Gates::Cost {
                self.stamp = now;
            }
        } else if gates == Gates::Cost {
            self.decay(gates, now, hz);
        }
    }

    /// Decay when periodic balance visits the domain: about 1% once a second. Returns true if it decayed; then the
    /// CPU's [`longest_pass`] must be refreshed.
    pub fn decay(&mut self, gates: Gates, now: u64, hz: u64) -> bool {
        let due = match gates {
            Gates::Fixed => false,
            Gates::FixedAndCost => now > self.stamp,
            Gates::Cost => now > self.stamp + hz,
        };
        if due {
            self.max_ns = self.max_ns * 253 / 256;
            self.stamp = if gates == Gates::Cost { now } else { now + hz };
        }
        due
    }
}

/// `rq->max_idle_balance_cost` at a decay: the sum over the CPU's domains, at least the migration cost. Between decays
/// a more expensive pass raises it at once.
pub fn longest_pass(migration_cost_ns: u64, sum_of_domains_ns: u64) -> u64 {
    migration_cost_ns.max(sum_of_domains_ns)
}

/// The mean idle time after a wakeup ended an idle period of `idle_ns`, counted from the entry into newidle balance.
///
/// It moves by one eighth of the difference, and is at most twice `longest_pass_ns` (for 3.4 the caller passes the
/// migration cost). A fresh CPU starts at twice the migration cost.
pub fn avg_idle(gates: Gates, avg_ns: u64, idle_ns: u64, longest_pass_ns: u64) -> u64 {
    let cap = 2 * longest_pass_ns;
    if gates == Gates::Fixed && idle_ns > cap {
        return cap;
    }
    let avg = match idle_ns.checked_sub(avg_ns) {
        Some(longer) => avg_ns + longer / 8,
        // Later kernels divide; older ones shift a negative number, which rounds away from zero.
        None if gates == Gates::Cost => avg_ns - (avg_ns - idle_ns) / 8,
        None => avg_ns - (avg_ns - idle_ns).div_ceil(8),
    };
    if gates == Gates::Fixed { avg } else { avg.min(cap) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    const ALL: [Gates; 3] = [Gates::Fixed, Gates::FixedAndCost, Gates::Cost];
    const OPEN: EnterFacts = EnterFacts {
        avg_idle_ns: 500_000,
        migration_cost_ns: 500_000,
        overload: true,
        lowest_cost_ns: 500_000,
    };

    fn each(f: &EnterFacts) -> [std::result::Result<(), Skip>; 3] {
        ALL.map(|g| enter(g, f))
    }

    #[test]
    fn versions_have_their_gates() {
        let of = |text: &str| Gates::of(&History::of(Version::parse(text).unwrap()));
        assert_eq!(
            ["v3.4", "v4.5", "v5.15", "v5.16", "v6.5"].map(of),
            [ALL[0], ALL[1], ALL[1], ALL[2], ALL[2]]
        );
    }

    #[test]
    fn short_idle_periods_are_refused_until_5_16() {
        assert_eq!(each(&OPEN), [Ok(()); 3]);
        let short = EnterFacts { avg_idle_ns: 50_000, lowest_cost_ns: 3_000, ..OPEN };
        assert_eq!(each(&short), [Err(Skip::ShortIdle), Err(Skip::ShortIdle), Ok(())]);
        assert_eq!(
            enter(Gates::Fixed, &EnterFacts { migration_cost_ns: 0, ..short }),
            Ok(()),
            "before 2.6.32"
        );
    }

    #[test]
    fn without_overload_only_3_4_looks() {
        let calm = EnterFacts { overload: false, ..OPEN };
        assert_eq!(each(&calm), [Ok(()), Err(Skip::NoOverload), Err(Skip::NoOverload)]);
    }

    #[test]
    fn the_lowest_domains_cost_gates_from_5_16() {
        let dear = EnterFacts { lowest_cost_ns: 500_001, ..OPEN };
        assert_eq!(each(&dear), [Ok(()), Ok(()), Err(Skip::TooDear)]);
    }

    #[test]
    fn climbing_must_also_pay_for_lower_domains() {
        assert!(climb(Gates::Cost, 100, 40, 60) && !climb(Gates::Cost, 100, 41, 60));
        assert!(!climb(Gates::FixedAndCost, 100, 0, 101));
        assert!(climb(Gates::Fixed, 100, 500, 500), "3.4 knows no costs");
    }

    #[test]
    fn work_that_arrives_ends_the_pass() {
        let none = NewidleArrivals { pulled: false, nr_running: 0, wakeup_pending: false };
        let each = |a: NewidleArrivals| ALL.map(|g| has_work(g, &a));
        assert_eq!(each(none), [false; 3]);
        assert_eq!(each(NewidleArrivals { pulled: true, ..none }), [true; 3]);
        assert_eq!(each(NewidleArrivals { nr_running: 1, ..none }), [false, true, true]);
        assert_eq!(each(NewidleArrivals { wakeup_pending: true, ..none }), [false, false, true]);
    }

    #[test]
    fn the_most_expensive_pass_decays_by_a_percent_per_second() {
        let mut c = DomainCost::default();
        c.passed(Gates::FixedAndCost, 256_000, 10, 250);
        c.passed(Gates::FixedAndCost, 1_000, 11, 250);
        assert_eq!(c.max_ns, 256_000);
        assert!(c.decay(Gates::FixedAndCost, 20, 250));
        assert_eq!(c.max_ns, 253_000);
        assert!(!c.decay(Gates::FixedAndCost, 270, 250), "not within the second");
        assert!(c.decay(Gates::FixedAndCost, 271, 250));
        assert_eq!(c.max_ns, 250_035);
    }

    #[test]
    fn in_6_17_a_pass_in_vain_raises_the_domains_cost() {
        let c = DomainCost::known(100_000);
        assert_eq!(c.counted(3_000, true), 3_000);
        assert_eq!(c.counted(3_000, false), 150_000);
        let mut at_bound = DomainCost::known(500_200);
        for (second, kept) in [(0, 500_200), (2, 500_200), (4, 500_200)] {
            let cost = at_bound.counted(3_000, false);
            at_bound.passed_at_most(Gates::Cost, cost, 500_200, second * 250, 250);
            assert_eq!(at_bound.max_ns, kept, "failed passes put the decay off");
        }
    }

    #[test]
    fn an_expensive_pass_delays_the_decay_since_5_16() {
        let mut c = DomainCost::default();
        c.passed(Gates::Cost, 256_000, 1000, 250);
        assert!(!c.decay(Gates::Cost, 1250, 250));
        c.passed(Gates::Cost, 1_000, 1251, 250);
        assert_eq!(c.max_ns, 253_000, "a cheap pass decays it as well");
    }

    #[test]
    fn the_longest_pass_has_a_floor() {
        assert_eq!((longest_pass(500_000, 20_000), longest_pass(500_000, 900_000)), (500_000, 900_000));
    }

    #[test]
    fn mean_idle_moves_by_an_eighth_under_a_cap() {
        for g in ALL {
            assert_eq!(avg_idle(g, 800_000, 1_000_000, 500_000), 825_000, "{g:?}");
            assert_eq!(avg_idle(g, 800_000, 50_000, 500_000), 706_250, "{g:?}");
            assert_eq!(avg_idle(g, 100, 107, 500_000), 100, "{g:?}: rising rounds down");
        }
        assert_eq!(
            ALL.map(|g| avg_idle(g, 100, 99, 500_000)),
            [99, 99, 100],
            "falling, by shift or division"
        );
        // After one long sleep 3.4 jumps to the maximum; later kernels approach it in steps.
        assert_eq!(avg_idle(Gates::Fixed, 50_000, 4_000_000, 500_000), 1_000_000);
        assert_eq!(avg_idle(Gates::FixedAndCost, 50_000, 4_000_000, 500_000), 543_750);
        assert_eq!(avg_idle(Gates::Cost, 50_000, 40_000_000, 500_000), 1_000_000, "capped");
    }
}
