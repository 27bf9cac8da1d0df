//! Sittings: which runs share a boot, in which order, and what is found again.

mod common;

use common::{SMALL, experiment, record};
use schedlab_base::{Error, Result, Version};
use schedlab_guest::{Accelerator, Image, Mode, Qemu};
use schedlab_lab::exec::{Done, Progress, seated};
use schedlab_lab::plan::order;
use schedlab_lab::{Cell, Engine, Executor, Made, Plan, Session, Silent};
use schedlab_record::Store;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Writes down each sitting; refuses single runs in guests, and sittings of the variant `broken`.
#[derive(Default)]
struct Boots {
    sittings: Mutex<Vec<Vec<String>>>,
    broken: &'static str,
}

/// Writes down the runs that failed.
#[derive(Default)]
struct Failures(Mutex<Vec<String>>);

impl Progress for Failures {
    fn start(&self, _: usize) {}
    fn done(&self, cell: &Cell, seed: u64, how: Done<'_>) {
        if let Done::Failed(e) = how {
            self.0.lock().unwrap().push(format!("{} {} {seed}: {e}", cell.variant.name, cell.load));
        }
    }
}

impl Executor for Boots {
    fn run(&self, cell: &Cell, seed: u64, _: &AtomicBool) -> Result<Option<Made>> {
        if cell.guest.is_some() {
            return Err(Error::internal("a run of a sitting has no boot of its own"));
        }
        Ok(Some(record(cell, seed)?.into()))
    }
    fn sit(&self, runs: &[(&Cell, u64)], _: &AtomicBool) -> Result<Option<Vec<Made>>> {
        let word = |(cell, seed): &(&Cell, u64)| format!("{} {} {seed}", cell.variant.name, cell.load);
        self.sittings.lock().unwrap().push(runs.iter().map(word).collect());
        if runs[0].0.variant.name == self.broken {
            return Err(Error::machine(format!("it broke at {}", word(&runs[0]))));
        }
        runs.iter().map(|(cell, seed)| Ok(Some(record(cell, *seed)?.into()))).collect()
    }
    fn parallel(&self, _: &Cell) -> bool {
        true
    }
}

/// The two loads of [`SMALL`] under its two variants, in guests and simulated, with four runs each.
fn plan() -> Plan {
    let e = experiment(SMALL);
    let simulated = schedlab_lab::plan(&e, schedlab_lab::Backend::Sim, Default::default()).unwrap();
    let in_guest = |cell: &Cell| {
        let image = Image {
            path: "k".into(),
            release: "6.1.0".into(),
            version: Version::new(6, 1),
            hash: "h".into(),
        };
        let version = Version::new(10, 0);
        let qemu =
            Qemu { program: "qemu".into(), version, libraries: Vec::new(), modules: None, data: Vec::new() };
        let (mode, accelerator) = (Mode::Deterministic, Accelerator::Tcg);
        let guest = schedlab_guest::Guest {
            image,
            qemu,
            mode,
            accelerator,
            memory_mb: 512,
            boot_options: Vec::new(),
            sitting: None,
        };
        Cell::in_guest(&cell.machine, guest, cell.variant.clone(), cell.spec.clone(), cell.load.clone())
            .unwrap()
    };
    let mut cells: Vec<Cell> = simulated.cells.iter().map(in_guest).collect();
    cells.push(simulated.cells[0].clone());
    Plan { runs: order(cells.len(), 4, 1).unwrap(), cells, warnings: Vec::new() }
}

fn work(plan: &Plan, boots: &Boots, store: Option<&Store>) -> schedlab_lab::Finished {
    let stop = AtomicBool::new(false);
    let session = Session {
        executor: boots,
        store,
        attach: &[],
        jobs: 1,
        progress: &Silent,
        stop: &stop,
        engine: Engine::Here,
        outlines: false,
    };
    session.work_seated(plan, 2).unwrap()
}

#[test]
fn a_boot_makes_all_loads_of_a_variant_for_a_block_of_seeds_in_one_order() {
    let plan = seated(plan(), 2).unwrap();
    let boots = Boots::default();
    let finished = work(&plan, &boots, None);
    assert_eq!((finished.records.len(), finished.interrupted), (20, false));
    let boots = boots.sittings.into_inner().unwrap();
    assert_eq!(boots.len(), 4, "two variants, two blocks");
    assert_eq!(boots[0], ["fast 1x2 1", "fast 1x4 1", "fast 1x2 2", "fast 1x4 2"]);
    let same_order =
        |boot: &Vec<String>| boot.iter().map(|w| w.split(' ').nth(1).unwrap().to_owned()).collect::<Vec<_>>();
    assert!(boots.iter().all(|b| same_order(b) == same_order(&boots[0])));
    let plan_order: Vec<u64> = plan.runs.iter().map(|r| r.seed).collect();
    assert_eq!(finished.records.iter().map(|r| r.seed).collect::<Vec<_>>(), plan_order);
}

#[test]
fn the_first_failure_in_the_plan_s_order_is_told_whatever_the_jobs() {
    let plan = seated(plan(), 2).unwrap();
    let stop = AtomicBool::new(false);
    for jobs in [1, 3] {
        let (boots, failures) = (Boots { broken: "slow", ..Boots::default() }, Failures::default());
        let (store, progress) = (None, &failures);
        let session = Session {
            executor: &boots,
            store,
            attach: &[],
            engine: Engine::Here,
            outlines: false,
            jobs,
            progress,
            stop: &stop,
        };
        let e = session.work_seated(&plan, 2).unwrap_err().to_string();
        assert!(e.contains("it broke at slow 1x2 1"), "{e}");
        let told = failures.0.into_inner().unwrap();
        assert!(told.iter().any(|t| t.starts_with("slow 1x") && t.contains("it broke")), "{told:?}");
    }
}

#[test]
fn a_sitting_is_found_whole_or_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    let plan = seated(plan(), 2).unwrap();
    assert_eq!(work(&plan, &Boots::default(), Some(&store)).found, 0);
    let boots = Boots::default();
    assert_eq!(work(&plan, &boots, Some(&store)).found, 20);
    assert!(boots.sittings.into_inner().unwrap().is_empty());
    let lost = store.get(&plan.cells[0].hash().unwrap(), 3).unwrap();
    std::fs::remove_dir_all(lost.path).unwrap();
    let boots = Boots::default();
    assert_eq!(work(&plan, &boots, Some(&store)).found, 16);
    assert_eq!(boots.sittings.into_inner().unwrap().len(), 1, "only the sitting that lacks a run");
}

#[test]
fn cells_of_sittings_are_others_than_those_with_boots_of_their_own() {
    let (alone, two) = (plan(), seated(plan(), 2).unwrap());
    let four = seated(plan(), 4).unwrap();
    let hash = |p: &Plan, at: usize| p.cells[at].hash().unwrap();
    assert_ne!(hash(&alone, 0), hash(&two, 0));
    assert_ne!(hash(&two, 0), hash(&four, 0), "another block is another history");
    assert_eq!(hash(&alone, 4), hash(&two, 4), "simulations have no boots");
}
