//! `schedlab migration-cost` and `machine probe --write` from end to end. Where there is one CPU only, live tests
//! say so and end.

use crate::common;
use crate::common::Lab;
use schedlab_base::testing::skipped;

const KNOB: &str = "root/sys/kernel/debug/sched/migration_cost_ns";

/// Whether this process may use two CPUs; says so if not.
fn two_cpus() -> bool {
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    if !two {
        skipped("two CPUs");
    }
    two
}

/// A lab with a system of its own, where migration_cost is 500 us.
fn lab() -> Lab {
    let lab = Lab::new();
    let knob = lab.path().join(KNOB);
    std::fs::create_dir_all(knob.parent().unwrap()).unwrap();
    std::fs::write(knob, "500000\n").unwrap();
    lab
}

/// Runs it on that system: exit code, standard output, standard error.
fn run(lab: &Lab, words: &[&str]) -> (i32, String, String) {
    let output = lab
        .command(words)
        .env("SCHEDLAB_SYSTEM_ROOT", lab.path().join("root"))
        .env("SCHEDLAB_STATE_DIR", lab.path().join("state"))
        .output()
        .unwrap();
    let (out, err) = common::texts(&output);
    (output.status.code().unwrap_or(-1), out, err)
}

fn knob(lab: &Lab) -> String {
    lab.text(KNOB).trim().to_owned()
}

#[test]
fn a_small_search_prints_matrix_curve_and_map() {
    if !two_cpus() {
        return;
    }
    let lab = lab();
    let (code, out, err) = run(&lab, &["migration-cost", "--size", "128K", "--plot", "map.svg"]);
    assert_eq!(code, 0, "{err}");
    for part in
        ["migration cost matrix (max_cache_size: ", "[00]:     -   ", "cacheflush times", "control", "128 KB"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    let map = lab.text("map.svg");
    assert!(map.contains("from CPU") && map.contains("CPU 0 to 1: "));
}

#[test]
fn json_has_the_curve_with_its_spread() {
    if !two_cpus() {
        return;
    }
    let lab = lab();
    let (code, out, err) = run(&lab, &["migration-cost", "--size", "96K", "--pattern", "2005", "--json"]);
    assert_eq!(code, 0, "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["schema"], "schedlab/migration-cost/1");
    let found = &json["calibration"];
    assert_eq!(found["pattern"], "2005");
    let points = found["distances"][0]["curve"]["points"].as_array().unwrap();
    assert!(points.len() >= 8 && points[0]["size"] == 96 << 10, "{points:?}");
    assert!(points[0]["repetitions"].as_u64().unwrap() >= 5);
    assert!(points[0]["spread_ns"][0].as_i64().unwrap() <= points[0]["spread_ns"][1].as_i64().unwrap());
}

#[test]
fn a_given_cutoff_is_proposed_set_and_put_back() {
    if !two_cpus() {
        return;
    }
    let lab = lab();
    let all = "700,700,700,700,700,700,700,700";
    let given =
        ["migration-cost", "--migration-cost", all, "--migration-factor", "50", "--size", "64K", "--apply"];
    let (code, out, err) = run(&lab, &given);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("proposal: migration_cost_ns = 700000 (now 500000)"),
        "the factor is not for given ones: {out}"
    );
    assert!(out.contains("nothing was measured"), "{out}");
    assert_eq!(knob(&lab), "500000", "without --yes nothing is set");
    let (code, _, err) = run(&lab, &[&given[..], &["--yes"]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("(was 500000)") && err.contains("schedlab restore"), "{err}");
    assert_eq!(knob(&lab), "700000", "it stays after the command");
    let (code, out, _) = run(&lab, &["restore"]);
    assert_eq!((code, knob(&lab).as_str()), (0, "500000"), "{out}");
}

#[test]
fn a_kernel_without_the_setting_is_an_error_with_a_remedy() {
    if !two_cpus() {
        return;
    }
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path().join("root/sys")).unwrap();
    let all = "700,700,700,700,700,700,700,700";
    let (code, _, err) =
        run(&lab, &["migration-cost", "--migration-cost", all, "--size", "64K", "--apply", "--yes"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("migration_cost_ns") && err.contains("help:"), "{err}");
}

#[test]
fn wrong_options_are_refused_before_anything_is_measured() {
    let lab = lab();
    for (words, said) in [
        (vec!["--migration-cost", "1ms"], "is not a migration cost"),
        (vec!["--pattern", "2006"], "2005"),
        (vec!["--size", "many"], "is not a size"),
        (vec!["--size", "1K"], "--size 1024"),
        (vec!["--size", "900G"], "bytes here"),
        (vec!["--plot", "map.gif"], ".svg or .png"),
        (vec!["--migration-factor", "20000"], "10000"),
        (vec!["--kernel", "best"], "best"),
    ] {
        let (code, _, err) = run(&lab, &[&["migration-cost"][..], &words].concat());
        // One CPU is found out before the size is looked at.
        assert!(code == 2 || (!two_cpus() && code == 3), "{words:?}: {code} {err}");
        assert!(code == 3 || err.contains(said), "{words:?}: {err}");
    }
    assert_eq!(run(&lab, &["migration-cost", "--yes"]).0, 2, "--yes needs --apply");
}

#[test]
fn one_cpu_is_too_few() {
    let lab = lab();
    let mut command = std::process::Command::new("taskset");
    command.args(["-c", "0"]).arg(assert_cmd::cargo::cargo_bin("schedlab")).args([
        "migration-cost",
        "--size",
        "64K",
    ]);
    let Ok(output) = command.current_dir(lab.path()).output() else {
        skipped("taskset, and CPU 0");
        return;
    };
    let (_, err) = common::texts(&output);
    if err.contains("taskset:") {
        skipped(err);
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("only one CPU") && err.contains("help:"), "{err}");
}

#[test]
fn a_written_machine_file_is_the_probed_host() {
    if !two_cpus() {
        return;
    }
    let lab = lab();
    // Tests run beside one another: other programs are busy.
    let (code, out, err) = run(&lab, &["machine", "probe", "--write", "mine.toml", "--even-if-busy"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("touch_ns_per_kb"), "{out}");
    let show = |name: &str| {
        let (code, out, err) = run(&lab, &["machine", name, "--kernel", "v6.5", "--json"]);
        assert_eq!(code, 0, "{name}: {err}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["machine"].clone()
    };
    let (host, mine) = (show("host"), show("mine.toml"));
    assert_eq!(mine["name"], "mine");
    for part in ["costs", "topology", "caches", "background", "idle_governor"] {
        assert_eq!(mine[part], host[part], "{part}");
    }
    let states = |machine: &serde_json::Value| -> Vec<(String, u64)> {
        let all = machine["idle_states"].as_array().unwrap();
        all.iter().map(|s| (s["name"].as_str().unwrap().to_owned(), s["typical"].as_u64().unwrap())).collect()
    };
    assert_eq!(states(&mine), states(&host));
    let (code, out, err) =
        run(&lab, &["bench", "pipe", "--backend", "sim", "--machine", "mine.toml", "--loops", "2000"]);
    assert!(code == 0 && !err.contains("guess"), "{code} {out} {err}");
    let wrong = run(&lab, &["machine", "probe", "--write", "mine.json"]);
    assert_eq!(wrong.0, 2, "{}", wrong.2);
}
