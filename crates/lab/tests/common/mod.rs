//! A backend with made-up records, to test the lab's handling of runs without a simulator.

use schedlab_base::{Error, Ns, Result, Stream};
use schedlab_lab::ask::experiment::{Experiment, parse};
use schedlab_lab::{Backend, Cell, Executor, Made};
use schedlab_record::{Better, Findings, RECORD_SCHEMA, Record, Series, environment, version_of};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Made-up latencies: keyed by seed, ten times lower for variants named "fast"; variants named "broken" fail.
#[derive(Default)]
pub struct Mock {
    /// Number of runs made.
    pub made: AtomicUsize,
    /// Sets `stop` after this many runs; 0: never.
    pub stop_after: usize,
}

impl Executor for Mock {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        if cell.variant.name == "broken" {
            return Err(Error::machine("it broke"));
        }
        let made = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        if made == self.stop_after {
            stop.store(true, Ordering::SeqCst);
        }
        let log = |_| ("kernel.log", format!("seed {seed}").into_bytes());
        let files = cell.guest.iter().map(log).collect();
        Ok(Some(Made { record: record(cell, seed)?, json: None, files, events: None }))
    }
    fn parallel(&self, cell: &Cell) -> bool {
        cell.backend != Backend::Host
    }
}

/// A record of 2000 latencies around a level that grows with the number of threads.
pub fn record(cell: &Cell, seed: u64) -> Result<Record> {
    let spec = cell.spec_json()?;
    let threads = spec["params"]["threads"].as_u64().unwrap_or(1);
    let level = if cell.variant.name == "fast" { 1_000 } else { 10_000 } * threads;
    let noise = Stream::new(seed).purpose("mock");
    let shared = 900 + noise.below(0, 200);
    let own = 980 + noise.purpose("own").number(cell.variant.name.len() as u64).below(0, 40);
    let mut latency = Series::new("ns", Better::Lower);
    for i in 0..2_000 {
        latency.record(level * shared / 1_000 * own / 1_000 + i);
    }
    Ok(Record {
        schema: RECORD_SCHEMA.into(),
        model: version_of(&cell.backend.into()),
        backend: cell.backend.into(),
        machine: (*cell.machine).clone(),
        drawn: cell.draw(seed),
        kernel: cell.kernel.clone(),
        resolved: cell.resolved,
        code: None,
        guest: cell.guest.as_ref().map(|g| g.setup(&cell.machine)),
        observe: None,
        variant: cell.variant.clone(),
        workload: cell.spec.name().into(),
        spec,
        load: cell.load.clone(),
        seed,
        found: Findings {
            duration: Ns::secs(1),
            series: [("schbench.latency".to_owned(), latency)].into(),
            counters: [("migrations".to_owned(), 0)].into(),
            environment: environment::simulated(),
            warnings: vec![schedlab_base::Warning::new("mock.made_up", "these figures are made up")],
            ..Findings::default()
        },
    })
}

/// An experiment read from text.
pub fn experiment(text: &str) -> Experiment {
    parse(Path::new("test.toml"), text, 4).unwrap_or_else(|e| panic!("{e}"))
}

/// Two loads, a baseline and a variant.
pub const SMALL: &str = r#"
name = "small"
runs = 10
machines = ["smp-4"]
metrics = ["schbench.latency.p50", "schbench.latency.p99", "schbench.latency.p99.9", "migrations"]
[workload]
name = "schbench"
runtime = "1s"
[[load]]
name = "1x2"
message_threads = 1
threads = 2
[[load]]
name = "1x4"
message_threads = 1
threads = 4
[[variant]]
name = "slow"
kernel = "v4.5"
[[variant]]
name = "fast"
kernel = "v4.5"
features = ["SIS_FIRST_IDLE"]
"#;
