//! Counters of /proc/schedstat as a table, as the lines of D001, and as JSON.
//!
//! If the layout splits `lb_imbalance` by kind, the sum is shown, so that the name means the same everywhere.

use crate::number;
use schedlab_base::Warning;
use schedlab_record::schedstat::{
    BALANCE_ROWS, Balance, CPU_ROWS, CounterRow, CpuCounters, DERIVED, DOMAIN_ROWS, Derived, DomainTotal,
    IdleType, Layout, Schedstat, Since, Totals,
};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Widths of a table's columns: names, numbers.
const NAME: usize = 24;
const NUMBER: usize = 16;

/// Which counters are shown.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Levels; all if empty.
    pub domains: Vec<usize>,
    /// Idle types; all if empty.
    pub types: Vec<IdleType>,
    /// Whether counters that are 0 are shown (in text; JSON always has them).
    pub all: bool,
    /// Whether each CPU is shown instead of their sum.
    pub per_cpu: bool,
}

impl View {
    fn parts(&self, stat: &Schedstat) -> Vec<Totals> {
        if !self.per_cpu {
            return vec![stat.totals()];
        }
        let alone = |cpu: &schedlab_record::schedstat::CpuStat| {
            Schedstat { layout: stat.layout, timestamp: stat.timestamp, cpus: vec![cpu.clone()] }.totals()
        };
        stat.cpus.iter().map(alone).collect()
    }
    fn levels<'a>(&'a self, totals: &'a Totals) -> impl Iterator<Item = (usize, &'a DomainTotal)> {
        let shown = |level: &usize| self.domains.is_empty() || self.domains.contains(level);
        totals.domains.iter().enumerate().filter(move |(level, _)| shown(level))
    }
    fn types(&self) -> Vec<IdleType> {
        IdleType::ALL.into_iter().filter(|t| self.types.is_empty() || self.types.contains(t)).collect()
    }
    /// Whether counters of whole CPUs, and of whole domains, are shown: CPUs' counters have neither level nor idle
    /// type, domains' no idle type.
    fn wholes(&self) -> (bool, bool) {
        (self.domains.is_empty() && self.types.is_empty(), self.types.is_empty())
    }
}

fn balance_rows(layout: Layout) -> impl Iterator<Item = &'static CounterRow<Balance>> {
    BALANCE_ROWS.iter().filter(move |r| r.since == Since::Mixed || layout.has(r.since))
}

fn derived(layout: Layout) -> impl Iterator<Item = &'static Derived> {
    DERIVED.iter().filter(move |d| layout.has(d.since))
}

/// A table, at most 78 columns wide unless a number is unusually long.
pub fn table(stat: &Schedstat, view: &View) -> String {
    let mut out = String::new();
    for (i, part) in view.parts(stat).iter().enumerate() {
        let (cpus, domains) = view.wholes();
        if i > 0 {
            out.push('\n');
        }
        heading(&mut out, part, stat.timestamp);
        if cpus {
            let shown = |r: &&CounterRow<CpuCounters>| view.all || (r.get)(&part.counters) > 0;
            for r in CPU_ROWS.iter().filter(shown) {
                let value = (r.get)(&part.counters);
                let text = if r.unit == "ns" { number::duration(value as f64) } else { value.to_string() };
                row(&mut out, r.name, &[text]);
            }
        }
        for (level, domain) in view.levels(part) {
            domain_table(&mut out, stat.layout, level, domain, view, domains);
        }
    }
    out
}

fn heading(out: &mut String, part: &Totals, jiffies: u64) {
    let cpus = match part.cpus.len() {
        1 => part.cpus.lowest().map_or_else(String::new, |c| c.to_string()),
        n => format!("{} ({})", schedlab_base::counted(n, "CPU"), part.cpus),
    };
    // Writing to a String never fails.
    let _ = writeln!(out, "{cpus}, {jiffies} jiffies");
}

fn row(out: &mut String, name: &str, cells: &[String]) {
    let mut line = format!("  {name:<NAME$}");
    cells.iter().for_each(|c| line.push_str(&format!("{c:>NUMBER$}")));
    out.push_str(line.trim_end());
    out.push('\n');
}

fn domain_table(out: &mut String, layout: Layout, level: usize, d: &DomainTotal, view: &View, whole: bool) {
    let types = view.types();
    let name = if d.name.is_empty() { String::new() } else { format!(" {}", d.name) };
    out.push('\n');
    let mut head = format!("{:<width$}", format!("domain{level}{name}"), width = NAME + 2);
    types.iter().for_each(|t| head.push_str(&format!("{:>NUMBER$}", t.name())));
    out.push_str(&head);
    out.push('\n');
    let before = out.len();
    for r in balance_rows(layout) {
        let values: Vec<u64> = types.iter().map(|t| (r.get)(&d.lb[*t as usize])).collect();
        if view.all || values.iter().any(|v| *v > 0) {
            row(out, r.name, &values.iter().map(u64::to_string).collect::<Vec<_>>());
        }
    }
    for figure in derived(layout) {
        let values: Vec<Option<f64>> = types.iter().map(|t| figure.of(&d.lb[*t as usize])).collect();
        if view.all || values.iter().any(|v| v.is_some_and(|v| v != 0.0)) {
            let text = |v: &Option<f64>| v.map_or_else(|| "-".to_owned(), |v| number::value(v, figure.unit));
            row(out, figure.title, &values.iter().map(text).collect::<Vec<_>>());
        }
    }
    for r in DOMAIN_ROWS.iter().filter(|_| whole) {
        let value = (r.get)(&d.counters);
        if view.all || value > 0 {
            row(out, r.name, &[value.to_string()]);
        }
    }
    if out.len() == before {
        out.push_str("  nothing was counted\n");
    }
}

/// A line for each counter, as in D001: `.domain1.CPU_NEWLY_IDLE.lb_count 822`.
pub fn lines(stat: &Schedstat, view: &View) -> String {
    let mut out = String::new();
    for part in view.parts(stat) {
        let who = part.cpus.lowest().filter(|_| view.per_cpu).map_or_else(String::new, |c| c.to_string());
        let mut put = |mut all: Vec<(String, u64)>| {
            all.sort();
            for (name, value) in all.iter().filter(|(_, v)| view.all || *v > 0) {
                let _ = writeln!(out, "{who}.{name} {value}");
            }
        };
        let (cpus, domains) = view.wholes();
        for (level, d) in view.levels(&part) {
            let mut all = Vec::new();
            for t in view.types() {
                let name = |r: &CounterRow<Balance>| format!("domain{level}.{}.{}", t.kernel_name(), r.name);
                all.extend(balance_rows(stat.layout).map(|r| (name(r), (r.get)(&d.lb[t as usize]))));
            }
            let rows = DOMAIN_ROWS.iter().filter(|_| domains);
            all.extend(rows.map(|r| (format!("domain{level}.{}", r.name), (r.get)(&d.counters))));
            put(all);
        }
        let rows = CPU_ROWS.iter().filter(|_| cpus);
        put(rows.map(|r| (cpu_line(r), (r.get)(&part.counters))).collect());
    }
    out
}

/// D001's name of a CPU's counter; two have their structure in the name.
fn cpu_line(row: &CounterRow<CpuCounters>) -> String {
    match row.name {
        "run_delay" | "pcount" => format!("stats.rq_sched_info.{}", row.name),
        name => format!("stats.{name}"),
    }
}

/// `schedlab/schedstat/1`, without the schema's name.
pub fn to_json(
    stat: &Schedstat,
    view: &View,
    source: &str,
    violations: &[String],
    warnings: &[Warning],
) -> Value {
    json!({
        "source": source,
        "version": stat.layout.version,
        "sg_scan": stat.layout.sg_scan,
        "jiffies": stat.timestamp,
        "parts": view.parts(stat).iter().map(|p| part_json(p, stat.layout, view)).collect::<Vec<_>>(),
        "violations": violations,
        "warnings": warnings,
    })
}

fn part_json(part: &Totals, layout: Layout, view: &View) -> Value {
    let (cpus, domains) = view.wholes();
    let mut all = json!({ "cpus": part.cpus.to_string() });
    if cpus {
        all["counters"] = counters(CPU_ROWS.iter(), &part.counters).into();
    }
    let level = |(level, d): (usize, &DomainTotal)| {
        let mut one = json!({ "domain": level, "name": d.name, "cpus": d.cpus });
        for t in view.types() {
            let own = &d.lb[t as usize];
            let mut numbers = counters(balance_rows(layout), own);
            numbers.extend(derived(layout).map(|f| (f.name.to_owned(), json!(f.of(own)))));
            one[t.name()] = numbers.into();
        }
        if domains {
            one["counters"] = counters(DOMAIN_ROWS.iter(), &d.counters).into();
        }
        one
    };
    all["domains"] = view.levels(part).map(level).collect::<Vec<_>>().into();
    all
}

fn counters<S: 'static>(rows: impl Iterator<Item = &'static CounterRow<S>>, of: &S) -> Map<String, Value> {
    rows.map(|r| (r.name.to_owned(), json!((r.get)(of)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuSet;

    /// CPU 8 of D001's baseline, with domain1 only, and an idle CPU.
    fn published() -> Schedstat {
        let mut stat = Schedstat::new(
            (0..2).map(|_| vec![(String::from("SMT"), CpuSet::first(2)), ("MC".into(), CpuSet::first(2))]),
        );
        let cpu = &mut stat.cpus[1];
        (cpu.ttwu_count, cpu.ttwu_local, cpu.pcount, cpu.rq_cpu_time) = (89_392, 88_766, 89_393, 227_910_772);
        cpu.domains[1].ttwu_wake_remote = 626;
        cpu.domains[1].lb[2] = Balance {
            lb_count: 822,
            lb_balanced: 732,
            lb_failed: 90,
            lb_imbalance_task: 90,
            lb_nobusyg: 497,
            lb_nobusyq: 235,
            lb_sg_scan: 45_210,
            ..Balance::default()
        };
        stat.timestamp = 1250;
        stat
    }

    fn newidle() -> View {
        View { domains: vec![1], types: vec![IdleType::Newidle], ..View::default() }
    }

    #[test]
    fn the_document_s_lines() {
        let view = View { per_cpu: true, domains: vec![1], ..View::default() };
        let text = lines(&published(), &view);
        let expected = "cpu1.domain1.CPU_NEWLY_IDLE.lb_balanced 732\ncpu1.domain1.CPU_NEWLY_IDLE.lb_count 822\n\
            cpu1.domain1.CPU_NEWLY_IDLE.lb_failed 90\ncpu1.domain1.CPU_NEWLY_IDLE.lb_imbalance 90\n\
            cpu1.domain1.CPU_NEWLY_IDLE.lb_imbalance_task 90\ncpu1.domain1.CPU_NEWLY_IDLE.lb_nobusyg 497\n\
            cpu1.domain1.CPU_NEWLY_IDLE.lb_nobusyq 235\ncpu1.domain1.CPU_NEWLY_IDLE.lb_sg_scan 45210\n\
            cpu1.domain1.ttwu_wake_remote 626\n";
        assert_eq!(text, expected);
        let sums = lines(&published(), &View::default());
        assert!(sums.ends_with("\n.stats.rq_cpu_time 227910772\n.stats.rq_sched_info.pcount 89393\n.stats.ttwu_count 89392\n.stats.ttwu_local 88766\n"), "{sums}");
        assert!(
            lines(&published(), &View { all: true, ..newidle() })
                .contains(".domain1.CPU_NEWLY_IDLE.lb_gained 0\n")
        );
    }

    #[test]
    fn the_table_is_narrow_and_has_the_figures() {
        let text = table(&published(), &View::default());
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
        let has = |words: &[&str]| text.lines().any(|l| l.split_whitespace().eq(words.iter().copied()));
        assert!(has(&["2", "CPUs", "(0-1),", "1250", "jiffies"]), "{text}");
        assert!(has(&["domain1", "MC", "idle", "busy", "newidle"]), "{text}");
        assert!(has(&["groups", "per", "balance", "-", "-", "55"]), "{text}");
        assert!(has(&["past", "balanced", "-", "-", "10.9%"]), "{text}");
        assert!(has(&["rq_cpu_time", "228ms"]), "{text}");
        assert!(has(&["nothing", "was", "counted"]), "domain0: {text}");
        assert!(!text.contains("lb_gained"), "{text}");
        assert_eq!(table(&published(), &newidle()).matches("domain").count(), 1);
    }

    #[test]
    fn json_has_every_counter() {
        let stat = published();
        let value = to_json(&stat, &View { per_cpu: true, ..View::default() }, "x", &[], &[]);
        let domain = &value["parts"][1]["domains"][1];
        assert_eq!((&domain["name"], &domain["newidle"]["lb_count"]), (&json!("MC"), &json!(822)));
        assert_eq!(domain["newidle"]["groups_per_balance"], json!(55.0));
        assert_eq!(
            (&domain["idle"]["lb_gained"], &domain["idle"]["past_balanced"]),
            (&json!(0), &Value::Null)
        );
        assert_eq!(value["parts"][1]["counters"]["ttwu_count"], json!(89_392));
        assert_eq!(
            to_json(&stat, &newidle(), "x", &[], &[])["parts"][0]["domains"].as_array().map(Vec::len),
            Some(1)
        );
    }
}
