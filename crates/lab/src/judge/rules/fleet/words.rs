//! Machines' states and answers, in words.

use super::draw::of_tasks;
use super::facts::Facts;
use schedlab_base::{CpuId, Ns};
use schedlab_board::decision::{
    AskedAverages, AskedFleet, AskedPlace, AskedTask, FleetAnswer, FleetQuestion,
};
use schedlab_kernel::Policy;

/// A state: a line for the question, one for each task, and one for each CPU that has more than its tasks.
pub fn state(s: &AskedFleet, facts: &Facts, question: FleetQuestion) -> Vec<String> {
    if question == FleetQuestion::Shares {
        let g = &s.group;
        return vec![format!(
            "shares {}, {} CPUs; the group's load {}, runnable {}; its queue: weight {}, load {}, contribution {}",
            g.shares, facts.nr_cpus, g.load, g.runnable, g.queue_weight, g.queue_load, g.contribution
        )];
    }
    let mut lines = vec![asked(s, facts, question)];
    lines.extend(s.tasks.iter().enumerate().map(|(i, t)| task(s, facts, i, t, question)));
    lines.extend((0..s.cpus.len()).map(CpuId::from).filter_map(|c| cpu(s, facts, c, question)));
    lines
}

fn asked(s: &AskedFleet, facts: &Facts, question: FleetQuestion) -> String {
    let cpu = s.cpu;
    let domain = |level: usize| {
        let d = &facts.domains[cpu][level];
        format!("{} ({})", d.name, d.span)
    };
    let l = &s.levels[s.level];
    let trigger = format!("{:?}", s.trigger).to_lowercase();
    let failed = if l.failed > 0 { format!(", {} failed passes", l.failed) } else { String::new() };
    match question {
        FleetQuestion::Select => {
            format!("{cpu} wakes task {}{}", s.about, if s.sync { ", and will sleep" } else { "" })
        }
        FleetQuestion::Fork => format!("{cpu} makes task {}", s.about),
        FleetQuestion::Exec => format!("task {} begins a program on {cpu}", s.about),
        FleetQuestion::Detach => format!(
            "{} leaves {} for {cpu}, {trigger}, in {}: {} of {:?}{failed}",
            "what",
            s.src,
            domain(s.level),
            s.imbalance,
            s.migration
        ),
        FleetQuestion::Newidle => {
            let costs = s.levels.iter().map(|l| Ns(l.newidle_cost_ns).to_string());
            let costs = costs.collect::<Vec<_>>().join(", ");
            let overload = if s.overload { "" } else { ", no overload" };
            format!("{cpu} goes idle for {}{overload}; costs {costs}", Ns(s.cpus[cpu.index()].avg_idle_ns))
        }
        _ => {
            let marked = if l.imbalanced { ", its group is marked" } else { "" };
            format!("{cpu}, {trigger}, balances {}{marked}", domain(s.level))
        }
    }
}

fn task(s: &AskedFleet, facts: &Facts, i: usize, t: &AskedTask, question: FleetQuestion) -> String {
    let mut words = vec![averages(&t.avg)];
    if t.policy != Policy::Other {
        words.push(format!("{:?}", t.policy).to_uppercase());
    }
    if t.nice != 0 {
        words.push(format!("nice {}", t.nice));
    }
    if t.allowed != facts.all() {
        words.push(format!("allowed {:#x}", t.allowed));
    }
    if t.vruntime != 0 {
        words.push(format!("vruntime {} ns", t.vruntime));
    }
    if t.next {
        words.push("next buddy".to_owned());
    }
    match question {
        FleetQuestion::Select => {
            if t.flips > 0 {
                words.push(format!("{} flips", t.flips));
            }
            if i == s.about {
                words.push(format!("recent {}", t.recent));
            }
        }
        FleetQuestion::Detach | FleetQuestion::Newidle => words.push(format!("ran {} ago", Ns(t.ran_ago_ns))),
        _ => {}
    }
    let place = match t.place {
        AskedPlace::Runs => "runs on",
        AskedPlace::Waits => "waits on",
        AskedPlace::Absent => "slept on",
        AskedPlace::Leaves => "leaves",
    };
    format!("{i} {place} {}: {}", t.cpu, words.join(", "))
}

fn averages(a: &AskedAverages) -> String {
    format!("load {} runnable {} util {} est {}", a.load, a.runnable, a.util, a.util_est)
}

fn cpu(s: &AskedFleet, facts: &Facts, cpu: CpuId, question: FleetQuestion) -> Option<String> {
    let c = &s.cpus[cpu.index()];
    let mut words = Vec::new();
    if c.avg != of_tasks(&s.tasks, cpu) {
        words.push(averages(&c.avg));
    }
    if c.wakeup_pending {
        words.push("a wakeup is on its way".to_owned());
    }
    if c.rt_util > 0 || c.nr_rt > 0 {
        words.push(format!("{} real-time tasks, which have used {}", c.nr_rt, c.rt_util));
    }
    if c.misfit > 0 {
        words.push(format!("misfit {}", c.misfit));
    }
    if c.idle_since_ns > 0 || c.idle_exit_us.is_some() {
        let exit = c.idle_exit_us.map_or("none".to_owned(), |us| format!("of {us} us"));
        words.push(format!("idle since {} ns, state {exit}", c.idle_since_ns));
    }
    let first = facts.cache(cpu).trailing_zeros() == cpu.0;
    if question == FleetQuestion::Select && first {
        let cores = if c.has_idle_cores { "idle cores" } else { "no idle core" };
        words.push(format!("its cache: {cores}, {} probes", c.nr_idle_scan));
    }
    (!words.is_empty()).then(|| format!("{cpu}: {}", words.join(", ")))
}

/// The necessary parts of a smallest state.
pub fn needs(s: &AskedFleet, facts: &Facts, question: FleetQuestion) -> Vec<String> {
    let mut all = Vec::new();
    if question == FleetQuestion::Shares {
        return vec![format!("shares {}", s.group.shares)];
    }
    if matches!(question, FleetQuestion::Busiest | FleetQuestion::Detach) {
        all.push(facts.domains[s.cpu][s.level].name.to_owned());
        all.push(format!("{:?}", s.trigger).to_lowercase());
    }
    if question == FleetQuestion::Detach {
        all.push(format!("{:?}", s.migration).to_lowercase());
    }
    let mut part = |has: bool, what: &str| {
        if has {
            all.push(what.to_owned());
        }
    };
    let any = |test: &dyn Fn(&AskedTask) -> bool| s.tasks.iter().any(test);
    part(any(&|t| t.policy == Policy::Idle), "SCHED_IDLE");
    part(any(&|t| t.policy == Policy::Batch), "SCHED_BATCH");
    part(any(&|t| t.allowed != facts.all()), "masks");
    part(any(&|t| t.next), "a next buddy");
    part(s.cpus.iter().any(|c| c.rt_util > 0 || c.nr_rt > 0), "real-time tasks");
    part(s.cpus.iter().any(|c| c.misfit > 0), "misfits");
    part(any(&|t| t.vruntime != 0), "vruntimes");
    part(s.sync, "a synchronous wakeup");
    part(s.cpus.iter().any(|c| c.wakeup_pending), "a pending wakeup");
    part(s.levels.iter().any(|l| l.imbalanced), "a marked group");
    part(s.levels.iter().any(|l| l.failed > 0), "failures");
    all
}

pub fn answer(a: &FleetAnswer) -> String {
    let list = |all: &[usize]| match all {
        [] => "none".to_owned(),
        all => all.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    };
    match a {
        FleetAnswer::At(cpu) => format!("{cpu}"),
        FleetAnswer::Group(None) => "no group".to_owned(),
        FleetAnswer::Group(Some((cpu, migration, amount))) => {
            format!("the group of {cpu}: {amount} of {}", format!("{migration:?}").to_lowercase())
        }
        FleetAnswer::Moved(tasks) => format!("tasks {}", list(tasks)),
        FleetAnswer::Searched { levels, came } => {
            format!("levels searched: {}; tasks that came: {}", list(levels), list(came))
        }
        FleetAnswer::Weight(weight) => format!("weight {weight}"),
    }
}
