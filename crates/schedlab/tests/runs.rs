//! Stored runs through the binary: found, shown, made again, removed; and why the waits of one are longer than
//! another's.

use crate::common;
use crate::common::{Lab, files};

#[test]
fn a_stored_run_is_made_again_by_the_line_that_show_prints() {
    let lab = Lab::new();
    lab.ok("run small.toml -q --load 1x2 --variant first-idle --seed 4");
    let bench = "bench schbench --backend sim --machine smp-2 --kernel v6.5 --feature NO_SIS_UTIL@50ms \
                 --tunable hz=250 --nice 3 -m 1 -t 2 -r 100ms -c 1500us --seed 7 -q";
    lab.ok(bench);
    let cells = lab.json("runs --json");
    let cells = cells["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let json = lab.json(&["runs", "show", cell["folder"].as_str().unwrap(), "--json"]);
        let again = json["again"].as_str().and_then(|line| line.strip_prefix("schedlab "));
        lab.ok(&format!("{} --out anew", again.unwrap_or_else(|| panic!("{json}"))));
    }
    let (first, anew) = (files(&lab.path().join("runs")), files(&lab.path().join("anew")));
    assert!(first == anew, "the same runs, to the byte");
}

/// How many runs a list has.
fn runs_of(list: &serde_json::Value) -> usize {
    list["cells"].as_array().unwrap().iter().map(|c| c["seeds"].as_array().unwrap().len()).sum()
}

#[test]
fn runs_to_remove_are_listed_first_and_nothing_else_is_removed() {
    let lab = Lab::new();
    lab.ok("run small.toml -q");
    std::fs::create_dir_all(lab.path().join("runs/notes")).unwrap();
    lab.write("runs/notes/mine.txt", "mine");
    let before = files(&lab.path().join("runs"));
    assert!(lab.run("runs rm --yes", 2).1.contains("nothing is named"));
    let said = lab.ok("runs rm --load 1x6");
    assert!(said.contains("6 runs, ") && said.contains("nothing is removed yet: --yes does it"), "{said}");
    assert!(files(&lab.path().join("runs")) == before);
    // A run with somebody's file beside its record stays, the others go.
    let folder = lab.json("runs --load 1x6 --json")["cells"][0]["folder"].clone();
    lab.write(&format!("{}/2/thesis.txt", folder.as_str().unwrap()), "years of work");
    let (out, err) = lab.run("runs rm --load 1x6 --yes", 3);
    assert!(
        out.contains("\n5 runs removed, ") && !out.contains("6 runs") && err.contains("thesis.txt"),
        "{out}\n{err}"
    );
    let left = lab.json("runs --json");
    assert_eq!(runs_of(&left), 7, "{left}");
    assert!(lab.path().join("runs/notes/mine.txt").is_file());
    assert_eq!(lab.ok("runs gc"), "nothing to remove\n");
}

#[test]
fn gc_removes_runs_of_other_versions_and_old_remains() {
    let lab = Lab::new();
    lab.ok("run small.toml -q --load 1x2");
    let all = files(&lab.path().join("runs"));
    let record = all.iter().find(|(name, _)| name.ends_with("1/record.json")).unwrap();
    let file = lab.path().join("runs").join(&record.0);
    let text = String::from_utf8(record.1.clone()).unwrap();
    std::fs::write(&file, with_model(&text, 1)).unwrap();
    let remains = file.parent().unwrap().with_file_name(".run.1.0.tmp");
    std::fs::create_dir(&remains).unwrap();
    std::fs::write(remains.join("record.json"), "half").unwrap();
    let day_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    std::fs::File::open(&remains).unwrap().set_modified(day_ago).unwrap();
    assert!(lab.ok("runs").contains("1 of another version"));
    let said = lab.ok("runs gc");
    assert!(said.contains("simulated by model 1") && said.contains("never finished"), "{said}");
    assert!(file.is_file() && remains.is_dir());
    let json = lab.json("runs gc --yes --json");
    assert_eq!((&json["schema"], &json["removed"]), (&"schedlab/removal/1".into(), &true.into()));
    assert!(!file.exists() && !remains.exists());
    // The other runs of that cell are this version's, and stay.
    let left = lab.json("runs --json");
    assert_eq!(runs_of(&left), 5, "{left}");
}

fn with_model(text: &str, model: u32) -> String {
    let (front, rest) = text.split_once("\"model\":").unwrap();
    format!("{front}\"model\":{model}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn gc_keeps_newer_runs_and_live_measurements() {
    let lab = Lab::new();
    lab.ok("run small.toml -q --load 1x2 --variant v4.5");
    lab.rewrite(|text| with_model(text, 999_999));
    let said = lab.ok("runs gc --live --yes");
    assert_eq!(said, "nothing to remove\nkept: 3 runs of a newer version\n");
    lab.rewrite(|text| with_model(text, 0).replacen("\"backend\":\"sim\"", "\"backend\":\"host\"", 1));
    let json = lab.json("runs gc --yes --json");
    assert_eq!((&json["removed"], &json["live"], &json["newer"]), (&false.into(), &3.into(), &0.into()));
    assert!(lab.ok("runs gc").contains("kept: 3 runs measured in real time; --live removes them, too"));
    assert!(lab.ok("runs gc --live --yes").contains("3 runs removed"));
}

#[test]
fn only_named_cells_are_removed() {
    let lab = Lab::new();
    lab.ok("run small.toml -q --load 1x2 --variant v4.5");
    let folder = lab.json("runs --json")["cells"][0]["folder"].as_str().unwrap().to_owned();
    let name = folder.strip_prefix("runs/").unwrap();
    std::fs::create_dir_all(lab.path().join("other").join(name)).unwrap();
    for wrong in [format!("other/{name}"), format!("other/{name}/1"), format!("nowhere/{name}")] {
        lab.says(&["runs", "rm", &wrong, "--yes"], 2, &["no cell '"]);
    }
    let whole = lab.path().join("runs").join(name).join("2");
    lab.ok(&["runs", "rm", whole.to_str().unwrap(), "--yes"]);
    assert_eq!(lab.json("runs --json")["cells"][0]["seeds"], serde_json::json!([1, 3]));
    // No experiment made a run of `bench`.
    lab.ok("bench pipe --backend sim --machine smp-2 -q --out plain");
    let shown = lab.ok("runs show --out plain");
    assert!(shown.contains("\n  stored 2") && !shown.contains("made stored"), "{shown}");
}

#[test]
fn causes_of_two_runs_add_up_to_all_of_their_time() {
    let lab = Lab::new();
    lab.ok("run small.toml -q");
    let words = "explain small.toml --load 1x6 --variant v4.5 --vs first-idle --json";
    let json = lab.json(words);
    assert_eq!(json["schema"], "schedlab/explanations/1");
    for side in ["a", "b"] {
        let causes = json["causes"].as_array().unwrap().iter();
        let time: u64 = causes.map(|c| c[side]["time_ns"].as_u64().unwrap()).sum();
        assert_eq!(json[side]["time_ns"].as_u64().unwrap(), time, "{json}");
    }
}

#[test]
fn an_edited_experiment_is_explained_by_its_present_cells_and_the_list_marks_old_ones() {
    let lab = Lab::new();
    let short = common::SMALL.replace("200ms", "100ms");
    for text in [short.as_str(), common::SMALL] {
        lab.write("small.toml", text);
        lab.ok("run small.toml -q --load 1x6");
    }
    let text = lab.ok("explain small.toml --load 1x6 --variant v4.5 --vs first-idle");
    assert!(text.contains("\nB  schbench 1x6 on smp-4, first-idle, sim, seed 1\n"), "{text}");
    let fresh = Lab::new();
    fresh.ok("run small.toml -q --load 1x6");
    let choice = "explain small.toml --load 1x6 --variant v4.5 --vs first-idle";
    assert_eq!(fresh.ok(choice), text, "the older cells make no difference");

    let list = lab.ok("runs");
    assert_eq!(list.matches("differs: runtime ").count(), 2, "{list}");
    assert!(list.contains("runtime 100ms / 200ms") || list.contains("runtime 200ms / 100ms"), "{list}");
    let cells = lab.json("runs --variant v4.5 --json");
    let runtimes: Vec<&str> = cells["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["differs"]["runtime"].as_str().unwrap())
        .collect();
    assert!(runtimes.contains(&"100ms") && runtimes.contains(&"200ms"), "{cells}");
    assert!(!fresh.ok("runs").contains("differs"));
}

#[test]
fn explain_reports_a_bad_cell_and_works_inside_a_cell() {
    let lab = Lab::new();
    lab.ok("run small.toml -q --load 1x6");
    let cells = lab.json("runs --variant v4.5 --json");
    let folder = cells["cells"][0]["folder"].as_str().unwrap();
    let digits = &folder["runs/".len()..][..8];
    lab.says(&["explain", &format!("{digits}/7")], 2, &["has no run of seed 7", "its seeds: 1-3"]);
    let beside = lab.ok(&["explain", &format!("{folder}/1"), "--vs", "first-idle"]);
    let within = |words: &[&str]| {
        let output = lab.command(words).current_dir(lab.path().join(folder)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(within(&["explain", "1", "--vs", "first-idle"]), beside);
    assert_eq!(within(&["explain", "."]), lab.ok(&["explain", &format!("{folder}/1")]));
}

#[test]
fn lines_that_make_runs_again_fit_gaps_files_and_live_runs() {
    let lab = Lab::new();
    lab.ok("run small.toml -q --load 1x2 --variant v4.5");
    let folder = lab.json("runs --json")["cells"][0]["folder"].as_str().unwrap().to_owned();
    let line = |lab: &Lab| lab.json("runs show --json")["again"].as_str().map(str::to_owned);
    assert!(line(&lab).unwrap().contains(" 1x2@smp-4 "), "{:?}", line(&lab));
    lab.ok(&["runs", "rm", &format!("{folder}/2"), "--yes"]);
    let both = line(&lab).unwrap();
    let ends: Vec<&str> = both.lines().map(|l| l.split_once(" --runs ").unwrap().1).collect();
    assert_eq!(ends, ["1 --seed 1", "1 --seed 3"]);
    lab.rewrite(|text| text.replacen("\"backend\":\"sim\"", "\"backend\":\"host\"", 1));
    let live = line(&lab).unwrap();
    assert!(live.ends_with(" --runs 2") && live.contains("--backend host"), "{live}");
    assert!(!live.contains("--counters"), "{live}");
    lab.rewrite(|text| text.replacen("\"backend\":", "\"observe\":\"counters\",\"backend\":", 1));
    assert!(line(&lab).unwrap().contains(" --counters "), "{:?}", line(&lab));
    // The copy can't be loaded where it lies: it names a file beside the original.
    for seed in [1, 3] {
        let text = common::SMALL.replace("name = \"schbench\"", "rtapp = \"j.json\"");
        lab.write(&format!("{folder}/{seed}/experiment.toml"), &text);
    }
    assert_eq!(line(&lab), None);
}

#[test]
fn an_index_changes_no_byte_and_never_hides_a_record() {
    let lab = Lab::new();
    lab.ok("run small.toml -q");
    let asked: [&[&str]; 4] = [
        &["compare", "runs"],
        &["compare", "runs", "--json"],
        &["compare", "runs", "--json", "--metric", "wakeup_delay.p97.3", "--metric", "wakeup_delay.p99"],
        &["compare", "runs", "--format", "csv", "--metric", "cpu0.ttwu_count", "--metric", "migrations"],
    ];
    let all = || asked.map(|words| lab.ok(words));
    let plain = all();
    assert!(!lab.path().join("runs/.index").exists(), "few runs have no index");
    assert_eq!(lab.ok("runs index"), "runs: 12 runs indexed\n");
    assert_eq!(all(), plain);
    let check = |code| lab.run("runs index --check --json", code).0;
    assert!(check(0).contains("\"right\": 12"), "{}", check(0));
    // A run that goes and one that comes back with another time.
    let cells = lab.json("runs --json");
    let folder = lab.path().join(cells["cells"][0]["folder"].as_str().unwrap());
    let record = folder.join("1/record.json");
    let text = std::fs::read(&record).unwrap();
    // File systems count time by ticks of up to 10 ms.
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(&record, &text).unwrap();
    assert!(check(0).contains("\"missing\": 1"), "{}", check(0));
    assert_eq!(all(), plain);
    std::fs::remove_dir_all(folder.join("1")).unwrap();
    assert_ne!(lab.ok(asked[1]), plain[1]);
    // A damaged index counts as not there.
    let index = std::fs::read_dir(lab.path().join("runs/.index")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&index, "damaged").unwrap();
    assert!(check(0).contains("\"missing\": 11"), "{}", check(0));
    assert!(lab.run("runs index --load 1x6", 2).1.contains("whole store"));
}
