//! The analyser's findings at the end: ids and indices become names.

use super::queues::Step;
use super::state::{Phase, RunCounts, Task};
use super::worst::LongWait;
use super::{Analyser, TaskName};
use schedlab_base::{Ns, TaskId, Warning};
use schedlab_kernel::policy::group_of;
use schedlab_record::Findings;
use schedlab_record::accounts::TaskAccount;
use schedlab_record::wait::{Decision, Occupant, Wait};
use schedlab_trace::{BalanceReason, BalanceTrigger, ExtQueue, MoveReason, PlaceReason, SwitchReason};
use std::collections::BTreeMap;

impl Analyser {
    /// How long a task of the workload has waited for a CPU at `end`, the longest: a task that is never picked has no
    /// wait that ended.
    pub fn longest_open_wait(&self, end: Ns) -> Ns {
        let waits = |task: &&Task| !task.background && matches!(task.phase, Phase::Waking | Phase::Queued);
        self.tasks.iter().filter(waits).map(|task| end.since(task.since)).max().unwrap_or(Ns::ZERO)
    }

    /// The findings until `end`. Open stays and waits are not counted; CPU and idle time are. The caller adds the
    /// measured time, the intervals and the environment.
    pub fn finish(mut self, end: Ns) -> Findings {
        for i in 0..self.cpus.len() {
            let cpu = self.cpus[i];
            self.spend(cpu.current, cpu.since, end);
        }
        let from = self.measure_from;
        let Analyser {
            names,
            recorded,
            tasks,
            groups,
            delays,
            mut task_groups,
            seen,
            woken,
            worst,
            dsqs,
            ..
        } = self;
        let of_workload = || names.iter().filter(|n| !n.background).map(|n| group_of(&n.name));
        // With a single group, its waits are the run's.
        let apart = of_workload().any(|group| Some(group) != of_workload().next());
        let delays = delays.into_series(groups.names(), apart);
        let mut counters = counters(&seen);
        counters.insert("run_delay.total".to_owned(), u64::try_from(delays.all.sum()).unwrap_or(u64::MAX));
        counters.extend(groups.preemptions());
        tasks.iter().filter(|t| !t.background).for_each(|t| task_groups.used(t.task_group, t.cpu_ns));
        let (of_groups, used) = task_groups.finish();
        counters.extend(used.into_iter().filter(|_| knows_who_ran(&seen)));
        counters.extend(woken.iter().flat_map(|w| w.counters()));
        let mut warnings = Vec::new();
        if seen.gaps > 0 {
            let words = format!(
                "{} {} what ran before: events were lost, and stays across the gaps are left out{}",
                schedlab_base::counted(seen.gaps, "switch"),
                schedlab_base::one_or(seen.gaps, "contradicts", "contradict"),
                if knows_who_ran(&seen) { "" } else { "; by events CPU time is not known" }
            );
            warnings.push(Warning::new("trace.gaps", words));
        }
        let mut series: BTreeMap<_, _> =
            recorded.into_iter().map(|(name, t)| (name, t.into_series())).collect();
        series.extend(of_groups);
        series.extend([
            ("wakeup_delay".to_owned(), delays.woken),
            ("run_delay".to_owned(), delays.all),
            ("slice".to_owned(), seen.slice.into_series()),
        ]);
        for (why, stays) in SwitchReason::ALL.iter().zip(seen.slice_by_end) {
            let stays = stays.into_series();
            if reports_reason(*why, stays.count()) {
                series.insert(format!("slice.{}", why.name()), stays);
            }
        }
        if let Some(dsqs) = dsqs {
            let (of_queues, waits) = dsqs.finish(end, from);
            counters.extend(of_queues);
            series.extend(waits);
        }
        let waits = worst.into_sorted().iter().map(|w| wait(&names, w)).collect();
        let accounts = names.iter().zip(&tasks).filter(|(n, _)| !n.background).map(|(n, t)| account(n, t));
        let (tasks, stays) = (accounts.collect(), groups.into_stays());
        Findings {
            series,
            counters,
            tasks,
            stays,
            delays: delays.groups,
            waits,
            warnings,
            ..Findings::default()
        }
    }
}

/// Whether CPU time is known: unknown tasks have at most a hundredth of all tasks' time. Idle time does not matter
/// here.
fn knows_who_ran(seen: &RunCounts) -> bool {
    seen.unknown_ns <= (seen.cpu_ns + seen.background_ns) / 100
}

/// Counters by metric name. A counter that the source never reports is left out: "not measured" is not 0.
fn counters(seen: &RunCounts) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut put = |name: String, n: u64| {
        all.insert(name, n);
    };
    put("switches.voluntary".into(), seen.voluntary);
    put("switches.involuntary".into(), seen.involuntary);
    put("migrations".into(), seen.migrations);
    put("wakeups".into(), seen.wakeups);
    if knows_who_ran(seen) {
        put("cpu_time".into(), seen.cpu_ns);
        put("background.cpu_time".into(), seen.background_ns);
        put("idle_time".into(), seen.idle_ns);
    }
    for why in SwitchReason::ALL.iter().filter(|w| reports_reason(**w, seen.slice_end[**w as usize])) {
        put(format!("slice.end.{}", why.name()), seen.slice_end[*why as usize]);
    }
    if seen.any_placed || seen.wakeups == 0 {
        put("placement.probes".into(), seen.probes);
        let is_reported = |w: &&PlaceReason| !w.is_of_code() || seen.placement[**w as usize] > 0;
        for why in PlaceReason::ALL.iter().filter(is_reported) {
            put(format!("placement.{}", why.name()), seen.placement[*why as usize]);
        }
    }
    if seen.any_move || seen.migrations == 0 {
        let is_rare = |w: MoveReason| w == MoveReason::Moved || w.is_of_ext();
        let is_reported = |w: &&MoveReason| !is_rare(**w) || seen.moves[**w as usize] > 0;
        for why in MoveReason::ALL.iter().filter(is_reported) {
            put(format!("migrations.{}", why.name()), seen.moves[*why as usize]);
        }
    }
    if seen.any_balance {
        for trigger in BalanceTrigger::ALL {
            let row = seen.balance[*trigger as usize];
            put(format!("balance.{}.passes", trigger.name()), row.passes);
            put(format!("balance.{}.moved", trigger.name()), row.moved);
            put(format!("balance.{}.visited", trigger.name()), row.visited);
            put(format!("balance.{}.time", trigger.name()), row.took_ns);
        }
        for why in BalanceReason::ALL {
            put(format!("balance.{}", why.name()), seen.balance_ends[*why as usize]);
        }
    }
    all
}

/// Whether the source reports reasons for the ends of stays. If it does, no stay has an unknown reason. `n` stays ended
/// for `why`.
fn reports_reason(why: SwitchReason, n: u64) -> bool {
    let is_rare = matches!(why, SwitchReason::Preempted | SwitchReason::Kicked);
    why != SwitchReason::FromIdle && (!is_rare || n > 0)
}

fn account(name: &TaskName, task: &Task) -> TaskAccount {
    TaskAccount {
        name: name.name.clone(),
        cpu_time: Ns(task.cpu_ns),
        voluntary: task.voluntary,
        involuntary: task.involuntary,
        migrations: Some(task.migrations),
    }
}

fn name(names: &[TaskName], id: TaskId) -> String {
    names.get(id.index()).map_or_else(|| format!("task {}", id.0), |t| t.name.clone())
}

fn wait(names: &[TaskName], w: &LongWait) -> Wait {
    let p = &w.pending;
    let occupant = p.occupant.map(|o| Occupant {
        task: name(names, o),
        ran_ns: p.occupant_ran_ns,
        fresh: p.occupant_fresh,
    });
    Wait {
        task: name(names, w.task),
        woken_at: w.woken_at,
        length_ns: w.length_ns,
        enqueue_ns: p.enqueued_at.since(w.woken_at).0,
        waker: p.waker.map(|t| name(names, t)),
        waker_cpu: p.waker_cpu,
        chosen_cpu: p.chosen,
        placement: p.reason.map(|r| r.name().to_owned()),
        probes: p.probes,
        occupant,
        nr_running: p.nr_running,
        ran_on: w.ran_on,
        moved: p.moved.map(|m| m.name().to_owned()),
        ended_by: w.ended_by.map(|t| name(names, t)),
        ended_why: w.ended_why.name().to_owned(),
        idle_exit_ns: u64::from(w.idle_exit_ns),
        decided: w.steps.iter().map(|step| decision(step, w)).collect(),
        decisions: w.steps.nr,
    }
}

fn decision(step: &Step, w: &LongWait) -> Decision {
    let is_local = matches!(step.to, ExtQueue::Local | ExtQueue::Kicked);
    let of = if is_local { step.dsq.cpu() } else { None };
    // What select_cpu sends to a local queue goes to that of the CPU on which the task is queued.
    let of = of.or((step.to == ExtQueue::Local).then_some(w.pending.chosen));
    Decision {
        after_ns: step.at.since(w.woken_at).0,
        by: step.by.name().to_owned(),
        on: step.cpu,
        to: step.to.name().to_owned(),
        of,
        dsq: matches!(step.to, ExtQueue::User | ExtQueue::Builtin).then(|| step.dsq.number()),
    }
}
