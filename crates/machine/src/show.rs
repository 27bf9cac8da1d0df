//! A machine as text of at most 78 columns, for comparison with the real machine; and as one serialisable value.

mod text;

use crate::{BackgroundFrom, Costs, Domain, Domains, IdleGovernor, Machine};
use schedlab_base::wrap::WIDTH;
use schedlab_base::{CpuId, CpuSet, Ns, Version, counted, things};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use text::Page;

/// A machine and its domains under a kernel, for `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown<'m> {
    pub machine: &'m Machine,
    /// The kernel of the domains.
    pub kernel: Version,
    pub domains: Domains,
}

impl<'m> Shown<'m> {
    pub fn new(machine: &'m Machine, kernel: Version) -> Shown<'m> {
        Shown { machine, kernel, domains: Domains::build(&machine.topology, kernel) }
    }
}

/// The machine and its domains under `kernel`, as text. The groups are those of `cpu`, or of cpu0 if there is no such
/// CPU.
pub fn show(machine: &Machine, kernel: Version, cpu: Option<CpuId>) -> String {
    let domains = Domains::build(&machine.topology, kernel);
    let cpu = cpu.filter(|c| c.index() < domains.of_cpu.len()).unwrap_or(CpuId(0));
    let mut page = Page::default();
    page.wrapped("", &format!("{}: {}", machine.name, machine.about));
    page.wrapped("  ", &machine.note("topology").source);
    if let Some(unfit) = &machine.unfit {
        page.wrapped(
            "  ",
            &format!("can't be simulated: {}; not known: {}", unfit.reason, unfit.costs.join(", ")),
        );
    }
    topology(&mut page, machine);
    page.heading(&format!("domains under {kernel}"));
    classes(&mut page, &domains);
    page.heading(&format!("groups of {cpu}, in the order it visits them"));
    rings(&mut page, &domains, cpu);
    costs(&mut page, machine);
    idle_and_background(&mut page, machine);
    page.text
}

fn topology(page: &mut Page, machine: &Machine) {
    let t = &machine.topology;
    let units = |key: fn(&crate::Cpu) -> u32| {
        let mut units: BTreeMap<u32, CpuSet> = BTreeMap::new();
        for (cpu, row) in t.cpus.iter().enumerate() {
            units.entry(key(row)).or_default().insert(CpuId::from(cpu));
        }
        units.into_values().collect::<Vec<CpuSet>>()
    };
    let cores = units(|c| c.core);
    page.heading("topology");
    page.line(&format!("  {}, {}", counted(t.nr_cpus(), "CPU"), counted(cores.len(), "core")));
    page.units("package", &units(|c| c.package));
    page.units("node", &units(|c| c.node));
    page.units("LLC", &units(|c| c.llc));
    let clusters = units(|c| c.cluster);
    if clusters != cores {
        page.units("cluster", &clusters);
    }
    page.units("core", &cores);
    if !t.capacity.is_empty() {
        let mut units: BTreeMap<u32, CpuSet> = BTreeMap::new();
        for (cpu, capacity) in t.capacity.iter().enumerate() {
            units.entry(*capacity).or_default().insert(CpuId::from(cpu));
        }
        let listed: Vec<String> = units.iter().rev().map(|(c, cpus)| format!("{c}: {cpus}")).collect();
        page.wrapped("  ", &format!("capacity {}", listed.join("; ")));
    }
    if !t.memoryless.is_empty() {
        let listed: Vec<String> = t
            .memoryless
            .iter()
            .map(|n| format!("{n} (takes memory from node {})", t.memory_of(*n)))
            .collect();
        page.wrapped("  ", &format!("nodes without memory: {}", listed.join(", ")));
    }
    if !machine.os_cpu.is_empty() {
        let numbers: Vec<String> = machine.os_cpu.iter().map(u32::to_string).collect();
        page.wrapped("  ", &format!("renumbered; the kernel calls them {}", numbers.join(" ")));
    }
    if t.node_distance.len() > 1 {
        page.heading("node distances");
        for (node, row) in t.node_distance.iter().enumerate() {
            let row: String = row.iter().map(|d| format!(" {d:>3}")).collect();
            page.wrapped("  ", &format!("node {node:>2}: {row}"));
        }
    }
}

/// A key of a CPU's stack of domains: CPUs with equal keys are shown once.
fn pattern(domains: &Domains, own: &[Domain]) -> String {
    let mut text = String::new();
    for d in own {
        let mut sizes: Vec<usize> = d.groups.iter().map(|g| domains.groups[*g as usize].cpus.len()).collect();
        sizes.dedup();
        let _ = write!(
            text,
            "{:?} {} {} {sizes:?} {:?} {};",
            d.level,
            d.cpus.len(),
            d.groups.len(),
            d.params,
            d.imb_numa_nr
        );
    }
    text
}

/// Domains by class of CPU. CPUs are in one class if their stacks differ only in the CPUs they name.
fn classes(page: &mut Page, domains: &Domains) {
    let mut classes: BTreeMap<String, CpuSet> = BTreeMap::new();
    for (cpu, own) in domains.of_cpu.iter().enumerate() {
        classes.entry(pattern(domains, own)).or_default().insert(CpuId::from(cpu));
    }
    let mut classes: Vec<CpuSet> = classes.into_values().collect();
    classes.sort_by_key(CpuSet::lowest);
    let alone = classes.len() == 1;
    for class in classes {
        let Some(first) = class.lowest() else { continue };
        let who =
            if alone { "domains of one shape on all CPUs".to_string() } else { format!("CPUs {class}") };
        let llc = match domains.llc[first] {
            Some(at) => format!("; LLC is domain{at}"),
            None => "; no CPU shares another's LLC".to_string(),
        };
        page.wrapped("  ", &format!("{who}{llc}"));
        if domains.of_cpu[first].is_empty() {
            page.line("    none: nothing to balance with");
        }
        for (at, d) in domains.of_cpu[first].iter().enumerate() {
            domain(page, domains, at, d);
        }
    }
}

fn domain(page: &mut Page, domains: &Domains, at: usize, d: &Domain) {
    let sizes: Vec<usize> = d.groups.iter().map(|g| domains.groups[*g as usize].cpus.len()).collect();
    let (least, most) = (sizes.iter().min().unwrap_or(&0), sizes.iter().max().unwrap_or(&0));
    let of = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let p = &d.params;
    let cpus = things(*most, "CPU");
    let distance = match d.level {
        crate::Level::Numa(distance) => format!(", distance to {distance}"),
        _ => String::new(),
    };
    page.line(&format!(
        "  domain{at} {:<4} {:>4} {}, {} of {of} {cpus}{distance}",
        d.name,
        d.cpus.len(),
        things(d.cpus.len(), "CPU"),
        counted(sizes.len(), "group")
    ));
    page.wrapped("      ", &parameters(d));
    let flags = [
        (p.balance_newidle, "BALANCE_NEWIDLE"),
        (p.balance_exec, "BALANCE_EXEC"),
        (p.balance_fork, "BALANCE_FORK"),
        (p.wake_affine, "WAKE_AFFINE"),
        (p.wake_balance, "WAKE_BALANCE"),
        (p.wake_idle, "WAKE_IDLE"),
        (p.share_capacity, "SHARE_CPUCAPACITY"),
        (p.share_llc, "SHARE_LLC"),
        (p.prefer_sibling, "PREFER_SIBLING"),
        (p.serialize, "SERIALIZE"),
        (p.numa, "NUMA"),
        (p.asym_capacity, "ASYM_CPUCAPACITY"),
        (p.asym_full, "ASYM_CPUCAPACITY_FULL"),
    ];
    let on: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    page.wrapped("      ", &on.join(" "));
}

/// Intervals, thresholds and, in kernels that have them, the `cpu_load[]` indices.
fn parameters(d: &Domain) -> String {
    let p = &d.params;
    let (min, max, first) = (p.min_interval_ms, p.max_interval_ms, p.first_interval_ms);
    let mut words = format!("interval {min} to {max} ms, first {first}; busy_factor {}", p.busy_factor);
    let _ = write!(words, "; imbalance_pct {}; cache_nice_tries {}", p.imbalance_pct, p.cache_nice_tries);
    let _ = write!(words, "; imb_numa_nr {}", d.imb_numa_nr);
    let idx = [p.busy_idx, p.idle_idx, p.newidle_idx, p.wake_idx, p.forkexec_idx];
    if idx != [0; 5] {
        let [busy, idle, newidle, wake, forkexec] = idx;
        let _ =
            write!(words, "; idx busy {busy} idle {idle} newidle {newidle} wake {wake} forkexec {forkexec}");
    }
    words
}

fn rings(page: &mut Page, domains: &Domains, cpu: CpuId) {
    for (at, d) in domains.of_cpu[cpu].iter().enumerate() {
        let ring: Vec<String> =
            d.groups.iter().map(|g| format!("{{{}}}", domains.groups[*g as usize].span)).collect();
        page.line(&format!("  domain{at} {}", d.name));
        page.wrapped("    ", &text::abridged(&ring, 64));
    }
}

fn costs(page: &mut Page, machine: &Machine) {
    page.heading("costs (value, range, source)");
    for row in Costs::TABLE {
        let note = machine.note(row.name);
        let (low, high) = note.range.unwrap_or(row.range);
        let value = machine.costs.get(row.name).unwrap_or(row.default);
        let range = format!("{low}..{high}");
        let head = format!("  {:<22} {value:>6}  {range:<12} ", row.name);
        page.hanging(&head, &note.source);
    }
}

fn idle_and_background(page: &mut Page, machine: &Machine) {
    page.heading("idle states (exit at worst, typical exit, target residency, source)");
    if machine.idle_states.is_empty() {
        page.line("  none: an idle CPU polls");
    }
    if let Some((name, _)) =
        IdleGovernor::NAMES.iter().find(|(_, g)| *g == machine.idle_governor && !g.is_menu())
    {
        page.line(&format!("  governor: {name}"));
    }
    for s in &machine.idle_states {
        let head = format!("  {:<10} {:>6} {:>6} {:>6}  ", s.name, s.exit, s.typical, s.residency);
        page.hanging(&head, &machine.note(&format!("idle.{}", s.name)).source);
    }
    page.heading("background (mean gap, mean run, source)");
    if let Some(BackgroundFrom { named, about, scaled }) = &machine.background_from {
        let scaled = if *scaled { ", scaled by CPUs" } else { "" };
        page.wrapped("  ", &format!("{named}{scaled}: {about}"));
    }
    if machine.background.is_empty() {
        page.line("  none");
    }
    for b in &machine.background {
        let per = if b.per_cpu { "per CPU" } else { "one" };
        let nice = if b.nice == 0 { String::new() } else { format!("nice {} ", b.nice) };
        let head = format!("  {:<12} {per:<7} {:>7} {:>7}  {nice}", b.name, b.every, b.run);
        page.hanging(&head, &b.source);
    }
    if let Some(turns) = machine.turns {
        page.heading("CPUs take turns in one processor's time");
        let (spin, clock, alarm) = (Ns(turns.spin_ns), Ns(turns.cpu_clock_ns), Ns(turns.alarm_ns));
        let head = format!("  a wait's round {spin}, CPU clock {clock}, alarm {alarm}  ");
        page.hanging(&head, &machine.note("turns").source);
        if turns.newidle_ns != [0; 10] {
            let each: Vec<String> =
                turns.newidle_ns.iter().map(|ns| Ns(u64::from(*ns)).to_string()).collect();
            page.hanging("  newidle passes have cost  ", &each.join(", "));
        }
    }
    debug_assert!(page.text.lines().all(|l| l.chars().count() <= WIDTH));
}

#[cfg(test)]
mod tests;
