//! Single decisions of our rules and of a kernel's own code, side by side as plain text.

use crate::text::wrap;
use schedlab_compare::agreement::decisions::{Cause, DecisionRow, Decisions};
use std::io::{self, Write};

/// Writes a row for each function and tree; below it the differences, each with its smallest state.
///
/// # Errors
/// When `out` can't be written.
pub fn text(all: &Decisions, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<18}{:<12}{:>9}{:>10}{:>9}", "function", "kernel", "draws", "agree", "differ")?;
    for row in &all.rows {
        let (share, differ) = (row.agreed_per_100_000(), row.draws - row.same);
        let share = format!("{}.{:03} %", share / 1000, share % 1000);
        writeln!(out, "{:<18}{:<12}{:>9}{share:>10}{differ:>9}", row.function, row.kernel, row.draws)?;
    }
    for row in &all.rows {
        row.causes.iter().try_for_each(|c| cause(row, c, out))?;
    }
    Ok(())
}

fn cause(row: &DecisionRow, cause: &Cause, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("{}, {}, {} times: ", row.function, row.kernel, cause.count);
    write!(out, "\n{}", wrap(&title, &cause.needs))?;
    for line in &cause.state {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "  the kernel's code: {}", cause.by_code)?;
    let why = if cause.why.is_empty() { String::new() } else { format!(" ({})", cause.why) };
    writeln!(out, "  our rules:         {}{why}", cause.by_rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_both_answers() {
        let cause = Cause {
            needs: "a buddy".into(),
            count: 3,
            state: vec!["0: waits".into()],
            by_code: "runs 0".into(),
            by_rules: "runs 1".into(),
            why: "Eligible".into(),
        };
        let row = DecisionRow {
            function: "pick".into(),
            kernel: "v6.12.117".into(),
            draws: 1000,
            same: 997,
            causes: vec![cause],
        };
        let mut out = Vec::new();
        text(&Decisions::of(vec![row]), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("99.700 %") && out.contains("        3\n"), "{out}");
        assert!(out.contains("our rules:         runs 1 (Eligible)\n"), "{out}");
        assert!(out.contains("pick, v6.12.117, 3 times: a buddy\n  0: waits\n"), "{out}");
    }
}
