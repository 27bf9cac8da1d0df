//! A profile as text of at most 78 columns.

use crate::number;
use crate::text::wrap;
use schedlab_compare::cpu_profile::{ShareRow, Shares};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the shares: the first `top` functions and objects, or all functions that were asked for by name.
pub fn export(s: &Shares, top: usize, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", wrap("", &head(s)))?;
    writeln!(out, "{:>7} {:>14}  {:>7} {:>14}  function", "total", "95%", "self", "95%")?;
    for row in s.functions.iter().take(top) {
        line(row, out)?;
    }
    let rest = s.functions.len().saturating_sub(top);
    if rest > 0 {
        writeln!(out, "  and {rest} more {} (--top)", schedlab_base::things(rest, "function"))?;
    }
    if !s.objects.is_empty() {
        writeln!(out, "{:>7} {:>14}  {:>7} {:>14}  user mode, by object", "", "", "self", "95%")?;
    }
    for row in s.objects.iter().take(top) {
        let (share, ends) = (pct(row.self_pct), interval(row.self_ci95_pct));
        writeln!(out, "{:>7} {:>14}  {share:>7} {ends:>14}  {}", "", "", row.name)?;
    }
    write!(
        out,
        "{}",
        wrap(
            "",
            "Total: samples in the function or in functions it called; self: samples in the function itself; both as \
                  shares of the samples in which a CPU was busy. 95%: the interval that chance leaves to such a share."
        )
    )?;
    s.warnings.iter().try_for_each(|w| write!(out, "{}", wrap("warning: ", &w.message)))
}

/// Writes call chains for flame graphs: `comm;frame;frame COUNT`, outermost frame first.
pub fn folded(stacks: &BTreeMap<String, u64>, out: &mut dyn Write) -> io::Result<()> {
    stacks.iter().try_for_each(|(line, count)| writeln!(out, "{line} {count}"))
}

fn head(s: &Shares) -> String {
    let what = match (s.whole_system, s.command.as_str()) {
        (true, "") => "the whole system".to_owned(),
        (true, command) => format!("the whole system during: {command}"),
        (false, command) => command.to_owned(),
    };
    let kernel = if s.samples == 0 { 0.0 } else { 100.0 * s.kernel as f64 / s.samples as f64 };
    let idle = if s.idle == 0 { String::new() } else { format!(" and {} of idle CPUs", s.idle) };
    format!(
        "{what}: {} in {}, {}/s by the {}, {} lost; {} in the kernel{idle}",
        schedlab_base::counted(s.samples, "sample"),
        number::duration(s.elapsed_ns as f64),
        s.rate,
        if s.clock == "cycles" { "cycle counter" } else { "timer" },
        s.lost,
        pct(kernel),
    )
}

fn line(row: &ShareRow, out: &mut dyn Write) -> io::Result<()> {
    let here = row.here.as_ref().map_or_else(String::new, |h| format!(" (here {h})"));
    let name = format!("{}{here}", row.name);
    let (total, own) = (pct(row.total_pct), pct(row.self_pct));
    let (a, b) = (interval(row.total_ci95_pct), interval(row.self_ci95_pct));
    let first = format!("{total:>7} {a:>14}  {own:>7} {b:>14}  ");
    write!(out, "{}", wrap(&first, &name))
}

fn pct(v: f64) -> String {
    format!("{v:.2}%")
}

fn interval(ends: Option<[f64; 2]>) -> String {
    ends.map_or_else(String::new, |[a, b]| format!("[{a:.2}, {b:.2}]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_compare::cpu_profile::PROFILE_SCHEMA;

    fn row(name: &str, total: f64, own: f64) -> ShareRow {
        ShareRow {
            name: name.into(),
            here: name.starts_with("newidle").then(|| "sched_balance_newidle".into()),
            total: 1,
            own: 1,
            total_pct: total,
            total_ci95_pct: Some([total - 1.0, 100.0]),
            self_pct: own,
            self_ci95_pct: Some([own - 0.5, own + 0.5]),
        }
    }

    #[test]
    fn rows_fit_and_omitted_ones_are_counted() {
        let s = Shares {
            schema: PROFILE_SCHEMA,
            command: "hackbench -g 2".into(),
            whole_system: false,
            elapsed_ns: 1_020_000_000,
            rate: 999,
            clock: "timer",
            samples: 2000,
            idle: 0,
            kernel: 1500,
            lost: 0,
            functions: vec![
                row("newidle_balance", 12.34, 1.25),
                row("schedule", 50.0, 2.0),
                row("x", 1.0, 1.0),
            ],
            objects: vec![row("libc.so.6", 25.0, 25.0)],
            warnings: Vec::new(),
        };
        let mut out = Vec::new();
        export(&s, 2, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let want = "\
hackbench -g 2: 2000 samples in 1.02s, 999/s by the timer, 0 lost; 75.00% in
the kernel
  total            95%     self            95%  function
 12.34% [11.34, 100.00]    1.25%   [0.75, 1.75]  newidle_balance (here
                                                sched_balance_newidle)
";
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
        assert!(text.starts_with(&want[..want.find("\n 12").unwrap()]), "{text}");
        assert!(
            text.contains("newidle_balance (here\n") && text.contains("and 1 more function (--top)"),
            "{text}"
        );
        assert!(text.contains("[24.50, 25.50]  libc.so.6") && !text.contains("  x\n"), "{text}");
    }
}
