use super::*;
use crate::parcel::{Contents, Protocol, Task};
use schedlab_lab::plan::Plan;

#[test]
fn indices_are_told_as_ranges() {
    assert_eq!(ranges(&[3, 0, 1, 2, 7, 9, 8, 7]), "0-3,7-9");
    assert_eq!(ranges(&[5]), "5");
}

#[test]
fn a_path_stays_one_word_of_the_script() {
    let journal = Journal { folder: PathBuf::from("/a b/it's/slurm") };
    let text = journal.script("x-1", Path::new("/x;y"));
    for part in ["cd '/a b/it'\\''s/slurm/x-1' &&", "exec '/x;y' work plan.json", "--out '/a b/it'\\''s' "] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_path_that_slurm_would_take_for_another_is_refused_by_its_character() {
    for good in ["/a b/it's", "/50%/ü;$x\"*"] {
        check_path(Path::new(good)).unwrap();
    }
    for (bad, named) in [
        (&b"/a\\b"[..], "has a backslash"),
        (b"/a\xffb", "has byte 0xff"),
        (b"/a\nb", "control character U+000A"),
    ] {
        let e = check_path(Path::new(OsStr::from_bytes(bad))).unwrap_err();
        assert!(e.kind() == ErrorKind::Input && e.message().contains(named), "{e}");
    }
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("a\\b");
    assert!(Journal::create(&bad).is_err() && !bad.exists());
}

#[test]
fn the_last_job_of_a_task_counts_and_a_task_that_was_given_up_is_free() {
    let job = |number, tasks: &[usize]| Job { number, ..Job::new(tasks.to_vec(), 0) };
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(dir.path()).unwrap();
    let mut s = Submission {
        schema: SCHEMA.to_owned(),
        name: "x-1".to_owned(),
        place: journal.place(),
        experiment: "x".to_owned(),
        tasks: 4,
        options: Vec::new(),
        at_once: Some(2),
        most_tries: 3,
        jobs: vec![job(Some(5), &[0, 1, 2]), job(Some(9), &[1]), job(None, &[3])],
        given_up: BTreeMap::new(),
        done: false,
    };
    assert_eq!((s.last_of(1), s.last_of(2), s.last_of(3)), (Some((9, 2)), Some((5, 1)), None));
    assert!(s.claims(1) && !s.claims(3));
    s.given_up.insert(1, "failed".to_owned());
    assert!(!s.claims(1));
    let again = job(None, &[1]);
    let args = journal.sbatch(&s, &again);
    assert!(args.contains(&"--array=1%2".to_owned()) && args.last().unwrap().ends_with("x-1/job.sh"));
    let name = format!("--job-name=schedlab-x-1-{}-{}", journal.place(), again.mark);
    assert!(args.contains(&name), "{args:?}");
}

#[test]
fn two_submissions_and_two_stores_share_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| Journal::create(&dir.path().join(name)).unwrap());
    assert_ne!(a.place(), b.place());
    std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
    assert_eq!(Journal::find(&dir.path().join("link")).unwrap().place(), a.place());
    assert_ne!(Job::new(vec![0], 7).mark, Job::new(vec![0], 7).mark);
}

#[test]
fn a_lock_that_fails_has_the_remedy_of_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(dir.path()).unwrap();
    let help = |errno| {
        let e = journal.unlocked(Path::new("lock"), &io::Error::from_raw_os_error(errno));
        e.remedy().unwrap_or("none").to_owned()
    };
    for no_locks in [37, 38, 95] {
        assert!(help(no_locks).contains("with locks"), "{no_locks}");
    }
    assert!(help(13).starts_with(&format!("user {} owns", user())), "{}", help(13));
    // EIO.
    assert_eq!(help(5), "none");
}

/// A journal with one entry, whose text is changed by `change`.
fn changed(journal: &Journal, name: &str, change: impl Fn(&mut serde_json::Value)) {
    let submission = Submission {
        schema: SCHEMA.to_owned(),
        name: name.to_owned(),
        place: journal.place(),
        experiment: "x".to_owned(),
        tasks: 1,
        options: Vec::new(),
        at_once: None,
        most_tries: 3,
        jobs: vec![Job { number: Some(7), ..Job::new(vec![0], 5) }],
        given_up: BTreeMap::new(),
        done: false,
    };
    let mut value = serde_json::to_value(&submission).unwrap();
    change(&mut value);
    fs::create_dir_all(journal.folder_of(name)).unwrap();
    fs::write(journal.folder_of(name).join(ENTRY_FILE), value.to_string()).unwrap();
}

#[test]
fn an_entry_is_checked_and_bad_ones_do_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(dir.path()).unwrap();
    changed(&journal, "good", |v| v["name"] = "../../../etc".into());
    let all = journal.all().unwrap();
    assert_eq!((all.len(), all[0].name.as_str()), (1, "good"), "the folder names it");
    changed(&journal, "older", |v| v["schema"] = "schedlab/submission/0".into());
    fs::create_dir(journal.folder_of("cut")).unwrap();
    fs::write(journal.folder_of("cut").join(ENTRY_FILE), "{").unwrap();
    let (read, damaged) = journal.readable().unwrap();
    assert_eq!((read.len(), damaged.len()), (1, 2));
    assert!(damaged[1].to_string().contains("schema is 'schedlab/submission/0'"), "{}", damaged[1]);
    assert!(journal.all().is_err(), "runs that may be under way are not submitted again");
}

#[test]
fn an_entry_and_its_parcel_have_the_same_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(dir.path()).unwrap();
    let contents = Contents { experiment: "x", how: Protocol::default(), attach: &[] };
    let plan = Plan { cells: Vec::new(), runs: Vec::new(), warnings: Vec::new() };
    let parcel = Parcel::of(&plan, vec![Task::default()], &contents).unwrap();
    let read = |change: fn(&mut serde_json::Value)| {
        changed(&journal, "x", change);
        fs::write(journal.plan_of("x"), parcel.text().unwrap()).unwrap();
        journal.parcel(&journal.all().unwrap()[0]).map(|p| p.tasks.len())
    };
    assert_eq!(read(|_| ()).unwrap(), 1);
    let e = read(|v| v["tasks"] = 99_999_999_999_999_u64.into()).unwrap_err();
    assert!(e.message().contains("1 task, and submission.json beside it says 99999999999999"), "{e}");
    let e = read(|v| v["jobs"][0]["tasks"] = serde_json::json!([0, 1])).unwrap_err();
    assert!(e.message().contains("has a task 1"), "{e}");
}

#[test]
fn jobs_of_a_copied_journal_have_no_runs_of_the_copy() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| Journal::create(&dir.path().join(name)).unwrap());
    changed(&a, "x", |_| ());
    fs::create_dir(b.folder_of("x")).unwrap();
    fs::copy(a.folder_of("x").join(ENTRY_FILE), b.folder_of("x").join(ENTRY_FILE)).unwrap();
    assert!(a.all().unwrap()[0].claims(0) && !b.all().unwrap()[0].claims(0));
}
