//! Parcels and results: they are read back as they were written, and damaged ones store nothing.

use super::results::{Unpacked, unpack, write};
use super::worker::Worker;
use super::*;
use crate::slurm::uncut;
use schedlab_kernel::Variant;
use schedlab_lab::ask::cell::Cell;
use schedlab_lab::listener::Silent;
use schedlab_lab::make::exec::RunOptions;
use schedlab_lab::make::plan::order;
use schedlab_machine::Machine;
use schedlab_record::Store;
use schedlab_workload::{Params, Spec};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Two kernels and one load, short, with a draw of costs under the second.
fn plan(runs: u64) -> Plan {
    let machine = Arc::new(Machine::load("fb-2x12-smt").unwrap());
    let spec = Spec::bench("slice", &Params::default()).unwrap();
    let cell = |kernel: &str| {
        Cell::simulated(&machine, Variant::plain(kernel), spec.clone(), "a".to_owned()).unwrap()
    };
    let cells = vec![cell("v6.5"), cell("v6.12").with_uncertainty().unwrap()];
    Plan { runs: order(2, runs, 3).unwrap(), cells, warnings: Vec::new() }
}

fn parcel(plan: &Plan) -> Parcel {
    let all: Vec<usize> = (0..plan.runs.len()).collect();
    let attach: &[(&str, &[u8])] = &[("experiment.toml", b"name = 'x'")];
    let contents = Contents { experiment: "x", how: Protocol::default(), attach };
    Parcel::of(plan, uncut(plan, &all), &contents).unwrap()
}

#[test]
fn cells_are_the_same_on_the_other_side() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.parcel");
    let plan = plan(2);
    let parcel = parcel(&plan);
    std::fs::write(&file, parcel.text().unwrap()).unwrap();
    let read = Parcel::read(&file).unwrap();
    assert_eq!(read.text().unwrap(), parcel.text().unwrap());
    let runs: Vec<(usize, u64)> = read.tasks.iter().flat_map(Task::runs).collect();
    let again = read.plan(&runs).unwrap();
    let named = |plan: &Plan| -> Vec<(String, u64)> {
        plan.runs.iter().map(|r| (plan.cells[r.cell].hash().unwrap(), r.seed)).collect()
    };
    assert_eq!(named(&again), named(&plan));
}

#[test]
fn a_parcel_of_another_version_or_with_another_cell_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.parcel");
    let refused = |text: String| {
        std::fs::write(&file, text).unwrap();
        let parcel = Parcel::read(&file)?;
        parcel.plan(&parcel.tasks.iter().flat_map(Task::runs).collect::<Vec<_>>()).map(|_| ())
    };
    let text = parcel(&plan(1)).text().unwrap();
    assert!(refused(text.clone()).is_ok());
    let model = text.replacen(&format!("\"model\":{MODEL}"), "\"model\":1", 1);
    assert!(refused(model).unwrap_err().to_string().contains("model 1"));
    let other = text.replacen("\"load\":\"a\"", "\"load\":\"b\"", 1);
    assert!(refused(other).unwrap_err().to_string().contains("would be cell"));
    let cut = text[..text.len() / 2].to_owned();
    assert!(refused(cut).unwrap_err().to_string().contains("not a whole parcel"));
    let beyond = text.replacen("[0,3]", "[7,3]", 1);
    assert!(refused(beyond).unwrap_err().to_string().contains("does not have"));
}

#[test]
fn a_parcel_with_files_or_cells_that_no_run_has_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.parcel");
    let made = parcel(&plan(1));
    let refused = |parcel: &Parcel| {
        std::fs::write(&file, parcel.text().unwrap()).unwrap();
        let e = Parcel::read(&file).unwrap_err();
        assert_eq!((e.kind().exit_code(), e.spot().map(|s| &s.file)), (2, Some(&file)), "{e}");
        e.to_string()
    };
    let twice = [made.attach[0].clone(), made.attach[0].clone()];
    for name in ["../../pwned", "/etc/pwned", "", "foo", "record.json", "./experiment.toml"] {
        let attach = vec![Attached { name: name.to_owned(), text: String::new() }];
        let told = refused(&Parcel { attach, ..made.clone() });
        assert!(told.contains(&format!("the parcel has a file '{name}', which no run has")), "{told}");
    }
    assert!(refused(&Parcel { attach: twice.to_vec(), ..made.clone() }).contains("'experiment.toml'"));
    let mut elsewhere = made;
    elsewhere.cells[0].hash = "../elsewhere".to_owned();
    assert!(refused(&elsewhere).contains("'../elsewhere', which is not a cell's name"));
}

#[test]
fn results_bring_the_bytes_and_a_damaged_file_brings_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (there, here) = (dir.path().join("there"), dir.path().join("here"));
    let (there, here) = (Store::create(&there).unwrap(), Store::create(&here).unwrap());
    let machine = Arc::new(Machine::load("smp-2").unwrap());
    let spec: Params = serde_json::from_str("{}").unwrap();
    let spec = Spec::bench("slice", &spec).unwrap();
    let cell = Cell::simulated(&machine, Variant::plain("v6.5"), spec, "a".to_owned()).unwrap();
    let plan = Plan { cells: vec![cell], runs: order(1, 2, 1).unwrap(), warnings: Vec::new() };
    let parcel = parcel(&plan);
    let stop = AtomicBool::new(false);
    let worker =
        Worker { options: RunOptions::default(), store: &there, jobs: 2, progress: &Silent, stop: &stop };
    let worked = worker.work(&parcel, None).unwrap();
    assert_eq!((worked.made, worked.found, worked.interrupted), (2, 0, false));
    let again = worker.work(&parcel, Some(0)).unwrap();
    assert_eq!((again.made, again.found), (0, 2));
    assert!(worker.work(&parcel, Some(1)).is_err());

    let file = dir.path().join("x.results");
    assert_eq!(write(&parcel, &there, &file).unwrap(), 2);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let damaged = [
        lines[..2].join("\n"),
        text.replacen("\"sum\":\"", "\"sum\":\"0", 1),
        text.replacen("record.json", "../record.json", 1),
        text.replacen("\"seed\":1", "\"seed\":5", 1),
        text.replacen(&format!("\"model\":{MODEL}"), "\"model\":1", 1),
        text[..text.len() - 100].to_owned(),
        String::new(),
    ];
    let bad = dir.path().join("bad.results");
    for text in damaged {
        std::fs::write(&bad, &text).unwrap();
        assert!(unpack(&bad, &here).is_err(), "{}", &text[..text.len().min(200)]);
        assert_eq!(std::fs::read_dir(here.root()).unwrap().count(), 0, "nothing is stored");
    }
    assert_eq!(unpack(&file, &here).unwrap(), Unpacked { stored: 2, kept: 0, other: 0 });
    assert_eq!(unpack(&file, &here).unwrap(), Unpacked { stored: 0, kept: 2, other: 0 });
    let hash = plan.cells[0].hash().unwrap();
    for (seed, name) in [(1, "record.json"), (2, "record.json"), (1, "experiment.toml")] {
        let of = |store: &Store| std::fs::read(store.get(&hash, seed).unwrap().path.join(name)).unwrap();
        assert!(of(&there) == of(&here), "{name} of seed {seed}");
    }
}

#[test]
fn a_run_that_is_listed_twice_is_made_once_and_no_cell_is_made_after_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    let mut parcel = parcel(&plan(1));
    let stop = AtomicBool::new(false);
    for together in [false, true] {
        let seed = 7 + u64::from(together);
        parcel.tasks = vec![Task { together, blocks: vec![vec![(0, seed), (0, seed), (0, seed)]] }];
        let worker =
            Worker { options: RunOptions::default(), store: &store, jobs: 1, progress: &Silent, stop: &stop };
        let worked = worker.work(&parcel, None).unwrap();
        assert_eq!((worked.made, worked.found), (1, 2));
    }
    // The second block's cell would be refused if it were planned.
    parcel.cells[1].load = "another".to_owned();
    let stopped = AtomicBool::new(true);
    for together in [false, true] {
        parcel.tasks = vec![Task { together, blocks: vec![vec![(0, 20)], vec![(1, 21)]] }];
        let worker = Worker {
            options: RunOptions::default(),
            store: &store,
            jobs: 1,
            progress: &Silent,
            stop: &stopped,
        };
        let worked = worker.work(&parcel, None).unwrap();
        assert_eq!((worked.made, worked.interrupted), (0, true));
    }
}
