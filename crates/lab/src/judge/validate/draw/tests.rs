//! Drawn cases: equal for equal seeds, and each one fit for both sides.

use super::*;
use crate::ask::cell::Cell;
use crate::judge::validate::case::{Real, usual};
use crate::make::exec::{Backends, Executor};
use proptest::prelude::*;
use schedlab_guest::{Mode, shape};
use schedlab_kernel::{Kernel, Toggle, Variant, effect};
use schedlab_machine::Machine;
use schedlab_workload::BENCHMARKS;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The case's simulated cell, on the machine that its guest would have.
fn cell(case: &Case) -> Cell {
    let machine = Arc::new(shape::as_built(&Machine::load(&case.machine).unwrap()).unwrap());
    let spec = case.workload(machine.topology.nr_cpus() as u64).unwrap();
    let variant = case.variant_simulated(&case.simulated, |_| {});
    Cell::simulated(&machine, variant, spec, "default".to_owned()).unwrap()
}

#[test]
fn a_longer_list_begins_with_the_shorter_one_and_another_seed_draws_others() {
    let ten = draw(1, 10);
    assert_eq!(draw(1, 4), ten[..4]);
    assert_eq!(draw(1, 10), ten);
    let body = |d: &Drawn| d.text.split_once("backend").unwrap().1.to_owned();
    let same = ten.iter().zip(draw(2, 10)).filter(|(a, b)| body(a) == body(b));
    assert_eq!(same.count(), 0);
}

#[test]
fn schedulers_have_the_cases_in_turn_and_the_cases_do_not_depend_on_them() {
    let two = ["/a/scx_one -s 5".to_owned(), "scx_two".to_owned()];
    let under = draw_under(1, 40, &two);
    assert_eq!(draw_under(1, 3, &two), under[..3]);
    let cases: Vec<Case> = under.iter().map(|d| d.case().unwrap()).collect();
    assert!(
        cases[0].name.ends_with("-scx_one--s-5") && cases[1].name.ends_with("-scx_two"),
        "{}",
        cases[0].name
    );
    assert!(cases.iter().all(|c| !c.about.contains("/a/")), "where a program lies is not said");
    let scx: Vec<&str> = cases.iter().map(|c| c.scx.as_ref().unwrap().command.as_str()).collect();
    assert_eq!(scx[..3], [&*two[0], &*two[1], &*two[0]]);
    let machines = cases.iter().map(|c| (c.simulated.as_str(), Machine::load(&c.machine).unwrap()));
    let cpus: BTreeSet<(&str, usize)> = machines.map(|(kernel, m)| (kernel, m.topology.nr_cpus())).collect();
    assert!(cpus.iter().all(|(kernel, cpus)| *kernel == "v7.3" && (2..=8).contains(cpus)), "{cpus:?}");
    let alone = draw_under(1, 2, &two[..1]);
    let body =
        |d: &Drawn| d.text.replace("scx_two", "/a/scx_one -s 5").split_once("backend").unwrap().1.to_owned();
    assert_eq!(body(&alone[1]), body(&under[1]));
}

#[test]
fn a_hundred_cases_have_every_workload_kernel_and_kind_of_machine() {
    let cases: Vec<Case> = draw(1, 100).iter().map(|d| d.case().unwrap()).collect();
    for program in PROGRAMS {
        assert!(cases.iter().any(|c| c.name.ends_with(&format!("-{}", program.name))), "{}", program.name);
    }
    let machines: Vec<Machine> = cases.iter().map(|c| Machine::load(&c.machine).unwrap()).collect();
    let of = |unit: fn(&Machine) -> usize| machines.iter().map(unit).collect::<BTreeSet<usize>>();
    let llcs = |m: &Machine| m.topology.cpus.iter().map(|c| c.llc).max().unwrap() as usize + 1;
    assert_eq!(of(|m| m.topology.node_distance.len()), [1, 2, 4].into());
    assert!(of(llcs).len() >= 6 && of(|m| m.topology.nr_cpus()).last() == Some(&16));
    let threads = |m: &Machine| m.topology.cpus.iter().map(|c| c.thread).max().unwrap() as usize;
    assert_eq!(of(threads), [0, 1].into());
    assert_eq!(cases.iter().map(|c| c.simulated.as_str()).collect::<BTreeSet<_>>(), ["v6.1", "v7.3"].into());
    assert!(cases.iter().any(|c| c.features.len() == 2) && cases.iter().any(|c| c.features.is_empty()));
}

#[test]
fn every_benchmark_is_drawn_or_listed() {
    for bench in BENCHMARKS.iter().filter(|b| b.name != HOGS && !LATER.contains(&b.name)) {
        assert!(PROGRAMS.iter().any(|p| p.name == bench.name), "{} is never drawn", bench.name);
    }
}

#[test]
fn every_toggle_is_against_the_default_and_acts() {
    for row in kernel::KERNELS {
        let plain = Kernel::profile(row.simulated).unwrap();
        for text in row.toggles {
            let toggle = Toggle::parse(text).unwrap();
            let variant = Variant { features: vec![(*text).to_owned()], ..Variant::plain(row.simulated) };
            let switched = variant.resolve().unwrap();
            assert_ne!(plain.features, switched.features, "{text} is {}'s default", row.simulated);
            let on = if text.starts_with("NO_") { &plain } else { &switched };
            assert_eq!(effect::idle_because(toggle.feature, on), None, "{text} under {}", row.simulated);
        }
    }
}

#[test]
fn simulated_cases_end_and_find_something_to_measure() {
    for drawn in draw(3, 8) {
        let case = drawn.case().unwrap();
        let made = Backends::default().run(&cell(&case), case.seed, &Default::default()).unwrap().unwrap();
        assert!(made.record.found.counters["switches.voluntary"] > 0, "{}", drawn.text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Every drawn case parses, resolves, can be a guest, and has the tolerances of the shipped cases.
    #[test]
    fn every_case_is_accepted_by_both_sides(seed in any::<u64>(), number in 1u64..=MAX_DRAWN) {
        let drawn = draw_case(seed, number);
        prop_assert_eq!(&drawn, &draw_case(seed, number));
        let case = drawn.case().unwrap_or_else(|e| panic!("{e}\n{}", drawn.text));
        prop_assert_eq!(&case.name, &drawn.name);
        prop_assert_eq!(case.real, Real::Vm(Mode::Deterministic));
        prop_assert_eq!(&case.tolerance, &usual(case.real));
        prop_assert!(case.control.is_none() && case.about.len() < 600);
        let cell = cell(&case);
        prop_assert!((2..=16).contains(&cell.machine.topology.nr_cpus()));
        prop_assert!(!cell.spec.build(1).unwrap().tasks.is_empty());
        prop_assert!(cell.machine.turns.is_some());
    }
}
