//! The result of `schedlab validate`, as plain text and as Markdown.
//!
//! Every metric of the list is shown: judged ones in a table, the others below it with the reason.

use crate::markdown::plain;
use crate::number::value;
use crate::text::{WIDTH, wrap};
use schedlab_compare::agreement::{
    Agreement, AgreementShare, CaseResult, CaseSide, Discriminating, JudgedMetric, Validation,
};
use schedlab_kernel::Level;
use std::io::{self, Write};

/// Writes all cases and the summary as plain text, at most 78 columns wide.
pub fn text(all: &Validation, out: &mut dyn Write) -> io::Result<()> {
    for case in &all.cases {
        case_text(case, out)?;
        writeln!(out)?;
    }
    summary(all, out)
}

fn case_text(case: &CaseResult, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", wrap(&format!("{}: ", case.name), &case.about))?;
    write!(out, "{}", wrap("  ", &sides(case)))?;
    if let Some(why) = &case.control {
        write!(out, "{}", wrap("  negative control: ", why))?;
    }
    writeln!(
        out,
        "  {:<23}{:>10}{:>10}{:>8}{:>7}{:>8}  verdict",
        "metric", "simulated", "real", "off", "within", "real's"
    )?;
    for row in case.metrics.iter().filter(|m| m.verdict != Agreement::NotMeasured) {
        let (simulated, real) = (shown(row.simulated, row), shown(row.real, row));
        let off = row.off_pct.map_or_else(|| "-".to_owned(), |pct| off(pct, row));
        let spread = row.real_spread_pct.map_or_else(|| "-".to_owned(), |s| format!("+-{}%", short(s)));
        let mark = if row.why.is_some() && row.verdict == Agreement::Agree { " ?" } else { "" };
        writeln!(
            out,
            "  {:<23}{simulated:>10}{real:>10}{off:>8}{:>6}%{spread:>8}  {}{mark}",
            row.metric,
            short(row.tolerance_pct),
            row.verdict.words()
        )?;
    }
    for (why, names) in reasons(case) {
        write!(out, "{}", wrap("  not measured: ", &format!("{}: {why}", names.join(", "))))?;
    }
    for (why, names) in noted(case) {
        write!(out, "{}", wrap("  note: ", &format!("{}: {why}", names.join(", "))))?;
    }
    for warning in &case.warnings {
        write!(out, "{}", wrap("  warning: ", &warning.message))?;
    }
    wrong(case, out)?;
    let line = format!(
        "{} agree; with the simulated values times three {}: {}",
        share(case.share),
        triple(case),
        case.outcome.words()
    );
    write!(out, "{}", wrap("  ", &line))
}

/// Writes the case's result under wrong schedulers, and the metrics that all of them pass.
fn wrong(case: &CaseResult, out: &mut dyn Write) -> io::Result<()> {
    if case.wrong.is_empty() {
        return Ok(());
    }
    let shares: Vec<String> = case.wrong.iter().map(|w| format!("{} {}", w.name, share(w.share))).collect();
    write!(out, "{}", wrap("  agree under wrong schedulers: ", &shares.join(", ")))?;
    let decided = decided(case);
    if decided.is_empty() {
        return Ok(());
    }
    write!(out, "{}", wrap("  decided by the workload: ", &decided.join(", ")))
}

/// The metrics that agree under every scheduler.
fn decided(case: &CaseResult) -> Vec<&str> {
    let all = case.wrong.len();
    let same = |m: &&JudgedMetric| all > 0 && m.verdict == Agreement::Agree && m.passed_by.len() == all;
    case.metrics.iter().filter(same).map(|m| &*m.metric).collect()
}

/// The name of the judged code, if it is the kernel's own instead of our rules.
pub(crate) fn own_code(level: Level) -> String {
    format!("the kernel's own code (level {})", level.word())
}

/// Both sides in a line.
fn sides(case: &CaseResult) -> String {
    let (Some(simulated), Some(real)) = (&case.simulated, &case.real) else { return "no run".to_owned() };
    let changed = real.variant.as_ref().map_or_else(String::new, |v| format!(" with {v}"));
    let same = simulated.machine == real.machine;
    let elsewhere = if same { String::new() } else { format!(" on {}", simulated.machine) };
    let by = simulated.level.map_or_else(String::new, |level| format!("{} of ", own_code(level)));
    let runs = if simulated.runs == real.runs { String::new() } else { format!("{} and ", simulated.runs) };
    format!(
        "{} on {} ({}), {by}{}{elsewhere} against {}{changed}, {runs}{}",
        case.workload,
        real.machine,
        real.backend,
        simulated.kernel,
        real.kernel,
        schedlab_base::counted(real.runs, "run")
    )
}

fn shown(number: Option<f64>, row: &JudgedMetric) -> String {
    match number {
        Some(n) => value(n, &row.unit),
        None if row.off_pct.is_some() => String::new(),
        None => "-".to_owned(),
    }
}

/// How far off the simulated value is; for distributions, the fraction of values that would have to move.
fn off(pct: f64, row: &JudgedMetric) -> String {
    match row.simulated {
        None => format!("{}%", short(pct)),
        Some(_) if pct.abs() < 999.5 => format!("{pct:+.0}%"),
        Some(_) => format!("x{:.0}", 1.0 + pct / 100.0),
    }
}

fn short(pct: f64) -> String {
    if pct < 9.95 && pct.fract() != 0.0 { format!("{pct:.1}") } else { format!("{pct:.0}") }
}

fn share(share: AgreementShare) -> String {
    format!("{} of {}", share.agree, share.measured)
}

fn triple(case: &CaseResult) -> String {
    match case.tripled.both.as_slice() {
        [] => share(case.tripled.share),
        some => format!("{}, and STILL {}", share(case.tripled.share), some.join(", ")),
    }
}

/// The metrics that were not measured, by reason, in the list's order.
fn reasons(case: &CaseResult) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in case.metrics.iter().filter(|m| m.verdict == Agreement::NotMeasured) {
        let why = row.why.as_deref().unwrap_or("no reason is known");
        match all.iter_mut().find(|(w, _)| *w == why) {
            Some((_, names)) => names.push(&row.metric),
            None => all.push((why, vec![&row.metric])),
        }
    }
    all
}

/// The notes on judged metrics.
fn noted(case: &CaseResult) -> Vec<(&str, Vec<&str>)> {
    let judged = case.metrics.iter().filter(|m| m.verdict != Agreement::NotMeasured);
    judged.filter_map(|m| m.why.as_deref().map(|why| (why, vec![&*m.metric]))).collect()
}

fn summary(all: &Validation, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<32}{:<12}{:>16}  outcome", "case", "backend", "agree")?;
    for case in &all.cases {
        let backend = case.real.as_ref().map_or("", |r| r.backend.name());
        writeln!(out, "{:<32}{backend:<12}{:>16}  {}", case.name, share(case.share), case.outcome.words())?;
    }
    for case in &all.not_run {
        write!(out, "{}", wrap(&format!("{:<32}not run: ", case.name), &case.why))?;
    }
    writeln!(out, "{}", "-".repeat(WIDTH - 8))?;
    if all.discriminating.is_some() {
        writeln!(out, "{:<38}{:>13}{:>19}", "metrics", "agree", "distinguished")?;
    }
    for class in all.classes.iter().filter(|c| c.share.measured > 0) {
        write!(out, "{}", shares(&class.class, class.share, class.discriminating))?;
    }
    write!(
        out,
        "{}",
        shares("switches, migrations and placement", all.decisions, all.decisions_discriminating)
    )?;
    write!(out, "{}", shares("all metrics of all cases but controls", all.share, all.discriminating))?;
    by_trait(all, out)?;
    let controls = all.cases.iter().filter(|c| c.control.is_some());
    let rejected = controls.clone().filter(|c| c.outcome.is_good()).count();
    writeln!(
        out,
        "{:<44}{:>16}",
        "negative controls rejected",
        format!("{rejected} of {}", controls.count())
    )?;
    writeln!(out, "{}", if all.passed { "passed" } else { "NOT passed" })
}

/// A row of the summary: a share, and the same without metrics that the workload decides.
fn shares(name: &str, all: AgreementShare, discriminating: Option<Discriminating>) -> String {
    let pct = |s: AgreementShare| s.pct().map_or_else(|| "-".to_owned(), |p| format!("{p:.0}%"));
    match discriminating {
        None => format!("{name:<44}{:>16}{:>8}\n", share(all), pct(all)),
        Some(Discriminating { by_some, .. }) => {
            format!("{name:<38}{:>13}{:>7}{:>12}{:>7}\n", share(all), pct(all), share(by_some), pct(by_some))
        }
    }
}

/// Writes the agreement by trait of the cases. A trait with the same value in all cases is left out.
fn by_trait(all: &Validation, out: &mut dyn Write) -> io::Result<()> {
    let varies = |name: &str| all.traits.iter().filter(|t| t.name == name).count() > 1;
    for row in all.traits.iter().filter(|t| varies(&t.name)) {
        let many = if row.cases == 1 { "case" } else { "cases" };
        let name = format!("{} {} ({} {many})", row.name, row.value, row.cases);
        write!(out, "{}", shares(&name, row.share, row.discriminating))?;
    }
    Ok(())
}

/// Writes the summary and every case as Markdown tables.
pub fn markdown(all: &Validation, out: &mut dyn Write) -> io::Result<()> {
    overview(all, out)?;
    all.cases.iter().try_for_each(|case| one_markdown(case, out))
}

/// Writes the summary as Markdown tables: a row for each case, a row for each class. docs/fidelity.md has it.
pub fn overview(all: &Validation, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "| case | workload | machine | simulated | real | runs | agree | outcome |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    all.cases.iter().try_for_each(|case| writeln!(out, "{}", case_row(case)))?;
    for case in &all.not_run {
        writeln!(out, "| {} | | | | | | not run | {} |", plain(&case.name), plain(&case.why))?;
    }
    let (head, line) = match all.discriminating {
        None => ("", ""),
        Some(_) => (" distinguished | |", " --- | --- |"),
    };
    writeln!(out, "\n| metrics | agree | |{head}\n| --- | --- | --- |{line}")?;
    let pct = |s: AgreementShare| s.pct().map_or_else(String::new, |p| format!("{p:.0} %"));
    let row = |name: &str, s: AgreementShare, discriminating: Option<Discriminating>| {
        let more = discriminating
            .map_or_else(String::new, |t| format!(" {} | {} |", share(t.by_some), pct(t.by_some)));
        format!("| {name} | {} | {} |{more}\n", share(s), pct(s))
    };
    for class in all.classes.iter().filter(|c| c.share.measured > 0) {
        write!(out, "{}", row(&class.class, class.share, class.discriminating))?;
    }
    write!(
        out,
        "{}",
        row("switches, migrations and placement", all.decisions, all.decisions_discriminating)
    )?;
    write!(out, "{}", row("all", all.share, all.discriminating))?;
    if all.traits.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n| cases | number | agree | |{head}\n| --- | --- | --- | --- |{line}")?;
    all.traits.iter().try_for_each(|t| {
        let name = format!("{} {} | {}", t.name, t.value, t.cases);
        write!(out, "{}", row(&name, t.share, t.discriminating))
    })
}

/// The whole result in a sentence or two, as Markdown.
pub fn sentence(all: &Validation) -> String {
    let pct = |s: AgreementShare| s.pct().map_or_else(String::new, |p| format!(" ({p:.0} %)"));
    let (controls, cases): (Vec<_>, Vec<_>) = all.cases.iter().partition(|c| c.control.is_some());
    let rejected = controls.iter().filter(|c| c.outcome.is_good()).count();
    let part = |c: &CaseResult| c.share.pct().unwrap_or(0.0);
    let lowest = cases.iter().min_by(|a, b| part(a).total_cmp(&part(b)));
    let lowest = lowest
        .map_or_else(String::new, |c| format!("; the lowest case is {}, {}", plain(&c.name), share(c.share)));
    let of_controls = match controls.len() {
        0 => String::new(),
        n => format!(" {rejected} of {n} controls rejected."),
    };
    format!(
        "**{} metrics agree{}**; switches, migrations and placement {}{}{lowest}.{of_controls} By {}.",
        share(all.share),
        pct(all.share),
        share(all.decisions),
        pct(all.decisions),
        judged(all)
    )
}

/// The version of what was judged: of the simulator's model, or of the engine that drives the kernel's own code.
pub fn judged(all: &Validation) -> String {
    let by_code = all.cases.iter().filter_map(|c| c.simulated.as_ref()).any(|side| side.level.is_some());
    if by_code { format!("engine {}", all.engine) } else { format!("model {}", all.model) }
}

/// A case as a row. The row of a control also names the simulated machine, which may be the cause of differences.
fn case_row(case: &CaseResult) -> String {
    let kernel = |s: &Option<CaseSide>| s.as_ref().map_or_else(String::new, |s| s.kernel.clone());
    let (machine, runs) = case
        .real
        .as_ref()
        .map_or((String::new(), String::new()), |r| (r.machine.clone(), r.runs.to_string()));
    let simulated = match (&case.control, &case.simulated) {
        (Some(_), Some(s)) => format!("{}, {}", s.machine, s.kernel),
        _ => kernel(&case.simulated),
    };
    let (real, share, outcome) = (kernel(&case.real), share(case.share), case.outcome.words());
    let [name, workload, machine] = [&case.name, &case.workload, &machine].map(|text| plain(text));
    format!("| {name} | {workload} | {machine} | {simulated} | {real} | {runs} | {share} | {outcome} |")
}

fn one_markdown(case: &CaseResult, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n### {}\n\n{}\n", plain(&case.name), case.about)?;
    writeln!(out, "| metric | simulated | real | off | within | real's own | verdict |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for row in case.metrics.iter().filter(|m| m.verdict != Agreement::NotMeasured) {
        writeln!(
            out,
            "| {} | {} | {} | {} | {} % | {} | {} |",
            row.metric,
            shown(row.simulated, row),
            shown(row.real, row),
            row.off_pct.map_or_else(String::new, |pct| off(pct, row)),
            short(row.tolerance_pct),
            row.real_spread_pct.map_or_else(String::new, |s| format!("± {} %", short(s))),
            row.verdict.words()
        )?;
    }
    let reasons = reasons(case);
    let reasons: Vec<String> =
        reasons.iter().map(|(why, names)| format!("{} ({why})", names.join(", "))).collect();
    if !reasons.is_empty() {
        writeln!(out, "\nNot measured: {}.", reasons.join("; "))?;
    }
    let decided = decided(case);
    if !decided.is_empty() {
        writeln!(out, "\nDecided by the workload: {}.", decided.join(", "))?;
    }
    Ok(())
}
