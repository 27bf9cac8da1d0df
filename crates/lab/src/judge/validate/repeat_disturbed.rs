//! Repeats of live runs that other processes disturbed.
//!
//! The use by others is their CPU time while the workload was measured, if events show it. Otherwise it is the count of
//! /proc/stat around the run, which may be off by some ticks. The record holds the number of tries.

use crate::ask::cell::Cell;
use crate::make::exec::{Executor, Made};
use schedlab_base::{Backend, Ns, Result, Warning};
use schedlab_record::Record;
use std::sync::atomic::AtomicBool;

/// Most repeats of a run.
const REPEATS: u64 = 3;
/// CPU time that others may use, thousandths of the run's own.
const FINE_PERMILLE: u64 = 50;
/// The error of /proc/stat.
const TICK_NOISE: Ns = Ns::ms(30);
/// Environment key: number of tries of a run, if more than one.
const TRIES: &str = "run.tries";

/// Makes runs with another executor, and repeats disturbed runs. The first quiet run counts, or the last one.
pub struct RepeatDisturbed<'a>(pub &'a dyn Executor);

impl Executor for RepeatDisturbed<'_> {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        let mut tries = 1;
        loop {
            let Some(mut made) = self.0.run(cell, seed, stop)? else { return Ok(None) };
            let disturbed = cell.backend == Backend::Host && is_disturbed(&made.record);
            if !disturbed || tries > REPEATS {
                if tries > 1 {
                    made.record.found.environment.insert(TRIES.to_owned(), tries.to_string());
                }
                return Ok(Some(made));
            }
            tries += 1;
        }
    }
    fn parallel(&self, cell: &Cell) -> bool {
        self.0.parallel(cell)
    }
}

/// CPU time of others, thousandths of the run's own; `None` if it is unknown, or too small to report.
fn others_permille(record: &Record) -> Option<u64> {
    let own = record.found.counters.get("cpu_time").copied().filter(|ns| *ns > 0)?;
    let around =
        || record.found.environment.get("run.foreign_cpu_ns")?.parse().ok().filter(|ns| *ns > TICK_NOISE.0);
    let others = record.found.counters.get("background.cpu_time").copied().or_else(around)?;
    Some(others.saturating_mul(1_000) / own)
}

fn is_disturbed(record: &Record) -> bool {
    others_permille(record).is_some_and(|permille| permille > FINE_PERMILLE)
}

/// The warning about repeated runs.
pub fn warning(real: &[Record]) -> Option<Warning> {
    let tries = |r: &Record| r.found.environment.get(TRIES).and_then(|n| n.parse::<u64>().ok());
    let again: Vec<&Record> = real.iter().filter(|r| tries(r).is_some()).collect();
    let repeats: u64 = again.iter().filter_map(|r| tries(r)).map(|n| n.saturating_sub(1)).sum();
    let left: Vec<u64> =
        again.iter().filter(|r| is_disturbed(r)).filter_map(|r| others_permille(r)).collect();
    let (runs, fine) = (real.len(), FINE_PERMILLE / 10);
    let end = match left.iter().max() {
        None => "all that count were quiet".to_owned(),
        Some(most) => {
            let (nr, whole, tenth) = (left.len(), most / 10, most % 10);
            format!("{nr} never were quiet, and count with up to {whole}.{tenth} %")
        }
    };
    (!again.is_empty()).then(|| {
        let text = format!(
            "{} of {runs} runs on the real kernel were made again, {repeats} times in all, because others used more than {fine} % \
             of what the run itself did; {end}",
            again.len()
        );
        Warning::new("validate.again", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_compare::testing::record;
    use schedlab_kernel::Variant;
    use schedlab_machine::Machine;
    use schedlab_workload::{Params, Spec};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Gives one record after another, in which others used this many ms per second of the run's own.
    struct Script {
        others_ms: &'static [u64],
        made: AtomicUsize,
    }

    impl Executor for Script {
        fn run(&self, _: &Cell, _: u64, stop: &AtomicBool) -> Result<Option<Made>> {
            if stop.load(SeqCst) {
                return Ok(None);
            }
            let others = Ns::ms(self.others_ms[self.made.fetch_add(1, SeqCst)]).0;
            let used = [("cpu_time", Ns::secs(1).0), ("background.cpu_time", others)];
            Ok(Some(record(&used).into()))
        }
        fn parallel(&self, _: &Cell) -> bool {
            false
        }
    }

    fn cell(backend: Backend) -> Cell {
        let machine = Arc::new(Machine::load("smp-2").unwrap());
        let spec = Spec::bench("slice", &Params::default()).unwrap();
        let cell = Cell::simulated(&machine, Variant::plain("v6.5"), spec, "default".to_owned()).unwrap();
        Cell { backend, ..cell }
    }

    /// Number of tries, others' time in the run that counts (ms), and the warning.
    fn made(backend: Backend, others_ms: &'static [u64]) -> (usize, u64, Option<String>) {
        let script = Script { others_ms, made: AtomicUsize::new(0) };
        let kept =
            RepeatDisturbed(&script).run(&cell(backend), 1, &AtomicBool::new(false)).unwrap().unwrap().record;
        let others = kept.found.counters["background.cpu_time"] / 1_000_000;
        (script.made.into_inner(), others, warning(&[kept]).map(|w| w.message))
    }

    #[test]
    fn a_disturbed_run_is_made_again_until_it_is_quiet_at_most_three_times() {
        assert_eq!(made(Backend::Host, &[50]), (1, 50, None), "as much is fine");
        let (tries, others, text) = made(Backend::Host, &[51, 300, 10, 0]);
        assert_eq!((tries, others), (3, 10));
        let text = text.unwrap();
        assert!(
            text.contains("1 of 1 runs") && text.contains("2 times in all") && text.ends_with("quiet"),
            "{text}"
        );
        let (tries, others, text) = made(Backend::Host, &[90, 80, 70, 123, 0]);
        assert_eq!((tries, others), (4, 123), "the last one counts");
        let text = text.unwrap();
        assert!(text.contains("3 times in all") && text.ends_with("with up to 12.3 %"), "{text}");
        assert_eq!(made(Backend::Vm, &[900]), (1, 900, None), "a guest's other tasks are its own");
    }

    #[test]
    fn without_events_time_around_the_run_decides_if_it_exceeds_the_error_of_ticks() {
        let around = |ms: u64| {
            let mut record = record(&[("cpu_time", Ns::ms(200).0)]);
            record.found.environment.insert("run.foreign_cpu_ns".to_owned(), Ns::ms(ms).0.to_string());
            is_disturbed(&record)
        };
        assert_eq!([around(0), around(30), around(31)], [false, false, true]);
        assert!(!is_disturbed(&record(&[])), "nothing is known");
    }

    #[test]
    fn an_interruption_ends_the_repeats() {
        let script = Script { others_ms: &[], made: AtomicUsize::new(0) };
        let made = RepeatDisturbed(&script).run(&cell(Backend::Host), 1, &AtomicBool::new(true)).unwrap();
        assert!(made.is_none());
    }
}
