//! CSV (RFC 4180): a line for each cell and metric, with its comparison. Numbers are in full precision, times in ns.

use crate::{Exporter, groups, row};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat};
use std::io::{self, Write};

pub struct Csv;

/// Put before a name that a spreadsheet would take for a formula.
const GUARD: char = '\'';
/// The first characters of such names.
const FORMULAS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

const HEAD: &str = "experiment,backend,machine,kernel,workload,load,variant,runs,metric,unit,better,mean,std_pct,missing,\
                    baseline,change_pct,ci95_low_pct,ci95_high_pct,p,verdict,mean_change_pct,astray";

impl Exporter for Csv {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{HEAD}\r\n")?;
        for cell in groups(c).into_iter().flatten() {
            for (metric, stat) in c.metrics.iter().filter_map(|m| Some((m, cell.metrics.get(m)?))) {
                let fields: Vec<String> = line(c, cell, metric, stat).iter().map(|f| quoted(f)).collect();
                write!(out, "{}\r\n", fields.join(","))?;
            }
        }
        Ok(())
    }
}

fn line(c: &Comparison, cell: &Cell, metric: &str, stat: &CellStat) -> Vec<String> {
    let text = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    let mut f = vec![
        harmless(&c.experiment),
        cell.backend.to_string(),
        harmless(&cell.machine),
        harmless(&cell.kernel),
        harmless(&cell.workload),
        harmless(&cell.load),
        harmless(&cell.variant),
        cell.runs.to_string(),
        harmless(metric),
    ];
    match stat {
        CellStat::Measured(m) => f.extend([
            harmless(&m.unit),
            m.better.name().to_owned(),
            m.mean.to_string(),
            text(m.std_pct),
            String::new(),
        ]),
        CellStat::Missing { missing } => {
            f.extend([String::new(), String::new(), String::new(), String::new(), harmless(missing)]);
        }
    }
    match row(c, cell, metric) {
        Some(r) => f.extend([
            harmless(&r.baseline),
            text(r.change_pct),
            text(r.ci95_pct.map(|i| i[0])),
            text(r.ci95_pct.map(|i| i[1])),
            r.p.to_string(),
            r.verdict.word().to_owned(),
            text(r.mean_change_pct),
            r.astray.to_string(),
        ]),
        None => f.extend(std::iter::repeat_n(String::new(), 8)),
    }
    f
}

/// A name that no spreadsheet takes for a formula: before a leading `=`, `+`, `-` or `@` goes an apostrophe, which
/// schedlab's reader of CSV removes.
fn harmless(name: &str) -> String {
    if name.trim_start_matches(GUARD).starts_with(FORMULAS) {
        format!("{GUARD}{name}")
    } else {
        name.to_owned()
    }
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{harmless, quoted};

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("1x2,threads=3"), "\"1x2,threads=3\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
    }

    #[test]
    fn names_are_not_formulas() {
        for (name, field) in [
            ("v6.12", "v6.12"),
            ("=1+1", "'=1+1"),
            ("-O2", "'-O2"),
            ("@x", "'@x"),
            ("'+x", "''+x"),
            ("it's", "it's"),
        ] {
            assert_eq!(harmless(name), field);
        }
    }
}
