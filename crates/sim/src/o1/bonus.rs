//! The average of a task's sleep (`sleep_avg`), and its effect: up to five priorities, and a place in the active array
//! after a slice (`recalc_task_prio`, `effective_prio`, `TASK_INTERACTIVE`).
//!
//! The average is in ns, 0 to one second. Sleep increases it; running decreases it, more slowly the higher it is. Its
//! tenths are the *bonus*, 0 to 10: five is neutral, each one more improves the priority by one. A task is
//! *interactive* if its bonus exceeds a limit that depends on its nice value. 2.6.12 and 2.6.18 differ in how a sleep
//! counts.

use super::prio::{MAX_PRIO, MAX_RT_PRIO, default_slice, nice};

/// The largest bonus (`MAX_BONUS`).
pub const MAX_BONUS: u64 = 10;
/// Priorities that an ordinary task must have gained to be interactive (`INTERACTIVE_DELTA`).
const INTERACTIVE_DELTA: i64 = 2;
/// Percentage of the parent's bonus that a new task gets (`CHILD_PENALTY`).
const CHILD_PENALTY: u64 = 95;
/// Percentage of its bonus that a task keeps when it has made another (`PARENT_PENALTY`).
const PARENT_PENALTY: u64 = 100;
/// The weight of a parent's own average when a child exits (`EXIT_WEIGHT`).
const EXIT_WEIGHT: u64 = 3;
/// Percentage of the time between wakeup and first run that is credited after a wakeup by a task
/// (`ON_RUNQUEUE_WEIGHT`).
const ON_RUNQUEUE_WEIGHT: u64 = 30;

/// The kind of a task's last sleep, which decides how it counts (`activated`, later `sleep_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sleep {
    /// None since it last ran.
    #[default]
    Normal,
    /// One that gives at most interactive status.
    Quiet,
    /// It was woken by a task: part of its wait for the CPU counts as sleep.
    Interactive,
    /// It was woken by an interrupt: its wait for the CPU counts as sleep.
    Interrupted,
}

/// The units of averages on a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Ticks a second.
    pub hz: u64,
    /// Whether the bonus that makes a task interactive rounds towards 0 (before 2.6.18) instead of down.
    pub rounds_to_zero: bool,
    /// Whether sleep counts more the lower the average is (before 2.6.17).
    pub multiplied: bool,
}

impl Scale {
    #[inline]
    fn tick_ns(self) -> u64 {
        1_000_000_000 / self.hz
    }
    /// The largest average, ticks (`MAX_SLEEP_AVG`).
    #[inline]
    pub fn max_ticks(self) -> u64 {
        default_slice(self.hz) * MAX_BONUS
    }
    /// The largest average, ns (`NS_MAX_SLEEP_AVG`).
    #[inline]
    pub fn max_ns(self) -> u64 {
        self.max_ticks() * self.tick_ns()
    }
    /// The bonus of an average, 0 to 10 (`CURRENT_BONUS`).
    #[inline]
    pub fn bonus(self, avg_ns: u64) -> u64 {
        avg_ns / self.tick_ns() * MAX_BONUS / self.max_ticks()
    }
    fn average_of(self, bonus: u64) -> u64 {
        bonus * self.max_ticks() / MAX_BONUS * self.tick_ns()
    }
    /// The priority of a task with this average (`effective_prio`).
    #[inline]
    pub fn prio(self, static_prio: u8, avg_ns: u64) -> u8 {
        let gained = self.bonus(avg_ns) as i64 - MAX_BONUS as i64 / 2;
        (i64::from(static_prio) - gained).clamp(i64::from(MAX_RT_PRIO), i64::from(MAX_PRIO) - 1) as u8
    }
    /// How many priorities a task must have gained to be interactive (`DELTA`): -3 at nice -20, 2 at 0, 6 at 19.
    #[inline]
    pub fn delta(self, static_prio: u8) -> i64 {
        let scaled = nice(static_prio) * MAX_BONUS as i64;
        let quarter = if self.rounds_to_zero { scaled / 40 } else { scaled.div_euclid(40) };
        quarter + INTERACTIVE_DELTA
    }
    /// Whether a task is interactive (`TASK_INTERACTIVE`).
    #[inline]
    pub fn is_interactive(self, static_prio: u8, prio: u8) -> bool {
        i64::from(prio) <= i64::from(static_prio) - self.delta(static_prio)
    }
    /// The sleep after which a task is interactive, ns (`INTERACTIVE_SLEEP`).
    pub fn interactive_sleep_ns(self, static_prio: u8) -> u64 {
        let tenths = (MAX_BONUS as i64 / 2 + self.delta(static_prio) + 1).max(0) as u64;
        (self.max_ticks() * tenths / MAX_BONUS).saturating_sub(1) * self.tick_ns()
    }
    /// The turn of an interactive task among its equals, ticks (`TIMESLICE_GRANULARITY`). It is shorter for better
    /// tasks, and grows with the number of CPUs.
    pub fn granularity(self, avg_ns: u64, nr_cpus: u64) -> u64 {
        let missing = (MAX_BONUS - self.bonus(avg_ns).min(MAX_BONUS)).max(1);
        (10 * self.hz / 1000).max(1) * (1 << (missing - 1)) * nr_cpus
    }
    /// The average after a stretch on the CPU (`schedule`): a task with bonus n is charged an nth of the time.
    #[inline]
    pub fn charge(self, avg_ns: u64, ran_ns: u64) -> u64 {
        let paid_ns = ran_ns.min(self.max_ns()) / self.bonus(avg_ns).max(1);
        avg_ns.saturating_sub(paid_ns)
    }
    /// The average and the kind of sleep after a sleep, or after a wait for the CPU that counts as one
    /// (`recalc_task_prio`).
    pub fn credit(self, s: &Slept) -> (u64, Sleep) {
        let slept_ns = if self.multiplied { s.slept_ns.min(self.max_ns()) } else { s.slept_ns };
        if slept_ns == 0 || s.batch {
            return (s.avg_ns, s.kind);
        }
        let ceiling_ns = self.interactive_sleep_ns(s.static_prio);
        let quiet = s.kind == Sleep::Quiet && s.user;
        let long = s.user && slept_ns > ceiling_ns;
        match self.multiplied {
            true if long && !quiet => {
                let tick_ns = self.tick_ns();
                return ((self.max_ticks() - default_slice(self.hz)) * tick_ns, s.kind);
            }
            false if long && s.avg_ns < ceiling_ns => return (ceiling_ns.min(self.max_ns()), Sleep::Quiet),
            _ => {}
        }
        let times = if self.multiplied { (MAX_BONUS - self.bonus(s.avg_ns)).max(1) } else { 1 };
        let earned_ns = s.avg_ns.saturating_add(slept_ns.saturating_mul(times));
        let avg_ns = match quiet {
            true if s.avg_ns >= ceiling_ns => s.avg_ns,
            true => earned_ns.min(ceiling_ns),
            false => earned_ns,
        };
        (avg_ns.min(self.max_ns()), s.kind)
    }
    /// The part of the time between wakeup and first run that counts as sleep, ns; 0 for a quiet sleep.
    pub fn waited(self, kind: Sleep, waited_ns: u64) -> u64 {
        match kind {
            Sleep::Interrupted => waited_ns,
            Sleep::Interactive => waited_ns * (ON_RUNQUEUE_WEIGHT * 128 / 100) / 128,
            Sleep::Normal | Sleep::Quiet => 0,
        }
    }
    /// The initial average of a new task, given its parent's (`wake_up_new_task`).
    pub fn child(self, parent_ns: u64) -> u64 {
        self.average_of(self.bonus(parent_ns) * CHILD_PENALTY / 100)
    }
    /// The average of a task that has made another.
    pub fn parent(self, avg_ns: u64) -> u64 {
        self.average_of(self.bonus(avg_ns) * PARENT_PENALTY / 100)
    }
}

/// The average of a parent after the exit of a child that slept less (`sched_exit`).
pub fn after_exit(parent_ns: u64, child_ns: u64) -> u64 {
    if child_ns < parent_ns {
        parent_ns / (EXIT_WEIGHT + 1) * EXIT_WEIGHT + child_ns / (EXIT_WEIGHT + 1)
    } else {
        parent_ns
    }
}

/// A sleep, or a wait that counts as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slept {
    /// The task's static priority.
    pub static_prio: u8,
    /// Its average before, ns.
    pub avg_ns: u64,
    pub slept_ns: u64,
    pub kind: Sleep,
    /// Whether it has an address space, that is, is not a kernel thread.
    pub user: bool,
    /// Whether it is a SCHED_BATCH task, in kernels that have these.
    pub batch: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::o1::prio::static_prio;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const V12: Scale = Scale { hz: 1000, rounds_to_zero: true, multiplied: true };
    const V18: Scale = Scale { hz: 1000, rounds_to_zero: false, multiplied: false };

    fn slept(avg_ms: u64, slept_ms: u64, kind: Sleep) -> Slept {
        let (avg_ns, slept_ns) = (avg_ms * MS, slept_ms * MS);
        Slept { static_prio: 120, avg_ns, slept_ns, kind, user: true, batch: false }
    }

    #[test]
    fn each_tenth_of_a_second_of_sleep_is_a_priority() {
        for (ms, bonus, prio) in [(0, 0, 125), (99, 0, 125), (100, 1, 124), (500, 5, 120), (1000, 10, 115)] {
            assert_eq!((V12.bonus(ms * MS), V12.prio(120, ms * MS)), (bonus, prio), "{ms} ms");
        }
        assert_eq!(V12.prio(100, 1000 * MS), 100, "no ordinary task becomes a real-time one");
        assert_eq!(V12.prio(139, 0), 139);
    }

    #[test]
    fn nice_tasks_are_hardly_ever_interactive_and_nice_minus_20_nearly_always() {
        let least_bonus = |nice: i8| {
            let s = static_prio(nice);
            (0..=10).find(|b| V18.is_interactive(s, V18.prio(s, b * 100 * MS)))
        };
        assert_eq!([-20, -10, 0, 10, 19].map(least_bonus), [Some(2), Some(4), Some(7), Some(9), None]);
    }

    #[test]
    fn the_limit_of_nice_minus_1_was_rounded_towards_0_before_2_6_18() {
        let s = static_prio(-1);
        assert_eq!((V12.delta(s), V18.delta(s)), (2, 1));
        assert!([-20i8, 0, 19].iter().all(|n| V12.delta(static_prio(*n)) == V18.delta(static_prio(*n))));
    }

    #[test]
    fn sleep_counts_more_at_low_averages_before_2_6_17_and_once_after() {
        let one = slept(0, 20, Sleep::Normal);
        assert_eq!(V12.credit(&one).0, 200 * MS);
        assert_eq!(V18.credit(&one).0, 20 * MS);
        let high = slept(950, 20, Sleep::Normal);
        assert_eq!((V12.credit(&high).0, V18.credit(&high).0), (970 * MS, 970 * MS));
    }

    #[test]
    fn a_long_sleep_makes_a_task_interactive_and_not_more() {
        let long = slept(0, 5_000, Sleep::Normal);
        assert_eq!(V12.credit(&long), (900 * MS, Sleep::Normal));
        let (avg_ns, kind) = V18.credit(&long);
        assert_eq!((avg_ns, kind), (799 * MS, Sleep::Quiet), "and its wait for the CPU adds nothing");
        assert!(V18.is_interactive(120, V18.prio(120, avg_ns)));
        let rich = slept(850, 5_000, Sleep::Normal);
        assert_eq!(V18.credit(&rich).0, 1000 * MS, "an average above the limit grows as usual");
    }

    #[test]
    fn quiet_sleep_stops_at_the_limit_but_not_for_kernel_threads() {
        for scale in [V12, V18] {
            let limit_ns = scale.interactive_sleep_ns(120);
            assert_eq!(limit_ns, 799 * MS);
            assert_eq!(scale.credit(&slept(750, 300, Sleep::Quiet)).0, limit_ns);
            assert_eq!(scale.credit(&slept(900, 300, Sleep::Quiet)).0, 900 * MS);
            let thread = Slept { user: false, ..slept(750, 300, Sleep::Quiet) };
            assert_eq!(scale.credit(&thread).0, 1000 * MS);
        }
    }

    #[test]
    fn running_costs_an_interactive_task_a_tenth_of_the_time() {
        assert_eq!(V12.charge(1000 * MS, 100 * MS), 990 * MS);
        assert_eq!(V12.charge(500 * MS, 100 * MS), 480 * MS);
        assert_eq!(V12.charge(50 * MS, 100 * MS), 0);
    }

    #[test]
    fn waiting_for_the_cpu_counts_whole_after_an_interrupt_and_in_part_after_a_tasks_wakeup() {
        let kinds = [Sleep::Interrupted, Sleep::Interactive, Sleep::Normal, Sleep::Quiet];
        assert_eq!(kinds.map(|kind| V12.waited(kind, 128)), [128, 38, 0, 0]);
    }

    #[test]
    fn children_begin_a_little_worse_and_hogs_lower_their_parents() {
        assert_eq!((V12.child(1000 * MS), V12.parent(1000 * MS)), (900 * MS, 1000 * MS));
        assert_eq!((V12.child(550 * MS), V12.parent(550 * MS)), (400 * MS, 500 * MS));
        assert_eq!(after_exit(800 * MS, 400 * MS), 700 * MS);
        assert_eq!(after_exit(400 * MS, 800 * MS), 400 * MS);
    }

    #[test]
    fn the_best_tasks_take_turns_of_10_ms_a_cpu() {
        let ticks = |ms: u64, cpus| V12.granularity(ms * MS, cpus);
        assert_eq!([1000, 900, 800, 700].map(|ms| ticks(ms, 1)), [10, 10, 20, 40]);
        assert_eq!((ticks(1000, 4), ticks(0, 1)), (40, 5_120));
    }

    proptest! {
        #[test]
        fn bonus_and_average_stay_in_their_ranges(
            nice in -20i8..=19, hz in prop::sample::select(vec![100u64, 250, 1000]), early: bool,
            acts in prop::collection::vec((any::<bool>(), 0u64..3_000_000_000, 0usize..4, any::<bool>()), 1..60),
        ) {
            let scale = Scale { hz, rounds_to_zero: early, multiplied: early };
            let s = static_prio(nice);
            let kinds = [Sleep::Normal, Sleep::Quiet, Sleep::Interactive, Sleep::Interrupted];
            let mut avg_ns = 0;
            for (sleeps, ns, kind, user) in acts {
                let before = avg_ns;
                if sleeps {
                    let kind = kinds[kind];
                    let slept = Slept { static_prio: s, avg_ns, slept_ns: ns, kind, user, batch: false };
                    avg_ns = scale.credit(&slept).0;
                    // 2.6.12's long sleep sets the average, even if it was higher.
                    prop_assert!(avg_ns >= before || early && avg_ns == 900 * scale.max_ns() / 1000);
                } else {
                    avg_ns = scale.charge(avg_ns, ns);
                    prop_assert!(avg_ns <= before);
                }
                prop_assert!(avg_ns <= scale.max_ns() && scale.bonus(avg_ns) <= MAX_BONUS);
                let prio = i64::from(scale.prio(s, avg_ns));
                prop_assert!((100..140).contains(&prio) && (prio - i64::from(s)).abs() <= 5);
            }
        }
    }
}
