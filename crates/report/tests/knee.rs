//! The text of a knee search names the seeds and loads that could not be judged.

use schedlab_base::Backend;
use schedlab_compare::knees::{KNEE_SCHEMA, Knee, Knees, Limit};
use schedlab_report::knee::export;

fn knees(knee: Knee) -> Knees {
    Knees {
        schema: KNEE_SCHEMA.to_owned(),
        workload: "schbench".to_owned(),
        parameter: "threads".to_owned(),
        backend: Backend::Sim.into(),
        machine: "smp-4".to_owned(),
        limit: Limit::parse("schbench.latency.p99 < 2ms").unwrap(),
        cap: 64,
        seeds: vec![1, 2, 3],
        variants: vec![knee],
        unit: "ns".to_owned(),
        tried: Vec::new(),
        interrupted: false,
        warnings: Vec::new(),
    }
}

fn knee() -> Knee {
    Knee {
        variant: "v4.5".to_owned(),
        knees: vec![6, 8, 7],
        mean: 7.0,
        ci95: Some([4.5, 9.5]),
        at_cap: 0,
        unknown: 0,
        unjudged: 0,
        uncertainty: None,
    }
}

fn text(knee: Knee) -> String {
    let mut text = Vec::new();
    export(&knees(knee), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_knee_that_is_known_has_one_line() {
    let said = text(knee());
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(said.lines().last().unwrap().ends_with("[4.50, 9.50]        6 8 7"), "{said}");
}

#[test]
fn unjudged_loads_follow_the_knee() {
    let cases = [
        (Knee { unjudged: 1, ..knee() }, "1 larger load could not be judged"),
        (Knee { unjudged: 3, ..knee() }, "3 larger loads could not be judged (schbench.latency.p99 missing)"),
        (Knee { unknown: 2, ..knee() }, "2 seeds can't tell: schbench.latency.p99 is missing"),
        (Knee { at_cap: 1, ..knee() }, "1 of 3 seeds reached the cap of 64"),
    ];
    for (knee, wanted) in cases {
        let said = text(knee);
        let one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(one_line.contains(wanted), "{said}");
        assert!(said.lines().all(|l| l.chars().count() <= 78), "{said}");
    }
}
