use super::*;
use crate::cell::cell_hash;
use crate::tests::record;
use schedlab_base::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("runs")).unwrap();
    (dir, store)
}

#[test]
fn an_unknown_backend_is_located_and_the_nearest_is_offered() {
    let dir = tempfile::tempdir().unwrap();
    let text = serde_json::to_string(&record(1)).unwrap();
    let other = text.replacen("\"backend\":\"sim\"", "\n\"backend\":\"sin\"", 1);
    assert_ne!(other, text);
    fs::write(dir.path().join(RECORD_FILE), other).unwrap();
    let e = load(dir.path()).unwrap_err();
    assert_eq!(e.spot().and_then(|s| s.line_column), Some((2, 15)), "{e}");
    assert!(e.message().ends_with("unknown backend 'sin' (did you mean 'sim'?)"), "{e}");
}

#[test]
fn an_error_in_the_findings_is_located() {
    let (dir, file) = (tempfile::tempdir().unwrap(), RECORD_FILE);
    let text = serde_json::to_string(&record(1)).unwrap();
    let faulty = text.replacen("\"counters\":{}", "\n\"counters\":{\"a\":-1}", 1);
    assert_ne!(faulty, text);
    fs::write(dir.path().join(file), faulty).unwrap();
    let e = load(dir.path()).unwrap_err();
    assert_eq!(e.spot().and_then(|s| s.line_column), Some((2, 18)), "{e}");
    assert!(e.message().contains("-1"), "{e}");
}

/// In memory if possible, for tests that sync more than a thousand runs one by one.
fn store_in_memory() -> (tempfile::TempDir, Store) {
    let memory = Path::new("/dev/shm");
    let dir = tempfile::tempdir_in(if memory.is_dir() { memory.into() } else { std::env::temp_dir() });
    let dir = dir.unwrap();
    let store = Store::create(dir.path()).unwrap();
    (dir, store)
}

#[test]
fn a_run_is_read_back_as_stored() {
    let (_dir, store) = store();
    let r = record(3);
    let cell = cell_hash(&r);
    let stored = store.put(&cell, 3, &r, &[("experiment.toml", b"x = 1\n")]).unwrap();
    assert_eq!(stored, Stored::Written(store.get(&cell, 3).unwrap()));
    assert_eq!(stored.run().record().unwrap(), r);
    assert_eq!(load(&stored.run().path.join(RECORD_FILE)).unwrap(), r);
    assert_eq!(fs::read(stored.run().path.join("experiment.toml")).unwrap(), b"x = 1\n");
    assert_eq!(fs::read_dir(store.root().join(&cell)).unwrap().count(), 1, "no temporary folder stays");
}

#[test]
fn a_file_outside_of_the_folder_is_not_written() {
    let (dir, store) = store();
    let r = record(3);
    let moved = dir.path().join("moved");
    fs::write(&moved, "x").unwrap();
    for name in ["../pwned", "/tmp/schedlab-pwned", "a/b", "a/", ".", "..", ""] {
        assert!(store.put(&cell_hash(&r), 3, &r, &[(name, b"x")]).is_err(), "'{name}'");
        assert!(
            store.put_with(&cell_hash(&r), 3, (&r, None), &[], Some((name, &moved))).is_err(),
            "'{name}'"
        );
        assert_eq!(fs::read_dir(store.root()).unwrap().count(), 0, "'{name}'");
    }
    assert!(!Path::new("/tmp/schedlab-pwned").exists() && moved.exists());
}

#[test]
fn the_first_run_is_kept() {
    let (_dir, store) = store();
    let (first, mut second) = (record(1), record(1));
    second.found.counters.insert("work".into(), 5);
    store.put("c", 1, &first, &[]).unwrap();
    assert!(matches!(store.put("c", 1, &second, &[]).unwrap(), Stored::Kept(_)));
    assert_eq!(store.get("c", 1).unwrap().record().unwrap(), first);
    assert!(store.get("c", 2).is_none());
}

#[test]
fn threads_that_store_runs_of_one_cell_do_not_touch_each_other_s() {
    let (_dir, store) = store_in_memory();
    let cell = cell_hash(&record(1));
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (store, cell) = (&store, &cell);
            scope.spawn(move || {
                for seed in (thread * 200..).take(200) {
                    let text = seed.to_string();
                    store.put(cell, seed, &record(seed), &[("experiment.toml", text.as_bytes())]).unwrap();
                }
            });
        }
    });
    let runs = list(store.root()).unwrap();
    assert_eq!(runs.len(), 1600);
    for (run, seed) in runs.iter().zip(0..) {
        assert!(run.path.ends_with(format!("{seed}")), "{run:?}");
        assert_eq!(run.record().unwrap().seed, seed);
        assert_eq!(fs::read_to_string(run.path.join("experiment.toml")).unwrap(), seed.to_string());
    }
    assert_eq!(fs::read_dir(store.root().join(&cell)).unwrap().count(), 1600, "no temporary folder stays");
}

#[test]
fn a_failing_writer_does_not_disturb_another() {
    let (_dir, store) = store_in_memory();
    let cell = store.root().join("c");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Acts like a writer that could not write: removes the cell while it is empty.
        scope.spawn(|| {
            while !done.load(Relaxed) {
                drop(Emptied(&cell));
            }
        });
        let refused = (0..2000).filter_map(|_| folder_in(&cell).err()).count();
        done.store(true, Relaxed);
        assert_eq!(refused, 0);
    });
}

#[test]
fn a_record_under_another_seed_is_reported_with_the_remedy() {
    let (dir, store) = store();
    let cell = cell_hash(&record(1));
    store.put(&cell, 7, &record(8), &[]).unwrap();
    let run = store.get(&cell, 7).unwrap();
    for path in [run.path.clone(), run.path.join(RECORD_FILE)] {
        let e = load(&path).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Input);
        let said = e.to_string();
        assert!(said.contains("seed 7's") && said.contains("seed 8's"), "{said}");
        assert!(
            said.contains(&format!("schedlab runs rm {cell}/7 --out {}", store.root().display())),
            "{said}"
        );
    }
    // Outside of a store a folder may have any name.
    for name in ["7", "mine"] {
        let copy = dir.path().join(name);
        fs::create_dir(&copy).unwrap();
        fs::copy(run.path.join(RECORD_FILE), copy.join(RECORD_FILE)).unwrap();
        assert_eq!(load(&copy).unwrap().seed, 8);
    }
}

#[test]
fn a_folder_without_a_record_is_cleared_unless_others_wrote_there() {
    let (_dir, store) = store();
    let place = store.root().join("c/1");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("experiment.toml"), "left").unwrap();
    assert!(matches!(store.put("c", 1, &record(1), &[]).unwrap(), Stored::Written(_)));
    assert!(!place.join("experiment.toml").exists());
    assert_eq!(store.get("c", 1).unwrap().record().unwrap(), record(1));

    let place = store.root().join("c/2");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("thesis.txt"), "years of work").unwrap();
    let e = store.put("c", 2, &record(2), &[]).unwrap_err();
    assert!(e.to_string().contains("thesis.txt"), "{e}");
    assert!(place.join("thesis.txt").exists());
    assert_eq!(fs::read_dir(store.root().join("c")).unwrap().count(), 2, "no temporary folder stays");
}

#[test]
fn runs_are_listed_with_seeds_in_order() {
    let (dir, store) = store();
    for seed in [10, 9, 2] {
        store.put("c", seed, &record(seed), &[]).unwrap();
    }
    fs::create_dir(store.root().join("c/.77.1.tmp")).unwrap();
    fs::write(store.root().join("c/.77.1.tmp/record.json"), "half").unwrap();
    let names = |p: &Path| -> Vec<String> {
        let runs = list(p).unwrap();
        runs.iter().map(|r| r.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names(dir.path()), ["2", "9", "10"]);
    assert_eq!(names(&store.root().join("c/9")), ["9"]);
    assert_eq!(names(&store.root().join("c/9/record.json")), ["9"]);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(list(empty.path()).unwrap_err().kind(), ErrorKind::Input);
    assert!(list(&empty.path().join("nowhere")).is_err());
}

#[test]
fn leftovers_of_a_killed_writer_are_removed_by_the_next_one() {
    let (_dir, store) = store();
    let left = store.root().join(format!("c/.run.{}.0.tmp", std::process::id()));
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join(RECORD_FILE), "half").unwrap();
    store.put("c", 1, &record(1), &[]).unwrap();
    let long_ago = std::time::SystemTime::now() - 2 * schedlab_base::temp::LEFT_AFTER;
    File::open(&left).unwrap().set_modified(long_ago).unwrap();
    store.put("c", 2, &record(2), &[]).unwrap();
    assert!(!left.exists());
    assert_eq!(list(store.root()).unwrap().len(), 2);
}

#[test]
fn names_that_act_on_terminals_are_read_as_text() {
    let (_dir, store) = store();
    let mut bad = record(1);
    bad.workload = "pi\u{1b}[31m\npe".into();
    bad.found.counters.insert("mine\u{9b}".into(), 1);
    let read = store.put("c", 1, &bad, &[]).unwrap().run().record().unwrap();
    assert_eq!(read.workload, "pi\\u001b[31m\\u000ape");
    assert_eq!(read.found.counters["mine\\u009b"], 1);
}

#[test]
fn a_failed_write_leaves_nothing() {
    let (dir, store) = store();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(Store::create(&file.join("runs")).unwrap_err().kind(), ErrorKind::Machine);
    // A file in a missing folder can't be written, even by root. It stands for a full disk.
    assert!(store.put("c", 1, &record(1), &[("no/such/folder", b"")]).is_err());
    assert_eq!(fs::read_dir(store.root()).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_the_machine_s_limit() {
    let full = Path::new("/dev/full");
    if full.exists() {
        let e = write_synced(full, b"x").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Machine);
        assert!(e.message().contains("/dev/full"), "{e}");
    }
}

#[test]
fn damage_is_reported_with_its_place() {
    let (_dir, store) = store();
    let run = store.put("c", 1, &record(1), &[]).unwrap().run().clone();
    let file = run.path.join(RECORD_FILE);
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let e = run.record().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Input);
    assert!(e.to_string().contains("record.json:1:") && e.to_string().contains("EOF"), "{e}");
    fs::write(&file, whole.replace("schedlab/record/1", "schedlab/record/9")).unwrap();
    assert!(run.record().unwrap_err().to_string().contains("'schedlab/record/9'"));
    fs::remove_file(&file).unwrap();
    assert!(run.record().unwrap_err().to_string().contains("is not a run"));
}
