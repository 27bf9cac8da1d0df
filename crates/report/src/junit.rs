//! A comparison as JUnit XML, which CI servers show as tests: a suite for each load, a test for each row.
//!
//! A row with a failing verdict is a failure. A row is skipped if its figure is missing, or if the data can't tell (it
//! then names the change that could have been shown). All others pass. The form has no standard: elements and
//! attributes are those that Jenkins and GitLab read. It is written by hand: three elements don't justify a crate with
//! a dozen dependencies.

use crate::html::escape::escape;
use crate::number::{percent, signed, value};
use crate::{groups, row};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat, ComparisonRow, Gap, Stalled, gaps, how};
use schedlab_compare::stats::Verdict;
use std::io::{self, Write};

/// Writes the comparison. Rows whose verdict is in `failing` are failures; the verdict on a figure that one side lacks
/// is "unclear".
pub fn junit(c: &Comparison, failing: &[Verdict], out: &mut dyn Write) -> io::Result<()> {
    let gaps = gaps(c);
    let all: Vec<Suite<'_>> = groups(c).into_iter().filter_map(|group| Suite::of(c, group, &gaps)).collect();
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

/// A metric of a variant: a row, or a missing row.
enum Test<'a> {
    Row {
        cell: &'a Cell,
        row: &'a ComparisonRow,
    },
    Gap(&'a Gap<'a>),
    /// A load that stopped on one side.
    Stopped(&'a Stalled),
}

impl<'a> Suite<'a> {
    fn of(c: &'a Comparison, group: &'a [Cell], gaps: &'a [Gap<'a>]) -> Option<Suite<'a>> {
        let first = group.first()?;
        let of_cell = |cell: &'a Cell| {
            let one = move |metric: &'a String| Some(Test::Row { cell, row: row(c, cell, metric)? });
            c.metrics.iter().filter_map(one)
        };
        let missing = gaps.iter().filter(|gap| gap.cell.same_group(first)).map(Test::Gap);
        let is_here = |s: &&Stalled| {
            let place = (&s.backend, &s.machine, &s.workload, &s.load);
            place == (&first.backend, &first.machine, &first.workload, &first.load)
        };
        let stopped = c.stalled.iter().filter(is_here).map(Test::Stopped);
        let tests: Vec<Test<'a>> = stopped.chain(group.iter().flat_map(of_cell)).chain(missing).collect();
        let name = format!("{} {} on {}, {}", first.workload, first.load, first.machine, how(group));
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
                    let kind = test.verdict().word();
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
    fn verdict(&self) -> Verdict {
        match self {
            Test::Row { row, .. } => row.verdict,
            Test::Gap(_) => Verdict::Unclear,
            Test::Stopped(s) if s.in_baseline => Verdict::Better,
            Test::Stopped(_) => Verdict::Worse,
        }
    }
    fn fails(&self, failing: &[Verdict]) -> bool {
        failing.contains(&self.verdict())
    }
    fn is_skipped(&self, failing: &[Verdict]) -> bool {
        !self.fails(failing) && self.verdict() == Verdict::Unclear
    }
    fn name(&self) -> String {
        match self {
            Test::Row { row, .. } => format!("{}: {} against {}", row.metric, row.variant, row.baseline),
            Test::Gap(Gap { metric: Some(metric), variant, .. }) => format!("{metric}: {variant}"),
            Test::Gap(gap) => gap.variant.to_owned(),
            Test::Stopped(s) => format!("stopped: {} against {}", s.variant, s.baseline),
        }
    }
    fn words(&self) -> String {
        let (r, mean) = match self {
            Test::Gap(gap) => return gap.why.clone(),
            Test::Stopped(s) => return s.what.clone(),
            Test::Row { cell, row } => (row, cell.metrics.get(&row.metric).and_then(CellStat::measured)),
        };
        let mean = mean.map_or_else(String::new, |m| format!("{}, ", value(m.mean, &m.unit)));
        let change = r.change_pct.map_or_else(|| "new".to_owned(), percent);
        let interval =
            r.ci95_pct.map_or_else(String::new, |[a, b]| format!(" [{}, {}]", signed(a), signed(b)));
        let rest = match (r.verdict, r.detectable_pct) {
            (Verdict::Unclear, Some(pct)) => format!("cannot tell; a change of {pct:.0}% would have shown"),
            (Verdict::Unclear, None) => "cannot tell".to_owned(),
            (verdict, _) => verdict.word().to_owned(),
        };
        format!("{mean}{change}{interval}: {rest}")
    }
}
