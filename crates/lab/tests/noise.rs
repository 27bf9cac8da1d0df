//! Noise floors in comparisons: the verdicts that they change, and the note about it.

use crate::common::record;
use schedlab_compare::noise::{self, Floor, Floors};
use schedlab_compare::stats::Verdict;
use schedlab_compare::{Comparison, Question, compare};
use schedlab_kernel::{Variant, variant::RUNNING};
use schedlab_lab::judge::noise_floor;
use schedlab_lab::{Backend, Cell};
use schedlab_machine::Machine;
use schedlab_record::{MODEL, Record, WATCHING};
use schedlab_workload::{Params, Spec};
use std::sync::Arc;

const METRIC: &str = "schbench.latency.p50";

/// Ten runs of two variants of the live kernel whose latencies differ by a percent or two.
fn live() -> Vec<Record> {
    let machine = Arc::new(Machine::load("host").unwrap());
    let spec = Spec::bench("schbench", &Params::default()).unwrap();
    let cell = |name: &str| {
        let variant = Variant { name: name.to_owned(), ..Variant::plain(RUNNING) };
        Cell::live(&machine, variant, spec.clone(), "2x16".to_owned())
    };
    let cells = [cell("A"), cell("other")];
    cells.iter().flat_map(|c| (1..=10).map(move |seed| record(c, seed).unwrap())).collect()
}

fn compared(records: &[Record], floors: Floors, min_effect_pct: f64) -> Comparison {
    let question = Question { metrics: vec![METRIC.to_owned()], min_effect_pct, ..Question::default() };
    compare(records, &question.with_floors(floors), &[]).unwrap()
}

fn floors(host: String, floor_pct: f64) -> Floors {
    let text = |t: &str| t.to_owned();
    let floor = Floor {
        host,
        workload: text("schbench"),
        load: text("A/A"),
        metric: text(METRIC),
        floor_pct,
        half_width_pct: floor_pct,
        change_pct: 0.0,
        runs: 8,
        at: text("2026-11-22 06:10"),
        watching: WATCHING,
    };
    let mut all = Floors::default();
    all.renew(vec![floor]);
    all
}

#[test]
fn a_floor_raises_the_smallest_change_and_is_reported() {
    let records = live();
    let host = noise::host_of(&records[0]);
    let tight = compared(&records, Floors::default(), 0.01);
    assert_ne!(tight.comparisons[0].verdict, Verdict::Same, "the two do differ");
    assert_eq!(tight.comparisons[0].min_effect_pct, None);
    let floored = compared(&records, floors(host.clone(), 25.0), 0.01);
    assert_eq!(floored.comparisons[0].verdict, Verdict::Unclear, "a floor never widens what is the same");
    assert_eq!(floored.comparisons[0].min_effect_pct, Some(25.0));
    let told = floored.warnings.iter().find(|w| w.warning.code == "noise.floor").unwrap();
    assert!(told.warning.message.contains("schbench schbench.latency.p50 25.0%"), "{told:?}");
    let low = compared(&records, floors(host, 1.0), 2.0);
    assert_eq!(low.comparisons[0].min_effect_pct, None, "a floor below what was asked for changes nothing");
    assert!(low.warnings.iter().all(|w| w.warning.code != "noise.floor"));
}

#[test]
fn floors_are_of_one_host_and_never_of_a_simulation() {
    let mut records = live();
    let host = noise::host_of(&records[0]);
    let other = compared(&records, floors("64 x other CPUs, 6.1".to_owned(), 25.0), 0.01);
    assert_eq!(other.comparisons[0].min_effect_pct, None);
    records.iter_mut().for_each(|r| r.backend = Backend::Sim.into());
    assert_eq!(compared(&records, floors(host, 25.0), 0.01).comparisons[0].min_effect_pct, None);
}

#[test]
fn the_floor_is_the_far_end_of_the_interval() {
    let mut records = live();
    for (i, r) in records.iter_mut().enumerate() {
        r.variant.name = if i < 10 { "A" } else { "B" }.to_owned();
    }
    let all = noise_floor::floors(&records, "2026-11-22 06:10").unwrap();
    let own = all.iter().find(|f| f.metric == METRIC).unwrap();
    let question = Question { metrics: vec![METRIC.to_owned()], ..Question::default() };
    let row = &compare(&records, &question, &[]).unwrap().comparisons[0];
    let [low, high] = row.ci95_pct.unwrap();
    assert_eq!(own.floor_pct, low.abs().max(high.abs()));
    assert!(own.floor_pct >= own.change_pct && own.floor_pct >= own.half_width_pct && own.runs == 10);
    assert!(all.iter().all(|f| f.metric != "wakeup_delay.p50"), "what was not measured has no floor");
    assert!(noise_floor::floors(&[], "").is_err());
}

#[test]
fn runs_of_another_version_are_reported_by_their_kind() {
    let told = |records: &[Record]| {
        let compared = compared(records, Floors::default(), 2.0);
        let of = compared.warnings.into_iter().filter(|w| w.warning.code == "compare.model");
        (of.map(|w| (w.runs, w.warning.message)).collect::<Vec<_>>(), compared.model)
    };
    let mut records = live();
    assert_eq!(told(&records), (Vec::new(), MODEL), "the version of real kernels' runs is not the model's");
    records[3].model += 1;
    let (warnings, _) = told(&records);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].0 == 1 && warnings[0].1.contains(&format!("this is {WATCHING}")), "{warnings:?}");
    records[4].backend = Backend::Sim.into();
    records[4].model = MODEL + 2;
    let (warnings, model) = told(&records);
    assert!(warnings[0].1.contains("model") && warnings[1].1.contains("watched"), "{warnings:?}");
    assert_eq!(model, MODEL + 2);
}
