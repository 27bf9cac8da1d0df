//! When an old value is restored, as a table; and the whole process with a folder on disk.

use super::apply::make;
use super::fake::FakeKernel;
use super::files::Files;
use super::form::{Form, MADE, Write};
use super::journal::{Content, Current, Entry, Journal, Lock, Moment, Owner, Verdict, Whose, judge, recover};
use super::plan::{Later, Plan};
use super::reach;
use super::system::System;
use schedlab_base::Ns;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const KNOB: &str = "/proc/sys/kernel/sched_autogroup_enabled";
const ME: Owner = Owner { pid: 100, started: 5 };
const OTHER: Owner = Owner { pid: 200, started: 7 };

const FEATURES: &str = "/sys/kernel/debug/sched/features";

fn write(path: &str, form: Form, value: &str) -> Write {
    let setting = if form == Form::Plain { format!("file:{path}") } else { "features".to_owned() };
    Write { setting, path: path.into(), form, value: value.to_owned() }
}

/// The key of a knob's change.
fn environment_key(knob: &Path) -> String {
    format!("setting.file:{}", knob.display())
}

fn moment<'a>(boot: &str, me: Owner, alive: &'a dyn Fn(Owner) -> bool) -> Moment<'a> {
    Moment { boot: boot.to_owned(), me, alive }
}

/// An entry of OTHER, which wrote 0 and then 2; the old value is 1.
fn entry(boot: &str) -> Entry {
    let writes = [write(KNOB, Form::Plain, "0"), write(KNOB, Form::Plain, "2")];
    Entry::new(&moment(boot, OTHER, &|_| false), &[&writes[0], &writes[1]], "1\n".to_owned())
}

#[test]
fn the_old_value_goes_back_when_boot_owner_and_value_say_so() {
    let gone: &dyn Fn(Owner) -> bool = &|_| false;
    let lives: &dyn Fn(Owner) -> bool = &|o| o == OTHER;
    // Its process id belongs to a process that started later.
    let reused: &dyn Fn(Owner) -> bool = &|o| o == Owner { started: 8, ..OTHER };
    let unreadable = || Err(io::Error::from_raw_os_error(libc::EACCES));
    let theirs = || Verdict::Theirs("3".to_owned());
    let says = |text: &str| Ok(Current::Says(text.to_owned()));
    let emptied = || Ok(Current::Emptied);
    for (boot, alive, me, whose, current, verdict) in [
        ("b", gone, ME, Whose::Gone, says("0"), Verdict::PutBack),
        ("b", gone, ME, Whose::Gone, says("2"), Verdict::PutBack),
        ("b", gone, ME, Whose::Gone, says("1"), Verdict::AsBefore),
        ("b", gone, ME, Whose::Gone, says("3"), theirs()),
        ("b", gone, ME, Whose::Gone, says(""), Verdict::Theirs(String::new())),
        ("b", gone, ME, Whose::Gone, emptied(), Verdict::PutBack),
        ("b", reused, ME, Whose::Gone, says("0"), Verdict::PutBack),
        ("b", lives, ME, Whose::Gone, says("0"), Verdict::OwnerAlive),
        ("b", lives, ME, Whose::Mine, says("0"), Verdict::OwnerAlive),
        ("b", gone, ME, Whose::Mine, says("0"), Verdict::OwnerAlive),
        ("b", lives, OTHER, Whose::Mine, says("0"), Verdict::PutBack),
        ("b", lives, OTHER, Whose::Mine, says("3"), theirs()),
        ("b", lives, OTHER, Whose::Gone, says("0"), Verdict::OwnerAlive),
        ("other", gone, ME, Whose::Gone, says("0"), Verdict::OtherBoot),
        ("other", lives, ME, Whose::Gone, says("3"), Verdict::OtherBoot),
    ] {
        let shown = format!("{boot} {me:?} {whose:?} {current:?}");
        assert_eq!(judge(&entry("b"), &moment(boot, me, alive), whose, current), verdict, "{shown}");
    }
    let verdict = judge(&entry("b"), &moment("b", ME, gone), Whose::Gone, unreadable());
    assert!(matches!(verdict, Verdict::Unseen(why) if why.contains("denied")));
}

#[test]
fn a_change_that_is_to_stay_goes_back_only_when_its_user_asks() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let knob = root.path().join(KNOB.trim_start_matches('/'));
    fs::create_dir_all(knob.parent().unwrap()).unwrap();
    fs::create_dir_all(root.path().join("sys")).unwrap();
    fs::write(&knob, "1\n").unwrap();
    let plan = Plan { writes: vec![write(knob.to_str().unwrap(), Form::Plain, "0")], ..Plan::default() };
    let (system, journal) = (System::at(root.path()), Journal::at(state.path()));
    let told = plan.keep_on(System::at(root.path()), journal.clone()).unwrap();
    assert_eq!(told[&environment_key(&knob)], "0 (was 1)");
    let now = fs::read_to_string(&knob).unwrap();
    assert_eq!(now.trim(), "0", "it stays after the plan's end");
    let later = Moment { me: ME, alive: &|_| false, ..Moment::now().unwrap() };
    assert!(recover(&journal, &system, &later, Whose::Gone).is_empty(), "the next run leaves it");
    let done = recover(&journal, &system, &later, Whose::Asked);
    assert!(done.len() == 1 && done[0].restored, "{done:?}");
    assert_eq!(fs::read_to_string(&knob).unwrap().trim(), "1");
}

#[test]
fn the_latest_change_is_taken_back_first_and_features_one_by_one() {
    let (folder, kernel) =
        (tempfile::tempdir().unwrap(), FakeKernel::with(&[(FEATURES, "A NO_B C"), ("/k", "1")]));
    let journal = Journal::at(folder.path());
    let dead = moment("b", OTHER, &|_| false);
    for (path, form, value) in [
        (FEATURES, Form::Feature, "NO_A"),
        (FEATURES, Form::Feature, "B"),
        ("/k", Form::Plain, "2"),
        ("/k", Form::Plain, "3"),
    ] {
        let write = write(path, form, value);
        let old = form.old(&kernel.read(Path::new(path)).unwrap(), value).unwrap();
        journal.keep(&[Entry::new(&dead, &[&write], old)]).unwrap();
        make(&kernel, &write).unwrap();
    }
    assert_eq!((kernel.text(FEATURES).as_str(), kernel.text("/k").as_str()), ("NO_A B C", "3"));
    kernel.write(Path::new(FEATURES), "NO_C").unwrap();
    let done = recover(&journal, &kernel, &moment("b", ME, &|_| false), Whose::Gone);
    assert!(done.len() == 4 && done.iter().all(|r| r.restored && !r.pending), "{done:?}");
    assert_eq!((kernel.text(FEATURES).as_str(), kernel.text("/k").as_str()), ("A NO_B NO_C", "1"));
    assert!(journal.entries().is_empty());
}

/// Control groups made by OTHER, one in another, after it gave the cpu controller to children.
fn left_groups() -> (tempfile::TempDir, Journal, FakeKernel) {
    let folder = tempfile::tempdir().unwrap();
    let kernel = FakeKernel::with(&[("/top/cgroup.subtree_control", "memory"), ("/top/cpu.weight", "")]);
    let journal = Journal::at(folder.path());
    let now = moment("b", OTHER, &|_| false);
    let of =
        |path: &str, form, value: &str| Write { setting: "control group".into(), ..write(path, form, value) };
    let writes = [
        of("/top/cgroup.subtree_control", Form::Controller, "+cpu"),
        of("/top/schedlab-200-7-a", Form::Folder, MADE),
        of("/top/schedlab-200-7-a/b", Form::Folder, MADE),
        of("/top/schedlab-200-7-late", Form::Folder, MADE),
    ];
    let entry = |write: &Write| {
        let text = reach::text(&kernel, write.form, &write.path).unwrap();
        Entry::new(&now, &[write], write.form.old(&text, &write.value).unwrap())
    };
    journal.keep(&writes.iter().map(entry).collect::<Vec<_>>()).unwrap();
    // It was killed before it made the last one.
    writes[..3].iter().for_each(|write| make(&kernel, write).unwrap());
    (folder, journal, kernel)
}

#[test]
fn groups_of_a_killed_run_are_removed_from_the_innermost_on() {
    let (_folder, journal, kernel) = left_groups();
    assert_eq!(kernel.text("/top/cgroup.subtree_control"), "memory cpu");
    assert!(kernel.is_folder(Path::new("/top/schedlab-200-7-a/b")));
    let lives = recover(&journal, &kernel, &moment("b", ME, &|o| o == OTHER), Whose::Gone);
    assert!(lives.is_empty() && kernel.is_folder(Path::new("/top/schedlab-200-7-a/b")), "its owner lives");
    let done = recover(&journal, &kernel, &moment("b", ME, &|_| false), Whose::Gone);
    assert!(done.len() == 4 && done.iter().all(|r| r.restored && !r.pending), "{done:?}");
    assert!(!kernel.is_folder(Path::new("/top/schedlab-200-7-a")));
    assert_eq!(kernel.text("/top/cgroup.subtree_control"), "memory");
    assert!(kernel.files.borrow().len() == 2 && journal.entries().is_empty());
}

#[test]
fn a_group_with_a_foreign_group_in_it_stays_and_is_reported() {
    let (_folder, journal, kernel) = left_groups();
    kernel.make_group(Path::new("/top/schedlab-200-7-a/b/theirs")).unwrap();
    let done = recover(&journal, &kernel, &moment("b", ME, &|_| false), Whose::Gone);
    let pending: Vec<&str> = done.iter().filter(|r| r.pending).map(|r| r.said.as_str()).collect();
    assert!(pending.len() == 2 && pending[0].contains("-a/b can't be put back to 'absent'"), "{pending:?}");
    assert!(kernel.is_folder(Path::new("/top/schedlab-200-7-a/b/theirs")));
}

#[test]
fn entries_that_can_not_be_restored_stay_and_torn_ones_are_set_aside() {
    let (folder, mut kernel) = (tempfile::tempdir().unwrap(), FakeKernel::with(&[(KNOB, "0")]));
    let journal = Journal::at(folder.path());
    kernel.sealed.push(KNOB.into());
    let kept = journal.keep(&[entry("b")]).unwrap();
    fs::write(folder.path().join("00-torn.json"), "{\"schema\": \"schedlab/jou").unwrap();
    fs::write(folder.path().join("01-half.json.tmp"), "{").unwrap();
    let recovered =
        |kernel: &FakeKernel| recover(&journal, kernel, &moment("b", ME, &|_| false), Whose::Gone);
    let done = recovered(&kernel);
    assert!(done[0].pending && done[0].said.contains("can't be put back to '1'"), "{done:?}");
    assert!(!done[1].pending && done[1].said.contains("torn"), "{done:?}");
    assert!(kept[0].exists() && folder.path().join("00-torn.json.unreadable").exists());
    assert!(!folder.path().join("01-half.json.tmp").exists(), "its setting was never written");
    kernel.sealed.clear();
    assert!(recovered(&kernel)[0].restored && !kept[0].exists());
    assert_eq!(kernel.text(KNOB), "1");
}

/// A tree of ordinary files with one knob, and a journal next to it.
fn tree() -> (tempfile::TempDir, System, Journal, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let system = System::at(&folder.path().join("root"));
    let knob = system.place(KNOB);
    fs::create_dir_all(knob.parent().unwrap()).unwrap();
    fs::write(&knob, "1\n").unwrap();
    let journal = Journal::at(&folder.path().join("journal"));
    (folder, system, journal, knob)
}

fn plan(knob: &Path, first: &str, later: &str) -> Plan {
    let write = |value| write(knob.to_str().unwrap(), Form::Plain, value);
    let later = vec![Later { time: Ns::ZERO, writes: vec![write(later)] }];
    Plan { writes: vec![write(first)], later, ..Plan::default() }
}

#[test]
fn old_values_are_on_disk_before_and_back_after() {
    let (_folder, system, journal, knob) = tree();
    let applied = plan(&knob, "0", "2").apply_on(system.clone(), journal.clone()).unwrap();
    assert_eq!(fs::read_to_string(&knob).unwrap(), "0\n");
    let entries = journal.entries();
    let Content::Whole(entry) = &entries[0].1 else { panic!("{entries:?}") };
    assert_eq!(
        (entries.len(), entry.old.as_str(), entry.written.as_slice()),
        (1, "1\n", &["0".to_owned(), "2".to_owned()][..])
    );
    assert_eq!(applied.told[&environment_key(&knob)], "0 (was 1)");
    let second = plan(&knob, "5", "5").apply_on(system.clone(), journal.clone()).err().unwrap();
    assert!(second.to_string().contains("another schedlab"), "{second}");
    make(&system, &applied.later[0].writes[0]).unwrap();
    assert!(applied.put_back().is_empty());
    assert_eq!(fs::read_to_string(&knob).unwrap(), "1\n");
    assert!(journal.entries().is_empty() && Lock::take(&system.lock_folder()).is_ok());
}

#[test]
fn a_lock_is_free_at_once_although_a_copy_of_its_file_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let lock = Lock::take(folder.path()).unwrap();
    let _copy = lock.0.try_clone().unwrap();
    assert!(Lock::take(folder.path()).is_err());
    drop(lock);
    assert!(Lock::take(folder.path()).is_ok());
}

#[test]
fn a_panic_and_a_failed_change_put_everything_back() {
    let (_folder, system, journal, knob) = tree();
    let panicked = std::panic::catch_unwind(|| {
        let _applied = plan(&knob, "0", "0").apply_on(system.clone(), journal.clone()).unwrap();
        panic!("in the middle");
    });
    assert!(panicked.is_err() && fs::read_to_string(&knob).unwrap() == "1\n");
    let mut bad = plan(&knob, "0", "0");
    // This file stores no value: the second change fails after the first was made.
    bad.writes.push(write("/dev/null", Form::Plain, "1"));
    assert!(bad.apply_on(system.clone(), journal.clone()).is_err());
    assert!(fs::read_to_string(&knob).unwrap() == "1\n" && Lock::take(&system.lock_folder()).is_ok());
}

#[test]
fn what_somebody_else_has_set_stays_and_what_a_killed_writer_left_empty_gets_its_value_back() {
    for (found, left) in [("7\n", "7\n"), ("", "1\n"), ("\n", "\n")] {
        let (_folder, system, journal, knob) = tree();
        let applied = plan(&knob, "0", "0").apply_on(system, journal.clone()).unwrap();
        fs::write(&knob, found).unwrap();
        let warnings = applied.put_back();
        let told = warnings.iter().filter(|w| w.message.contains("did not write")).count();
        assert_eq!(
            (warnings.len(), told),
            (usize::from(found == left), usize::from(found == left)),
            "{found:?}"
        );
        assert_eq!(
            (fs::read_to_string(&knob).unwrap().as_str(), journal.entries().len()),
            (left, 0),
            "{found:?}"
        );
    }
    // A killed writer can't leave a kernel's file empty, so an empty text is its value.
    let kernel = FakeKernel::with(&[]);
    kernel.files.borrow_mut().insert(KNOB.into(), String::new());
    assert_eq!(entry("b").current(&kernel).unwrap(), Current::Says(String::new()));
}

#[test]
fn an_unreadable_entry_stays_and_is_reported() {
    let (folder, kernel) = (tempfile::tempdir().unwrap(), FakeKernel::with(&[(KNOB, "0")]));
    let journal = Journal::at(folder.path());
    let kept = journal.keep(&[entry("b")]).unwrap();
    // A cycle of links: nobody can read them, with any rights.
    let (unreadable, whole) = (&kept[0], folder.path().join("whole"));
    fs::rename(unreadable, &whole).unwrap();
    std::os::unix::fs::symlink(unreadable, unreadable).unwrap();
    let pipe = folder.path().join("99-pipe.json");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the name is a C string that lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let recovered = || recover(&journal, &kernel, &moment("b", ME, &|_| false), Whose::Gone);
    let done = recovered();
    assert!(done.len() == 2 && done.iter().all(|r| r.pending && !r.restored), "{done:?}");
    assert!(done.iter().all(|r| r.said.contains("can't be read and stays")), "{done:?}");
    assert!(unreadable.is_symlink() && pipe.exists());
    fs::rename(&whole, unreadable).unwrap();
    fs::remove_file(&pipe).unwrap();
    assert!(recovered()[0].restored);
    assert_eq!(kernel.text(KNOB), "1");
}

/// A file that had 41 until OTHER wrote 9, with its entry in a journal.
fn left_file() -> (tempfile::TempDir, System, Journal, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().canonicalize().unwrap().join("file");
    fs::write(&own, "9\n").unwrap();
    let journal = Journal::at(&folder.path().join("journal"));
    let write = write(own.to_str().unwrap(), Form::Plain, "9");
    journal.keep(&[Entry::new(&moment("b", OTHER, &|_| false), &[&write], "41\n".into())]).unwrap();
    (folder, System::at(Path::new("/")), journal, own)
}

fn recovered(journal: &Journal, system: &System) -> (bool, String) {
    let done = recover(journal, system, &moment("b", ME, &|_| false), Whose::Gone);
    assert_eq!(done.len(), 1, "{done:?}");
    (done[0].pending, done[0].said.clone())
}

#[test]
fn a_file_replaced_by_a_pipe_or_a_link_is_reported_and_not_touched() {
    let (folder, system, journal, own) = left_file();
    let other = folder.path().join("other");
    fs::write(&other, "9\n").unwrap();
    fs::remove_file(&own).unwrap();
    std::os::unix::fs::symlink(&other, &own).unwrap();
    let (pending, said) = recovered(&journal, &system);
    assert!(pending && said.contains("the entry's path is not that of setting"), "{said}");
    assert_eq!(fs::read_to_string(&other).unwrap(), "9\n");
    fs::remove_file(&own).unwrap();
    let name = std::ffi::CString::new(own.to_str().unwrap()).unwrap();
    // SAFETY: the name is a C string that lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let (pending, said) = recovered(&journal, &system);
    assert!(pending && said.contains("not a regular file"), "{said}");
    fs::remove_file(&own).unwrap();
    fs::write(&own, "9\n").unwrap();
    assert!(!recovered(&journal, &system).0);
    assert_eq!(fs::read_to_string(&own).unwrap(), "41\n");
}

#[test]
fn an_entry_with_another_path_than_its_setting_is_not_obeyed() {
    for (setting, path) in [
        ("file:/var/tmp/target/file", None),
        ("autogroup", None),
        ("no such setting", None),
        ("autogroup", Some("/proc/../FILE")),
    ] {
        let (folder, system, journal, own) = left_file();
        let entries = journal.entries();
        let mut entry: serde_json::Value = serde_json::from_slice(&fs::read(&entries[0].0).unwrap()).unwrap();
        entry["setting"] = setting.into();
        if let Some(path) = path {
            entry["path"] = path.replace("/FILE", own.to_str().unwrap()).into();
        }
        fs::write(&entries[0].0, entry.to_string()).unwrap();
        let (pending, said) = recovered(&journal, &system);
        assert!(pending && said.contains("is not that of setting"), "{setting}: {said}");
        assert_eq!(fs::read_to_string(&own).unwrap(), "9\n");
        drop(folder);
    }
}

#[test]
fn an_entry_that_is_too_long_is_set_aside_and_one_that_others_may_write_stays() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, system, journal, own) = left_file();
    let entry = journal.entries()[0].0.clone();
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o666)).unwrap();
    let (pending, said) = recovered(&journal, &system);
    assert!(pending && said.contains("others may write it"), "{said}");
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o644)).unwrap();
    fs::File::options().write(true).open(&entry).unwrap().set_len(3 << 30).unwrap();
    let (pending, said) = recovered(&journal, &system);
    assert!(!pending && said.contains("is torn"), "{said}");
    assert_eq!(fs::read_to_string(&own).unwrap(), "9\n");
}

#[test]
fn a_journal_that_cannot_be_kept_changes_nothing() {
    let (folder, system, _, knob) = tree();
    let blocked = folder.path().join("blocked");
    fs::write(&blocked, "a file, no folder").unwrap();
    let e = plan(&knob, "0", "0").apply_on(system, Journal::at(&blocked.join("journal"))).err().unwrap();
    assert!(
        e.to_string().contains("nothing was changed") && fs::read_to_string(&knob).unwrap() == "1\n",
        "{e}"
    );
}

#[test]
fn a_kernel_that_keeps_another_value_is_an_error() {
    let kernel = FakeKernel::with(&[("/scaling_min_freq", "800000")]);
    let e = make(&kernel, &write("/scaling_min_freq", Form::Plain, "1234567")).unwrap_err().to_string();
    assert!(e.contains("was given '1234567' and keeps '1234000'"), "{e}");
}

#[test]
fn a_process_is_known_by_its_start() {
    let me = Owner::of(std::process::id()).unwrap();
    let now = Moment::now().unwrap();
    assert!(now.me == me && (now.alive)(me) && !(now.alive)(Owner { started: me.started + 1, ..me }));
    assert_eq!(Owner::of(u32::MAX), None);
}
