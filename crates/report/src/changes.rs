//! The result of `schedlab validate --changes`, as plain text and as Markdown.
//!
//! A case shows the rows that must move with their verdicts, then every row that moved. The summary counts both.

use crate::markdown::plain;
use crate::number::change;
use crate::predictions::{self, figures, interval};
use crate::text::{WIDTH, wrap};
use crate::validation::own_code;
use schedlab_compare::agreement::changes::{ChangeOutcome, ChangeResult, Changes, Moves, MustMove};
use schedlab_compare::predicted::{MOVED_PCT, TOLERANCE_PCT};
use std::io::{self, Write};

/// Writes all cases and the summary as plain text.
pub fn text(all: &Changes, out: &mut dyn Write) -> io::Result<()> {
    for case in &all.cases {
        case_text(case, out)?;
        writeln!(out)?;
    }
    summary(all, out)
}

fn case_text(case: &ChangeResult, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", wrap(&format!("{}: ", case.name), &case.about))?;
    write!(out, "{}", wrap("  ", &sides(case)))?;
    let mut place = None;
    for row in &case.moves {
        let here = (&row.machine, &row.load);
        if place.replace(here) != Some(here) {
            write!(out, "{}", wrap("  ", &format!("must move under {} on {}:", row.load, row.machine)))?;
        }
        let figures = figures(row.real_pct, row.real_ci95_pct, row.simulated_pct);
        writeln!(out, "    {:<23} {figures}  {}", row.metric, row.verdict.words())?;
    }
    for row in case.moves.iter().filter(|r| r.why.is_some()) {
        write!(out, "{}", wrap("  no change: ", &reason(row)))?;
    }
    for warning in &case.warnings {
        write!(out, "{}", wrap("  warning: ", &warning.message))?;
    }
    write!(out, "{}", wrap("  ", &format!("{}: {}", share(case), case.outcome.words())))?;
    predictions::text(&case.predicted, out)
}

fn sides(case: &ChangeResult) -> String {
    let judged = case.level.map_or_else(String::new, |level| format!(", {}", own_code(level)));
    format!("from {} to {}, {} of each{judged}", case.from, case.to, schedlab_base::counted(case.runs, "run"))
}

fn reason(row: &MustMove) -> String {
    format!("{} under {}: {}", row.metric, row.load, row.why.as_deref().unwrap_or_default())
}

/// Of the rows that must move and whose real change is known: how many move on both sides.
fn share(case: &ChangeResult) -> String {
    let of = |wanted: &dyn Fn(Moves) -> bool| case.moves.iter().filter(|r| wanted(r.verdict)).count();
    let known = of(&|v| v != Moves::NotKnown);
    format!("{} of {known} known rows move as they must", of(&|v| v == Moves::Agrees))
}

fn summary(all: &Changes, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<28}outcome", "case")?;
    for case in &all.cases {
        let line = format!("{} ({})", case.outcome.words(), share(case));
        write!(out, "{}", wrap(&format!("{:<28}", case.name), &line))?;
    }
    for case in &all.not_run {
        write!(out, "{}", wrap(&format!("{:<28}not run: ", case.name), &case.why))?;
    }
    writeln!(out, "{}", "-".repeat(WIDTH - 8))?;
    for (what, n, of) in counts(all) {
        writeln!(out, "{what:<52}{:>18}", format!("{n} of {of}"))?;
    }
    write!(out, "{}", wrap("", &legend(all)))?;
    writeln!(out, "{}", if all.passed { "passed" } else { "NOT passed" })
}

/// The counts of the summary: text, number, total.
fn counts(all: &Changes) -> [(String, usize, usize); 3] {
    let passed = all.cases.iter().filter(|c| c.outcome == ChangeOutcome::Passed).count();
    [
        (format!("known rows that agree ({TOLERANCE_PCT:.0}%)"), all.agree, all.known),
        ("known rows that have the real change's sign".to_owned(), all.same_sign, all.signed),
        ("cases that pass".to_owned(), passed, all.cases.len() + all.not_run.len()),
    ]
}

fn legend(all: &Changes) -> String {
    format!(
        "A row that must move agrees if both sides move by {MOVED_PCT:.0}% or more in one direction; it is not known \
         if the real change's interval includes 0, or goes beyond {MOVED_PCT:.0}% where the change does not. A change \
         whose interval includes 0 has no sign. Of all rows that moved, {} are not known well enough.",
        all.unknown
    )
}

/// Writes the summary and every case as Markdown tables.
pub fn markdown(all: &Changes, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "| case | from | to | runs | must move | outcome |\n| --- | --- | --- | --- | --- | --- |"
    )?;
    for c in &all.cases {
        let (share, outcome) = (share(c), c.outcome.words());
        let [name, from, to] = [&c.name, &c.from, &c.to].map(|text| plain(text));
        writeln!(out, "| {name} | {from} | {to} | {} | {share} | {outcome} |", c.runs)?;
    }
    for case in &all.not_run {
        writeln!(out, "| {} | | | | not run | {} |", plain(&case.name), plain(&case.why))?;
    }
    writeln!(out)?;
    for (what, n, of) in counts(all) {
        writeln!(out, "- {what}: {n} of {of}")?;
    }
    writeln!(out, "\n{}", legend(all))?;
    all.cases.iter().try_for_each(|case| one_markdown(case, out))
}

fn one_markdown(case: &ChangeResult, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n### {}\n\n{}\n\n{}.\n", plain(&case.name), case.about, plain(&sides(case)))?;
    writeln!(out, "| machine | load | must move | real | 95 % interval | simulated | verdict |")?;
    writeln!(out, "| --- | --- | --- | ---: | --- | ---: | --- |")?;
    for row in &case.moves {
        let shown = |pct: Option<f64>| pct.map_or_else(|| "-".to_owned(), change);
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            plain(&row.machine),
            plain(&row.load),
            plain(row.metric),
            shown(row.real_pct),
            row.real_ci95_pct.map_or_else(String::new, interval),
            shown(row.simulated_pct),
            row.verdict.words()
        )?;
    }
    let reasons: Vec<String> = case.moves.iter().filter(|r| r.why.is_some()).map(reason).collect();
    if !reasons.is_empty() {
        writeln!(out, "\nNo change: {}.", reasons.join("; "))?;
    }
    predictions::markdown(&case.predicted, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_compare::agreement::NotRun;
    use schedlab_compare::predicted::{Predicted, Predictions};

    fn row(metric: &'static str, real: Option<f64>, verdict: Moves) -> MustMove {
        MustMove {
            machine: "smp-16".to_owned(),
            load: "hackbench thread-pipe".to_owned(),
            metric,
            real_pct: real,
            real_ci95_pct: real.map(|pct| [pct - 10.0, pct + 10.0]),
            simulated_pct: real.map(|pct| -pct),
            verdict,
            why: real.is_none().then(|| "real: this kernel does not count lb_sg_scan".to_owned()),
        }
    }

    fn changes() -> Changes {
        let predicted = Predicted {
            machine: "smp-16".to_owned(),
            load: "hackbench thread-pipe".to_owned(),
            metric: "migrations".to_owned(),
            real_pct: -28.0,
            real_ci95_pct: [-38.0, -18.0],
            simulated_pct: -49.0,
            same_sign: Some(true),
            agrees: false,
        };
        let case = ChangeResult {
            name: "newidle".to_owned(),
            about: "Groups that newidle passes read.".to_owned(),
            from: "off".to_owned(),
            to: "on".to_owned(),
            level: None,
            runs: 10,
            moves: vec![
                row("newidle groups per scan", None, Moves::NotKnown),
                row("newidle lb_failed", Some(4321.0), Moves::OtherWay),
            ],
            predicted: Predictions { rows: vec![predicted], unknown: 3 },
            outcome: ChangeOutcome::Failed,
            warnings: Vec::new(),
        };
        let missing = NotRun { name: "first-idle".to_owned(), why: "there is no QEMU here".to_owned() };
        Changes::of(vec![case], vec![missing])
    }

    fn written(form: fn(&Changes, &mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        form(&changes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_forms_show_verdicts_reasons_counts_and_cases_not_run() {
        for (form, words) in [
            (written(text), ["must move under hackbench thread-pipe on smp-16:", "x44.2", "NOT passed"]),
            (
                written(markdown),
                ["| smp-16 | hackbench thread-pipe | newidle lb_failed | x44.2 |", "### newidle", "| -28% |"],
            ),
        ] {
            for word in words {
                assert!(form.contains(word), "{word}:\n{form}");
            }
            for word in [
                "OTHER WAY",
                "not known",
                "does not count lb_sg_scan",
                "0 of 1",
                "1 of 1",
                "0 of 2",
                "FAILED",
            ] {
                assert!(form.contains(word), "{word}:\n{form}");
            }
            assert!(
                form.contains("there is no QEMU here") && form.contains("0 of 1 known rows move"),
                "{form}"
            );
        }
    }

    #[test]
    fn the_text_fits_into_a_mail() {
        let text = written(text);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
    }
}
