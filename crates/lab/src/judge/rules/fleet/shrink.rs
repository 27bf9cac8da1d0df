//! Shrinks a machine's state as long as it shows a difference: fewer tasks, fewer properties, rounder numbers.

use super::draw::of_tasks;
use super::facts::Facts;
use schedlab_base::CpuId;
use schedlab_board::decision::{
    AskedAverages, AskedCpu, AskedFleet, AskedGroup, AskedPlace, AskedTask, FleetQuestion,
};
use schedlab_kernel::Policy;

/// Units for rounding averages, the coarsest first.
const UNITS: [u64; 3] = [1024, 256, 64];
/// A time that is neither hot nor short.
const LONG_NS: u64 = 20_000_000;
const LONG_IDLE_NS: u64 = 1_000_000;

/// States that are simpler by one step, the largest steps first.
pub fn simpler(s: &AskedFleet, facts: &Facts, question: FleetQuestion) -> Vec<AskedFleet> {
    let mut all = Vec::new();
    let mut change = |edit: &dyn Fn(&mut AskedFleet)| {
        let mut next = s.clone();
        edit(&mut next);
        if next != *s {
            all.push(next);
        }
    };
    if question == FleetQuestion::Shares {
        return group(s);
    }
    let kept = |t: &AskedTask, i: usize| question.places() && i == s.about || t.place == AskedPlace::Leaves;
    for cpu in (0..facts.nr_cpus).map(CpuId::from) {
        change(&|s| drop_tasks(s, &|t, i| t.cpu == cpu && !kept(t, i)));
    }
    for at in 0..s.tasks.len() {
        change(&|s| drop_tasks(s, &|t, i| i == at && !kept(t, i)));
    }
    simpler_cpus(s, facts, &mut change);
    for at in 0..s.levels.len() {
        change(&|s| s.levels[at].failed = 0);
        change(&|s| s.levels[at].newidle_cost_ns = 0);
        change(&|s| s.levels[at].imbalanced = false);
    }
    change(&|s| s.sync = false);
    change(&|s| s.overload = true);
    simpler_tasks(s, facts, &mut change);
    if question == FleetQuestion::Detach && s.imbalance > 1 {
        change(&|s| s.imbalance = 1);
        change(&|s| s.imbalance /= 2);
    }
    // A queue of one task is not walked.
    let queued = |s: &AskedFleet| s.tasks.iter().filter(|t| t.cpu == s.src).count();
    all.retain(|s| question != FleetQuestion::Detach || queued(s) >= 2);
    all
}

/// Takes an edit of the state, if it changes something.
type Change<'c> = dyn FnMut(&dyn Fn(&mut AskedFleet)) + 'c;

fn simpler_cpus(s: &AskedFleet, facts: &Facts, change: &mut Change<'_>) {
    for i in 0..s.cpus.len() {
        change(&|s| s.cpus[i].avg = of_tasks(&s.tasks, CpuId::from(i)));
        let edits: [&dyn Fn(&mut AskedCpu); 9] = [
            &|c| c.nr_rt = 0,
            &|c| c.rt_util = 0,
            &|c| c.misfit = 0,
            &|c| c.idle_exit_us = None,
            &|c| c.idle_since_ns = 0,
            &|c| c.wakeup_pending = false,
            &|c| c.avg_idle_ns = LONG_IDLE_NS,
            &|c| c.has_idle_cores = false,
            &|c| c.nr_idle_scan = facts.cache(CpuId::from(i)).count_ones(),
        ];
        edits.iter().for_each(|edit| change(&|s| edit(&mut s.cpus[i])));
    }
}

fn simpler_tasks(s: &AskedFleet, facts: &Facts, change: &mut Change<'_>) {
    for i in 0..s.tasks.len() {
        let edits: [&dyn Fn(&mut AskedTask); 7] = [
            &|t| t.policy = Policy::Other,
            &|t| t.nice = 0,
            &|t| t.allowed = facts.all(),
            &|t| t.ran_ago_ns = LONG_NS,
            &|t| t.flips = 0,
            &|t| t.next = false,
            &|t| t.vruntime = 0,
        ];
        edits.iter().for_each(|edit| change(&|s| edit(&mut s.tasks[i])));
        change(&|s| s.tasks[i].recent = s.tasks[i].cpu);
        let parts: [&dyn Fn(&mut AskedAverages) -> &mut u64; 4] =
            [&|a| &mut a.load, &|a| &mut a.runnable, &|a| &mut a.util, &|a| &mut a.util_est];
        for part in parts {
            change(&|s| set_average(s, i, part, 0));
            for unit in UNITS {
                change(&|s| {
                    let old = *part(&mut s.tasks[i].avg);
                    set_average(s, i, part, old / unit * unit);
                });
            }
        }
    }
}

/// Changes an average of a task, and its queue's with it.
fn set_average(s: &mut AskedFleet, i: usize, part: &dyn Fn(&mut AskedAverages) -> &mut u64, to: u64) {
    let cpu = s.tasks[i].cpu;
    let before = of_tasks(&s.tasks, cpu);
    *part(&mut s.tasks[i].avg) = to;
    follow(s, cpu, &before);
}

fn drop_tasks(s: &mut AskedFleet, gone: &dyn Fn(&AskedTask, usize) -> bool) {
    let before: Vec<AskedAverages> = (0..s.cpus.len()).map(|c| of_tasks(&s.tasks, CpuId::from(c))).collect();
    let goes: Vec<bool> = s.tasks.iter().enumerate().map(|(i, t)| gone(t, i)).collect();
    s.about -= goes[..s.about.min(goes.len())].iter().filter(|goes| **goes).count();
    let mut at = 0;
    s.tasks.retain(|_| {
        at += 1;
        !goes[at - 1]
    });
    for (c, before) in before.iter().enumerate() {
        follow(s, CpuId::from(c), before);
    }
    // A synchronous waker runs.
    s.sync &= s.tasks.iter().any(|t| t.cpu == s.cpu && t.place == AskedPlace::Runs);
}

/// The averages of a CPU's tasks have changed from these.
fn follow(s: &mut AskedFleet, cpu: CpuId, before: &AskedAverages) {
    let after = of_tasks(&s.tasks, cpu);
    let avg = &mut s.cpus[cpu.index()].avg;
    let moved = |of: u64, before: u64, after: u64| (of + after).saturating_sub(before);
    avg.load = moved(avg.load, before.load, after.load);
    avg.runnable = moved(avg.runnable, before.runnable, after.runnable);
    avg.util = moved(avg.util, before.util, after.util);
    avg.util_est = moved(avg.util_est, before.util_est, after.util_est);
}

/// The same for a group.
fn group(s: &AskedFleet) -> Vec<AskedFleet> {
    let edits: [&dyn Fn(&mut AskedGroup); 6] = [
        &|g| g.shares = 1024,
        &|g| g.queue_weight = 1024,
        &|g| g.queue_load = g.queue_weight,
        &|g| g.contribution = g.queue_load.min(g.load),
        &|g| g.load = g.contribution,
        &|g| g.runnable = 1024,
    ];
    let of = |edit: &&dyn Fn(&mut AskedGroup)| {
        let mut next = s.clone();
        edit(&mut next.group);
        next
    };
    edits.iter().map(of).filter(|next| next != s).collect()
}

#[cfg(test)]
mod tests {
    use crate::judge::rules::fleet::Fleet;
    use crate::judge::rules::fleet::facts::Facts;
    use crate::judge::rules::subject::{Subject, shrink};
    use schedlab_base::Version;
    use schedlab_base::random::Stream;
    use schedlab_board::decision::{AskedFleet, FleetQuestion};
    use schedlab_kernel::Kernel;
    use schedlab_machine::Machine;
    use schedlab_sim::fair::oracle::fleet::timeless;
    use schedlab_trace::MigrationType;

    /// The smallest state in which kernels of two versions decide differently, and how many of 300 states do so.
    fn difference(question: FleetQuestion, a: Version, b: Version) -> (Option<AskedFleet>, usize) {
        let machine = Machine::load("spr-2x4").unwrap();
        let (machine, facts) = (timeless(&machine).unwrap(), Facts::of(&Kernel::of(a), &machine));
        let of = |v| Fleet { machine: &machine, rules: Kernel::of(v), facts: &facts, question };
        let (a, b) = (of(a), of(b));
        let mut differs = |s: &AskedFleet| a.by_rules(s).0 != b.by_rules(s).0;
        let all = (0..300).map(|i| a.draw(Stream::new(7).number(i)));
        let found: Vec<AskedFleet> = all.filter(|s| differs(s)).collect();
        (found.first().map(|s| shrink(&a, s.clone(), &mut differs)), found.len())
    }

    /// The control: unlike 6.1.192, 5.15 does not judge utilisation more mildly after failed passes.
    #[test]
    fn a_wrong_rule_is_found_and_its_smallest_state_shows_it() {
        let (small, times) = difference(FleetQuestion::Detach, Version::new(6, 1), Version::new(5, 15));
        let s = small.expect("some state shows it");
        assert!((2..200).contains(&times), "{times}");
        assert_eq!(s.migration, MigrationType::Util);
        assert!(s.levels[s.level].failed > 0 && s.tasks.len() <= 3, "{s:?}");
        assert!(s.tasks.iter().any(|t| t.avg.util.max(t.avg.util_est) > s.imbalance), "{s:?}");
    }
}
