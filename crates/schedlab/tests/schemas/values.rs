//! Values of forms that need a guest, a kernel's source or a network: they are made of the types that the commands
//! print.

use schedlab_compare::agreement::NotRun;
use schedlab_compare::agreement::changes::{ChangeOutcome, ChangeResult, Changes, Moves, MustMove};
use schedlab_compare::agreement::decisions::{Cause, DecisionRow, Decisions};
use schedlab_compare::predicted::{Predicted, Predictions};
use schedlab_compare::trial::{Cost, Moved, Reached, Visits};
use schedlab_kernels::diff::Added;
use schedlab_kernels::fetch::Fetched;
use schedlab_kernels::{SetBy, Setting};
use schedlab_lab::bisect::{Bisected, Commit, MeasuredCommit, Side};
use schedlab_lab::trial::Tried;
use serde::Serialize;
use serde_json::{Value, json};

/// The values of a form; `None` if a command prints it in the test.
pub fn of(form: &str) -> Option<Vec<Value>> {
    match form {
        "bisection" => Some(vec![named(form, &bisection())]),
        "changes" => Some(vec![named(form, &changes())]),
        "decisions" => Some(vec![named(form, &decisions())]),
        "first-differences" => Some(vec![named(form, &first_differences())]),
        "fetched" => Some(vec![named(form, &json!({ "fetched": [fetched()] }))]),
        "trial" => Some([None, Some("y")].map(|value| trial(form, value)).to_vec()),
        _ => None,
    }
}

/// A value as `output::json_as` prints it.
/// A form's name with its number, which is a new one whenever a key goes.
pub fn numbered(form: &str) -> String {
    let number = if form == "decisions" { 2 } else { 1 };
    format!("schedlab/{form}/{number}")
}

fn named(form: &str, value: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(value).unwrap();
    value.as_object_mut().unwrap().insert("schema".to_owned(), numbered(form).into());
    value
}

/// As the command makes it, which needs a kernel's source.
fn first_differences() -> Value {
    let difference = json!({
        "code": "move (newidle)", "rules": "nothing", "workloads": 3, "draws": [1, 4, 6], "machine": "smp-8", "tasks": 2, "tasks_before": 9,
        "shrunk_to_the_end": true, "at_ns": 4_000_000, "workload": ["a task"], "events_of_code": ["an event"],
        "events_of_rules": ["an event"], "experiment": "hunt/difference-1.toml",
    });
    json!({
        "kernel": "6.1", "seed": 1, "workloads": 8, "same": 3, "ordered": 2, "late": 1, "found": [difference],
        "interrupted": false,
    })
}

fn decisions() -> Decisions {
    let cause = Cause {
        needs: "a buddy".to_owned(),
        count: 1,
        state: vec!["task 1".to_owned()],
        by_code: "task 1".to_owned(),
        by_rules: "task 2".to_owned(),
        why: "Eligible".to_owned(),
    };
    let row = DecisionRow {
        function: "pick".to_owned(),
        kernel: "v6.1.192".to_owned(),
        draws: 100,
        same: 98,
        causes: vec![cause],
    };
    Decisions { rows: vec![row], passed: false }
}

fn bisection() -> Bisected {
    let commit = || Commit { hash: "0123abcd".to_owned(), subject: "sched: a change".to_owned() };
    let step = |side: Option<Side>, mean: Option<f64>, why: Option<&str>| MeasuredCommit {
        commit: commit(),
        side,
        mean,
        runs: 6,
        settled: true,
        why: why.map(str::to_owned),
    };
    let steps = vec![step(Some(Side::Old), Some(1.5), None), step(None, None, Some("it does not build"))];
    Bisected { first: vec![commit()], steps, good: 1.5, bad: 2.5 }
}

fn predictions() -> Predictions {
    let row = |same_sign| Predicted {
        machine: "smp-4".to_owned(),
        load: "pipe".to_owned(),
        metric: "migrations".to_owned(),
        real_pct: -28.5,
        real_ci95_pct: [-38.5, -18.5],
        simulated_pct: -49.5,
        same_sign,
        agrees: false,
    };
    Predictions { rows: vec![row(Some(true)), row(None)], unknown: 3 }
}

fn changes() -> Changes {
    let row = |measured: bool| MustMove {
        machine: "smp-4".to_owned(),
        load: "pipe".to_owned(),
        metric: "migrations",
        real_pct: measured.then_some(1.5),
        real_ci95_pct: measured.then_some([0.5, 2.5]),
        simulated_pct: measured.then_some(1.5),
        verdict: Moves::NotKnown,
        why: (!measured).then(|| "not measured".to_owned()),
    };
    let case = ChangeResult {
        name: "newidle".to_owned(),
        about: "groups that newidle passes read".to_owned(),
        from: "off".to_owned(),
        to: "on".to_owned(),
        level: None,
        runs: 10,
        moves: vec![row(true), row(false)],
        predicted: predictions(),
        outcome: ChangeOutcome::NothingKnown,
        warnings: vec![schedlab_base::Warning::new("a.code", "a text")],
    };
    Changes::of(vec![case], vec![NotRun { name: "first-idle".to_owned(), why: "no QEMU".to_owned() }])
}

fn fetched() -> Fetched {
    Fetched { word: "6.1".to_owned(), name: "6.1.192".to_owned(), path: "/image".into(), new: true }
}

fn trial(form: &str, value: Option<&str>) -> Value {
    let options =
        [Setting { name: "X".to_owned(), value: value.map(str::to_owned), by: SetBy::Default, new: true }];
    let costs = [Cost {
        machine: "smp-8".to_owned(),
        operation: "wakeup".to_owned(),
        calls: [1, 1],
        instructions: [700, 600],
    }];
    let functions =
        [Moved { function: "newidle_balance".to_owned(), calls: [1, 1], instructions: [700, 600] }];
    let visits = Visits { machine: "smp-8".into(), workload: "pipe".into(), load: "pairs".into(), times: 9 };
    let reached = Reached {
        place: "kernel/sched/fair.c:9".into(),
        functions: vec!["newidle_balance".into()],
        visits: vec![visits],
    };
    let tried = Tried {
        source: "6.1.192",
        features: &[Added { name: "NEW".to_owned(), on: false }],
        counters: &["lb_skipped".to_owned()],
        options: &options,
        comparison: &json!({}),
        costs: &costs,
        functions: &functions,
        predicted: &predictions(),
        reached: &[reached],
    };
    named(form, &tried)
}
