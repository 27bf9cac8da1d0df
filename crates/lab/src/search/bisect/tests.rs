//! Bisections of a small repository, measured by a function of the commit's number.

use super::*;
use schedlab_base::ErrorKind;
use std::fs;

/// A repository of `n` commits called 0 to n - 1, and its commits.
fn repository(folder: &Path, n: usize) -> Vec<Commit> {
    let repository = Repository(folder);
    repository.git(&["init", "-q"]).unwrap();
    (0..n)
        .map(|i| {
            fs::write(folder.join("file"), i.to_string()).unwrap();
            repository.git(&["add", "file"]).unwrap();
            let who = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
            let words: Vec<&str> = who.into_iter().chain(["commit", "-q", "-m"]).collect();
            let subject = i.to_string();
            let words: Vec<&str> = words.into_iter().chain([subject.as_str()]).collect();
            repository.git(&words).unwrap();
            repository.commit("HEAD").unwrap()
        })
        .collect()
}

/// Values around 100 before the commit `moved`, and around 110 from it on.
struct Script {
    moved: usize,
    broken: Vec<usize>,
    /// The values' spread: 0.2, or more.
    noise: f64,
    /// The errors of broken commits have this kind.
    kind: ErrorKind,
    measured: Vec<usize>,
}

impl Meter for Script {
    fn report_step(&mut self, step: &MeasuredCommit, _: usize) {
        assert_eq!(step.side.is_none(), step.why.is_some());
    }
    fn of_commit(&mut self, commit: &Commit, runs: u64) -> Result<Vec<f64>> {
        let at: usize = commit.subject.parse().unwrap();
        self.measured.push(at);
        if self.broken.contains(&at) {
            return Err(Error::new(self.kind, "it does not work"));
        }
        let level = if at >= self.moved { 110.0 } else { 100.0 };
        Ok((0..runs).map(|seed| level + (seed * 7 + at as u64) as f64 % 3.0 * self.noise).collect())
    }
}

fn found(n: usize, moved: usize, broken: &[usize]) -> (Result<Bisected>, Script) {
    found_with(n, moved, broken, ErrorKind::Input)
}

const SIX: Measure = Measure { runs: 6, min_effect_pct: 2.0 };

fn found_with(n: usize, moved: usize, broken: &[usize], kind: ErrorKind) -> (Result<Bisected>, Script) {
    let folder = tempfile::tempdir().unwrap();
    let commits = repository(folder.path(), n);
    let mut script = Script { moved, broken: broken.to_vec(), noise: 0.2, kind, measured: Vec::new() };
    let found = bisect(Repository(folder.path()), &commits[0], &commits[n - 1], SIX, &mut script);
    (found, script)
}

#[test]
fn the_commit_that_moved_the_metric_is_found_in_few_steps() {
    for moved in [1, 6, 11] {
        let (found, script) = found(12, moved, &[]);
        let found = found.unwrap();
        let first: Vec<&str> = found.first.iter().map(|c| c.subject.as_str()).collect();
        assert_eq!(first, [moved.to_string()]);
        assert!(script.measured.len() <= 2 + 4, "{:?}", script.measured);
        assert!(found.steps.iter().all(|s| s.settled) && found.bad > found.good);
    }
}

#[test]
fn commits_that_do_not_build_are_skipped_and_named() {
    let (found, _) = found(8, 4, &[3, 4]);
    let first: Vec<String> = found.unwrap().first.into_iter().map(|c| c.subject).collect();
    assert_eq!(first.last().map(String::as_str), Some("5"));
    assert!(first.contains(&"4".to_owned()) && first.contains(&"3".to_owned()), "{first:?}");
}

#[test]
fn a_kernel_that_does_not_boot_is_skipped_and_a_fault_of_the_host_ends_the_bisection() {
    let first = |found: Bisected| found.first.into_iter().map(|c| c.subject).collect::<Vec<_>>();
    let dead = found_with(8, 4, &[3, 4], ErrorKind::Guest).0.unwrap();
    assert_eq!(first(dead).last().map(String::as_str), Some("5"));
    let e = found_with(8, 4, &[3, 4], ErrorKind::Machine).0.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Machine, "{e}");
}

#[test]
fn equal_ends_are_refused_once_a_difference_that_counts_is_excluded() {
    let folder = tempfile::tempdir().unwrap();
    let commits = repository(folder.path(), 4);
    let measured = |noise: f64, min_effect_pct: f64| {
        let mut script =
            Script { moved: 99, broken: Vec::new(), noise, kind: ErrorKind::Input, measured: Vec::new() };
        let measure = Measure { min_effect_pct, ..SIX };
        let e = bisect(Repository(folder.path()), &commits[0], &commits[2], measure, &mut script);
        let e = e.unwrap_err();
        assert!(e.to_string().contains("does not differ") && e.kind() == ErrorKind::Input, "{e}");
        script.measured.len()
    };
    assert_eq!(measured(0.2, 2.0), 2, "within 0.4 %, which six runs show");
    assert_eq!(measured(20.0, 2.0), 2 * 4, "6, 12, 24 and 48 runs can't exclude 2 %");
    assert!(measured(20.0, 60.0) < 2 * 4, "what counts is larger");
}

/// Given values, by commit.
struct Given(Vec<Vec<f64>>);

impl Meter for Given {
    fn report_step(&mut self, _: &MeasuredCommit, _: usize) {}
    fn of_commit(&mut self, commit: &Commit, runs: u64) -> Result<Vec<f64>> {
        let at: usize = commit.subject.parse().unwrap();
        let all = &self.0[at];
        Ok((0..runs as usize).map(|i| all[i % all.len()]).collect())
    }
}

#[test]
fn a_commit_that_differs_from_neither_end_counts_as_the_end_it_must_be_near() {
    let folder = tempfile::tempdir().unwrap();
    let commits = repository(folder.path(), 3);
    let good = vec![100.0, 101.0, 99.0, 100.5, 99.5, 100.2];
    let bad = good.iter().map(|v| v * 1.05).collect();
    // One run is like those of the bad end, so that no exact test distinguishes the commit from it.
    let middle = vec![100.0, 101.0, 99.0, 104.2, 99.5, 100.2];
    let mut meter = Given(vec![good, middle, bad]);
    let found = bisect(Repository(folder.path()), &commits[0], &commits[2], SIX, &mut meter).unwrap();
    let step = &found.steps[0];
    assert_eq!((step.side, step.settled, step.runs), (Some(Side::Old), true, 6), "{step:?}");
}

#[test]
fn the_good_end_must_be_older() {
    let folder = tempfile::tempdir().unwrap();
    let commits = repository(folder.path(), 3);
    let mut script =
        Script { moved: 1, broken: Vec::new(), noise: 0.2, kind: ErrorKind::Input, measured: Vec::new() };
    let e = bisect(Repository(folder.path()), &commits[2], &commits[0], SIX, &mut script).unwrap_err();
    assert!(e.to_string().contains("not an ancestor"), "{e}");
    let e = bisect(Repository(folder.path()), &commits[1], &commits[1], SIX, &mut script).unwrap_err();
    assert!(e.to_string().contains("--good and --bad are one commit"), "{e}");
    assert!(Repository(folder.path()).commit("nothing").unwrap_err().to_string().contains("git log"));
}

#[test]
fn an_end_that_can_t_be_measured_is_named() {
    for (broken, option) in [(0, "--good"), (2, "--bad")] {
        let e = found(3, 1, &[broken]).0.unwrap_err();
        let words = e.to_string();
        assert!(words.starts_with(option) && words.contains(&format!(" {broken}: it does not work")), "{e}");
    }
}

#[test]
fn a_build_says_its_last_words_and_ends_with_its_children() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let stop = AtomicBool::new(false);
    let e = folders::run_build("echo out; echo err >&2; exit 3", &tree, &stop).unwrap_err();
    assert!(e.to_string().contains("(exit status: 3):\n  out\n  err"), "{e}");
    let e = folders::run_build("false", &tree, &stop).unwrap_err();
    assert!(e.to_string().contains("and wrote nothing"), "{e}");
    std::thread::scope(|s| {
        let begun = tree.join("begun");
        let build =
            s.spawn(|| folders::run_build("sleep 1000 & touch begun; wait; touch later", &tree, &stop));
        while !begun.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        let e = build.join().unwrap().unwrap_err();
        assert!(e.kind() == ErrorKind::CheckFailed && !tree.join("later").exists(), "{e}");
    });
    // A cache of modules is read-only.
    folders::run_build("mkdir -p a/b && touch a/b/c && chmod 555 a/b a", &tree, &AtomicBool::new(false))
        .unwrap();
    folders::remove(&tree).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_check_out_writes_only_files_that_differ() {
    let (folder, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let commits = repository(folder.path(), 3);
    let (tree, index) = (own.path().join("tree"), own.path().join("index"));
    fs::create_dir(&tree).unwrap();
    let kept = fs::read(folder.path().join(".git/index")).unwrap();
    for commit in [&commits[0], &commits[2], &commits[1]] {
        Repository(folder.path()).check_out(commit, &tree, &index).unwrap();
        assert_eq!(fs::read_to_string(tree.join("file")).unwrap(), commit.subject);
    }
    assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "2", "its own files stay");
    assert_eq!(fs::read(folder.path().join(".git/index")).unwrap(), kept);
}
