//! `schedlab limits`: one table for a limit and what it might be, by the binary.

use crate::common::Lab;

/// A service whose collector is throttled by its limit of half a CPU, for a short time.
const THROTTLED: &str = "limits pool --limit 500m --request 250m --threads 4 --rate 600 --work 200us --gc-every 200 --gc-work 70ms \
                         -r 3s --runs 10 -q";

/// The row of a variant in the text, its words.
fn row(text: &str, variant: &str) -> Vec<String> {
    let line =
        text.lines().find(|l| l.starts_with(variant)).unwrap_or_else(|| panic!("no {variant} in\n{text}"));
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_limit_that_throttles_is_worse_than_none_and_half_is_worse_still() {
    let lab = Lab::new();
    let text = lab.ok(&format!("{THROTTLED} --kernel v6.12"));
    assert!(row(&text, "as-is 0.5").join(" ").contains(" of "), "{text}");
    assert!(row(&text, "none").contains(&"*".to_owned()), "removing it is better\n{text}");
    assert!(row(&text, "half 0.25").contains(&"!".to_owned()), "half of it is worse\n{text}");
    let json = lab.json(&format!("{THROTTLED} --kernel v6.12 --json"));
    let cell = |variant: &str| {
        let cells = json["cells"].as_array().unwrap();
        cells.iter().find(|c| c["variant"] == variant).unwrap()["metrics"].clone()
    };
    let mean = |variant: &str, metric: &str| cell(variant)[metric]["mean"].as_f64();
    assert!(mean("as-is 0.5", "group./service.nr_throttled") > Some(3.0), "{json}");
    assert_eq!(
        mean("none", "group./service.nr_throttled"),
        None,
        "a group without a quota has no such count"
    );
    let [limited, free] = ["as-is 0.5", "none"].map(|v| mean(v, "pool.latency.p99").unwrap());
    assert!(limited > 2.0 * free, "{limited} {free}");
    let used = mean("as-is 0.5", "group./service.cpus").unwrap();
    assert!((0.25..=0.5).contains(&used), "{used}");
    // Gates of CI work as with every comparison.
    lab.says(&format!("{THROTTLED} --kernel v6.12 --fail-on worse"), 1, &["half 0.25 against as-is 0.5"]);
}

#[test]
fn each_kernel_is_a_block_with_a_baseline_of_its_own_and_old_ones_have_no_burst() {
    let lab = Lab::new();
    let line = format!("{THROTTLED} --kernel v4.14 --kernel v6.12");
    let json = lab.json(&format!("{line} --json"));
    let rows = json["comparisons"].as_array().unwrap();
    assert!(
        rows.iter().all(|r| r["baseline"] == format!("{} as-is 0.5", r["load"].as_str().unwrap())),
        "{rows:?}"
    );
    let has = |name: &str| rows.iter().any(|r| r["variant"] == name);
    assert!(has("v6.12 burst 0.5+0.5") && !has("v4.14 burst 0.5+0.5") && has("v4.14 half 0.25"), "{rows:?}");
    let text = lab.ok(&line);
    assert!(text.contains("pool v4.14 on smp-4") && text.contains("pool v6.12 on smp-4"), "{text}");
}

#[test]
fn the_question_is_an_ordinary_experiment() {
    let lab = Lab::new();
    assert!(lab.ok(&format!("{THROTTLED} --save mine.toml")).contains("schedlab run mine.toml"));
    lab.ok(THROTTLED);
    let line = "run mine.toml --runs 10 --format variants";
    lab.says(line, 0, &["0 runs made, 50 found"]);
    assert!(lab.text("mine.toml").contains("[[variant.group]]"));
    lab.says(&format!("{THROTTLED} --save mine.toml"), 2, &["mine.toml"]);
}

#[test]
fn words_of_every_tool_are_limits_and_times_are_refused() {
    let lab = Lab::new();
    fn line(limit: &str) -> Vec<&str> {
        vec!["limits", "http", "--limit", limit, "--save", "x.toml", "--alone"]
    }
    for limit in ["1500m", "150000 100000", "150000/100000", "150%", "CPUQuota=150%", "cpus=1.5"] {
        let _ = std::fs::remove_file(lab.path().join("x.toml"));
        lab.run(&line(limit), 0);
        assert!(lab.text("x.toml").contains("quota = \"150000000ns\""), "{limit}");
    }
    lab.says("limits http --limit -1", 2, &["there is no limit to compare with"]);
    lab.says("limits http --limit 1 --try -1", 2, &["'none' and 'none' are the same limit"]);
    lab.ok("limits http --limit --cpus=1 --request --cpu-shares=512 --try --cpus=2 --save words.toml");
    let (_, err) = lab.run(&line("50ms"), 2);
    assert!(err.contains("'ms'") && err.contains("50 us") && err.contains("50000 100000"), "{err}");
    // The service asks for a CPU: 1024 shares are a weight of 100 by today's formula, and 39 by that before 2025.
    for (formula, shares) in [("quadratic", 1024), ("linear", 399), ("v1", 1024)] {
        let _ = std::fs::remove_file(lab.path().join("x.toml"));
        lab.run(&[&line("1")[..], &["--formula", formula]].concat(), 0);
        assert!(lab.text("x.toml").contains(&format!("shares = {shares}\n")), "{formula}");
    }
    lab.says("limits http --limit none", 2, &["--try"]);
    lab.says("limits http", 2, &["--limit"]);
}

#[test]
fn the_servers_tasks_are_limited_and_an_option_of_the_workload_with_our_name_has_its_own_in_front() {
    let lab = Lab::new();
    lab.ok("limits oltp --limit 1 --save oltp.toml");
    assert!(lab.text("oltp.toml").contains("tasks = [\"server\", \"logger\"]"), "{}", lab.text("oltp.toml"));
    lab.ok("limits http --limit 1 --http-request 200 --request 500m --save http.toml");
    let text = lab.text("http.toml");
    assert!(text.contains("request = 200\n") && text.contains("shares = 604\n"), "{text}");
}

/// The worked example of golang/go issue 73193: 50 ms of work in 10 parts, every 100 ms, on 10 CPUs with a limit of 2.
#[test]
fn a_pool_of_ten_threads_answers_in_5_ms_and_one_of_two_in_25() {
    let lab = Lab::new();
    let line = "limits pool --limit 2 --machine smp-10 --threads-of go-1.24 --threads-of go-1.25 --rate 10 --work 50ms \
                --parts 10 --gc-every 0 -r 20s --runs 2 --alone --json -q";
    let json = lab.json(line);
    let of = |load: &str| {
        let cells = json["cells"].as_array().unwrap();
        let cell = cells.iter().find(|c| c["load"] == load && c["variant"] == "as-is 2").unwrap();
        cell["metrics"]["pool.latency.p50"]["mean"].as_f64().unwrap() / 1e6
    };
    let (ten, two) = (of("go-1.24:10"), of("go-1.25:2"));
    assert!((4.0..7.0).contains(&ten), "{ten}");
    assert!((22.0..30.0).contains(&two), "{two}");
}
