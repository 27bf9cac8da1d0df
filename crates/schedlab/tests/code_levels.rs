//! Levels of the kernel's own code: what it executes is its price, and CPUs act while another one is in kernel code.

use crate::code::has_source;
use crate::common::{Lab, files, texts, unwrapped};
use serde_json::Value;

const LEVELS: [&str; 4] = ["free", "counted", "woven", "exact"];

fn bench(level: &str, words: &[&str]) -> Value {
    let lab = Lab::new();
    let fixed = ["--backend", "code", "--kernel", "6.1", "--json", "--quiet", "--level", level];
    let output = lab.command(&[&["bench"], words, &fixed].concat()).output().unwrap();
    let (out, said) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{level}: {said}");
    serde_json::from_str(&out).unwrap()
}

fn figure(run: &Value, name: &str) -> f64 {
    run["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name} in {run:.300}"))
}

#[test]
fn every_level_runs_and_gives_the_same_bytes_every_time() {
    if !has_source() {
        return;
    }
    let words = ["hackbench", "--groups", "2", "--loops", "20", "--machine", "spr-2x4"];
    let all = LEVELS.map(|level| bench(level, &words));
    for (level, run) in LEVELS.iter().zip(&all) {
        assert_eq!(*run, bench(level, &words), "{level}");
        assert_eq!(run["level"], **level, "also the default is said");
        // 2 groups of 20 senders, each with 20 messages to 20 receivers: all of them are sent under every level.
        assert!(figure(run, "switches.voluntary") > 500.0, "{level}: {run:.300}");
    }
    let cpu_time: Vec<f64> = all.iter().map(|run| figure(run, "cpu_time")).collect();
    for (i, one) in cpu_time.iter().enumerate() {
        assert!(cpu_time[..i].iter().all(|other| other != one), "no two levels are alike: {cpu_time:?}");
    }
}

#[test]
fn a_run_is_the_same_alone_and_after_others_on_the_same_machine() {
    if !has_source() {
        return;
    }
    for (level, machine) in [("free", "spr-2x4"), ("woven", "spr-2x4"), ("counted", "icount-4")] {
        let (lab, alone) = (Lab::new(), Lab::new());
        let line = |rest: &str| {
            format!(
                "bench schbench -r 30ms --warmup 120ms --machine {machine} --backend code --kernel 6.1 --level {level} {rest}"
            )
        };
        lab.ok(&line("--runs 3 --seed 1"));
        alone.ok(&line("--seed 3"));
        let (all, one) = (lab.records("runs"), alone.records("runs"));
        assert_eq!((all.len(), one.len()), (3, 1));
        assert!(all.contains(&one[0]), "{level}: seed 3 after seeds 1 and 2");
        assert!(
            all[0]["counters"].is_object() && all[0]["counters"] != all[2]["counters"],
            "{level}: seeds differ"
        );
    }
}

#[test]
fn what_is_free_of_a_warm_up_is_said() {
    if !has_source() {
        return;
    }
    let words =
        "bench slice -r 10ms --warmup 130ms --backend code --kernel 6.1 --level counted --machine smp-4";
    let said = unwrapped(&Lab::new().ok(words));
    assert!(said.contains("level counted, the first 30ms of the warm-up free"), "{said}");
}

#[test]
fn an_event_of_woven_code_has_its_time_within_the_verb() {
    if !has_source() {
        return;
    }
    let words = ["nanosleep", "--tasks", "8", "--runtime", "20ms", "--machine", "spr-2x4"];
    let [exact, woven, counted] = ["exact", "woven", "counted"].map(|level| bench(level, &words));
    for name in ["wakeup_delay.p50", "slice.mean", "cpu_time"] {
        let apart = |run| (figure(run, name) / figure(&exact, name) - 1.0).abs();
        assert!(apart(&woven) < 0.03, "{name}: {} and {}", figure(&woven, name), figure(&exact, name));
        assert!(apart(&counted) > 0.05, "{name}: events of counted code have the time of their verb");
    }
}

#[test]
fn an_image_has_the_ticks_that_its_variant_asks_for_and_so_have_our_rules() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    let head =
        "name = \"hz\"\nmachine = \"smp-2\"\nruns = 1\nmetrics = [\"work\"]\n[code]\nlevel = \"counted\"\n";
    let variant = "[[code.variant]]\nname = \"often\"\nkernel = \"6.1\"\ntunables = { hz = 1000 }\n";
    let rest = "[[variant]]\nkernel = \"v6.1\"\n[workload]\nname = \"slice\"\nruntime = \"100ms\"\n";
    lab.write("hz.toml", &[head, variant, rest].concat());
    lab.ok("run hz.toml --backend code --out runs --quiet");
    let records = lab.records("runs");
    let twin = records.iter().find(|r| r["backend"] == "sim").unwrap();
    assert_eq!(twin["resolved"]["tunables"]["hz"], 1000);
    let counts = files(&lab.path().join("runs"));
    let (_, counts) = counts.iter().find(|(name, _)| name.ends_with("instructions.csv")).unwrap();
    let counts = String::from_utf8_lossy(counts).into_owned();
    let ticks =
        counts.lines().find_map(|line| line.strip_prefix("scheduler_tick,")?.split(',').next()).unwrap();
    // Two busy CPUs for 100 ms.
    assert!((190..=200).contains(&ticks.parse::<u32>().unwrap()), "{ticks}");
    lab.says("run hz.toml --backend code --kernel 6.1", 2, &["hz = 1000", "its image has 250"]);
}

#[test]
fn instructions_of_the_schedulers_functions_are_counted_and_charged() {
    if !has_source() {
        return;
    }
    // An instruction takes 1 ns on this machine, and a line of another CPU nothing.
    let words = ["nanosleep", "--tasks", "1", "--runtime", "200ms", "--machine", "icount-4"];
    let run = bench("counted", &words);
    // A guest that counts executes 2,600 in the functions that both have (docs/code.md).
    let per_wakeup = figure(&run, "instructions.scheduler") / figure(&run, "wakeups");
    assert!((2000.0..4000.0).contains(&per_wakeup), "{per_wakeup}");
    // The scheduler's code is a part of what a sleeper waits for, and takes no time where it is free.
    let free_again =
        bench("free", &["nanosleep", "--tasks", "1", "--runtime", "200ms", "--machine", "smp-4"]);
    let counted =
        bench("counted", &["nanosleep", "--tasks", "1", "--runtime", "200ms", "--machine", "smp-4"]);
    assert_ne!(figure(&free_again, "wakeup_delay.mean"), figure(&counted, "wakeup_delay.mean"));
    let free = bench("free", &words);
    assert!(free["metrics"].get("instructions.scheduler").is_none(), "free counts nothing");
}
