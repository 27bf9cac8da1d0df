//! Made-up runs of real plans in the shape of the shipped studies, so that forms are tested without a simulator.

use schedlab_base::{Ns, Stream};
use schedlab_lab::ask::experiment::{Experiment, parse};
use schedlab_lab::{Backend, Cell, Options, plan};
use schedlab_record::{Better, Figure, Findings, Record, version_of};
use std::collections::BTreeSet;
use std::path::Path;

/// The studies, sorted by name.
pub fn studies() -> Vec<Experiment> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        parse(file, &text, 4).unwrap_or_else(|e| panic!("{e}"))
    };
    files.iter().map(read).collect()
}

/// Ten runs of each simulated cell of an experiment. Each run has a figure for every metric that some load asks for.
pub fn made_up(experiment: &Experiment) -> Vec<Record> {
    let options = Options { runs: Some(10), ..Options::default() };
    let plan = plan(experiment, Backend::Sim, options).unwrap_or_else(|e| panic!("{e}"));
    let question = experiment.question();
    let asked: BTreeSet<String> =
        question.metrics.into_iter().chain(question.of_load.into_values().flatten()).collect();
    let asked: Vec<String> = asked.into_iter().collect();
    let cells = plan.cells.iter().enumerate();
    cells
        .flat_map(|(i, c)| (1..=10).map(|seed| record(c, i as u64, seed, &asked)).collect::<Vec<_>>())
        .collect()
}

fn record(cell: &Cell, number: u64, seed: u64, metrics: &[String]) -> Record {
    let spec = cell.spec_json().unwrap();
    let figure = |(i, name): (usize, &String)| {
        let better = [Better::Lower, Better::Higher, Better::Neither][i % 3];
        let value = value(number, i as u64, seed);
        (name.clone(), Figure { value, unit: if i % 2 == 0 { "ns" } else { "" }.to_owned(), better })
    };
    let plain = schedlab_compare::testing::record(&[]);
    Record {
        model: version_of(&cell.backend.into()),
        backend: cell.backend.into(),
        machine: (*cell.machine).clone(),
        kernel: cell.kernel.clone(),
        resolved: cell.resolved,
        variant: cell.variant.clone(),
        workload: cell.spec.name().into(),
        spec,
        load: cell.load.clone(),
        seed,
        found: Findings {
            duration: Ns::secs(1),
            figures: metrics.iter().enumerate().map(figure).collect(),
            ..plain.found
        },
        ..plain
    }
}

/// Values of all kinds: cells that differ much, a little, or not; noise; an extreme run now and then; zeroes.
fn value(cell: u64, metric: u64, seed: u64) -> f64 {
    let draws = Stream::new(seed).purpose("made up").number(metric);
    let of_cell = Stream::new(7).purpose("cell").number(metric).number(cell);
    let level = [1.0, 1.0, 1.01, 0.5, 3.0, 40.0][of_cell.below(0, 6) as usize];
    if of_cell.below(1, 12) == 0 {
        return 0.0;
    }
    let spread = [1, 30, 600][of_cell.below(2, 3) as usize];
    let own = 1_000 + draws.number(cell).below(0, spread);
    let wild = if of_cell.below(3, 4) == 0 && seed == 3 + cell % 5 { 60.0 } else { 1.0 };
    (4_000_000.0 * level * wild * own as f64 / 1_000.0).round()
}
