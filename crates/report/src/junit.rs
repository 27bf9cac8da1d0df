//! A comparison as JUnit XML, which CI servers show as tests: a suite for each load, a test for each row.
//!
//! A row that got worse is a failure, a row about which the data cannot tell is skipped with the change that would have
//! shown; all others pass. The form has no standard; elements and attributes are those that Jenkins' and GitLab's
//! readers know. It is written by hand: three elements are less than a crate and its dozen dependencies.

use crate::html::escape::escape;
use crate::number::{percent, signed, value};
use crate::{groups, row};
use schedlab_lab::Comparison;
use schedlab_lab::compare::{Cell, Row, Stat};
use schedlab_lab::stats::Verdict;
use std::io::{self, Write};

/// Writes the comparison. Rows with one of the verdicts `failing` are failures.
///
/// # Errors
/// When the writer fails.
pub fn junit(c: &Comparison, failing: &[Verdict], out: &mut dyn Write) -> io::Result<()> {
    let all: Vec<Suite<'_>> = groups(c).into_iter().filter_map(|group| Suite::of(c, group)).collect();
    let failures = all.iter().flat_map(|s| &s.tests).filter(|t| t.fails(failing)).count();
    let name = if c.experiment.is_empty() { "schedlab" } else { &c.experiment };
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\">",
        escape(name),
        all.iter().map(|s| s.tests.len()).sum::<usize>(),
        failures
    )?;
    all.iter().try_for_each(|suite| suite.write(failing, out))?;
    writeln!(out, "</testsuites>")
}

/// A load on a machine.
struct Suite<'a> {
    name: String,
    tests: Vec<Test<'a>>,
}

/// A metric of a variant.
struct Test<'a> {
    metric: &'a str,
    cell: &'a Cell,
    stat: &'a Stat,
    row: Option<&'a Row>,
}

impl<'a> Suite<'a> {
    fn of(c: &'a Comparison, group: &'a [Cell]) -> Option<Suite<'a>> {
        let first = group.first()?;
        let of_cell = |cell: &'a Cell| {
            let one = move |metric: &'a String| {
                let stat = cell.metrics.get(metric)?;
                Some(Test { metric, cell, stat, row: row(c, cell, metric) })
            };
            c.metrics.iter().filter_map(one)
        };
        let tests: Vec<Test<'a>> = group.iter().flat_map(of_cell).filter(Test::is_one).collect();
        let name = format!("{} {} on {}, {}", first.workload, first.load, first.machine, first.how());
        (!tests.is_empty()).then_some(Suite { name, tests })
    }

    fn write(&self, failing: &[Verdict], out: &mut dyn Write) -> io::Result<()> {
        let name = escape(&self.name);
        writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"0\">",
            self.tests.len(),
            self.tests.iter().filter(|t| t.fails(failing)).count(),
            self.tests.iter().filter(|t| t.is_skipped(failing)).count()
        )?;
        for test in &self.tests {
            write!(out, "    <testcase classname=\"{name}\" name=\"{}\"", escape(&test.name()))?;
            let words = escape(&test.words());
            match (test.fails(failing), test.is_skipped(failing)) {
                (true, _) => {
                    let kind = test.row.map_or("", |r| r.verdict.word());
                    writeln!(
                        out,
                        "><failure type=\"{kind}\" message=\"{words}\">{words}</failure></testcase>"
                    )?;
                }
                (false, true) => writeln!(out, "><skipped message=\"{words}\"/></testcase>")?,
                (false, false) => writeln!(out, "><system-out>{words}</system-out></testcase>")?,
            }
        }
        writeln!(out, "  </testsuite>")
    }
}

impl Test<'_> {
    /// Whether it says anything: the baseline's values are in the rows of the others, and so is what they miss.
    fn is_one(&self) -> bool {
        self.row.is_some() || matches!(self.stat, Stat::Missing { .. })
    }
    fn fails(&self, failing: &[Verdict]) -> bool {
        self.row.is_some_and(|r| failing.contains(&r.verdict))
    }
    fn is_skipped(&self, failing: &[Verdict]) -> bool {
        !self.fails(failing) && self.row.is_none_or(|r| r.verdict == Verdict::Unclear)
    }
    fn name(&self) -> String {
        match self.row {
            Some(r) => format!("{}: {} against {}", self.metric, self.cell.variant, r.baseline),
            None => format!("{}: {}", self.metric, self.cell.variant),
        }
    }
    fn words(&self) -> String {
        let (Some(r), Stat::Measured(m)) = (self.row, self.stat) else {
            return match self.stat {
                Stat::Missing { missing } => format!("not measured: {missing}"),
                Stat::Measured(_) => String::new(),
            };
        };
        let change = r.change_pct.map_or_else(|| "new".to_owned(), percent);
        let interval =
            r.ci95_pct.map_or_else(String::new, |[a, b]| format!(" [{}, {}]", signed(a), signed(b)));
        let rest = match (r.verdict, r.detectable_pct) {
            (Verdict::Unclear, Some(pct)) => format!("cannot tell; a change of {pct:.0}% would have shown"),
            (Verdict::Unclear, None) => "cannot tell".to_owned(),
            (verdict, _) => verdict.word().to_owned(),
        };
        format!("{}, {change}{interval}: {rest}", value(m.mean, &m.unit))
    }
}
