//! Where tasks leave their measurements: behind a lock for threads, in a memory file for processes.
//!
//! Processes can't access each other's heaps. When a process leaves, it reserves a part of the file by advancing the
//! arena's cursor. The controller reads all parts after the last process has ended. A process that died in between
//! leaves zeroes.

use crate::fault::Fault;
use crate::sys;
use crate::tasks::arena::Arena;
use crate::tasks::column::Column;
use crate::tasks::intervals::Intervals;
use crate::tasks::recorder::{Counters, Recorder};
use schedlab_base::{Error, Result};
use schedlab_record::Series;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::SeqCst;

pub struct Totals {
    /// One series per column.
    pub series: Vec<Series>,
    /// Sums over tasks.
    pub counters: Counters,
    /// The usage of each task by number, in the order in which they left.
    pub tasks: Vec<(usize, Counters)>,
    pub intervals: Intervals,
    pub error: Option<Error>,
}

impl Totals {
    pub fn new(columns: &[Column]) -> Totals {
        Totals {
            series: columns.iter().map(Column::empty).collect(),
            counters: Counters::ZERO,
            tasks: Vec::new(),
            intervals: Intervals::default(),
            error: None,
        }
    }
    /// Adds task number `id`.
    pub fn add(&mut self, id: usize, mut values: Recorder, counted: Option<Counters>, error: Option<Error>) {
        self.intervals.add(std::mem::take(&mut values.intervals));
        values.merge_into(&mut self.series);
        counted.into_iter().for_each(|used| self.count(id, used));
        self.fail(error);
    }
    fn count(&mut self, id: usize, used: Counters) {
        self.counters = self.counters.plus(used);
        self.tasks.push((id, used));
    }
    pub fn fail(&mut self, error: Option<Error>) {
        self.error = self.error.take().or(error);
    }
}

/// One process's results in the file, preceded by their length in eight bytes.
#[derive(Serialize, Deserialize)]
struct Page {
    /// Series with values, by column index.
    series: Vec<(usize, Series)>,
    tasks: Vec<(usize, Counters)>,
    intervals: Intervals,
    fault: Option<Fault>,
}

pub struct Ledger(File);

impl Ledger {
    /// # Errors
    /// Without a free descriptor or memory.
    pub fn new() -> Result<Ledger> {
        let fault = |e| Error::machine(format!("can't make a memory file for results: {e}"));
        sys::memory_file().map(Ledger).map_err(fault)
    }

    /// Writes one process's results.
    pub fn post(&self, arena: &Arena, mut task: Totals) {
        let series = task.series.drain(..).enumerate().filter(|(_, s)| s.count() > 0).collect();
        let fault = task.error.as_ref().map(Fault::from);
        let page = Page { series, tasks: task.tasks, intervals: task.intervals, fault };
        let written = serde_json::to_vec(&page).map_err(io::Error::from).and_then(|text| {
            let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
            bytes.extend(text);
            let at = arena.results().fetch_add(bytes.len() as u64, SeqCst);
            self.0.write_all_at(&bytes, at)
        });
        if let Err(e) = written {
            eprintln!("a task's results could not be kept: {e}");
        }
    }

    /// Adds all results to `totals`.
    ///
    /// # Errors
    /// When a process died while writing.
    pub fn collect(&self, arena: &Arena, totals: &mut Totals) -> Result<()> {
        let lost = |e: io::Error| Error::internal(format!("the results of a task are lost: {e}"));
        let (mut at, end) = (0, arena.results().load(SeqCst));
        while at < end {
            let mut length = [0u8; 8];
            self.0.read_exact_at(&mut length, at).map_err(lost)?;
            let mut text = vec![0u8; (u64::from_le_bytes(length).min(end - at)) as usize];
            self.0.read_exact_at(&mut text, at + 8).map_err(lost)?;
            let page: Page = serde_json::from_slice(&text).map_err(|e| lost(e.into()))?;
            for (column, series) in &page.series {
                if let Some(all) = totals.series.get_mut(*column) {
                    all.merge(series);
                }
            }
            page.tasks.into_iter().for_each(|(id, used)| totals.count(id, used));
            totals.intervals.add(page.intervals);
            totals.fail(page.fault.map(Error::from));
            at += 8 + text.len() as u64;
        }
        Ok(())
    }
}
