//! The result of `schedlab validate --limits`, as plain text and as Markdown: what each limit changes, on both sides.

use crate::markdown::plain;
use crate::number::{change, duration};
use crate::text::{WIDTH, wrap};
use crate::validation::own_code;
use schedlab_base::{Backend, counted};
use schedlab_compare::agreement::CaseSide;
use schedlab_compare::agreement::limits::{LimitRow, Limits, LimitsResult, LimitsShare};
use schedlab_compare::predicted::TOLERANCE_PCT;
use std::io::{self, Write};

/// Writes all cases and the sum as plain text.
pub fn text(all: &Limits, out: &mut dyn Write) -> io::Result<()> {
    for case in &all.cases {
        let runs = format!("{} and {}", case.judged.runs, counted(case.real.runs, "run"));
        let by = case.judged.level.map_or_else(String::new, |level| format!("{} of ", own_code(level)));
        let sides =
            format!("{} against {} ({}), {runs}", case.judged.kernel, case.real.kernel, case.real.backend);
        write!(out, "{}", wrap(&format!("{}: ", case.name), &format!("{}, {by}{sides}", case.metric)))?;
        writeln!(out, "  {:<20}{:>9}{:>19}{:>9}", "limit", "real", "change", "judged")?;
        for row in &case.limits {
            let real = row.real.map_or_else(|| "-".to_owned(), |m| duration(m.means[1]));
            let judged = row.judged.map_or_else(|| "-".to_owned(), |m| change(m.pct));
            writeln!(out, "  {:<20}{real:>9}{:>19}{judged:>9}  {}", row.limit, of_real(row), verdict(row))?;
        }
        for row in case.limits.iter().filter(|row| row.why.is_some()) {
            let why = row.why.as_deref().unwrap_or_default();
            write!(out, "{}", wrap("  no change: ", &format!("{}: {why}", row.limit)))?;
        }
        writeln!(out)?;
    }
    for case in &all.not_run {
        write!(out, "{}", wrap(&format!("{:<28}not run: ", case.name), &case.why))?;
    }
    writeln!(out, "{}", "-".repeat(WIDTH - 8))?;
    write!(out, "{}", wrap("", &format!("{} {LEGEND}", sum(Limits::share(all.cases.iter())))))?;
    writeln!(out, "{}", if all.passed() { "passed" } else { "NOT passed" })
}

const LEGEND: &str = "A change is that of the mean against the limit as it is, with half its 95% interval; ~ where that \
                      includes 0, and nothing is judged.";

fn sum(share: LimitsShare) -> String {
    let LimitsShare { signed, same_sign, same_size } = share;
    format!(
        "Of {signed} changes with a sign, {same_sign} agree in sign and {same_size} in size, within {TOLERANCE_PCT:.0}%."
    )
}

fn of_real(row: &LimitRow) -> String {
    let Some(real) = row.real else { return "-".to_owned() };
    let mark = if real.half.is_none_or(|half| real.pct.abs() <= half) { "~ " } else { "" };
    let half = real.half.map_or_else(String::new, |half| format!(" +-{half:.0}"));
    format!("{mark}{}{half}", change(real.pct))
}

fn verdict(row: &LimitRow) -> &'static str {
    match (row.same_sign(), row.same_size()) {
        (None, _) => "",
        (Some(false), _) => "OTHER SIGN",
        (Some(true), Some(true)) => "agrees",
        (Some(true), _) => "other size",
    }
}

/// Writes all cases as a Markdown table.
pub fn markdown(all: &Limits, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", side_by_side(&[all]))
}

/// Results as one table: a row for each limit of a case, and for each real kernel a column, with those of what was
/// judged beside it. Below it how many agree.
pub fn side_by_side(all: &[&Limits]) -> String {
    let cases: Vec<&LimitsResult> = all.iter().flat_map(|one| &one.cases).collect();
    let columns = columns(&cases);
    let (mut text, mut rule) = ("| case | limit |".to_owned(), "| --- | --- |".to_owned());
    for (real, judged) in &columns {
        text += &format!(" {real} | {} |", judged.join(" | "));
        rule += &" --- |".repeat(1 + judged.len());
    }
    text += &format!("\n{rule}\n");
    let limits = cases.iter().flat_map(|case| case.limits.iter().map(|row| (&case.name, &row.limit)));
    let mut seen: Vec<(&String, &String)> = Vec::new();
    for (name, limit) in limits {
        if !seen.contains(&(name, limit)) {
            seen.push((name, limit));
            text += &format!(
                "| {} | {} |{}\n",
                plain(name),
                plain(limit),
                cells(&cases, &columns, (name, limit))
            );
        }
    }
    text.push('\n');
    for (real, judged) in &columns {
        for by in judged {
            let share = Limits::share(cases.iter().copied().filter(|case| is_of(case, real, by)));
            text += &format!("- {real}, {by}: {}\n", sum(share));
        }
    }
    text
}

/// The real kernels, each with what was judged beside it, in the order of the cases.
fn columns(cases: &[&LimitsResult]) -> Vec<(String, Vec<&'static str>)> {
    let mut all: Vec<(String, Vec<&'static str>)> = Vec::new();
    for case in cases {
        let (real, judged) = (name_of(&case.real), judged_by(&case.judged));
        match all.iter_mut().find(|(name, _)| *name == real) {
            Some((_, there)) if there.contains(&judged) => {}
            Some((_, there)) => there.push(judged),
            None => all.push((real, vec![judged])),
        }
    }
    all
}

fn is_of(case: &LimitsResult, real: &str, judged: &str) -> bool {
    name_of(&case.real) == real && judged_by(&case.judged) == judged
}

/// The cells of a row.
fn cells(cases: &[&LimitsResult], columns: &[(String, Vec<&str>)], (name, limit): (&str, &str)) -> String {
    let mut text = String::new();
    for (real, judged) in columns {
        let found = judged.iter().map(|by| {
            let case = cases.iter().find(|case| case.name == name && is_of(case, real, by));
            case.and_then(|case| case.limits.iter().find(|row| row.limit == limit))
        });
        let found: Vec<Option<&LimitRow>> = found.collect();
        let shown =
            |row: Option<&LimitRow>, of: fn(&LimitRow) -> String| row.map_or_else(|| "-".to_owned(), of);
        text += &format!(" {} |", shown(found.iter().copied().flatten().next(), of_real));
        found.into_iter().for_each(|row| text += &format!(" {} |", shown(row, of_judged)));
    }
    text
}

fn of_judged(row: &LimitRow) -> String {
    let Some(judged) = row.judged else { return "-".to_owned() };
    let mark = match (row.same_sign(), row.same_size()) {
        (Some(false), _) => " (sign)",
        (Some(true), Some(false)) => " (size)",
        _ => "",
    };
    format!("{}{mark}", change(judged.pct))
}

/// A real kernel in words: "guest 6.12.117".
fn name_of(side: &CaseSide) -> String {
    let of_release = |c: &char| c.is_ascii_digit() || *c == '.';
    let release: String = side.kernel.chars().take_while(of_release).collect();
    let place = if side.backend == Backend::Host { "host" } else { "guest" };
    format!("{place} {}", release.trim_end_matches('.'))
}

fn judged_by(side: &CaseSide) -> &'static str {
    if side.level.is_some() { "code" } else { "rules" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_compare::predicted::MeanMove;

    fn result(real_pct: f64, half: f64, judged_pct: f64, level: Option<schedlab_kernel::Level>) -> Limits {
        let side = |backend: Backend, kernel: &str, level| CaseSide {
            backend: backend.into(),
            level,
            machine: "smp-2".to_owned(),
            kernel: kernel.to_owned(),
            variant: None,
            runs: 4,
        };
        let moved = |pct: f64, half| MeanMove { means: [1e7, 1e5 * (100.0 + pct)], pct, half };
        let row = LimitRow {
            limit: "none".to_owned(),
            real: Some(moved(real_pct, Some(half))),
            judged: Some(moved(judged_pct, None)),
            why: None,
        };
        let missing = LimitRow {
            limit: "half".to_owned(),
            real: None,
            judged: None,
            why: Some("real: too few".to_owned()),
        };
        let case = LimitsResult {
            name: "limits-http".to_owned(),
            metric: "http.latency.p99".to_owned(),
            from: "as-is".to_owned(),
            real: side(Backend::Vm, "6.12.117+deb12-cloud-amd64", None),
            judged: side(Backend::Sim, "v6.12", level),
            limits: vec![row, missing],
        };
        Limits::of(vec![case], Vec::new())
    }

    fn written(all: &Limits) -> String {
        let mut out = Vec::new();
        text(all, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_text_shows_both_changes_with_a_verdict() {
        let right = written(&result(-50.0, 10.0, -45.0, None));
        for words in
            ["-50% +-10", "-45%  agrees", "5.00ms", "half: real: too few", "1 agree in sign and 1 in size"]
        {
            assert!(right.contains(words), "{words}: {right}");
        }
        assert!(right.ends_with("passed\n") && right.lines().all(|l| l.chars().count() <= WIDTH), "{right}");
        assert!(written(&result(-50.0, 10.0, -10.0, None)).contains("other size"));
        assert!(written(&result(-50.0, 10.0, 10.0, None)).contains("OTHER SIGN"));
        assert!(written(&result(-5.0, 10.0, 10.0, None)).contains("~ -5.0%"), "no sign");
    }

    #[test]
    fn the_table_has_rules_and_code_beside_one_guest() {
        let (rules, code) =
            (result(-50.0, 10.0, -45.0, None), result(-50.0, 10.0, -10.0, Some(Default::default())));
        let table = side_by_side(&[&rules, &code]);
        for line in [
            "| case | limit | guest 6.12.117 | rules | code |",
            "| limits-http | none | -50% +-10 | -45% | -10% (size) |",
            "| limits-http | half | - | - | - |",
            "- guest 6.12.117, code: Of 1 changes with a sign, 1 agree in sign and 0 in size, within 35%.",
        ] {
            assert!(table.lines().any(|l| l == line), "{line}\n{table}");
        }
    }
}
