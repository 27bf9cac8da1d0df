//! The cases that ship with schedlab, compiled in like the studies.

use schedlab_base::{Error, Result};
use schedlab_lab::judge::validate::case::{self, Case};
use schedlab_lab::judge::validate::changes::{self, ChangeCase};
use schedlab_lab::judge::validate::limits::{self, LimitCase};
use std::path::Path;

macro_rules! case_files {
    ($($name:literal)*) => {
        /// Name and text of every case, in the order in which they are run.
        const CASES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../cases/", $name, ".toml"))),)*];
    };
}

case_files! {
    "host-schbench" "host-slice" "host-hackbench" "host-pipe" "host-nanosleep"
    "cfs-4-slice" "cfs-4-pipe" "cfs-4-nanosleep"
    "cfs-8-schbench" "cfs-8-schbench-no-sis-util" "cfs-8-hackbench" "cfs-8-hackbench-long"
    "cfs-8-slice-no-gentle" "cfs-8-slice-no-preempt"
    "cfs-16-slice" "cfs-16-schbench"
    "eevdf-4-slice" "eevdf-4-hackbench" "eevdf-4-hackbench-long"
    "eevdf-8-schbench" "eevdf-8-mix" "eevdf-8-nanosleep" "eevdf-8-slice-no-parity"
    "eevdf-16-slice"
    "cfs-2x2x2-slice" "cfs-2x2x2-smt-schbench" "cfs-4x1x2-mix" "cfs-1x3x2-smt-nanosleep"
    "cfs-2x1x2-smt-hackbench" "cfs-2x1x4-embedded-db"
    "eevdf-2x1x2-smt-schbench" "eevdf-2x2x2-nanosleep" "eevdf-4x1x2-slice-nice"
    "eevdf-1x3x2-smt-mix" "eevdf-1x4x2-schbench-modern"
    "control-host-slices" "control-cfs-8-slices" "control-eevdf-4-machine"
}

macro_rules! change_files {
    ($($name:literal)*) => {
        /// Name and text of every case of a switched mechanism.
        const CHANGES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../cases/changes/", $name, ".toml"))),)*];
    };
}

change_files! { "first-idle" "newidle" "idle-cfs-rq" "migration-cost" "fair-sleepers" }

macro_rules! limit_files {
    ($($name:literal)*) => {
        /// Name and text of every case of limits.
        const LIMITS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../cases/limits/", $name, ".toml"))),)*];
    };
}

limit_files! { "http" "oltp" "pool" "rtapp-553" "rtapp-1211" "rtapp-1304" }

/// All cases of limits that ship; `host_cpus` as in [`changes`].
pub fn limits(host_cpus: u64) -> Result<Vec<LimitCase>> {
    let read = |(name, text): &(&str, &str)| {
        limits::parse(Path::new(&format!("cases/limits/{name}.toml")), text, host_cpus)
    };
    LIMITS.iter().map(read).collect()
}

/// All cases of switched mechanisms that ship; `host_cpus` is the number of this host's CPUs.
pub fn changes(host_cpus: u64) -> Result<Vec<ChangeCase>> {
    let read = |(name, text): &(&str, &str)| {
        changes::parse(Path::new(&format!("cases/changes/{name}.toml")), text, host_cpus)
    };
    CHANGES.iter().map(read).collect()
}

/// All cases that ship.
pub fn all() -> Result<Vec<Case>> {
    CASES.iter().map(|(name, text)| case::parse(Path::new(&format!("cases/{name}.toml")), text)).collect()
}

/// The cases with these names; all cases if `names` is empty. `name_of` gives a case's name.
///
/// # Errors
/// When no case has a name; the error offers the nearest.
pub fn named<C>(all: Vec<C>, names: &[String], name_of: impl Fn(&C) -> &String) -> Result<Vec<C>> {
    let known = || all.iter().map(|c| name_of(c).as_str());
    if let Some(strange) = names.iter().find(|n| !known().any(|k| k == *n)) {
        return Err(Error::unknown("case", strange, known()));
    }
    Ok(all.into_iter().filter(|c| names.is_empty() || names.contains(name_of(c))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_lab::ask::cell::Cell;
    use schedlab_lab::ask::guests::twin_machine;
    use schedlab_lab::judge::validate::case::{Real, usual};
    use schedlab_lab::{Backend, Backends, Executor, Options, RunOptions, plan};
    use schedlab_machine::Machine;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    /// The files of a folder of cases.
    fn files_in(folder: &str) -> Vec<std::path::PathBuf> {
        let folder = format!("{}/../../cases/{folder}", env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(folder).unwrap().flatten().map(|e| e.path());
        files.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect()
    }

    #[test]
    fn every_case_is_compiled_in_and_reads_under_its_own_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases");
        let entries = std::fs::read_dir(folder).unwrap().flatten().filter(|e| e.path().is_file());
        let mut files: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        let mut known: Vec<String> = CASES.iter().map(|(n, _)| format!("{n}.toml")).collect();
        files.sort();
        known.sort();
        assert_eq!(known, files);
        for (case, (name, _)) in all().unwrap().iter().zip(CASES) {
            assert_eq!(case.name, *name);
            assert!(!case.about.is_empty(), "{name}");
        }
    }

    /// The simulated cells of every case in `cases/` and the folders in it, with name and seed.
    fn simulated() -> Vec<(String, Cell, u64)> {
        let folders = ["", "drawn", "groups", "rt", "starts"]
            .map(|f| format!("{}/../../cases/{f}", env!("CARGO_MANIFEST_DIR")));
        let files = folders.iter().flat_map(|f| std::fs::read_dir(f).unwrap().flatten().map(|e| e.path()));
        let mut files: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
        files.sort();
        let of_file = |file: std::path::PathBuf| {
            let case = case::parse(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
            let machine = match case.real {
                Real::Host => Machine::load("smp-2").unwrap(),
                Real::Vm(mode) => twin_machine(&Machine::load(&case.machine).unwrap(), mode).unwrap(),
            };
            let spec = case.workload(machine.topology.nr_cpus() as u64).unwrap();
            let variant = case.variant_simulated(&case.simulated, |_| {});
            let cell = Cell::simulated(&Arc::new(machine), variant, spec, "walked".to_owned()).unwrap();
            (case.name, cell, case.seed)
        };
        let of_change = |case: ChangeCase| {
            let planned = plan(&case.experiment, Backend::Sim, Options::default()).unwrap();
            let name = format!("changes/{}", case.experiment.name);
            assert!(!planned.cells.is_empty(), "{name}");
            planned.cells.into_iter().map(move |cell| (name.clone(), cell, case.experiment.seed))
        };
        files.into_iter().map(of_file).chain(changes(2).unwrap().into_iter().flat_map(of_change)).collect()
    }

    /// The simulated side of every shipped case, with all invariants walked after every step. `.ci/run slow` runs it.
    /// `SCHEDLAB_TEST_CASE` names cases, with commas between them, to walk only these.
    #[test]
    #[ignore = "slow: walks all queues after every step of every case"]
    fn slow_every_case_keeps_its_invariants_at_every_step() {
        let mut all = simulated();
        if let Ok(wanted) = std::env::var("SCHEDLAB_TEST_CASE") {
            let wanted: Vec<&str> = wanted.split(',').collect();
            all.retain(|(name, ..)| wanted.contains(&name.as_str()));
            let missing: Vec<_> =
                wanted.iter().filter(|w| !all.iter().any(|(name, ..)| name == *w)).collect();
            assert!(missing.is_empty(), "there is no case {missing:?}");
        }
        let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let walking = Backends::new(RunOptions { walk_every: Some(1), ..RunOptions::default() });
        let walk = || {
            while let Some((name, cell, seed)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                let begun = Instant::now();
                let done = walking.run(cell, *seed, &AtomicBool::new(false));
                println!("{name} {}: {:.1} s", cell.variant.name, begun.elapsed().as_secs_f64());
                if let Err(e) = done {
                    wrong.lock().unwrap().push(format!("{name}: {e}"));
                }
            }
        };
        std::thread::scope(|threads| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                threads.spawn(walk);
            }
        });
        let wrong = wrong.into_inner().unwrap();
        assert!(!all.is_empty() && wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn every_change_is_compiled_in_and_switches_one_image() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/changes");
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let mut files: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        let mut known: Vec<String> = CHANGES.iter().map(|(n, _)| format!("{n}.toml")).collect();
        files.sort();
        known.sort();
        assert_eq!(known, files);
        for (case, (name, _)) in changes(2).unwrap().iter().zip(CHANGES) {
            assert_eq!(case.experiment.name, *name);
            assert!(!case.experiment.about.is_empty(), "{name}");
            // Two images would differ in more than the switch.
            let image = |variant: &str| {
                let v = case.experiment.variants.iter().find(|v| v.name == variant).unwrap();
                (&v.kernel, &v.patch, &v.config)
            };
            assert_eq!(image(&case.from), image(&case.to), "{name}");
        }
    }

    #[test]
    fn drawn_cases_read_and_have_the_usual_tolerances() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/drawn");
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|e| e.path()).collect();
        assert!(files.len() >= 30);
        for file in files {
            let case = case::parse(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
            assert_eq!(Some(case.name.as_str()), file.file_stem().and_then(|s| s.to_str()));
            assert_eq!(case.tolerance, usual(case.real), "{}", case.name);
            assert!(case.control.is_none() && !CASES.iter().any(|(name, _)| case.name == *name));
        }
    }

    #[test]
    fn cases_of_groups_read_and_have_the_usual_tolerances() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/groups");
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|e| e.path()).collect();
        assert!(files.len() >= 11);
        for file in files {
            let case = case::parse(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
            assert_eq!(Some(case.name.as_str()), file.file_stem().and_then(|s| s.to_str()));
            assert_eq!(case.tolerance, usual(case.real), "{}", case.name);
            assert!(case.workload(4).unwrap().has_groups() && case.control.is_none(), "{}", case.name);
        }
    }

    #[test]
    fn cases_of_starts_read_and_have_the_usual_tolerances() {
        let files = files_in("starts");
        assert!(files.len() >= 6);
        for file in files {
            let case = case::parse(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
            assert_eq!(case.tolerance, usual(case.real), "{}", case.name);
            assert!(case.workload(4).is_ok() && case.control.is_none(), "{}", case.name);
        }
    }

    #[test]
    fn cases_of_caches_say_whether_the_kernel_balances_by_them() {
        let files = files_in("caches");
        assert!(files.len() >= 7);
        for file in files {
            let case = case::parse(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
            assert_eq!(Some(case.name.as_str()), file.file_stem().and_then(|s| s.to_str()));
            assert_eq!(case.tolerance, usual(case.real), "{}", case.name);
            let on = u64::from(case.name.ends_with("-on"));
            assert_eq!(case.tunables.get("llc_balancing/enabled"), Some(&on), "{}", case.name);
            let machine = Machine::load(&case.machine).unwrap();
            assert!(machine.topology.cpus.iter().any(|c| c.llc > 0), "{}", case.name);
            let is_thread = !case.workload(4).unwrap().build(1).unwrap().processes;
            assert!(
                is_thread && case.control.is_none(),
                "{}: a process of one thread is left alone",
                case.name
            );
        }
    }

    #[test]
    fn every_case_has_the_usual_tolerance() {
        for case in all().unwrap() {
            assert_eq!(case.tolerance, usual(case.real), "{}", case.name);
        }
    }

    #[test]
    fn at_least_sixteen_cases_besides_controls_cover_both_backends() {
        let all = all().unwrap();
        let on = |host: bool, control: bool| {
            let of = |c: &&Case| (c.real == Real::Host) == host && c.control.is_some() == control;
            all.iter().filter(of).count()
        };
        assert!(on(true, false) >= 5 && on(true, false) + on(false, false) >= 16);
        assert!(on(true, true) >= 1 && on(false, true) >= 2);
    }

    #[test]
    fn a_misspelt_case_is_an_error_that_offers_the_nearest() {
        let e = named(all().unwrap(), &["host-slize".to_owned()], |c| &c.name).unwrap_err();
        assert!(e.to_string().contains("'host-slice'"), "{e}");
    }
}
