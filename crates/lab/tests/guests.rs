//! Plans of kernels in guests: variants and images, their simulated twins, files kept with a run.

use crate::common::{Mock, SMALL, experiment};
use schedlab_base::Version;
use schedlab_guest::{Accelerator, Image, Mode, Qemu};
use schedlab_lab::{Backend, Experiment, Guests, Options, Plan, Session, plan_in_guests};
use schedlab_record::Store;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The header of a bzImage, without a kernel to boot.
fn write_image(path: &Path, release: &str) {
    let mut bytes = vec![0u8; 0x2000];
    bytes[0x1f1] = 0x0f; // setup sectors
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x206..0x208].copy_from_slice(&[0x0f, 0x02]); // boot protocol 2.15
    bytes[0x20e..0x210].copy_from_slice(&[0x00, 0x10]); // the banner's place, less 0x200
    bytes[0x211] = 1; // loaded high
    bytes[0x234] = 1; // relocatable
    bytes[0x236] = 0x7f; // entered in 64-bit mode, among others
    let banner = format!("{release} (k@x) #1 SMP\0");
    bytes[0x1200..0x1200 + banner.len()].copy_from_slice(banner.as_bytes());
    std::fs::write(path, bytes).unwrap();
}

fn guests(mode: Mode, images: &[(&str, &str)]) -> Guests {
    let dir = tempfile::tempdir().unwrap();
    let image = |(word, release): &(&str, &str)| {
        let path = dir.path().join(word);
        write_image(&path, release);
        ((*word).to_owned(), Image::open(&path).unwrap())
    };
    let version = Version::new(10, 0);
    let (libraries, data) = (Vec::new(), Vec::new());
    Guests {
        built: std::collections::BTreeMap::new(),
        qemu: Qemu { program: "qemu".into(), version, libraries, modules: None, data },
        mode,
        accelerator: Accelerator::Tcg,
        memory_mb: 512,
        boot_options: vec!["nosmt".into()],
        images: images.iter().map(image).collect(),
    }
}

const BOTH: [(&str, &str); 2] = [("6.1", "6.1.0-56-cloud-amd64"), ("7.3", "7.3.4+deb13-cloud-amd64")];

/// The two loads of [`SMALL`], with a part for guests.
fn with_vm(rest: &str) -> Experiment {
    let part = "[vm]\nmachines = [\"smt-4\"]\nleft_out = \"first-idle is of 4.5\"\n";
    experiment(&format!("{SMALL}\n{part}{rest}"))
}

const VARIANTS: &str = "[[vm.variant]]\nname = \"cfs\"\nkernel = \"6.1\"\n\
                        [[vm.variant]]\nname = \"no-util\"\nkernel = \"6.1\"\nfeatures = [\"NO_SIS_UTIL\"]\n\
                        [[vm.variant]]\nname = \"eevdf\"\nkernel = \"7.3\"\n";

fn planned(e: Experiment, guests: &Guests) -> Plan {
    plan_in_guests(&e.in_guests(), guests, Options { runs: Some(2), ..Options::default() }).unwrap()
}

fn words(plan: &Plan) -> Vec<String> {
    let word = |c: &schedlab_lab::Cell| {
        format!("{} {} {} {} {}", c.backend.name(), c.machine.name, c.load, c.variant.name, c.kernel)
    };
    plan.cells.iter().map(word).collect()
}

#[test]
fn each_load_is_run_in_guests_and_simulated() {
    let p = planned(with_vm(VARIANTS), &guests(Mode::Deterministic, &BOTH));
    assert_eq!(
        words(&p)[..6],
        [
            "vm smt-4 1x2 cfs 6.1.0-56-cloud-amd64",
            "vm smt-4 1x2 no-util 6.1.0-56-cloud-amd64",
            "vm smt-4 1x2 eevdf 7.3.4+deb13-cloud-amd64",
            "sim smt-4 1x2 cfs v6.1",
            "sim smt-4 1x2 no-util v6.1",
            "sim smt-4 1x2 eevdf v7.3",
        ]
    );
    assert_eq!((p.cells.len(), p.runs.len()), (12, 24));
    assert!(
        p.warnings.iter().any(|w| w.code == "vm.left_out" && w.message.contains("4.5")),
        "{:?}",
        p.warnings
    );
    let guest = p.cells[0].guest.as_ref().unwrap();
    assert_eq!(
        (guest.memory_mb, guest.setup(&p.cells[0].machine).boot_options),
        (512, vec!["nosmt".to_owned()])
    );
}

#[test]
fn an_image_without_a_variant_runs_as_it_is_and_without_a_profile_alone() {
    let given = guests(Mode::Deterministic, &[("mine", "6.8.1-mine")]);
    let p = planned(with_vm(VARIANTS), &given);
    assert_eq!(words(&p), ["vm smt-4 1x2 mine 6.8.1-mine", "vm smt-4 1x4 mine 6.8.1-mine"]);
    assert!(
        p.warnings.iter().any(|w| w.code == "vm.twins" && w.message.contains("v6.8")),
        "{:?}",
        p.warnings
    );
}

#[test]
fn the_mode_and_the_image_are_part_of_a_cell() {
    let hash = |mode, images: &[(&str, &str)]| {
        planned(with_vm(VARIANTS), &guests(mode, images)).cells[0].hash().unwrap()
    };
    let usual = hash(Mode::Deterministic, &BOTH);
    assert_eq!(usual, hash(Mode::Deterministic, &BOTH));
    assert_ne!(usual, hash(Mode::RealTime, &BOTH));
    assert_ne!(usual, hash(Mode::Deterministic, &[("6.1", "6.1.0-57-cloud-amd64"), BOTH[1]]));
}

#[test]
fn a_guests_cell_has_a_simulation() {
    let p = planned(with_vm(VARIANTS), &guests(Mode::Deterministic, &BOTH));
    let twin = schedlab_lab::ask::guests::twin(&p.cells[1]).unwrap();
    // As in the plan of an experiment, except for the name, which is the experiment's own.
    assert_eq!(
        (twin.backend, &twin.machine, &twin.kernel),
        (Backend::Sim, &p.cells[4].machine, &p.cells[4].kernel)
    );
    assert_eq!((&twin.resolved, &twin.load), (&p.cells[4].resolved, &p.cells[4].load));
    assert!(twin.machine.turns.is_some(), "its CPUs take turns as the guest's do");
    let alone = planned(with_vm(VARIANTS), &guests(Mode::Deterministic, &[("mine", "6.8.1-mine")]));
    let none = schedlab_lab::ask::guests::twin(&alone.cells[0]).unwrap_err().to_string();
    assert!(none.contains("no simulated kernel"), "{none}");
}

#[test]
fn without_a_vm_part_the_experiment_itself_is_run() {
    let text = SMALL.replace("kernel = \"v4.5\"", "kernel = \"6.1\"");
    let p = planned(experiment(&text), &guests(Mode::RealTime, &BOTH[..1]));
    assert_eq!(p.cells.iter().filter(|c| c.backend == Backend::Vm).count(), 4);
}

#[test]
fn the_kernels_log_is_kept_with_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    let p = planned(with_vm(VARIANTS), &guests(Mode::Deterministic, &BOTH));
    let stop = AtomicBool::new(false);
    let (executor, attach) = (Mock::default(), &[("experiment.toml", &b"x"[..])]);
    let session = Session { store: Some(&store), attach, jobs: 2, ..Session::of(&executor, &stop) };
    let done = session.work(&p).unwrap();
    assert_eq!(done.records.iter().filter(|r| r.guest.is_some()).count(), 12);
    let kept = store.get(&p.cells[0].hash().unwrap(), 2).unwrap();
    assert_eq!(std::fs::read_to_string(kept.path.join("kernel.log")).unwrap(), "seed 2");
    let simulated = store.get(&p.cells[3].hash().unwrap(), 1).unwrap();
    assert!(!simulated.path.join("kernel.log").exists() && simulated.path.join("experiment.toml").exists());
    let question = schedlab_compare::Question { baseline: Some("cfs".into()), ..Default::default() };
    let compared = schedlab_compare::compare(&done.records, &question, &[]).unwrap();
    let modes: Vec<String> = compared.cells.iter().map(|c| c.how()).collect();
    assert_eq!((modes[0].as_str(), modes[3].as_str()), ("in deterministic guests", "simulated"));
    assert!(compared.comparisons.iter().all(|r| r.baseline == "cfs"), "each backend has its own baseline");
}

#[test]
fn errors_name_the_fault() {
    let text = format!("{SMALL}\n[vm]\nmachines = [\"smt-4\"]\nkernels = [\"6.1\"]\n");
    let wrong = schedlab_lab::ask::experiment::parse(Path::new("test.toml"), &text, 4).unwrap_err();
    assert!(wrong.to_string().contains("kernels"), "{wrong}");
    let command = "name = \"c\"\nmachines = [\"smp-2\"]\n[workload.command]\nrun = \"true\"\n[[variant]]\nkernel = \"6.1\"\n";
    let all = guests(Mode::RealTime, &BOTH[..1]);
    let p = plan_in_guests(&experiment(command), &all, Options::default()).unwrap();
    assert!(p.cells.iter().all(|c| c.backend == Backend::Vm), "commands are not simulated");
    let large = experiment(&SMALL.replace("smp-4", "smp-128").replace("v4.5", "6.1"));
    let refused = plan_in_guests(&large, &all, Options::default()).unwrap_err().to_string();
    assert!(refused.contains("smp-128"), "{refused}");
}

#[test]
fn an_experiment_of_paths_boots_those_images_and_simulates_their_series_once() {
    let dir = tempfile::tempdir().unwrap();
    for (name, release) in [("a", "6.1.0-mine"), ("b", "6.1.0-patched"), ("c", "6.8.0-other")] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        write_image(&dir.path().join(name).join("bzImage"), release);
    }
    let variant = |name: &str| format!("[[variant]]\nname = \"{name}\"\nkernel = \"{name}/bzImage\"\n");
    let variants: String = ["a", "b", "c"].map(variant).concat();
    let text = format!("name = \"x\"\nmachine = \"smt-4\"\n[workload]\nname = \"pipe\"\n{variants}");
    let read =
        |text: &str| schedlab_lab::ask::experiment::parse(&dir.path().join("e.toml"), text, 4).unwrap();
    let p = planned(read(&text), &guests(Mode::Deterministic, &[]));
    assert_eq!(
        words(&p),
        [
            "vm smt-4 default a 6.1.0-mine",
            "vm smt-4 default b 6.1.0-patched",
            "vm smt-4 default c 6.8.0-other",
            "sim smt-4 default a v6.1",
        ]
    );
    let told: Vec<&str> = p.warnings.iter().map(|w| w.message.as_str()).collect();
    assert!(
        told.iter().any(|t| t.ends_with(": b as a")) && told.iter().any(|t| t.contains("v6.8")),
        "{told:?}"
    );
    // A missing image is an error, even if other variants can run.
    let missing = read(&text.replace("b/bzImage", "d/bzImage"));
    let refused =
        plan_in_guests(&missing, &guests(Mode::RealTime, &[]), Options::default()).unwrap_err().to_string();
    assert!(refused.contains("variant 'b'") && refused.contains("d/bzImage"), "{refused}");
}
