//! Names cells with runs many times as long as their others. One such run hardly affects the trimmed change of a row,
//! and a mean hides how rare it is.

use super::{Cell, CountedWarning, Measured};
use crate::stats::describe::{median_sorted, sorted};
use schedlab_base::{Warning, counted};

/// A run with this many times its cell's median is named.
const TIMES: f64 = 4.0;
/// A cell needs at least this many runs for a useful median.
const FEWEST: usize = 4;
/// Counts below this may be that large by chance.
const SMALL_COUNT: f64 = 50.0;
/// The most cells that are named.
const NAMED: usize = 6;

/// The cells with such runs, in words.
#[derive(Default)]
pub(super) struct Wild(Vec<(f64, String)>);

impl Wild {
    /// Adds cells of a group that is compared.
    pub(super) fn add(&mut self, cells: &[Cell], metrics: &[String]) {
        for cell in cells {
            let of = |m: &String| {
                let (runs, times) = wild_runs(cell.metrics.get(m)?.measured()?)?;
                let all = cell.metrics[m].measured()?.values.len();
                let text = format!(
                    "{} {}, {}, {m}: {runs} of {} {:.0} times as long as the median",
                    cell.workload,
                    cell.load,
                    cell.variant,
                    counted(all, "run"),
                    times.round()
                );
                let text = if cell.metrics[m].measured()?.unit == "ns" {
                    text
                } else {
                    text.replace("as long", "as much")
                };
                Some((times, text))
            };
            self.0.extend(metrics.iter().filter_map(of));
        }
    }
    /// A line for all of them, the largest first.
    pub(super) fn warning(mut self) -> Option<CountedWarning> {
        self.0.sort_by(|a, b| b.0.total_cmp(&a.0));
        let more = match self.0.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!("; and {n} more"),
        };
        let named: Vec<&str> = self.0.iter().take(NAMED).map(|(_, text)| text.as_str()).collect();
        let text = format!("a few runs are far from the others of their cell: {}{more}", named.join("; "));
        (!named.is_empty()).then(|| CountedWarning::of_all(Warning::new("runs.wild", text)))
    }
}

/// The number of runs that are [`TIMES`] their median or more, and how many times the median the largest is. `None` if
/// there are none, or so many that they are not rare.
fn wild_runs(m: &Measured) -> Option<(usize, f64)> {
    let values = sorted(&m.values);
    let (median, largest) = (median_sorted(&values), *values.last()?);
    let wild = values.iter().filter(|v| **v >= TIMES * median).count();
    let is_large = !m.unit.is_empty() || largest >= SMALL_COUNT;
    let is_rare = wild > 0 && 4 * wild <= values.len();
    (values.len() >= FEWEST && median > 0.0 && is_large && is_rare).then(|| (wild, largest / median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_record::Better;

    fn of(unit: &str, values: &[f64]) -> Option<(usize, f64)> {
        let (unit, better) = (unit.to_owned(), Better::Lower);
        let measured =
            Measured { unit, better, mean: 0.0, std_pct: None, values: values.to_vec(), missing_runs: 0 };
        wild_runs(&measured)
    }

    #[test]
    fn a_rare_extreme_run_is_named() {
        // Seen with schbench's p99, us: the row said "172us +0.3% =".
        let found = of("ns", &[97.0, 97.0, 96.0, 97.0, 98.0, 97.0, 97.0, 849.0, 97.0, 97.0]).unwrap();
        assert_eq!((found.0, found.1.round()), (1, 9.0));
        assert_eq!(of("ns", &[97.0, 98.0, 99.0, 300.0]), None, "three times is not it");
        assert_eq!(of("ns", &[1.0, 1.0, 9.0, 9.0]), None, "half of the runs are not rare");
        assert_eq!(of("", &[1.0, 1.0, 1.0, 1.0, 9.0]), None, "nine events may be chance");
        assert_eq!(of("", &[0.0, 0.0, 0.0, 0.0, 900.0]), None, "there is no multiple of 0");
        assert_eq!(of("", &[10.0, 10.0, 10.0, 10.0, 900.0]).map(|f| f.0), Some(1));
    }
}
