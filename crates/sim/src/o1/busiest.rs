//! Chooses the group to pull from and the amount (`find_busiest_group`), and the queue in it (`find_busiest_queue`).
//!
//! Loads are in 1024ths of a task, averages are per 1024 of power; a core's power is 1024, plus a tenth of that for
//! each further thread. 2.6.12 counts tasks: a group may be the busiest with any load, and a CPU that goes idle tries
//! to get a task even from a balanced domain. 2.6.18 weighs tasks: a group counts only if it has more tasks than its
//! power, and keeps at least one.

use super::prio::ONE_TASK;
use crate::balance::era::PassKind;

/// The power of one whole CPU.
pub const SCALE: u64 = 1024;

/// The power of a core with this many threads, above the level of threads.
pub fn core_power(threads: u64) -> u64 {
    SCALE + SCALE * threads.saturating_sub(1) / 10
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct O1BusiestRules {
    /// Whether tasks are counted, not weighed (before 2.6.18).
    pub counts_tasks: bool,
    /// Whether a group may be the busiest with any load, and idle CPUs try to get a task (before 2.6.13).
    pub tries_anyway: bool,
    pub imbalance_pct: u64,
}

/// The sums over a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Biased loads of its CPUs.
    pub load: u64,
    pub load_now: u64,
    /// Runnable tasks.
    pub nr_running: u64,
    pub power: u64,
}

impl Sums {
    fn average(&self) -> u64 {
        self.load * SCALE / self.power.max(1)
    }
    fn load_per_task(&self) -> u64 {
        self.load_now.checked_div(self.nr_running).unwrap_or(ONE_TASK)
    }
}

/// The groups of a domain read so far; the local one comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupsSeen {
    local: Sums,
    busiest: Option<(u32, Sums)>,
    total: Sums,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pull {
    pub group: u32,
    /// Load to pull; before 2.6.18 a whole number of tasks.
    pub load: u64,
}

/// Why nothing is pulled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Balanced {
    /// No other group has load, or more tasks than its power.
    NoBusiest,
    /// The local group is as loaded as the busiest.
    LocalBusier,
    /// The local group is at the domain's average or above.
    LocalAboveAverage,
    /// The difference is within `imbalance_pct`.
    WithinPct,
    /// The busiest group has no more than one task's load, or moving a task would gain nothing.
    OneTask,
}

impl GroupsSeen {
    pub fn local(&mut self, sums: Sums) {
        self.local = sums;
        self.add(&sums);
    }
    /// Takes another group; `index` is its number for the caller.
    pub fn other(&mut self, rules: &O1BusiestRules, index: u32, sums: Sums) {
        self.add(&sums);
        let counts = rules.tries_anyway || sums.nr_running > sums.power / SCALE;
        if counts && sums.average() > self.busiest.map_or(0, |(_, b)| b.average()) {
            self.busiest = Some((index, sums));
        }
    }
    fn add(&mut self, sums: &Sums) {
        self.total.load += sums.load;
        self.total.power += sums.power;
    }

    /// The decision.
    ///
    /// # Errors
    /// The reason why nothing is pulled.
    pub fn decide(&self, rules: &O1BusiestRules, kind: PassKind) -> Result<Pull, Balanced> {
        let Some((group, busiest)) = self.busiest else { return Err(Balanced::NoBusiest) };
        self.amount(rules, &busiest).map(|load| Pull { group, load }).or_else(|why| {
            // The imbalance is too small, but this CPU has nothing to do.
            let tries = match kind {
                PassKind::Newidle => true,
                PassKind::Idle => busiest.average() > ONE_TASK,
                PassKind::Busy => false,
            };
            if rules.tries_anyway && tries { Ok(Pull { group, load: ONE_TASK }) } else { Err(why) }
        })
    }

    fn amount(&self, rules: &O1BusiestRules, busiest: &Sums) -> Result<u64, Balanced> {
        let (max, this, mean) = (busiest.average(), self.local.average(), self.total.average());
        if this >= max || busiest.nr_running == 0 && !rules.tries_anyway {
            return Err(Balanced::LocalBusier);
        }
        if this >= mean {
            return Err(Balanced::LocalAboveAverage);
        }
        if 100 * max <= rules.imbalance_pct * this {
            return Err(Balanced::WithinPct);
        }
        if rules.counts_tasks { self.tasks(busiest, mean) } else { self.weight(busiest, mean) }
    }

    /// Before 2.6.18: a number of tasks.
    fn tasks(&self, busiest: &Sums, mean: u64) -> Result<u64, Balanced> {
        let (max, this) = (busiest.average(), self.local.average());
        let least = (max - mean).min(mean - this) * busiest.power.min(self.local.power) / SCALE;
        // The kernel compares with one less than its 128.
        let unit = ONE_TASK / 128;
        if least < ONE_TASK - unit {
            let gains = |now: u64, moved: u64| moved >= now + ONE_TASK / 8;
            let pays = max - this >= 2 * ONE_TASK || self.gains(busiest, ONE_TASK, ONE_TASK, gains);
            return if pays { Ok(ONE_TASK) } else { Err(Balanced::OneTask) };
        }
        Ok((least + unit) / ONE_TASK * ONE_TASK)
    }

    /// Since 2.6.18: load.
    fn weight(&self, busiest: &Sums, mean: u64) -> Result<u64, Balanced> {
        let (max, this) = (busiest.average(), self.local.average());
        let task = busiest.load_per_task();
        if max <= task {
            return Err(Balanced::OneTask);
        }
        let load = match max.checked_sub(mean) {
            Some(excess) => {
                let give = excess.min(max - task) * busiest.power;
                give.min((mean - this) * self.local.power) / SCALE
            }
            None => 0,
        };
        if load >= task && max >= mean {
            return Ok(load);
        }
        let local_task = if self.local.nr_running > 0 { self.local.load_per_task() } else { ONE_TASK };
        let times = if self.local.nr_running > 0 && task > local_task { 1 } else { 2 };
        let pays =
            max - this >= task * times || self.gains(busiest, task, local_task, |now, moved| moved > now);
        if pays { Ok(task) } else { Err(Balanced::OneTask) }
    }

    /// Whether moving one task uses more power, by `test` of the power used now and after the move.
    fn gains(&self, busiest: &Sums, task: u64, local_task: u64, test: impl Fn(u64, u64) -> bool) -> bool {
        let (max, this) = (busiest.average(), self.local.average());
        let used = |sums: &Sums, task: u64, load: u64| sums.power * task.min(load);
        let now = (used(busiest, task, max) + used(&self.local, local_task, this)) / SCALE;
        let leaves = task * SCALE / busiest.power;
        let left = if max > leaves { used(busiest, task, max - leaves) } else { 0 };
        let comes = (max * busiest.power).min(task * SCALE) / self.local.power;
        let moved = (left + used(&self.local, local_task, this + comes)) / SCALE;
        test(now, moved)
    }
}

/// The queue with the most load; ties keep the earlier one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BusiestQueue<C> {
    best: Option<(C, u64)>,
}

impl<C: Copy> BusiestQueue<C> {
    /// Reads a queue. `wanted`: the load to pull; since 2.6.18 a queue whose only task is heavier is skipped.
    pub fn add(&mut self, rules: &O1BusiestRules, cpu: C, load: u64, nr_running: u32, wanted: u64) {
        let too_heavy = !rules.counts_tasks && nr_running == 1 && load > wanted;
        if !too_heavy && load > self.best.map_or(0, |(_, load)| load) {
            self.best = Some((cpu, load));
        }
    }
    pub fn result(&self) -> Option<C> {
        self.best.map(|(cpu, _)| cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V12: O1BusiestRules = O1BusiestRules { counts_tasks: true, tries_anyway: true, imbalance_pct: 125 };
    const V18: O1BusiestRules =
        O1BusiestRules { counts_tasks: false, tries_anyway: false, imbalance_pct: 125 };

    /// A group of `cpus` whole CPUs with `nr` tasks of nice 0.
    fn group(cpus: u64, nr: u64) -> Sums {
        Sums { load: nr * ONE_TASK, load_now: nr * ONE_TASK, nr_running: nr, power: cpus * SCALE }
    }
    fn core(threads: u64, nr: u64) -> Sums {
        Sums { power: core_power(threads), ..group(1, nr) }
    }
    fn decide(
        rules: &O1BusiestRules,
        kind: PassKind,
        local: Sums,
        others: &[Sums],
    ) -> Result<(u32, u64), Balanced> {
        let mut seen = GroupsSeen::default();
        seen.local(local);
        others.iter().enumerate().for_each(|(i, sums)| seen.other(rules, i as u32, *sums));
        seen.decide(rules, kind).map(|p| (p.group, p.load / ONE_TASK))
    }

    #[test]
    fn half_of_the_difference_is_pulled() {
        for rules in [V12, V18] {
            assert_eq!(decide(&rules, PassKind::Busy, group(1, 1), &[group(1, 5)]), Ok((0, 2)), "{rules:?}");
            assert_eq!(decide(&rules, PassKind::Busy, group(2, 0), &[group(2, 4), group(2, 8)]), Ok((1, 4)));
        }
    }

    #[test]
    fn a_difference_within_25_per_cent_stands() {
        for rules in [V12, V18] {
            let verdict = decide(&rules, PassKind::Busy, group(4, 20), &[group(4, 24)]);
            assert_eq!(verdict, Err(Balanced::WithinPct), "{rules:?}");
            assert_eq!(
                decide(&rules, PassKind::Busy, group(1, 3), &[group(1, 2)]),
                Err(Balanced::LocalBusier)
            );
            let above = decide(&rules, PassKind::Busy, group(1, 3), &[group(1, 4), group(1, 0)]);
            assert_eq!(above, Err(Balanced::LocalAboveAverage));
        }
    }

    #[test]
    fn a_cpu_that_goes_idle_tries_even_a_balanced_domain_before_2_6_13() {
        let one_each = [group(1, 1), group(1, 1)];
        assert_eq!(decide(&V12, PassKind::Newidle, group(1, 1), &one_each), Ok((0, 1)));
        assert_eq!(decide(&V12, PassKind::Idle, group(1, 1), &one_each), Err(Balanced::LocalBusier));
        assert_eq!(decide(&V18, PassKind::Newidle, group(1, 1), &one_each), Err(Balanced::NoBusiest));
        assert_eq!(
            decide(&V12, PassKind::Idle, group(1, 2), &[group(1, 2)]),
            Ok((0, 1)),
            "above one task's load"
        );
    }

    #[test]
    fn a_single_task_is_no_reason_to_pull() {
        assert_eq!(decide(&V18, PassKind::Idle, group(1, 0), &[group(1, 1)]), Err(Balanced::NoBusiest));
        // 2.6.12 sees a difference of half a task to the mean, but moving it would gain nothing.
        assert_eq!(decide(&V12, PassKind::Idle, group(1, 0), &[group(1, 1)]), Err(Balanced::OneTask));
    }

    #[test]
    fn two_tasks_on_the_threads_of_one_core_are_pulled_apart() {
        assert_eq!(core_power(2), 1126);
        for rules in [V12, V18] {
            assert_eq!(decide(&rules, PassKind::Idle, core(2, 0), &[core(2, 2)]), Ok((0, 1)), "{rules:?}");
        }
    }

    #[test]
    fn nice_tasks_weigh_little_since_2_6_18() {
        let nice = Sums { load: 4 * 48, load_now: 4 * 48, nr_running: 4, power: SCALE };
        assert_eq!(decide(&V18, PassKind::Busy, group(1, 1), &[nice]), Err(Balanced::LocalBusier));
    }

    #[test]
    fn the_queue_with_the_most_load_is_taken() {
        let pick = |rules: &O1BusiestRules, queues: &[(u32, u64, u32)], wanted| {
            let mut queue = BusiestQueue::default();
            queues.iter().for_each(|(cpu, load, nr)| queue.add(rules, *cpu, *load, *nr, wanted));
            queue.result()
        };
        let queues = [(0, 1024, 1), (1, 2048, 2), (2, 2048, 2)];
        assert_eq!(pick(&V12, &queues, 1024), Some(1));
        let heavy = [(0, 8192, 1), (1, 2048, 2)];
        assert_eq!((pick(&V12, &heavy, 1024), pick(&V18, &heavy, 1024)), (Some(0), Some(1)));
        assert_eq!(pick(&V18, &[(0, 0, 0)], 1024), None);
    }
}
