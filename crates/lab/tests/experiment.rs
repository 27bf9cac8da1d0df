//! Experiments: the reader, and the clarity of its errors.

use crate::common::{SMALL, experiment};
use schedlab_lab::ask::experiment::parse;
use schedlab_lab::make::plan;
use schedlab_lab::{Backend, plan};
use schedlab_workload::Spec;
use std::path::Path;

fn error(text: &str) -> String {
    parse(Path::new("e.toml"), text, 4)
        .err()
        .map_or_else(|| panic!("no error in:\n{text}"), |e| e.to_string())
}

fn param(spec: &Spec, name: &str) -> u64 {
    match spec {
        Spec::Bench { params, .. } => params.get(name).unwrap(),
        _ => panic!("no benchmark"),
    }
}

#[test]
fn parameters_times_and_defaults() {
    let e = experiment(SMALL);
    assert_eq!((e.runs, e.seed, e.baseline.as_str(), e.min_effect_pct), (10, 1, "slow", 2.0));
    assert_eq!((e.loads.len(), e.loads[1].name.as_str()), (2, "1x4"));
    assert_eq!(param(&e.loads[1].spec, "threads"), 4);
    assert_eq!(param(&e.loads[1].spec, "runtime"), 1_000_000_000);
    assert_eq!(param(&e.loads[1].spec, "sleeptime"), 30_000_000, "the benchmark's default");
}

#[test]
fn integers_take_the_unit_of_the_original_tool() {
    let e = experiment(&SMALL.replace("runtime = \"1s\"", "runtime = 2\ncputime = 1000"));
    assert_eq!(param(&e.loads[0].spec, "runtime"), 2_000_000_000);
    assert_eq!(param(&e.loads[0].spec, "cputime"), 1_000_000);
}

#[test]
fn a_load_per_machine_and_machines_per_load() {
    let e = experiment(
        &SMALL
            .replace("[\"smp-4\"]", "[\"smp-4\", \"smt-8\"]")
            .replace("\"1x4\"", "\"1x4\"\nmachine = \"smp-2\""),
    );
    let names: Vec<(&str, &str)> =
        e.loads.iter().map(|l| (l.name.as_str(), e.machines[l.machine].name.as_str())).collect();
    assert_eq!(names, [("1x2", "smp-4"), ("1x2", "smt-8"), ("1x4", "smp-2")]);
    assert_eq!(e.host_loads.len(), 2, "on the live kernel a load is one load");
}

#[test]
fn live_loads_run_under_the_live_variants_that_they_name() {
    let of = |variants: &str| {
        let text = format!(
            "name = 'x'\nmachines = ['smp-2']\n[[workload]]\nname = 'slice'\n[[workload]]\nname = 'batch'\n\
             [[host.load]]\nworkload = 'slice'\nname = 'a'\nvariants = {variants}\n\
             [[host.load]]\nworkload = 'batch'\nname = 'b'\nvariants = ['plain']\n\
             [[variant]]\nkernel = 'v6.5'\n[[variant]]\nname = 'plain'\nkernel = 'running'\n\
             [[variant]]\nname = 'hogs'\nkernel = 'running'\ntasks = {{ hog = {{ policy = 'batch' }} }}\n"
        );
        parse(Path::new("x.toml"), &text, 2)
    };
    let cells = |variants: &str| -> Vec<String> {
        let plan = plan::plan(&of(variants).unwrap(), Backend::Host, plan::Options::default()).unwrap();
        plan.cells.iter().map(|c| format!("{} {}", c.load, c.variant.name)).collect()
    };
    assert_eq!(cells("['hogs']"), ["a hogs", "b plain"], "batch has no hogs, and is not asked for them");
    assert_eq!(
        cells("['v6.5']"),
        ["a plain", "a hogs", "b plain"],
        "a simulated kernel says nothing of live ones"
    );
    assert!(of("['hgs']").unwrap_err().to_string().contains("'hogs'"));
}

#[test]
fn host_loads_scale_with_the_cpus() {
    let host = "[[host.load]]\nname = \"2x{cpus*2}\"\nmessage_threads = 2\nthreads = \"{cpus*2}\"\n";
    let e = experiment(&format!("{SMALL}{host}"));
    assert_eq!((e.host_loads.len(), e.host_loads[0].name.as_str()), (1, "2x8"));
    assert_eq!(param(&e.host_loads[0].spec, "threads"), 8);
}

#[test]
fn sweeps_become_loads() {
    let text = SMALL.replace(
        "threads = 4",
        "threads = { range = [2, 6], step = 2 }\ncputime = { sweep = [\"1ms\", \"2ms\"] }",
    );
    // message_threads = 1 stays as it is.
    let e = experiment(&text);
    let names: Vec<&str> = e.loads[1..].iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names.len(), 6);
    assert_eq!((names[0], names[5]), ("1x4,threads=2,cputime=1ms", "1x4,threads=6,cputime=2ms"));
    assert_eq!(param(&e.loads[6].spec, "cputime"), 2_000_000);
}

#[test]
fn published_figures_are_kept_in_the_metrics_unit() {
    let text = "[[published]]\nvariant = \"slow\"\nmetric = \"schbench.latency.p99\"\nvalue = \"4680us\"\nsource = \"D000\"\n";
    let e = experiment(&format!("{SMALL}{text}"));
    assert_eq!((e.published[0].value, e.published[0].unit.as_str()), (4_680_000.0, "ns"));
    let wrong = error(&format!("{SMALL}{}", text.replace("p99\"", "p98\"")));
    assert!(wrong.contains("did you mean 'schbench.latency.p99'"), "{wrong}");
}

#[test]
fn errors_name_file_line_column_and_the_nearest_name() {
    for (from, to, place, says) in [
        ("runs = 10", "rnus = 10", "e.toml:3:1", "did you mean 'runs'"),
        ("runs = 10", "runs = 0", "e.toml:3:8", "1 to 1000000"),
        ("runs = 10", "runs = \"x\"", "e.toml:3:8", "whole number"),
        ("runs = 10", "runs = 10\nbaseline = \"slwo\"", "e.toml:4:12", "did you mean 'slow'"),
        ("name = \"small\"", "name = \" \"", "e.toml:2:8", "name is empty"),
        ("name = \"slow\"", "name = \"a\\nb\"", "e.toml:18:8", "control characters"),
        ("name = \"small\"", "nam = \"small\"", "e.toml:2:1", "did you mean 'name'"),
        ("smp-4", "smp-x", "e.toml:4:13", "smp-x"),
        ("p99\"", "p9x\"", "e.toml:5:36", "p9x"),
        ("\"schbench\"", "\"schbenhc\"", "e.toml:7:8", "did you mean 'schbench'"),
        ("runtime = \"1s\"", "runtim = \"1s\"", "e.toml:8:1", "did you mean 'runtime'"),
        ("runtime = \"1s\"", "runtime = \"1 parsec\"", "e.toml", "parsec"),
        ("threads = 2", "thread = 2", "e.toml:12:1", "did you mean 'threads'"),
        ("threads = 2\n[[load]]", "threads = 1000000000\n[[load]]", "e.toml:12:11", "out of range"),
        ("threads = 2\n[[load]]", "threads = -2\n[[load]]", "e.toml:12:11", "whole number"),
        ("\"1x4\"", "\"1x2\"", "e.toml", "two loads"),
        ("SIS_FIRST_IDLE", "SIS_FRIST_IDLE", "e.toml:23:13", "did you mean 'SIS_FIRST_IDLE'"),
        ("\"v4.5\"\nfeatures", "\"v4.6\"\nfeatures", "e.toml:22:10", "v4.5"),
        ("name = \"fast\"", "name = \"slow\"", "e.toml:21:8", "two variants"),
        ("features = [", "tunables = { hzz = 1 }\nfeatures = [", "e.toml:23:14", "did you mean 'hz'"),
        ("features = [", "tunables = { hz = 0 }\nfeatures = [", "e.toml", "out of range"),
        ("[workload]", "[[workload]", "e.toml:6", ""),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let text = error(&SMALL.replacen(from, to, 1));
        assert!(text.starts_with(place) && text.contains(says), "{to}: {text}");
    }
}

#[test]
fn absurd_sizes_are_refused_before_any_run() {
    let text = error(&SMALL.replace("runs = 10", "runs = 900000"));
    assert!(text.contains("3600000 runs"), "{text}");
    let text =
        error(&SMALL.replace("message_threads = 1\nthreads = 2", "message_threads = 10000\nthreads = 10000"));
    assert!(text.contains("tasks") || text.contains("range"), "{text}");
}

#[test]
fn a_missing_rtapp_file_is_reported_at_its_place() {
    let text = SMALL.replace("name = \"schbench\"\nruntime = \"1s\"", "rtapp = \"nowhere.json\"");
    let text = error(
        &text.replace("message_threads = 1\n", "").replace("threads = 2\n", "").replace("threads = 4\n", ""),
    );
    assert!(text.starts_with("e.toml:7:9") && text.contains("nowhere.json"), "{text}");
}

#[test]
fn an_rtapp_text_may_be_in_the_experiment_itself() {
    let with = |workload: &str| {
        let text = format!(
            "name = \"x\"\nmachines = [\"smp-2\"]\n[workload]\n{workload}\n[[variant]]\nkernel = \"v4.5\"\n"
        );
        parse(Path::new("e.toml"), &text, 4)
    };
    let inline = "rtapp_text = '{ \"global\" : { \"duration\" : 1 }, \"tasks\" : { \"a\" : { \"run\" : 10, \"sleep\" : 10 } } }'";
    let found = with(inline).unwrap();
    assert_eq!(found.loads[0].spec.name(), "rt-app");
    assert_eq!(found.loads[0].spec.build(1).unwrap().tasks.len(), 1);
    let wrong = with(&inline.replace("sleep", "slep")).unwrap_err().to_string();
    assert!(wrong.contains("rtapp_text") && wrong.contains("'sleep'"), "{wrong}");
    assert!(
        with(&format!("{inline}\nthreads = 3")).unwrap_err().to_string().contains("no parameter 'threads'")
    );
}

#[test]
fn an_rtapp_workload_is_named_as_the_experiment_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let json =
        r#"{ "tasks": { "one": { "loop": 3, "run": 1000, "sleep": 1000 } }, "global": { "duration": 1 } }"#;
    std::fs::write(dir.path().join("w.json"), json).unwrap();
    let text = "name = \"x\"\nmachines = [\"smp-2\"]\n[workload]\nrtapp = \"w.json\"\n[[variant]]\nkernel = \"v4.5\"\n";
    let e = parse(&dir.path().join("e.toml"), text, 2).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(&e.loads[0].spec, Spec::RtApp { file, .. } if file == "w.json"));
    assert_eq!((e.loads.len(), e.loads[0].name.as_str(), e.metrics.len()), (1, "default", 3));
    let timed = |value: &str| {
        let text = text.replace("\"w.json\"", &format!("\"w.json\"\nruntime = {value}"));
        parse(&dir.path().join("e.toml"), &text, 2).map(|e| e.loads[0].spec.clone())
    };
    let with =
        |value| matches!(timed(value), Ok(Spec::RtApp { runtime: Some(ns), .. }) if ns.0 == 2_000_000_000);
    assert!(with("\"2s\"") && with("2") && with("\"2000ms\""));
    for (value, wanted) in [
        ("\"2y\"", "5:11"),
        ("{ sweep = [1, 2] }", "not swept"),
        ("\"2s\"\nsleep = 3", "its only one is runtime"),
    ] {
        let told = timed(value).unwrap_err().to_string();
        assert!(told.contains(wanted), "{value}: {told}");
    }
    std::fs::write(dir.path().join("w.json"), json.replace("\"sleep\"", "\"sleeep\"")).unwrap();
    let text = parse(&dir.path().join("e.toml"), text, 2).unwrap_err().to_string();
    assert!(text.contains(dir.path().to_str().unwrap()) && text.contains("sleeep"), "{text}");
}

/// An experiment with a workload, load and variants, and with other text between its name and them.
fn with_top(top: &str) -> String {
    format!("name = \"x\"\n{top}\n[workload]\nname = \"pipe\"\n[[variant]]\nkernel = \"v6.5\"\n")
}

#[test]
fn a_machine_is_a_name_a_list_or_tables() {
    let names = |top: &str| -> Vec<String> {
        let e = experiment(&with_top(top));
        e.loads.iter().map(|l| e.machines[l.machine].name.clone()).collect()
    };
    assert_eq!(names("machine = \"smp-4\""), ["smp-4"]);
    assert_eq!(names("machines = \"smp-4\""), ["smp-4"]);
    assert_eq!(names("machine = [\"smp-4\", \"smp-2\"]"), ["smp-4", "smp-2"]);
    assert_eq!(names("[[machine]]\nname = \"m\"\nbase = \"smp-4\""), ["m"]);
    let load = "[[load]]\nmachine = [\"smp-4\", \"smp-2\"]\nloops = 5";
    assert_eq!(names(load), ["smp-4", "smp-2"]);
    let vm = with_top("machine = \"smp-4\"\n[vm]\nmachine = \"smt-2\"");
    assert_eq!(experiment(&vm).in_guests().machines[0].name, "smt-2");
    for (top, place, says) in [
        ("machine = \"smp-x\"", "e.toml:2:11", "smp-x"),
        ("machine = 4", "e.toml:2:11", "[[machine]]"),
        ("machine = \"smp-4\"\nmachines = [\"smp-2\"]", "e.toml:2:11", "keep one"),
        ("machine = [\"smp-4\", 2]", "e.toml:2:11", "array of tables"),
        ("[[machine]]\nname = \"m\"", "e.toml:2:1", "machine = \"smp-8\" at the top"),
        ("[machine]\nname = \"m\"", "e.toml:2:1", "write [[machine]], also where there is only one"),
        ("[load]\nloops = 5", "e.toml:2:1", "write [[load]], also where there is only one"),
    ] {
        let text = error(&with_top(top));
        assert!(text.starts_with(place) && text.contains(says), "{top}: {text}");
    }
}

#[test]
fn an_unknown_key_is_answered_with_the_keys_of_that_table_once_each() {
    let text =
        error("name = \"x\"\n[workload]\nname = \"pipe\"\nbananas = 3\n[[variant]]\nkernel = \"v6.5\"\n");
    assert_eq!(
        text,
        "e.toml:4:1: unknown pipe parameter 'bananas'\n  help: known: loops, size, pairs, client_work, server_work, mode, runtime, name, rtapp, rtapp_text, schedule, command"
    );
    // Also with several workloads of which others have such a key.
    let two = "name = \"x\"\n[[workload]]\nname = \"hackbench\"\n[[workload]]\nname = \"pipe\"\nfds = 3\n";
    let text = error(&format!("{two}[[variant]]\nkernel = \"v6.5\"\n"));
    assert!(text.starts_with("e.toml:6:1: unknown pipe parameter 'fds'"), "{text}");
    assert_eq!(text.matches("runtime").count(), 1, "{text}");
    let load =
        error(&with_top("machine = \"smp-2\"").replace("[[variant]]", "[[load]]\nthreads = 2\n[[variant]]"));
    assert!(load.starts_with("e.toml:6:1: unknown pipe parameter 'threads'"), "{load}");
    for (from, to, says) in [
        ("name = \"pipe\"", "name = \"pipe\"\nruns = 3", "runs belongs at the top of the file"),
        ("name = \"pipe\"", "name = \"pipe\"\nfeatures = [\"X\"]", "features belongs in [[variant]]"),
        ("name = \"pipe\"", "nmae = \"pipe\"", "did you mean 'name'"),
        ("name = \"pipe\"", "loops = 2", "name = one of schbench, "),
        ("kernel = \"v6.5\"", "metrics = [\"work\"]\nkernel = \"v6.5\"", "metrics belongs at the top"),
        ("kernel = \"v6.5\"", "kernel = \"v6.5\"\nhz = 100", "tunables = { hz = ... }"),
        ("kernel = \"v6.5\"", "kernel = \"v6.5\"\nNO_SIS_UTIL = true", "features = [\"NO_SIS_UTIL\"]"),
        ("kernel = \"v6.5\"", "kernel = \"v6.5\"\npairs = 2", "[workload] or [[load]]"),
        ("kernel = \"v6.5\"", "kernel = 6.5", "in quotes"),
        ("machine = \"smp-2\"", "kernel = \"v6.5\"", "kernel belongs in [[variant]]"),
        ("machine = \"smp-2\"", "metrics = [\"round_trip.mean\"]", "did you mean 'pipe.round_trip.mean'?"),
        ("machine = \"smp-2\"", "machine = smp-2", "text stands in quotes"),
        ("[workload]", "[load]\n[load]\n[workload]", "written [[name]]"),
        ("kernel = \"v6.5\"", "kernle = \"v6.5\"", "did you mean 'kernel'"),
        ("kernel = \"v6.5\"", "name = \"a\"", "kernel = \"v6.5\", \"6.1\" or \"running\""),
        ("[workload]\nname = \"pipe\"", "workload = \"pipe\"", "[workload] and below it name = \"pipe\""),
    ] {
        let text = error(&with_top("machine = \"smp-2\"").replace(from, to));
        assert!(text.contains(says), "{to}: {text}");
    }
}

#[test]
fn a_load_without_a_name_is_named_after_its_values() {
    let names = |loads: &str| -> Vec<String> {
        let text = with_top("machine = \"smp-4\"").replace("[[variant]]", &format!("{loads}\n[[variant]]"));
        experiment(&text).loads.into_iter().map(|l| l.name).collect()
    };
    assert_eq!(names("[[load]]\npairs = { sweep = [1, 2] }"), ["pairs=1", "pairs=2"]);
    assert_eq!(names("[[load]]\npairs = \"{cpus/2}\"\nloops = 7"), ["loops=7,pairs=2"]);
    assert_eq!(names("[[load]]\n[[load]]\npairs = 2"), ["default", "pairs=2"]);
    let wrong =
        with_top("machine = \"smp-4\"").replace("[[variant]]", "[[load]]\npairs = \"{cpu}\"\n[[variant]]");
    assert!(error(&wrong).starts_with("e.toml:6:9: '{cpu}' can't"), "{}", error(&wrong));
    assert_eq!(names("[[load]]\nname = \"a\"\npairs = { sweep = [1, 2] }"), ["a,pairs=1", "a,pairs=2"]);
    // The workload's swept values are in the name of every load.
    let swept = with_top("machine = \"smp-4\"")
        .replace("[[variant]]", "size = { sweep = [4, 8] }\n[[load]]\npairs = 2\n[[variant]]");
    let swept: Vec<String> = experiment(&swept).loads.into_iter().map(|l| l.name).collect();
    assert_eq!(swept, ["size=4,pairs=2", "size=8,pairs=2"]);
    let twice = with_top("machine = \"smp-4\"").replace("[[variant]]", "[[load]]\n[[load]]\n[[variant]]");
    let twice = error(&twice);
    assert!(
        twice.contains("two loads have the name 'default'") && twice.contains("in each [[load]]"),
        "{twice}"
    );
    let command = "name = \"x\"\nmachine = \"smp-2\"\n[workload.command]\nrun = \"true {load}\"\n\
                   [[load]]\nload = { sweep = [1, 2] }\n[[variant]]\nkernel = \"running\"\n";
    let command: Vec<String> = experiment(command).host_loads.into_iter().map(|l| l.name).collect();
    assert_eq!(command, ["load=1", "load=2"]);
}

#[test]
fn real_kernels_are_variants_and_the_simulator_says_that_it_cannot_boot_them() {
    let with = |kernels: &[&str]| {
        let variants: String = kernels.iter().map(|k| format!("[[variant]]\nkernel = \"{k}\"\n")).collect();
        experiment(&with_top("machine = \"smp-2\"").replace("[[variant]]\nkernel = \"v6.5\"\n", &variants))
    };
    let planned = |kernels: &[&str]| plan(&with(kernels), Backend::Sim, plan::Options::default());
    let real = with(&["/boot/vmlinuz-6.8.1-mine", "6.8", "7"]);
    let names: Vec<&str> = real.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["6.8.1-mine", "6.8", "7"]);
    let refused = planned(&["/boot/vmlinuz-6.8.1-mine", "6.8"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "x: real kernels can't be simulated: 6.8.1-mine, 6.8\n  help: --backend vm boots them in guests, --backend code runs their schedulers"
    );
    let mixed = planned(&["v6.5", "linux-a/arch/x86/boot/bzImage", "6.1"]).unwrap();
    let kernels: Vec<&str> = mixed.cells.iter().map(|c| c.kernel.as_str()).collect();
    assert_eq!(kernels, ["v6.5", "v6.1"]);
    let told: Vec<String> = mixed.warnings.iter().map(|w| format!("{}: {}", w.code, w.message)).collect();
    assert!(
        told[0].starts_with("sim.left_out")
            && told[0].ends_with("(--backend vm boots them): linux-a/arch/x86/boot/bzImage"),
        "{told:?}"
    );
    assert!(told[1].starts_with("sim.profiles") && told[1].ends_with(": 6.1"), "{told:?}");
    assert!(planned(&["v6.5"]).unwrap().warnings.is_empty());
    let wrong = error(&with_top("machine = \"smp-2\"").replace("v6.5", "v6.8"));
    assert!(wrong.contains("no simulated kernel 'v6.8'") && wrong.contains("a series without v"), "{wrong}");
    // Changes to a real kernel are checked as far as possible.
    let feature =
        with_top("machine = \"smp-2\"").replace("\"v6.5\"", "\"6.8\"\nfeatures = [\"NO_SIS_UTLI\"]");
    assert!(error(&feature).contains("'SIS_UTIL'"));
}
