//! Histories through the binary: read, judged, added to, and the exit codes of a job.

use crate::common::Lab;
use schedlab_base::Stream;
use std::fmt::Write;

/// A number from -1 to 1, about normal.
fn noise(s: Stream, i: u64) -> f64 {
    (0..4).map(|k| s.below(4 * i + k, 1000) as f64 / 500.0 - 1.0).sum::<f64>() / 4.0
}

/// The date of a day of 2026.
fn date(day: usize) -> String {
    format!("2026-{:02}-{:02}", day / 28 + 1, day % 28 + 1)
}

/// 100 days of three runs of hackbench on some machines, with a commit for every two days. `level` gives a machine's
/// level by the day.
fn history(machines: &[&str], level: impl Fn(&str, usize) -> f64) -> String {
    let mut text = String::from("date,commit,machine,workload,load,run,metric,unit,better,value\n");
    for machine in machines {
        let s = Stream::new(3).purpose("gate").purpose(machine);
        for day in 0..100 {
            for run in 0..3u64 {
                let e = 0.01 * noise(s.purpose("day"), day as u64) + 0.01 * noise(s, 3 * day as u64 + run);
                let (date, value) = (date(day), 1e9 * level(machine, day) * (1.0 + e));
                let _ = writeln!(
                    text,
                    "{date},c{:02},{machine},hackbench,groups=4,{run},hackbench.elapsed.mean,ns,lower,{value}",
                    day / 2
                );
            }
        }
    }
    text
}

#[test]
fn a_change_on_some_machines_is_one_row_and_fails_the_job() {
    let lab = Lab::new();
    let moved = |machine: &str, day| if day >= 60 && machine != "c" { 1.1 } else { 1.0 };
    lab.write("h.csv", &history(&["a", "b", "c"], moved));
    let j = lab.json("gate h.csv --json");
    let [change] = &j["changes"].as_array().unwrap()[..] else { panic!("{j}") };
    assert_eq!((&change["verdict"], &change["cause"]), (&"worse".into(), &"commit".into()));
    assert_eq!((&change["before"]["commit"], &change["first"]["commit"]), (&"c29".into(), &"c30".into()));
    assert_eq!((&change["on"], change["machines"].as_array().unwrap().len()), (&2.into(), 3));
    let still = &change["machines"][2];
    assert!(
        !still["shown"].as_bool().unwrap() && still["change_pct"].as_f64().unwrap().abs() < 1.0,
        "{still}"
    );
    let text = lab.ok("gate h.csv");
    for words in [
        "! worse: hackbench groups=4 elapsed.mean +",
        "between c29",
        "worse on 2 of 3 machines: a +",
        "at most 5%",
    ] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{words}: {text}");
    }
    let fits = |l: &str| l.chars().count() <= 78 || l.starts_with("  schedlab bisect ");
    assert!(text.lines().all(fits), "{text}");
    let [good, bad] = [0, 1].map(|end| change["bisect"][end].as_str().unwrap());
    assert!(good <= "c29" && bad >= "c30", "{change}");
    let line = format!("\n  schedlab bisect --good {good} --bad {bad} --build 'make -j' -- COMMAND\n");
    assert!(
        text.contains(&line) && text.contains("Commits of a kernel are bisected with --metric"),
        "{text}"
    );
    lab.write("hyphen.csv", &lab.text("h.csv").replace(",c", ",-c").replace("-commit", "commit"));
    let hyphen = lab.ok("gate hyphen.csv --machine a");
    assert!(hyphen.contains("bisect --good=-c") && hyphen.contains(" --bad=-c30 --build"), "{hyphen}");

    let failing = "gate h.csv --fail-on worse --junit j.xml -o page.html --format markdown";
    let (markdown, err) = lab.run(failing, 1);
    assert!(err.contains("--fail-on worse: 1 of 3 series") && err.contains("between c29"), "{err}");
    assert!(markdown.contains("| worse | hackbench groups=4 elapsed.mean | +"), "{markdown}");
    let junit = lab.text("j.xml");
    assert!(
        junit.contains("tests=\"3\" failures=\"2\"") && junit.matches("<failure type=\"worse\"").count() == 2
    );
    let page = lab.text("page.html");
    assert!(
        page.contains("<svg") && page.contains("default-src 'none'") && !page.contains("://"),
        "self-contained"
    );
    assert_eq!(page.matches("<circle").count(), 300);
    assert_eq!(page.matches("<polyline").count(), 5, "two levels on two machines, one on the third");

    lab.ok("gate h.csv --fail-on better");
    lab.ok("gate h.csv --fail-on worse --machine c");
    lab.ok("gate h.csv --fail-on worse --since 2026-04-01");
    lab.ok("gate h.csv --fail-on worse --min-effect 20");
    lab.says("gate h.csv --machine d", 2, &["none of the history's 900 values passes"]);
}

#[test]
fn a_machine_that_drifts_or_changes_under_one_commit_fails_nothing() {
    let lab = Lab::new();
    lab.write("slope.csv", &history(&["a"], |_, day| 1.0 + 0.001 * day as f64));
    let j = lab.json("gate slope.csv --json --fail-on worse,better,changed");
    assert_eq!(j["changes"].as_array().unwrap().len(), 0);
    let drift = j["drifts"][0]["change_pct"].as_f64().unwrap();
    assert!((7.0..11.0).contains(&drift), "{drift}");
    assert!(lab.ok("gate slope.csv").contains("\ndrift: hackbench groups=4 elapsed.mean on a: +"));

    let one_commit = history(&["a"], |_, day| if day >= 60 { 1.1 } else { 1.0 });
    let days: String = one_commit
        .lines()
        .map(|l| {
            let mut fields: Vec<&str> = l.split(',').collect();
            if fields[0] != "date" {
                fields[1] = "same";
            }
            fields.join(",") + "\n"
        })
        .collect();
    lab.write("days.csv", &days);
    let j = lab.json("gate days.csv --json --fail-on worse,better,changed");
    assert_eq!((&j["changes"][0]["cause"], &j["series"][0]["verdict"]), (&"machine".into(), &"same".into()));
    let machine = &j["changes"][0]["machines"][0];
    assert_eq!((&machine["machine"], &machine["units"]), (&"a".into(), &serde_json::json!([60, 40])));
    let text = lab.ok("gate days.csv");
    assert!(text.contains("machine: hackbench") && !text.contains("of 0 machines"), "{text}");
    assert!(!text.contains("schedlab bisect"), "one commit: {text}");
}

#[test]
fn histories_of_others_are_read_wide_and_with_their_names() {
    let lab = Lab::new();
    let mut text = String::from("when;sha;p99 (us);ops;note\n");
    for day in 0..60 {
        let s = Stream::new(8);
        let e = 0.01 * noise(s, day as u64);
        let ops = if day >= 40 { 900.0 } else { 1000.0 } * (1.0 + 0.01 * noise(s.purpose("ops"), day as u64));
        let _ = writeln!(text, "{};r{day};{};{ops};fine", date(day), 50.0 * (1.0 + e));
    }
    lab.write("wide.csv", &text);
    let j = lab.json("gate wide.csv --json --better lower --better ops=higher");
    let series = j["series"].as_array().unwrap();
    let of = |i: usize| (series[i]["metric"].as_str().unwrap(), series[i]["unit"].as_str().unwrap());
    assert_eq!((series.len(), of(0), of(1)), (2, ("p99", "us"), ("ops", "")));
    assert_eq!((&series[0]["verdict"], &series[1]["verdict"]), (&"same".into(), &"worse".into()));
    assert_eq!(j["changes"][0]["first"]["commit"], "r40");
    assert!(lab.run("gate wide.csv --fail-on worse --metric ops --better higher", 1).1.contains("ops -10."));

    // The same as a long table in another order of columns, in a folder of two files.
    std::fs::create_dir(lab.path().join("store")).unwrap();
    let long = |range: std::ops::Range<usize>| {
        let mut long = String::from("quantity,ms,built\n");
        let line = |day: usize| {
            format!(
                "boot,{},{}\n",
                if day >= 40 { 90.0 } else { 100.0 } + noise(Stream::new(1), day as u64),
                date(day)
            )
        };
        range.for_each(|day| long += &line(day));
        long
    };
    lab.write("store/1.csv", &long(0..30));
    lab.write("store/2.csv", &long(30..60));
    let columns = "--column metric=quantity --column value=ms --column date=built --better lower";
    let j = lab.json(&format!("gate store --json {columns}"));
    assert_eq!((&j["changes"][0]["verdict"], &j["changes"][0]["cause"]), (&"better".into(), &"day".into()));
}

#[test]
fn what_can_t_be_read_has_its_place() {
    let lab = Lab::new();
    let says = |text: &str, options: &str, parts: &[&str]| {
        lab.write("x.csv", text);
        lab.says(&format!("gate x.csv {options}"), 2, parts);
    };
    says(
        "date,metric,value\n2026-01-01,a,1\n01.02.2026,a,2\n",
        "",
        &["x.csv:3:1", "'01.02.2026' is not a date", "--column"],
    );
    says("date,metric,value\n2026-01-01,a,fast\n", "", &["x.csv:2:14", "'fast' is not a number"]);
    says("date,metric,value\n2026-01-01,a\n", "", &["x.csv:2:1", "2 fields here, and the first line has 3"]);
    says("date,metric,value\n2026-01-01,\"a,1\n", "", &["x.csv:2:12", "no partner"]);
    says("a,b\n1,2\n", "", &["x.csv:1:1", "no column has the date or the commit", "--column date=NAME"]);
    says("date,metric\n2026-01-01,a\n", "", &["x.csv:1:1", "none has its value"]);
    says("date,note\n2026-01-01,a\n", "", &["x.csv:1:1", "no column has numbers"]);
    says("date,metric,value,better\n2026-01-01,a,1,up\n", "", &["x.csv:2:16", "'up'"]);
    says("date,metric,value\n", "", &["x.csv", "no value", "--add"]);
    says("", "", &["x.csv:1:1", "the file is empty"]);
    says("commit,metric,value\nc,a,1\n", "--since 2026-01-01", &["the history has no dates"]);
    says("date,a\n2026-01-01,1\n", "--column day=x", &["--column day=x", "date, commit"]);
    says("date,a\n2026-01-01,1\n", "--better up", &["--better", "'up'"]);
    for seconds in ["1767225600000", "202601011200"] {
        says(&format!("date,a\n{seconds},1\n"), "", &["x.csv:2:1", "is not a date", "not milliseconds"]);
    }
    let two = "date,a,b\n2026-01-01,1,2\n";
    says(two, "--metric a --metric c", &["--metric c: the history has no such metric", "it has: a, b"]);
    says(two, "--better c=lower", &["--better c: the history has no such metric", "it has: a, b"]);
    lab.ok("gate x.csv --metric a --better b=lower");
    lab.says("gate nowhere.csv", 2, &["nowhere.csv"]);
    lab.write("short.csv", "date,a\n2026-01-01,1\n2026-01-02,1\n");
    assert!(lab.ok("gate short.csv").contains("1 series has fewer than 14 days"));
    lab.says("gate short.csv --fail-on unclear", 1, &["unclear: 1 series"]);
}

#[test]
fn stored_runs_and_outputs_of_tools_are_added_once() {
    let lab = Lab::new();
    lab.ok("bench hackbench --backend sim --machine smp-2 --kernel v6.5 --runs 3 -q -g 1 -l 20");
    let add = "gate h.csv --add runs --commit abc --date 2026-03-01";
    assert!(lab.run(add, 0).1.contains("h.csv: 3 values added"));
    let first = lab.text("h.csv");
    assert!(first.contains("\n2026-03-01,abc,smp-2,hackbench,"), "{first}");
    assert!(lab.run(add, 0).1.contains("0 values added; 3 were there"));
    let said = lab.json(&format!("{add} --json"));
    assert_eq!(said, serde_json::json!({"schema": "schedlab/gate-added/1", "added": 0, "there": 3}));
    assert_eq!(lab.text("h.csv"), first);
    assert!(
        lab.run("gate h.csv --add runs --metric migrations --date 2026-03-02 --as big", 0)
            .1
            .contains("3 values")
    );
    assert!(lab.text("h.csv").starts_with(&first) && lab.text("h.csv").contains("2026-03-02,v6.5,big,"));
    // A folder has a file for each machine.
    std::fs::create_dir(lab.path().join("all")).unwrap();
    lab.ok("gate all --add runs --commit abc");
    assert!(lab.text("all/smp-2.csv").lines().count() == 4);
    lab.write("new.txt", "Running in process mode\nTime: 1.25\n");
    lab.says("gate all --add new.txt", 2, &["which machine", "--as"]);
    let j = lab.json("gate h.csv --json");
    assert_eq!(j["series"].as_array().unwrap().len(), 2);
    lab.write("other.csv", "date,a\n2026-01-01,1\n");
    lab.says("gate other.csv --add runs", 2, &["other.csv", "its first line is not"]);
    let text = lab.text("h.csv");
    lab.write("cut.csv", &text[..text.len() - 3]);
    lab.says("gate cut.csv --add runs --commit abc", 2, &["cut.csv", "its last line does not end"]);
    assert_eq!(lab.text("cut.csv").len(), text.len() - 3);
    // A comment is not a head; a byte order mark is left out; a line end in a name does not end the line.
    for (begin, lines) in [("# ours\n\n", 6), (&*format!("\u{feff}{}\n", text.lines().next().unwrap()), 4)] {
        lab.write("begun.csv", begin);
        lab.ok("gate begun.csv --add runs --date 2026-03-01 --variant v6.5");
        let begun = lab.text("begun.csv");
        assert!(begun.starts_with(begin) && begun.lines().count() == lines, "{begun}");
        assert_eq!(begun.matches("date,commit").count(), 1);
        lab.ok("gate begun.csv");
    }
    let odd = "gate odd.csv --add runs --date 2026-03-01 --commit 'a\nb'";
    lab.ok(odd);
    assert!(lab.run(odd, 0).1.contains("0 values added; 3 were there"), "{}", lab.text("odd.csv"));
    assert!(std::process::Command::new("mkfifo").arg(lab.path().join("pipe")).status().unwrap().success());
    lab.says("gate pipe --add runs", 2, &["pipe: not a regular file"]);
    lab.says("gate h.csv --add runs --date tomorrow", 2, &["--date tomorrow"]);
    // Two kernels on one machine are not one commit.
    lab.ok("bench hackbench --backend sim --machine smp-2 --kernel v6.6 --runs 3 -q -g 1 -l 20");
    let mixed = ["'v6.5'", "'v6.6'", "as commit 'x' on 'smp-2'", "name one with --variant or --backend"];
    lab.says("gate new.csv --add runs --commit x", 2, &mixed);
    assert!(!lab.path().join("new.csv").exists());
    lab.ok("gate new.csv --add runs --commit x --variant v6.6");
}
