//! Costs drawn from their ranges: equal draws for every variant, the costs that matter are found, and runs are not
//! mixed.

use crate::common::{Mock, SMALL, experiment};
use schedlab_compare::comparison::DrawnEffect;
use schedlab_compare::stats::Verdict;
use schedlab_compare::uncertainty::{DEFAULT_DRAWS, of_change, of_value};
use schedlab_compare::{Question, compare};
use schedlab_lab::{Backend, Backends, Executor, Experiment, Options, Plan, RunOptions, Session, plan};
use schedlab_record::{Record, cell_hash};
use std::sync::atomic::AtomicBool;

const SLEEPS: &str = r#"
name = "sleeps"
machines = ["smp-4"]
background = false
metrics = ["nanosleep.overrun.p50", "work"]
[workload]
name = "nanosleep"
runtime = "100ms"
sleep = "2ms"
[[load]]
name = "one"
[[variant]]
kernel = "v4.5"
[[variant]]
name = "first-idle"
kernel = "v4.5"
features = ["SIS_FIRST_IDLE"]
"#;

fn uncertain(text: &str, runs: Option<u64>) -> (Experiment, Plan) {
    let e = experiment(text);
    let p = plan(&e, Backend::Sim, Options { runs, uncertainty: true, ..Options::default() }).unwrap();
    (e, p)
}

fn work(plan: &Plan, executor: &dyn Executor, jobs: usize) -> Vec<Record> {
    let stop = AtomicBool::new(false);
    let session = Session { jobs, ..Session::of(executor, &stop) };
    session.work(plan).unwrap_or_else(|e| panic!("{e}")).records
}

#[test]
fn every_variant_draws_alike_and_apart_from_plain_runs() {
    let (e, p) = uncertain(SMALL, None);
    assert_eq!(p.runs.len() as u64, 4 * DEFAULT_DRAWS, "as many runs as draws, whatever the experiment says");
    let records = work(&p, &Mock::default(), 2);
    for r in &records {
        let twin = records.iter().find(|o| o.seed == r.seed && o.variant != r.variant && o.load == r.load);
        assert_eq!(Some(&r.drawn), twin.map(|t| &t.drawn));
        let cell = p.cells.iter().find(|c| c.variant == r.variant && c.load == r.load).unwrap();
        assert_eq!(cell_hash(r), cell.hash().unwrap(), "a store finds the run again");
    }
    assert_ne!(records[0].drawn, records.last().unwrap().drawn, "each run draws anew");
    let plain = plan(&e, Backend::Sim, Options::default()).unwrap();
    for (drawn, plain) in p.cells.iter().zip(&plain.cells) {
        assert_ne!(drawn.hash().unwrap(), plain.hash().unwrap());
    }
    let mut mixed = work(&plain, &Mock::default(), 1);
    mixed.extend(records);
    let c = compare(&mixed, &Question::default(), &[]).unwrap();
    let runs: Vec<(usize, &str)> = c.cells.iter().map(|c| (c.runs, c.load.as_str())).collect();
    assert_eq!((runs.len(), runs[0]), (8, (10, "1x2")));
    assert!(runs.contains(&(40, "1x2 (costs drawn)")), "{runs:?}");
}

#[test]
fn only_the_simulator_has_costs_to_draw() {
    let options = Options { uncertainty: true, ..Options::default() };
    let e = plan(&experiment(SMALL), Backend::Host, options).unwrap_err();
    assert!(e.to_string().contains("--uncertainty") && e.to_string().contains("--backend sim"), "{e}");
}

/// Records whose migrations depend on one cost only, and whose baseline's do not.
fn made_up() -> (Vec<Record>, Vec<Record>) {
    let (_, p) = uncertain(SMALL, Some(40));
    let mut records = work(&p, &Mock::default(), 1);
    records.retain(|r| r.load == "1x2");
    for r in &mut records {
        let tick = r.drawn.iter().find(|d| d.span.name == "tick_ns").unwrap().value;
        let n = if r.variant.name == "fast" { 10_000_000 / tick } else { 20_000 };
        r.found.counters.insert("migrations".into(), n);
    }
    records.into_iter().partition(|r| r.variant.name == "slow")
}

#[test]
fn the_one_cost_that_matters_is_found_and_no_other() {
    let (base, fast) = made_up();
    let (base, fast): (Vec<&Record>, Vec<&Record>) = (base.iter().collect(), fast.iter().collect());
    let s = of_change(&base, &fast, "migrations", Verdict::Changed, 2.0).unwrap();
    assert_eq!((s.draws, s.agree, s.movers.len()), (40, Some(40), 3));
    assert_eq!((s.movers[0].cost.name.as_str(), s.movers[0].cost.range), ("tick_ns", (1000, 3000)));
    assert!(s.movers[0].rho < -0.999 && s.movers[0].beyond_chance());
    assert!(s.movers[1..].iter().all(|m| !m.beyond_chance()), "{:?}", s.movers);
    let (low, high) = (s.movers[0].low.unwrap(), s.movers[0].high.unwrap());
    assert!((-70.0..-50.0).contains(&low) && (-84.0..-78.0).contains(&high), "{low} {high}");
    let same = of_change(&base, &fast, "migrations", Verdict::Same, 80.0).unwrap();
    assert!((1..40).contains(&same.agree.unwrap()), "{same:?}");
    assert_eq!(of_change(&base, &fast, "migrations", Verdict::Unclear, 2.0).unwrap().agree, None);
    assert_eq!(of_value(&base, "migrations").unwrap().movers, [], "what does not vary follows nothing");
}

#[test]
fn a_few_draws_claim_nothing() {
    let (mut base, mut fast) = made_up();
    base.truncate(5);
    fast.retain(|r| base.iter().any(|b| b.seed == r.seed));
    let s = of_change(
        &base.iter().collect::<Vec<_>>(),
        &fast.iter().collect::<Vec<_>>(),
        "migrations",
        Verdict::Changed,
        2.0,
    );
    let s = s.unwrap();
    assert_eq!(s.draws, 5);
    assert!(s.movers.iter().all(|m| !m.beyond_chance()), "{:?}", s.movers);
}

#[test]
fn simulated_draws_repeat_and_a_sleeper_depends_on_the_deep_idle_exit() {
    let (e, p) = uncertain(SLEEPS, Some(14));
    let sim = Backends::new(RunOptions { check: true, ..RunOptions::default() });
    let records = work(&p, &sim, 2);
    let again = sim.run(&p.cells[0], records[0].seed, &AtomicBool::new(false)).unwrap().unwrap().record;
    assert_eq!(again, records[0]);
    // The drawn machine, taken as stated, gives the same run: a record holds everything to repeat it.
    let mut cell = p.cells[0].clone();
    cell.machine = std::sync::Arc::new(cell.machine.with(&again.drawn).unwrap());
    cell.uncertain.clear();
    let stated = sim.run(&cell, again.seed, &AtomicBool::new(false)).unwrap().unwrap().record;
    assert_eq!((&stated.found.series, &stated.found.counters), (&again.found.series, &again.found.counters));
    let c = compare(&records, &e.question(), &[]).unwrap();
    let p50 = |e: &&DrawnEffect| e.metric == "nanosleep.overrun.p50" && e.baseline.is_none();
    let sway = &c.uncertainty.iter().find(p50).unwrap().sway;
    assert_eq!(sway.movers[0].cost.name, "idle.C6", "{:?}", sway.movers);
    assert!(sway.movers[0].rho > 0.9 && sway.movers[0].beyond_chance());
    assert!(sway.movers[0].low.unwrap() + 10_000.0 < sway.movers[0].high.unwrap());
    let text = serde_json::to_string(&c).unwrap();
    assert_eq!(serde_json::from_str::<schedlab_compare::Comparison>(&text).unwrap(), c);
}
