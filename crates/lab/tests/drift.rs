//! Profiles and derived domains compared with the descriptions of two real kernels in guests of 4, 8 and 16
//! CPUs.

use schedlab_kernel::{Feature, Kernel};
use schedlab_lab::judge::drift::{compared, drift};
use schedlab_machine::Machine;
use schedlab_machine::shape::{Numbering, Shape};
use std::collections::BTreeMap;

const SMP4: &str = "smp4";
/// Two packages of two cores of two threads, on one node.
const PACKAGES: &str = "2x2x2";
/// The same with a node for each.
const NODES: &str = "2x2x2-nodes";
/// Two nodes of eight cores.
const SIXTEEN: &str = "2x8-nodes";
const GUESTS: [&str; 4] = [SMP4, PACKAGES, NODES, SIXTEEN];

/// The kernel's description in that guest.
fn account(release: &str, guest: &str) -> BTreeMap<String, String> {
    let path = format!("{}/tests/data/scheduler/{release}-{guest}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    text.lines().filter_map(|l| l.split_once(" = ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// The guest's machine; without an idle driver it has no idle states.
fn machine(guest: &str) -> Machine {
    let two = |cores, threads_per_core, nodes| Shape {
        packages: 2,
        nodes,
        llcs: 2,
        numbering: Numbering::Adjacent,
        remote_distance: 20,
        ..Shape::flat(cores, threads_per_core)
    };
    let shape = match guest {
        SMP4 => Shape::flat(4, 1),
        PACKAGES => two(4, 2, 1),
        NODES => two(4, 2, 2),
        _ => two(16, 1, 2),
    };
    let mut machine = Machine::load("smp-4").expect("a preset");
    machine.topology = shape.topology().expect("a regular machine");
    machine.idle_states.clear();
    machine
}

fn told(profile: &str, machine: &Machine, account: &BTreeMap<String, String>) -> Vec<String> {
    let kernel = Kernel::profile(profile).expect("a profile");
    drift(&kernel, machine, account).into_iter().map(|d| d.text).collect()
}

#[test]
fn profiles_equal_the_kernels_that_they_stand_for() {
    for (profile, release) in [("v6.1", "6.1.192"), ("v7.3", "7.3.4")] {
        for guest in GUESTS {
            let account = account(release, guest);
            assert!(compared(&account));
            assert_eq!(told(profile, &machine(guest), &account), [""; 0], "{release} on {guest}");
        }
    }
}

#[test]
fn differences_of_another_profile_are_described() {
    let text = told("v6.5", &machine(PACKAGES), &account("6.1.192", PACKAGES));
    assert_eq!(
        text,
        ["kernel has RT_PUSH_IPI off, profile v6.5 on", "kernel has NI_RANDOM, profile v6.5 not"]
    );
    let text = told("v6.18", &machine(PACKAGES), &account("7.3.4", PACKAGES));
    assert_eq!(
        text,
        [
            "kernel has HRTICK, profile v6.18 not",
            "kernel has RT_PUSH_IPI off, profile v6.18 on",
            "kernel has NI_RATE, profile v6.18 not",
            "kernel has preemption model lazy, profile v6.18 voluntary",
        ]
    );
    let text = told("v4.5", &machine(NODES), &account("6.1.192", NODES));
    assert!(text.contains(&"kernel has WA_IDLE, profile v4.5 not".to_owned()), "{text:?}");
    assert!(
        text.contains(&"profile v4.5 has LB_BIAS, which the kernel does not know".to_owned()),
        "{text:?}"
    );
    assert!(text.contains(&"kernel has NUMA imbalance_pct 117, profile v4.5 125".to_owned()), "{text:?}");
}

#[test]
fn differing_settings_and_machines_are_reported() {
    let real = account("6.1.192", SMP4);
    let mut kernel = Kernel::profile("v6.1").unwrap();
    kernel.features.switch(Feature::SisUtil, false);
    kernel.tunables.migration_cost_ns = 1_000;
    let mut desktop = machine(SMP4);
    desktop.idle_states = Machine::load("smp-4").unwrap().idle_states;
    let told: Vec<String> = drift(&kernel, &desktop, &real).into_iter().map(|d| d.text).collect();
    assert_eq!(
        told,
        [
            "kernel has SIS_UTIL, profile v6.1 not",
            "kernel has migration_cost_ns 500000, profile v6.1 1000",
            "kernel has no idle driver, machine smp-4 has 3 idle states",
        ]
    );
    let wrong = drift(&Kernel::profile("v6.1").unwrap(), &machine(PACKAGES), &real);
    let domains: Vec<&str> = wrong.iter().map(|d| d.key.as_str()).filter(|k| k.contains("domains")).collect();
    assert_eq!(domains, ["sched.domains.cpu0"], "{wrong:?}");
    assert!(
        wrong.iter().any(|d| d.text == "kernel has domains of cpu0: MC, profile v6.1 SMT MC DIE"),
        "{wrong:?}"
    );
}

#[test]
fn without_a_description_nothing_is_reported() {
    let nothing = BTreeMap::new();
    assert!(!compared(&nothing) && told("v4.5", &machine(SMP4), &nothing).is_empty());
    let mut unknown = account("7.3.4", SMP4);
    unknown.entry("sched.features".into()).and_modify(|f| f.push_str(" SCHED_MAGIC NO_OTHER_MAGIC"));
    assert_eq!(told("v7.3", &machine(SMP4), &unknown), ["kernel has SCHED_MAGIC, which is not modelled"]);
}
