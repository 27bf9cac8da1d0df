//! The page of a trial: the patch, its verdicts, its costs, the simulator's predictions, and lines for a mail.

use crate::number::{change, count, three};
use crate::predictions::{self, interval};
use crate::ranked::{self, Ranked, largest_first};
use crate::reached;
use crate::text::{WIDTH, stacks, wrap};
use schedlab_base::Backend;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::ComparisonRow;
use schedlab_compare::stats::Verdict;
use schedlab_compare::trial::{ALL, Cost, Tried};
use std::io::{self, Write};

/// The most functions that are shown.
const FUNCTIONS: usize = 8;
/// The most changes that are named in the mail.
const IN_A_MAIL: usize = 6;
/// Smaller differences of an operation do not count as a cost, percent.
const COST_PCT: f64 = 0.05;

/// Writes the page; `all`: unchanged rows are listed, too.
pub fn page(p: &Tried, all: bool, out: &mut dyn Write) -> io::Result<()> {
    patch(p, out)?;
    if let Some(text) = can_show_nothing(&p.comparison) {
        writeln!(out, "{}", wrap("", &text))?;
    }
    Ranked::brief(&p.comparison, out)?;
    let level = p.comparison.cells.iter().find_map(|cell| cell.level);
    reached::text(p.reached.as_deref().map_err(String::as_str), level, out)?;
    costs(p, out)?;
    functions(p, out)?;
    predictions::text(&p.predicted, out)?;
    mail(p, out)?;
    // At the end, because they are long: the undecided rows.
    writeln!(out, "\n{}", "-".repeat(WIDTH))?;
    ranked::undecided(&p.comparison, out)?;
    if all { ranked::unchanged(&p.comparison, out) } else { Ok(()) }
}

fn patch(p: &Tried, out: &mut dyn Write) -> io::Result<()> {
    for (name, subject) in &p.patches {
        let subject = subject.as_ref().map_or(String::new(), |s| format!(": {s}"));
        write!(out, "{}", wrap("", &format!("{name}{subject}")))?;
    }
    for feature in &p.features {
        let (name, state) = (&feature.name, if feature.on { "on" } else { "off" });
        writeln!(out, "  adds the feature {name}, {state} at boot; 'off' and 'on' are one image")?;
    }
    for counter in &p.counters {
        writeln!(out, "  adds the counter {counter}")?;
    }
    for option in &p.options {
        write!(out, "{}", wrap("  ", &option.words))?;
    }
    writeln!(out)
}

fn costs(p: &Tried, out: &mut dyn Write) -> io::Result<()> {
    if p.costs.is_empty() {
        return Ok(());
    }
    let names = format!("{} -> {}", p.base, p.patched);
    writeln!(out, "\nInstructions of the scheduler, {names}, all loads together:\n")?;
    for cost in &p.costs {
        writeln!(out, "  {:<14} {}", cost.machine, cost_words(cost))?;
    }
    Ok(())
}

fn cost_words(cost: &Cost) -> String {
    let each = |side| cost.each(side).map_or_else(|| "-".to_owned(), count);
    let what = match cost.operation.as_str() {
        ALL => "in all".to_owned(),
        operation => format!("a {operation}"),
    };
    let change = match cost.change_pct() {
        Some(pct) if pct.abs() >= COST_PCT => format!("{pct:+.1}%"),
        Some(_) => "=".to_owned(),
        None => String::new(),
    };
    let calls = match cost.operation.as_str() {
        ALL => String::new(),
        _ => format!("  ({} -> {} of them)", count(cost.calls[0] as f64), count(cost.calls[1] as f64)),
    };
    format!("{what:<9} {:>8} -> {:<8} {change:>7}{calls}", each(0), each(1)).trim_end().to_owned()
}

fn functions(p: &Tried, out: &mut dyn Write) -> io::Result<()> {
    if p.functions.is_empty() {
        return Ok(());
    }
    let few = p.functions.len().min(FUNCTIONS);
    writeln!(
        out,
        "\nFunctions that differ most, calls and instructions ({few} of {}):\n",
        p.functions.len()
    )?;
    for m in &p.functions[..few] {
        let pair = |v: [u64; 2]| format!("{} -> {}", count(v[0] as f64), count(v[1] as f64));
        writeln!(out, "  {:<30} {:<20} {}", m.function, pair(m.calls), pair(m.instructions))?;
    }
    stacks(&p.comparison).map_or(Ok(()), |text| write!(out, "\n{}", wrap("", &text)))
}

/// The change that could have been shown in half of the undecided rows, in brackets after a space.
fn would_have_shown(rows: &[&ComparisonRow]) -> String {
    let mut shown: Vec<f64> = rows.iter().map(|r| r.detectable_pct.unwrap_or(f64::INFINITY)).collect();
    shown.sort_by(f64::total_cmp);
    match shown.get(shown.len() / 2) {
        Some(pct) if *pct < 1_000.0 => {
            format!(" (half of them would have shown a change of {}% or more)", three(*pct))
        }
        Some(_) => " (half of them would have shown no change below 1000%)".to_owned(),
        None => String::new(),
    }
}

/// The first sentence of a mail, if there are too few runs to show any change.
fn can_show_nothing(c: &Comparison) -> Option<String> {
    let needed = c.runs_needed?;
    let runs = c.cells.iter().map(|cell| cell.runs).min()?;
    Some(format!(
        "These runs can show no change, however large it is: {} of a load, and that takes {needed} or more.",
        schedlab_base::counted(runs, "run")
    ))
}

fn mail(p: &Tried, out: &mut dyn Write) -> io::Result<()> {
    let rows = |verdict: Verdict| largest_first(p.comparison.comparisons.iter().collect(), verdict);
    let (worse, better, changed) = (rows(Verdict::Worse), rows(Verdict::Better), rows(Verdict::Changed));
    let runs = ranked::runs_in_words(&p.comparison, &p.patched);
    let (unclear, all) = (rows(Verdict::Unclear), p.comparison.comparisons.len());
    let looks = if p.comparison.looks.is_empty() { "" } else { " over all looks" };
    let mut machines: Vec<&str> = Vec::new();
    for row in &p.comparison.comparisons {
        if !machines.contains(&row.machine.as_str()) {
            machines.push(&row.machine);
        }
    }
    let by_code = p.comparison.cells.iter().any(|c| c.backend == Backend::Code);
    let how = if by_code { "the kernel's own code on simulated machines" } else { "deterministic guests" };
    writeln!(out, "\nFor a mail:\n")?;
    let stopped = |in_baseline| p.comparison.stalled.iter().filter(move |s| s.in_baseline == in_baseline);
    for one in stopped(false) {
        write!(out, "{}", wrap("  STOPPED: ", &one.words()))?;
    }
    if let Some(text) = can_show_nothing(&p.comparison) {
        write!(out, "{}", wrap("  ", &text))?;
    }
    let lost = match stopped(false).count() {
        0 => String::new(),
        n => format!("{} stopped, ", schedlab_base::counted(n, "load")),
    };
    let first = format!(
        "Tried with schedlab {} on {}: {} ({}), {} against {}, {runs} of a load, 95% intervals, \
         Holm's correction{looks}. {lost}{} of {} got worse, {} better, {} changed otherwise, {} are the same; \
         {} of {}: cannot tell{}.",
        env!("CARGO_PKG_VERSION"),
        p.source,
        how,
        machines.join(", "),
        p.patched,
        p.base,
        worse.len(),
        schedlab_base::counted(all, "row"),
        better.len(),
        changed.len(),
        rows(Verdict::Same).len(),
        unclear.len(),
        schedlab_base::counted(all, "row"),
        would_have_shown(&unclear)
    );
    write!(out, "{}", wrap("  ", &first))?;
    for row in worse.iter().chain(&better).chain(&changed).take(IN_A_MAIL) {
        let (Some(pct), Some(ends)) = (row.change_pct, row.ci95_pct) else { continue };
        writeln!(
            out,
            "    {} {} on {}: {} {} ({})",
            row.workload,
            row.load,
            row.machine,
            row.metric,
            change(pct),
            interval(ends)
        )?;
    }
    for machine in machines {
        let of = p.costs.iter().filter(|c| c.machine == machine && c.operation != ALL);
        let words: Vec<String> = of
            .filter_map(|c| Some(format!("{} {} ({:+.1}%)", c.operation, count(c.each(1)?), c.change_pct()?)))
            .collect();
        if !words.is_empty() {
            writeln!(out, "    instructions on {machine}: {}", words.join(", "))?;
        }
    }
    Ok(())
}
