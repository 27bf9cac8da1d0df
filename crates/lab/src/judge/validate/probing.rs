//! The costs of steps on this host, measured with each run of a host case, and their mean for the simulated side.
//!
//! On a virtual machine the cost of an interrupt to another CPU, or of leaving a halt, changes by a half within
//! seconds, back and forth. A probe from minutes before says little about a run. The costs are stored in the
//! environment of the run's record, so runs that are found again are judged by the costs measured with them. Values are
//! ns.

use crate::ask::cell::Cell;
use crate::make::exec::{Executor, Made};
use schedlab_base::{Backend, Result, Warning};
use schedlab_machine::probed::{Measured, Probed};
use schedlab_native::probe::{Effort, measure};
use schedlab_record::Record;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Prefix of costs' environment keys.
const PREFIX: &str = "probe.";
/// Environment key: the reason why there are no costs.
const FAILED: &str = "probe_failed";

/// Makes runs with another executor, and measures the costs of steps before each run on the host.
pub struct Probing<'a>(pub &'a dyn Executor);

impl Executor for Probing<'_> {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        if cell.backend != Backend::Host {
            return self.0.run(cell, seed, stop);
        }
        let costs = measure(Effort::GLANCE);
        let Some(mut made) = self.0.run(cell, seed, stop)? else { return Ok(None) };
        match costs {
            Ok(probed) => made.record.found.environment.extend(probed.measured.iter().map(cost_words)),
            Err(e) => _ = made.record.found.environment.insert(FAILED.to_owned(), e.message().to_owned()),
        }
        Ok(Some(made))
    }
    fn parallel(&self, cell: &Cell) -> bool {
        self.0.parallel(cell)
    }
}

/// A cost in the environment's form: value, and its range's ends.
fn cost_words(cost: &Measured) -> (String, String) {
    (format!("{PREFIX}{}", cost.name), format!("{} {} {}", cost.value, cost.range.0, cost.range.1))
}

fn read(environment: &BTreeMap<String, String>) -> Vec<Measured> {
    let one = |(key, text): (&String, &String)| {
        let name = key.strip_prefix(PREFIX)?.to_owned();
        let mut numbers = text.split(' ').map(|n| n.parse().ok());
        let (value, low, high) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some(Measured { name, value, range: (low, high), how: "beside the runs of a case".to_owned() })
    };
    environment.iter().filter_map(one).collect()
}

/// The mean of the costs measured with these runs; `None` if there are none.
pub fn mean(real: &[Record]) -> Option<Probed> {
    let each =
        real.iter().map(|r| Probed::here(read(&r.found.environment))).filter(|p| !p.measured.is_empty());
    Probed::mean(&each.collect::<Vec<_>>())
}

/// The warning if costs could not be measured.
pub fn missing(real: &[Record]) -> Option<Warning> {
    let why = real.iter().find_map(|r| r.found.environment.get(FAILED))?;
    let text = format!("costs of steps were not measured beside the runs; the earlier ones are used: {why}");
    Some(Warning::new("validate.probe", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_compare::testing::record;

    fn beside(costs: &[(&str, u64)]) -> Record {
        let measured = |(name, value): &(&str, u64)| {
            let (name, how) = ((*name).to_owned(), String::new());
            cost_words(&Measured { name, value: *value, range: (value / 2, value * 2), how })
        };
        let mut run = record(&[]);
        run.found.environment.extend(costs.iter().map(measured));
        run
    }

    #[test]
    fn the_simulated_side_has_the_mean_of_the_costs_measured_with_the_runs() {
        let runs = [beside(&[("ipi_send_ns", 6_000)]), beside(&[("ipi_send_ns", 9_000)])];
        let mean = mean(&runs).unwrap().measured;
        assert_eq!(
            (mean[0].name.as_str(), mean[0].value, mean[0].range),
            ("ipi_send_ns", 7_500, (3_000, 18_000))
        );
        assert_eq!(super::mean(&[record(&[])]), None);
    }

    #[test]
    fn missing_measurements_are_reported() {
        let mut run = record(&[]);
        assert_eq!(missing(&[run.clone()]), None);
        run.found.environment.insert(FAILED.to_owned(), "one CPU only".to_owned());
        assert!(missing(&[run]).is_some_and(|w| w.message.ends_with("one CPU only")));
    }
}
