//! Kernels from source, end to end. SCHEDLAB_TEST_BUILD=1 builds and boots each patch that ships; SCHEDLAB_TEST_SCX=1
//! builds the scheduler in `examples/scx` and runs a workload under it. SCHEDLAB_TEST_KERNEL=6.1, or any other image,
//! makes runs of that kernel in deterministic guests. Without them only bad input is tested, which builds nothing.

use crate::common::{Lab, Words, fake_tree, texts};
use schedlab_base::testing::skipped;
use schedlab_lab::search::trial;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The patches with features: those of mechanisms that stand alone, and the series of D001.
const PATCHES: &[&[&str]] = &[
    &["first-idle"],
    &["idle-cfs-rq"],
    &["fair-sleepers"],
    &["migration-cost"],
    &["sis-node"],
    &["newidle-1-sg-scan", "newidle-2-features", "newidle-3-snapshot", "newidle-4-util-fast"],
];

fn is_asked(variable: &str) -> bool {
    let asked = std::env::var_os(variable).is_some();
    if !asked {
        skipped(variable);
    }
    asked
}

/// Runs schedlab, and returns exit code, standard output and standard error.
fn run(lab: &Lab, words: &(impl Words + ?Sized)) -> (i32, String, String) {
    let output = lab.command(words).output().unwrap();
    let (out, said) = texts(&output);
    (output.status.code().unwrap_or(-1), out, said)
}

fn path_of(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    value["path"].as_str().unwrap().to_owned()
}

/// A metric's value in a run's JSON.
fn figure(json: &str, name: &str) -> f64 {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    value["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name} in {json:.300}"))
}

#[test]
fn each_patch_boots_with_8_and_32_cpus_and_does_nothing_while_its_feature_is_off() {
    if !is_asked("SCHEDLAB_TEST_BUILD") {
        return;
    }
    let lab = Lab::new();
    let build = |patches: &[&str]| {
        let mut words = vec!["kernel", "build", "--json", "-q"];
        patches.iter().for_each(|p| words.extend(["--patch", p]));
        let (code, out, said) = run(&lab, &words);
        assert_eq!(code, 0, "{patches:?}: {said}");
        path_of(&out)
    };
    let bench = |kernel: &str, machine: &str| {
        let words = format!(
            "bench pipe --loops 200 --pairs 4 --backend vm --guest-mode deterministic --kernel {kernel} --machine {machine} --json -q"
        );
        let (code, out, said) = run(&lab, &words);
        assert_eq!(code, 0, "{kernel} on {machine}: {said}");
        out
    };
    let base = bench(&build(&[]), "smp-8");
    for patches in PATCHES {
        let kernel = build(patches);
        let off = bench(&kernel, "smp-8");
        bench(&kernel, "smp-32");
        // A switched-off feature is a few instructions on the way, so times shift a little. What happens stays the
        // same.
        for name in ["woken", "switches.voluntary"] {
            let (a, b) = (figure(&base, name), figure(&off, name));
            assert!((a - b).abs() <= 0.02 * a, "{patches:?}: {name} {a} and {b}");
        }
    }
}

#[test]
fn a_workload_runs_under_the_smallest_scheduler() {
    if !is_asked("SCHEDLAB_TEST_SCX") {
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scx");
    let lab = Lab::new();
    let built = std::process::Command::new(example.join("build.sh")).arg(lab.path()).status().unwrap();
    assert!(built.success());
    std::fs::copy(example.join("fifo.toml"), lab.path().join("fifo.toml")).unwrap();
    let words = ["run", "fifo.toml", "--backend", "vm", "--runs", "1", "--format", "csv", "-q"];
    let (code, out, said) = run(&lab, &words);
    assert_eq!(code, 0, "{said}");
    assert!(out.lines().any(|l| l.contains("fifo")), "{out}");
    for (word, why) in
        [("schedlab_fifo", "the scheduler that had the tasks"), ("scx.event.", "the kernel's counters of it")]
    {
        let records = std::process::Command::new("grep")
            .args(["-rl", word, "runs"])
            .current_dir(lab.path())
            .output()
            .unwrap();
        assert!(!records.stdout.is_empty(), "a record has {why}");
    }
}

#[test]
fn a_bisection_needs_a_repository_and_ends_that_are_commits() {
    let lab = Lab::new();
    let words = ["bisect", "--good", "a", "--bad", "b", "--metric", "migrations", "--load", "storm", "-q"];
    let (code, _, said) = run(&lab, &words);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--good") && said.contains("git"), "{said}");
    let git = |words: &[&str]| {
        let who = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
        let done =
            std::process::Command::new("git").args(who).args(words).current_dir(lab.path()).status().unwrap();
        assert!(done.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "1"]);
    git(&["commit", "-q", "--allow-empty", "-m", "2"]);
    let words = ["bisect", "--good", "HEAD~1", "--metric", "migrations", "--load", "strom", "-q"];
    let (code, _, said) = run(&lab, &words);
    assert!(code == 2 && said.contains("storm"), "an unknown load, before anything is built: {said}");
}

/// A file of the cases.
fn case(name: &str) -> String {
    format!("{}/tests/cases/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A lab with the tree of the cases, which "builds" within a second, and with a folder beside it.
struct Workshop(Lab);

impl Workshop {
    fn new() -> Workshop {
        let lab = Lab::new();
        fake_tree(&lab);
        std::fs::create_dir(lab.path().join("outside")).unwrap();
        lab.write("outside/f", "orig\n");
        Workshop(lab)
    }
    /// Builds it: exit code, standard output and standard error; `None` where no kernel can be built.
    fn build(&self, more: &[&str]) -> Option<(i32, String, String)> {
        let words = ["kernel", "build", "--source", "tree", "--cache", "cache"].iter().chain(more);
        let done = run(&self.0, &words.copied().collect::<Vec<_>>());
        let lacks = done.0 == 3 && done.2.contains("a kernel can't be built here");
        if lacks {
            skipped(&done.2);
        }
        (!lacks).then_some(done)
    }
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
    }
}

#[test]
fn a_patch_does_not_follow_links_out_of_the_tree() {
    let shop = Workshop::new();
    let tree = shop.0.path().join("tree");
    symlink(shop.0.path().join("outside"), tree.join("out")).unwrap();
    symlink(tree.join("kernel/sched/fair.c"), tree.join("kernel/sched/self.c")).unwrap();
    let before = shop.text("tree/kernel/sched/fair.c");
    let Some((code, _, said)) = shop.build(&["--patch", &case("hostile/tree-links/p2.patch")]) else {
        return;
    };
    assert!(code == 2 && said.contains("kernel/sched/self.c: it is a symbolic link to"), "{said}");
    // Without the link within the tree the patch goes in, and changes the copy alone.
    let text = std::fs::read_to_string(case("hostile/tree-links/p2.patch")).unwrap();
    shop.0.write("out.patch", text.split("--- a/kernel").next().unwrap());
    let (code, first, said) = shop.build(&["--patch", "out.patch"]).unwrap();
    assert_eq!(code, 0, "{said}");
    assert_eq!((shop.text("outside/f").as_str(), shop.text("outside/new").as_str()), ("orig\n", ""));
    assert_eq!(shop.text("tree/kernel/sched/fair.c"), before);
    // An edit behind the link makes another kernel.
    let again = shop.build(&["--patch", "out.patch"]).unwrap().1;
    assert!(again.contains("was there already"), "{again}");
    shop.0.write("outside/g", "more\n");
    let (_, second, _) = shop.build(&["--patch", "out.patch"]).unwrap();
    assert!(second.contains(": built: ") && second.lines().next() != first.lines().next(), "{second}");
}

#[test]
fn lines_of_make_do_not_act_on_the_terminal() {
    let shop = Workshop::new();
    let patch = case("hostile/build-progress-escape.patch");
    let Some((code, out, said)) = shop.build(&["--patch", &patch]) else { return };
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("\\u001b[31mred"), "the warning is shown: {said}");
    assert!(!said.chars().chain(out.chars()).any(|c| c.is_control() && c != '\n' && c != '\t'), "{said:?}");
}

#[test]
fn a_patch_that_does_not_fit_is_reported_without_waiting_for_another_build() {
    let shop = Workshop::new();
    let Some((code, _, said)) = shop.build(&[]) else { return };
    assert_eq!(code, 0, "{said}");
    let site =
        std::fs::read_dir(shop.0.path().join("cache/sources")).unwrap().flatten().next().unwrap().path();
    let lock = std::fs::File::options().append(true).open(site.join("lock")).unwrap();
    lock.lock().unwrap();
    let (code, _, said) = shop.build(&["--patch", &case("first-hour/two.patch")]).unwrap();
    assert!(
        code == 2 && said.contains("the file has none of its lines") && !said.contains("waiting"),
        "{said}"
    );
    let (code, _, said) = shop.build(&["--patch", &case("hostile/tree-links/p3.patch")]).unwrap();
    assert!(code == 2 && said.contains("4 of its 5 lines fit at line 1;"), "{said}");
    let quoted: String = std::fs::read_to_string(case("first-hour/my.patch")).unwrap();
    shop.0.write("quoted", &quoted.lines().map(|l| format!("> {l}\n")).collect::<String>());
    let (code, _, said) = shop.build(&["--patch", "./quoted"]).unwrap();
    assert!(code == 2 && said.contains("holds a quoted diff"), "{said}");
}

/// A patch without a feature of its own is tried in two images, and may get more runs than the first six.
#[test]
fn the_first_hours_trial_has_two_images_and_a_budget() {
    let text = std::fs::read(case("first-hour/three.patch")).unwrap();
    let patches = schedlab_kernels::diff::parse("three.patch", &text).unwrap();
    let tried = trial::Trial::of("6.1", &["three.patch".to_owned()], patches, None, &[]).unwrap();
    assert_eq!((tried.features.len(), tried.counters.len()), (0, 0));
    assert_eq!((tried.base.patch.len(), tried.patched.patch.len()), (0, 1));
    assert_eq!(tried.experiment(&[], 2).unwrap().runs, trial::RUNS);
    assert!(matches!(trial::BUDGET, schedlab_lab::make::budget::Budget::Part(part) if part > 0));
}

/// With the source of 6.1.192: the place where a patch almost fits, and an option that is on by default.
#[test]
fn the_first_hours_patches_are_built_or_refused_as_they_should() {
    if !is_asked("SCHEDLAB_TEST_BUILD") {
        return;
    }
    let lab = Lab::new();
    let (code, _, said) = run(&lab, &["kernel", "build", "--patch", &case("first-hour/two.patch")]);
    assert!(code == 2 && said.contains("4 of its 7 lines fit at line 11613; line 11621 is"), "{said}");
    let (code, out, said) = run(&lab, &["kernel", "build", "--patch", &case("first-hour/three.patch")]);
    assert!(code == 0 && !said.contains("lines away") && !said.contains("fuzz"), "{out}{said}");
    let patch = case("files/new-option-default-y.patch");
    let (code, out, said) = run(&lab, &["kernel", "build", "--patch", &patch]);
    assert!(code == 0 && out.contains("brings CONFIG_SCHED_LONG_LATENCY: y, its default"), "{out}{said}");
}

/// Three loads that leave the scheduler in different states.
const THREE: &str = include_str!("cases/files/three-loads.toml");

/// The records in a store, as bytes, by their places.
fn records(store: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let folders = |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let runs =
        folders(store).filter(|path| path.is_dir()).flat_map(|cell| folders(&cell).collect::<Vec<_>>());
    let read = |run: std::path::PathBuf| {
        let bytes = std::fs::read(run.join("record.json")).ok()?;
        let guest = String::from_utf8_lossy(&bytes).contains("\"at_rest\":true");
        guest.then(|| (run.strip_prefix(store).unwrap().display().to_string(), bytes))
    };
    runs.filter_map(read).collect()
}

#[test]
fn a_loads_records_are_the_same_bytes_alone_and_among_others() {
    let Ok(kernel) = std::env::var("SCHEDLAB_TEST_KERNEL") else {
        return skipped("a kernel to boot (SCHEDLAB_TEST_KERNEL)");
    };
    let lab = Lab::new();
    if run(&lab, &["kernel", "list"]).0 != 0 || schedlab_guest::find_qemu().is_err() {
        return skipped("QEMU");
    }
    lab.write("three.toml", &format!("{THREE}kernel = \"{kernel}\"\n"));
    let made = |more: &[&str]| {
        let words = ["run", "three.toml", "--backend", "vm", "--guest-mode", "deterministic", "-q"];
        lab.ok(&[&words[..], more].concat());
    };
    made(&["--out", "beside"]);
    // In other processes, without the loads that stood before it, and without the seed before.
    for load in ["messages", "clients", "storm"] {
        made(&["--out", "alone", "--load", load, "--runs", "1", "--seed", "2"]);
    }
    let (beside, alone) = (records(&lab.path().join("beside")), records(&lab.path().join("alone")));
    assert_eq!((beside.len(), alone.len()), (6, 3), "{:?} {:?}", beside.keys(), alone.keys());
    for (place, record) in &alone {
        assert!(beside.get(place).is_some_and(|other| other == record), "{place} differs");
        let first = place.replace("/2", "/1");
        assert!(beside.get(&first).is_some_and(|other| other != record), "seeds give different runs");
    }
}
