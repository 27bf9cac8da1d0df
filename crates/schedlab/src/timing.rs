//! `--timing`: how fast the simulator was, for each cell. Wall time is taken here, around the executor. Records must
//! not hold it, or the same seed would not give the same bytes.

use schedlab_base::{Ns, Result};
use schedlab_lab::{Cell, Executor, Made};
use schedlab_record::Record;
use schedlab_workload::Spec;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The sums over the runs of a cell.
#[derive(Clone, Default)]
struct Sum {
    title: String,
    runs: u64,
    wall_s: f64,
    simulated: Ns,
    events: Option<u64>,
    wakeups: u64,
}

/// An executor that reads the clock before and after each run.
pub struct Timed<'a> {
    inner: &'a dyn Executor,
    sums: Mutex<Vec<Sum>>,
}

impl<'a> Timed<'a> {
    /// Times the runs of `inner`.
    pub fn new(inner: &'a dyn Executor) -> Timed<'a> {
        Timed { inner, sums: Mutex::new(Vec::new()) }
    }
    fn add(&self, cell: &Cell, record: &Record, wall_s: f64) -> Result<()> {
        let title = cell.title();
        let warmup = match cell.spec {
            Spec::Command(_) => Ns::ZERO,
            _ => cell.spec.build(0)?.warmup,
        };
        let mut sums = self.sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = sums.iter().position(|s| s.title == title).unwrap_or_else(|| {
            sums.push(Sum { title, ..Sum::default() });
            sums.len() - 1
        });
        let sum = &mut sums[at];
        sum.runs += 1;
        sum.wall_s += wall_s;
        sum.simulated += record.found.duration + warmup;
        sum.wakeups += record.found.counters.get("sim.wakeups").copied().unwrap_or(0);
        if let Some(events) = record.found.counters.get("sim.events") {
            *sum.events.get_or_insert(0) += events;
        }
        Ok(())
    }
    /// The table of the runs since the last one, cells by name.
    pub fn take_table(&self) -> String {
        let mut sums =
            std::mem::take(&mut *self.sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        sums.sort_by(|a, b| a.title.cmp(&b.title));
        let mut text = String::from(
            "timing of the runs made now; wall time of one thread each\n\
             runs      events  events/wakeup  events/s  simulated/wall s  wall s  cell\n",
        );
        for s in &sums {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{}", line(s));
        }
        if sums.is_empty() {
            text.push_str("no run was made: the store had all of them\n");
        }
        text
    }
}

fn line(s: &Sum) -> String {
    let rate = |n: f64| if s.wall_s > 0.0 { n / s.wall_s } else { 0.0 };
    let number =
        |n: Option<f64>, digits: usize| n.map_or_else(|| "-".to_owned(), |n| format!("{n:.digits$}"));
    let per_wakeup = s.events.filter(|_| s.wakeups > 0).map(|e| e as f64 / s.wakeups as f64);
    format!(
        "{:>4} {:>11}  {:>13}  {:>8}  {:>16}  {:>6.2}  {}",
        s.runs,
        s.events.map_or_else(|| "-".to_owned(), |e| e.to_string()),
        number(per_wakeup, 2),
        s.events.map_or_else(|| "-".to_owned(), |e| format!("{:.2}M", rate(e as f64) / 1e6)),
        number(Some(rate(s.simulated.as_secs_f64())), 2),
        s.wall_s,
        s.title
    )
}

impl Executor for Timed<'_> {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        let before = Instant::now();
        let made = self.inner.run(cell, seed, stop)?;
        let wall_s = before.elapsed().as_secs_f64();
        if let Some(made) = &made {
            self.add(cell, &made.record, wall_s)?;
        }
        Ok(made)
    }
    fn parallel(&self, cell: &Cell) -> bool {
        self.inner.parallel(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_wall_time_and_missing_counts_are_not_zero() {
        let sim = Sum {
            title: "x".into(),
            runs: 2,
            wall_s: 2.0,
            simulated: Ns::secs(6),
            events: Some(8_000_000),
            wakeups: 400_000,
        };
        let words: Vec<String> = line(&sim).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["2", "8000000", "20.00", "4.00M", "3.00", "2.00", "x"]);
        let live = line(&Sum { events: None, wakeups: 0, ..sim });
        assert!(live.contains(" -  ") && !live.contains("0.00M"), "{live}");
    }
}
