//! `--fail-on`: verdicts that make a command fail after it has printed its result, so that a script need not read it.

use clap::Args;
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_lab::Comparison;
use schedlab_lab::compare::Row;
use schedlab_lab::stats::Verdict;
use schedlab_report::number;

/// The verdicts that may be named.
const VERDICTS: [Verdict; 5] =
    [Verdict::Worse, Verdict::Better, Verdict::Changed, Verdict::Unclear, Verdict::Same];

/// What makes a command fail after its result.
#[derive(Args, Clone, Debug, Default)]
pub struct GateOptions {
    /// Exit with 1 and name the rows if any has this verdict: worse, unclear, changed, better or same; several with
    /// commas between
    // The number that --print asks for would narrow the rows to its metric.
    #[arg(long, value_name = "VERDICT[,...]", value_delimiter = ',', value_parser = verdict, conflicts_with = "print")]
    fail_on: Vec<Verdict>,
}

fn verdict(text: &str) -> Result<Verdict> {
    let known = VERDICTS.iter().find(|v| v.word() == text);
    known.copied().ok_or_else(|| Error::unknown("verdict", text, VERDICTS.iter().map(|v| v.word())))
}

impl GateOptions {
    /// Fails if a row has a verdict that was named.
    ///
    /// # Errors
    /// Of the kind "a check failed", with the rows.
    pub fn check(&self, comparison: &Comparison) -> Result<()> {
        self.check_all(std::iter::once(comparison))
    }
    /// As [`GateOptions::check`], over several results.
    ///
    /// # Errors
    /// As [`GateOptions::check`].
    pub fn check_all<'a>(&self, comparisons: impl Iterator<Item = &'a Comparison>) -> Result<()> {
        let rows: Vec<&Row> = comparisons.flat_map(|c| &c.comparisons).collect();
        if !self.fail_on.is_empty() && rows.is_empty() {
            let text = "--fail-on: there is not one row to judge";
            return Err(Error::new(ErrorKind::CheckFailed, text)
                .help("a comparison needs two variants with runs of the same load"));
        }
        let named = |r: &&&Row| self.fail_on.contains(&r.verdict);
        let failed: Vec<String> = rows.iter().filter(named).map(|r| words(r)).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let verdicts: Vec<&str> = self.fail_on.iter().map(|v| v.word()).collect();
        let text = format!(
            "--fail-on {}: {} of {} rows\n    {}",
            verdicts.join(","),
            failed.len(),
            rows.len(),
            failed.join("\n    ")
        );
        Err(Error::new(ErrorKind::CheckFailed, text))
    }
}

/// A row in one line.
fn words(r: &Row) -> String {
    let change = r.change_pct.map_or_else(|| "from 0".to_owned(), number::change);
    let interval = r.ci95_pct.map_or_else(String::new, |[low, high]| format!(" [{low:+.1}, {high:+.1}]"));
    let machine = if r.machine.is_empty() { String::new() } else { format!(" on {}", r.machine) };
    format!(
        "{}: {} {}{machine}, {} against {}: {} {change}{interval}",
        r.verdict.word(),
        r.workload,
        r.load,
        r.variant,
        r.baseline,
        r.metric
    )
}
