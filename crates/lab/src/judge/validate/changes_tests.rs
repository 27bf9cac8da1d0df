use super::*;
use schedlab_base::Backend;
use schedlab_compare::agreement::NotRun;
use schedlab_compare::agreement::changes::{ChangeOutcome, ChangeResult, Changes, Moves, rule};
use schedlab_compare::testing::switched;
use schedlab_record::Record;

const EXPERIMENT: &str = r#"name = "mine"
about = "a switch"
machine = "smp-2"
[workload]
name = "slice"
[[variant]]
name = "off"
kernel = "v6.1"
[[variant]]
name = "on"
kernel = "v6.1"
features = ["NO_SIS_UTIL"]
"#;

fn read(change: &str) -> Result<ChangeCase> {
    parse(Path::new("mine.toml"), &format!("{EXPERIMENT}{change}"), 2)
}

fn case(moves: &str) -> ChangeCase {
    read(&format!("[change]\nfrom = \"off\"\nto = \"on\"\nmoves = {moves}\n")).unwrap()
}

/// The case with migrations that go from about 100 to `real`, and in the simulation from 110 to `simulated`.
fn judged(real: [u64; 4], simulated: u64) -> ChangeResult {
    let runs = |backend, variant: &'static str, values| switched(backend, variant, "migrations", values);
    let records: Vec<Record> = runs(Backend::Vm, "off", [99, 100, 101, 100])
        .chain(runs(Backend::Vm, "on", real))
        .chain(runs(Backend::Sim, "off", [110; 4]))
        .chain(runs(Backend::Sim, "on", [simulated; 4]))
        .collect();
    ChangeResult::of(&case("[\"migrations\"]").switched(), &records, Vec::new())
}

#[test]
fn a_case_names_its_variants_and_rows() {
    let case = case("[\"migrations\", \"newidle groups per scan\"]");
    assert_eq!((case.from.as_str(), case.to.as_str()), ("off", "on"));
    let names: Vec<&str> = case.moves.iter().map(|r| r.name).collect();
    assert_eq!(names, ["migrations", "newidle groups per scan"]);
    assert_eq!((case.experiment.name.as_str(), case.experiment.variants.len()), ("mine", 2));
}

#[test]
fn faults_are_reported_with_their_place_and_remedy() {
    let change = |from: &str, to: &str, moves: &str| {
        format!("[change]\nfrom = \"{from}\"\nto = \"{to}\"\nmoves = {moves}\n")
    };
    for (text, place, words, remedy) in [
        (String::new(), "mine.toml:1:1", "no [change]", "moves = ["),
        (change("of", "on", "[\"woken\"]"), "mine.toml:14:8", "'of'", "'off'"),
        (change("off", "no", "[\"woken\"]"), "mine.toml:15:6", "'no'", "on"),
        (change("off", "off", "[\"woken\"]"), "mine.toml:15:6", "both 'off'", "off, on"),
        (change("off", "on", "[]"), "mine.toml:16:9", "no row", "migrations"),
        (change("off", "on", "[\"woken\", \"migration\"]"), "mine.toml:16:19", "'migration'", "'migrations'"),
        (change("off", "on", "[\"woken\", \"woken\"]"), "mine.toml:16:19", "twice", "leave one"),
        (change("off", "on", "[\"slice distribution\"]"), "mine.toml:16:10", "'slice distribution'", "slice"),
        ("[change]\nfrom = \"off\"\nmoves = [\"woken\"]\n".into(), "mine.toml:13:1", "no to", "off, on"),
        (change("off", "on", "[\"woken\"]\nmove = 1"), "mine.toml:17:1", "'move'", "'moves'"),
        ("[change]\nfrom = 1\n".into(), "mine.toml:14:8", "from", "in quotes"),
        ("[chagne]\n".into(), "mine.toml:13:2", "'chagne'", "'change'"),
    ] {
        let e = read(&text).unwrap_err();
        assert_eq!(e.spot().map(ToString::to_string).as_deref(), Some(place), "{e}");
        assert!(e.message().contains(words), "{words}: {e}");
        assert!(e.to_string().contains(remedy), "{remedy}: {e}");
    }
}

#[test]
fn a_row_agrees_if_both_sides_move_one_way_and_the_real_move_is_known() {
    for (real, interval, simulated, verdict) in [
        (50.0, [40.0, 60.0], Some((5.0, 1.0)), Moves::Agrees),
        (-50.0, [-60.0, -40.0], Some((-90.0, 20.0)), Moves::Agrees),
        (5.0, [1.0, 9.0], Some((300.0, 0.0)), Moves::Agrees),
        (50.0, [40.0, 60.0], Some((-5.0, 1.0)), Moves::OtherWay),
        (-50.0, [-60.0, -40.0], Some((5.0, 1.0)), Moves::OtherWay),
        (50.0, [40.0, 60.0], Some((4.9, 0.5)), Moves::SimulationStill),
        (50.0, [40.0, 60.0], Some((0.0, 4.0)), Moves::SimulationStill),
        (50.0, [40.0, 60.0], Some((0.0, 40.0)), Moves::NotKnown),
        (50.0, [40.0, 60.0], Some((20.0, 40.0)), Moves::NotKnown),
        (50.0, [40.0, 60.0], None, Moves::NotKnown),
        (4.9, [4.8, 5.0], Some((5.0, 0.0)), Moves::KernelStill),
        (4.9, [0.1, 9.7], Some((50.0, 0.0)), Moves::NotKnown),
        (-4.9, [-9.7, -0.1], Some((50.0, 0.0)), Moves::NotKnown),
        (0.0, [-1.0, 1.0], Some((50.0, 0.0)), Moves::KernelStill),
        (0.0, [0.0, 0.0], Some((50.0, 0.0)), Moves::KernelStill),
        (50.0, [-1.0, 101.0], Some((50.0, 0.0)), Moves::NotKnown),
        (-50.0, [-101.0, 1.0], Some((50.0, 0.0)), Moves::NotKnown),
    ] {
        assert_eq!(rule(Some((real, interval)), simulated), verdict, "{real} {interval:?} {simulated:?}");
    }
    assert_eq!(rule(None, Some((50.0, 0.0))), Moves::NotKnown);
}

#[test]
fn a_case_passes_by_its_known_rows() {
    let verdict = |real, simulated| {
        let result = judged(real, simulated);
        (result.moves[0].verdict, result.outcome)
    };
    // The changes of the pairs are 52, 50, 50 and 48.
    let half_more = [151, 150, 151, 148];
    assert_eq!(verdict(half_more, 120), (Moves::Agrees, ChangeOutcome::Passed));
    assert_eq!(verdict(half_more, 60), (Moves::OtherWay, ChangeOutcome::Failed));
    assert_eq!(verdict(half_more, 110), (Moves::SimulationStill, ChangeOutcome::Failed));
    assert_eq!(verdict([103, 103, 104, 104], 120), (Moves::KernelStill, ChangeOutcome::Failed));
    assert_eq!(verdict([60, 250, 90, 200], 120), (Moves::NotKnown, ChangeOutcome::NothingKnown));
    let result = judged(half_more, 120);
    assert_eq!((result.runs, result.predicted.rows.len(), result.predicted.rows[0].agrees), (4, 1, false));
    let row = &result.moves[0];
    let [low, high] = row.real_ci95_pct.unwrap();
    assert!(low < 50.0 && 50.0 < high && high < 53.0 && row.why.is_none(), "{row:?}");
    assert!((row.simulated_pct.unwrap() - 100.0 / 11.0).abs() < 1e-9);
}

#[test]
fn a_row_that_is_not_measured_has_a_reason_and_does_not_affect_the_others() {
    let mut case = case("[\"newidle lb_failed\", \"migrations\"]");
    let mut records: Vec<Record> = switched(Backend::Vm, "off", "migrations", [99, 100, 101, 100])
        .chain(switched(Backend::Vm, "on", "migrations", [149, 150, 151, 150]))
        .chain(switched(Backend::Sim, "off", "migrations", [110; 4]))
        .chain(switched(Backend::Sim, "on", "migrations", [150; 4]))
        .collect();
    let result = ChangeResult::of(&case.switched(), &records, Vec::new());
    let verdicts: Vec<Moves> = result.moves.iter().map(|m| m.verdict).collect();
    assert_eq!((verdicts, result.outcome), (vec![Moves::NotKnown, Moves::Agrees], ChangeOutcome::Passed));
    assert!(
        result.moves[0].why.as_ref().is_some_and(|why| why.contains("real: ") && why.contains("schedstat"))
    );
    // Without simulated runs nothing is known of the row.
    records.retain(|r| r.backend == Backend::Vm);
    case.moves.remove(0);
    let alone = ChangeResult::of(&case.switched(), &records, Vec::new());
    assert_eq!((alone.moves[0].verdict, alone.outcome), (Moves::NotKnown, ChangeOutcome::NothingKnown));
    assert!(alone.moves[0].why.as_ref().is_some_and(|why| why.contains("simulated: ")));
    assert_eq!(ChangeResult::of(&case.switched(), &[], Vec::new()).outcome, ChangeOutcome::NothingKnown);
}

#[test]
fn the_sum_counts_known_rows_and_passes_only_if_every_case_ran_and_passed() {
    let (good, bad) = (judged([149, 150, 151, 150], 160), judged([149, 150, 151, 150], 60));
    let noisy = judged([60, 250, 90, 200], 160);
    let sum = Changes::of(vec![good.clone(), bad, noisy], Vec::new());
    assert_eq!((sum.agree, sum.known, sum.unknown, sum.passed), (1, 2, 1, false));
    assert_eq!((sum.same_sign, sum.signed), (1, 2));
    assert!(Changes::of(vec![good.clone()], Vec::new()).passed);
    let missing = NotRun { name: "other".into(), why: "no QEMU".into() };
    assert!(!Changes::of(vec![good], vec![missing]).passed);
    assert!(!Changes::of(Vec::new(), Vec::new()).passed);
}
