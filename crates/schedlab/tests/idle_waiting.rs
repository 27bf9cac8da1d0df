//! `schedlab explain` of a run that is simulated again: why no idle CPU took a task that waited, and when the run was
//! not work-conserving.

use crate::common::Lab;
use schedlab_trace::{BalanceReason, KickReason, SkipReason};

/// A run in which tasks wait beside idle CPUs; its folder.
fn run(lab: &Lab) -> String {
    lab.kept("bench schbench --backend sim --machine fb-2x12-smt --kernel v4.5 -m 2 -t 24 -r 0.8")
}

#[test]
fn a_long_wait_shows_which_cpus_were_idle_and_why_they_did_not_pull() {
    let (lab, known) = (Lab::new(), known());
    let folder = run(&lab);
    let json = lab.json(&["explain", &folder, "--worst", "5", "--json"]);
    let worst = json["worst"].as_array().unwrap();
    let told: Vec<_> = worst.iter().filter_map(|w| w.get("idle_meanwhile")).collect();
    assert_eq!(told.len(), worst.len());
    let beside: Vec<_> = told.iter().filter(|c| c["free_ns"].as_u64() > Some(0)).collect();
    assert!(!beside.is_empty(), "{json}");
    for chance in beside {
        for cpu in chance["cpus"].as_array().unwrap() {
            assert!(cpu["free_ns"].as_u64() <= chance["free_ns"].as_u64());
            for tried in cpu["tries"].as_array().unwrap() {
                let reason = tried["reason"].as_str().unwrap();
                assert!(known.contains(&(tried["pass"].is_null(), reason)), "{tried}");
            }
        }
        let ticks = chance["ticks"].as_array().unwrap();
        assert!(ticks.iter().all(|t| KickReason::ALL.iter().any(|r| r.name() == t["reason"])));
    }
    let text = lab.ok(&["explain", &folder, "--worst", "2"]);
    assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
    assert!(text.contains("was idle for") || text.contains("were idle in"), "{text}");
    let stored = lab.ok(&["explain", &folder, "--worst", "2", "--stored"]);
    assert!(!stored.contains("idle for") && stored.len() < text.len(), "{stored}");
}

fn known() -> Vec<(bool, &'static str)> {
    let passes = BalanceReason::ALL.iter().map(|r| (false, r.name()));
    passes.chain(SkipReason::ALL.iter().map(|r| (true, r.name()))).collect()
}

#[test]
fn time_that_was_not_work_conserving_is_listed_by_cause() {
    let lab = Lab::new();
    let folder = run(&lab);
    let json = lab.json(&["explain", &folder, "--idle-while-waiting", "--worst", "3", "--json"]);
    assert_eq!(json["schema"], "schedlab/idle-while-waiting/1");
    let number = |key: &str| json[key].as_u64().unwrap();
    let causes = json["causes"].as_array().unwrap();
    let sum = |key: &str| causes.iter().map(|c| c[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("time_ns"), sum("stretches")), (number("task_time_ns"), number("stretches")));
    assert!(number("time_ns") > 0 && number("time_ns") <= number("task_time_ns"));
    let share = 100.0 * number("time_ns") as f64 / number("duration_ns") as f64;
    assert!((json["share_pct"].as_f64().unwrap() - share).abs() < 1e-9);
    let longest = json["longest"].as_array().unwrap();
    assert_eq!(longest.len(), 3);
    assert!(longest.iter().all(|s| s["idle_meanwhile"]["free_ns"] == s["length_ns"]), "{json}");
    let text = lab.ok(&["explain", &folder, "--idle-while-waiting", "--worst", "3"]);
    assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
    assert!(text.contains("The 3 longest stretches:") && text.contains("summed over tasks"), "{text}");
    assert_eq!(text, lab.ok(&["explain", &folder, "--idle-while-waiting", "--worst", "3"]));
}

#[test]
fn a_run_that_cannot_be_made_again_says_so() {
    let lab = Lab::new();
    let folder = run(&lab);
    let file = lab.path().join(&folder).join("record.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let model = format!("\"model\":{}", schedlab_record::MODEL);
    assert!(text.contains(&model));
    std::fs::write(&file, text.replacen(&model, "\"model\":1", 1)).unwrap();
    lab.says(
        &["explain", &folder, "--idle-while-waiting"],
        2,
        &["version 1 of the simulator's model", "make the run anew"],
    );
    let text = lab.ok(&["explain", &folder, "--worst", "1"]);
    assert!(text.contains("is not shown"), "{text}");
    lab.says(&["explain", &folder, "--idle-while-waiting", "--vs", "v4.5"], 2, &["--vs"]);
}
