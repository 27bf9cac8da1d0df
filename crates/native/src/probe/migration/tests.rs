//! Controls on this machine: a move has a cost, no move has none.

use super::curve::measure_curve;
use super::*;
use schedlab_base::testing::skipped;
use schedlab_machine::migration::{Ground, measure};

/// Two CPUs of this machine; `None`, with a message, if there is only one.
fn two() -> Option<(CpuId, CpuId)> {
    let mask = sys::affinity().unwrap();
    let mut cpus = mask.iter();
    let pair = cpus.next().zip(cpus.next());
    if pair.is_none() {
        skipped("two CPUs");
    }
    pair
}

#[test]
fn a_cpu_that_moves_to_itself_pays_nothing() {
    let Some((a, b)) = two() else { return };
    let mut live = Live::new(2 << 20, Pattern::Shuffled).unwrap();
    let passes = Passes { least: 9, most: 9, time_ns: 0 };
    let none = measure_curve(&mut live, Search { largest: 1 << 20 }, &[], (a, a), passes, &mut |_, _| Ok(()))
        .unwrap();
    assert_eq!(none.cost_ns(), 0, "{:?}", none.dearest);
    let one = curve::size(&mut live, 512 << 10, (a, b), Effort::SURE).unwrap();
    let control = curve::size(&mut live, 512 << 10, (b, b), Effort::SURE).unwrap();
    assert!(!control.seen, "{control:?}");
    let noise = control.spread_ns.0.unsigned_abs().max(control.spread_ns.1.unsigned_abs());
    println!("a move {} ns, the control within {noise} ns", one.cost_ns);
}

#[test]
fn the_procedure_of_2005_runs_on_the_live_ground() {
    let Some(pair) = two() else { return };
    let mut live = Live::new(256 << 10, Pattern::Y2005).unwrap();
    assert!(live.go_over(128 << 10, pair.0, pair.1).unwrap() > 0);
    let mut sizes = Vec::new();
    let found = measure(&mut live, Search { largest: 128 << 10 }, pair, &mut |p| sizes.push(p.size)).unwrap();
    assert_eq!((sizes.len(), sizes[0]), (14, 128 << 10));
    assert!(found.curve.iter().all(|p| p.moved_ns > 0 && p.stayed_ns > 0));
}

#[test]
fn samples_come_in_the_order_of_the_rounds() {
    let Some((a, b)) = two() else { return };
    let mut live = Live::new(1 << 20, Pattern::Shuffled).unwrap();
    let rounds = [(a, b), (b, a), (a, a), (b, b), (a, b)];
    let samples = live.rounds(256 << 10, &rounds).unwrap();
    assert_eq!(samples.len(), rounds.len());
    assert!(samples.iter().all(|s| s.source_ns > 0 && s.target_ns > 0), "{samples:?}");
}
