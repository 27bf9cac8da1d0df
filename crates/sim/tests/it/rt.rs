//! Real-time tasks under random loads: the most important ones run, and fair tasks get the share left by the tunables.

use crate::support::{Load, cpus, forever, hog, kernel, machine, run_us, simulated, sleep_us};
use proptest::prelude::*;
use schedlab_base::{CpuSet, Ns, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_trace::{Event, EventKind, Keep, Sink};
use schedlab_workload::Op;

const CPUS: usize = 4;
const MS: u64 = 1_000_000;
/// How long a task may wait while a CPU that it may use runs less important work, ns: it covers an idle CPU's way out
/// of a deep state, an IPI, a switch, and a balance pass with interrupts off in between.
const WAY_NS: u64 = 250_000;

/// Follows ranks: which task runs on each CPU, which tasks wait, and since when.
struct Ranks {
    rank: Vec<u8>,
    allowed: Vec<CpuSet>,
    /// Each CPU's running task, and since when.
    runs: Vec<(Option<TaskId>, u64)>,
    waits: Vec<Option<u64>>,
    broken: Option<String>,
}

impl Ranks {
    fn new(rank: Vec<u8>, allowed: Vec<CpuSet>) -> Ranks {
        let waits = vec![None; rank.len()];
        Ranks { rank, allowed, runs: vec![(None, 0); CPUS], waits, broken: None }
    }

    fn rank_of(&self, task: Option<TaskId>) -> u8 {
        task.map_or(0, |t| self.rank[t.index()])
    }

    /// Finds a task that waits while a CPU has run less important work for too long.
    fn check(&mut self, now: u64) {
        for (task, since) in self.waits.iter().enumerate().filter_map(|(t, w)| w.map(|w| (t, w))) {
            for (cpu, (runs, from)) in self.runs.iter().enumerate() {
                let may = self.allowed[task].contains(schedlab_base::CpuId::from(cpu));
                if may && self.rank_of(*runs) < self.rank[task] && now > since.max(*from) + WAY_NS {
                    let text = format!(
                        "at {now} ns task {task} waits since {since}, cpu{cpu} runs {runs:?} since {from}"
                    );
                    self.broken.get_or_insert(text);
                }
            }
        }
    }
}

impl Sink for Ranks {
    fn event(&mut self, event: &Event) {
        let now = event.at.0;
        self.check(now);
        match event.kind {
            EventKind::Enqueued { task, .. } if self.rank[task.index()] > 0 => {
                self.waits[task.index()] = Some(now)
            }
            EventKind::Switch { prev, next, why } => {
                let left = prev.filter(|p| self.rank[p.index()] > 0 && !why_sleeps(why));
                left.into_iter().for_each(|p| self.waits[p.index()] = Some(now));
                next.into_iter().for_each(|n| self.waits[n.index()] = None);
                // A switch to the same rank begins no new stretch.
                let cpu = event.cpu.index();
                let same = self.rank_of(self.runs[cpu].0) == self.rank_of(next);
                let from = if same { self.runs[cpu].1 } else { now };
                self.runs[cpu] = (next, from);
            }
            _ => {}
        }
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
}

fn why_sleeps(why: schedlab_trace::SwitchReason) -> bool {
    use schedlab_trace::SwitchReason::{Blocked, Exited};
    matches!(why, Blocked | Exited)
}

/// A task of a case: priority (0: fair), SCHED_RR or not, CPUs, and its acts.
#[derive(Clone, Debug)]
struct Plan {
    priority: u8,
    rr: bool,
    mask: Option<u8>,
    acts: Vec<(u64, u64)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let acts = prop::collection::vec((20u64..4_000, 0u64..6_000), 1..4);
    // All CPUs, or one: a task with a few CPUs would keep tasks behind it from being pushed.
    let mask = prop::option::weighted(0.4, (0u32..4).prop_map(|cpu| 1u8 << cpu));
    (prop_oneof![1 => Just(0u8), 3 => 1u8..5], any::<bool>(), mask, acts)
        .prop_map(|(priority, rr, mask, acts)| Plan { priority, rr, mask, acts })
}

fn allowed(mask: Option<u8>) -> CpuSet {
    (0..CPUS).filter(|c| mask.is_none_or(|m| m >> c & 1 == 1)).map(schedlab_base::CpuId::from).collect()
}

/// The acts of a task that changes its policy now and then.
fn changes() -> impl Strategy<Value = Vec<Op>> {
    let attr = prop_oneof![
        Just(Attr::default()),
        (-5i8..5).prop_map(Attr::nice),
        (1u8..4).prop_map(|p| Attr { policy: Policy::Fifo, rt_priority: p, ..Attr::default() }),
        (1u8..4).prop_map(|p| Attr { policy: Policy::Rr, rt_priority: p, ..Attr::default() }),
        Just(Attr { policy: Policy::Idle, ..Attr::default() }),
    ];
    let act = prop_oneof![
        3 => (20u64..3_000).prop_map(run_us),
        2 => (1u64..3_000).prop_map(sleep_us),
        2 => attr.prop_map(|attr| Op::SetAttr { attr }),
        1 => Just(Op::Yield),
    ];
    prop::collection::vec(act, 1..6).prop_map(|mut acts| {
        // At least one act takes time.
        acts.push(run_us(50));
        acts
    })
}

fn attr(plan: &Plan) -> Attr {
    let policy = match (plan.priority, plan.rr) {
        (0, _) => Policy::Other,
        (_, true) => Policy::Rr,
        (_, false) => Policy::Fifo,
    };
    Attr { policy, rt_priority: plan.priority, ..Attr::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn the_most_important_tasks_run(
        plans in prop::collection::vec(plan(), 1..12),
        era in prop::sample::select(vec!["v2.6.30", "v3.4", "v4.5", "v6.1", "v6.5", "v6.12", "v7.3"]),
        seed in 1u64..1000,
    ) {
        let mut load = Load::lasting_ms(60);
        for plan in &plans {
            let ops = plan.acts.iter().flat_map(|(run, sleep)| [run_us(*run), sleep_us(*sleep)]).collect();
            let task = load.task("task", None, forever(ops));
            load.attr(task, attr(plan));
            load.builder.edit(task).affinity = plan.mask.map(|m| allowed(Some(m)));
        }
        let mut kernel = kernel(era);
        kernel.tunables.rt_runtime_ns = kernel.tunables.rt_period_ns;
        kernel.tunables.fair_server_runtime_ns = 0;
        let ranks = plans.iter().map(|p| p.priority).collect();
        let mut sink = Ranks::new(ranks, plans.iter().map(|p| allowed(p.mask)).collect());
        simulated(&machine("smp-4"), kernel, seed, load.built(), &mut sink).expect("the invariants hold");
        prop_assert_eq!(sink.broken, None);
    }

    #[test]
    fn tasks_may_change_their_class_at_any_time(
        tasks in prop::collection::vec((changes(), prop::option::weighted(0.4, 1u8..16)), 1..10),
        era in prop::sample::select(vec!["v2.6.30", "v3.4", "v4.5", "v6.1", "v6.5", "v6.12", "v6.18", "v7.3"]),
        cpus in prop::sample::select(vec!["smp-1", "smp-2", "smp-4"]),
        seed in 1u64..1000,
    ) {
        let mut load = Load::lasting_ms(80);
        for (acts, mask) in &tasks {
            let task = load.task("task", None, forever(acts.clone()));
            // Every machine has the CPU of bit 0.
            load.builder.edit(task).affinity = mask.map(|m| allowed(Some(m | 1)));
        }
        let mut kernel = kernel(era);
        // Short periods, so that many are throttled and many are served.
        (kernel.tunables.rt_period_ns, kernel.tunables.rt_runtime_ns) = (10 * MS, 7 * MS);
        (kernel.tunables.fair_server_period_ns, kernel.tunables.fair_server_runtime_ns) = (10 * MS, 3 * MS);
        simulated(&machine(cpus), kernel, seed, load.built(), &mut Keep::default()).expect("the invariants hold");
    }

    #[test]
    fn fair_tasks_get_the_time_that_the_tunables_leave(
        era in prop::sample::select(vec!["v5.10", "v6.1", "v6.5", "v6.12", "v7.3"]),
        period_ms in 50u64..400,
        part_pct in 20u64..96,
        hogs in 1usize..4,
    ) {
        let (period_ns, urgent_ns) = (period_ms * MS, period_ms * MS * part_pct / 100);
        let periods = 6;
        let mut load = Load::lasting_ms(period_ms * periods);
        for _ in 0..hogs {
            let task = load.task("urgent", Some("0"), hog());
            load.attr(task, Attr { policy: Policy::Fifo, rt_priority: 10, ..Attr::default() });
        }
        let fair = load.task("fair", Some("0"), hog());
        let mut kernel = kernel(era);
        (kernel.tunables.rt_period_ns, kernel.tunables.rt_runtime_ns) = (period_ns, urgent_ns);
        (kernel.tunables.fair_server_period_ns, kernel.tunables.fair_server_runtime_ns) =
            (period_ns, period_ns - urgent_ns);
        let tick_ns = 1_000_000_000 / kernel.tunables.hz;
        let mut seen = Keep::default();
        simulated(&machine("smp-2"), kernel, 1, load.built(), &mut seen).expect("the invariants hold");
        // A tick notices that a share is used up; a timer notices that a period ends.
        let mut had = vec![0u64; periods as usize];
        let mut since = None;
        let ends = period_ns * periods;
        for e in &seen.events {
            let EventKind::Switch { prev, next, .. } = e.kind else { continue };
            if prev == Some(fair) && let Some(from) = since.take() {
                count(&mut had, period_ns, from, e.at.0);
            }
            if next == Some(fair) {
                since = Some(e.at.0);
            }
        }
        since.into_iter().for_each(|from| count(&mut had, period_ns, from, ends));
        let left_ns = period_ns - urgent_ns;
        let whole: u64 = had.iter().sum();
        let wanted = left_ns * periods;
        prop_assert!(whole.abs_diff(wanted) <= left_ns + 2 * tick_ns, "{} of {} ns: {:?}", whole, wanted, had);
        let last = &had[1..had.len() - 1];
        prop_assert!(
            last.iter().all(|ns| ns.abs_diff(left_ns) <= 2 * tick_ns),
            "{:?} and not {} ns", had, left_ns
        );
    }
}

/// Adds a stay to the periods that it lies in.
fn count(had: &mut [u64], period_ns: u64, from: u64, to: u64) {
    for (n, ns) in had.iter_mut().enumerate() {
        let (start, end) = (n as u64 * period_ns, (n as u64 + 1) * period_ns);
        *ns += to.min(end).saturating_sub(from.max(start));
    }
}

#[test]
fn a_mask_has_the_cpus_of_its_bits() {
    assert_eq!(allowed(Some(0b1010)), cpus("1,3"));
    assert_eq!(allowed(None), cpus("0-3"));
}
