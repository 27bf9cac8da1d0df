use super::*;
use crate::metric::{self, METRICS};
use crate::store::{self, Store};
use crate::tests::record;
use crate::{Schedstat, cell_hash, evaluate};

struct Lab {
    dir: tempfile::TempDir,
    runs: Vec<RunDir>,
}

impl Lab {
    /// A store with a cell of so many runs.
    fn new(runs: u64) -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab { dir, runs: Vec::new() };
        let store = Store::create(&lab.root()).unwrap();
        for seed in 1..=runs {
            let mut made = record(seed);
            made.found.counters.insert("migrations".into(), seed * 1000);
            made.found.warnings.push(Warning::new("w", format!("seed {seed}")));
            store.put(&cell_hash(&made), seed, &made, &[]).unwrap();
        }
        let runs = store::list(&lab.root()).unwrap();
        Lab { runs, ..lab }
    }
    fn root(&self) -> PathBuf {
        self.dir.path().join("runs")
    }
    fn index(&self) -> Index {
        Index::open(&self.root())
    }
    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(self.root().join(INDEX_FOLDER)).unwrap().map(|e| e.unwrap().path()).collect()
    }
    fn add(&self, runs: Range<usize>) {
        let runs = &self.runs[runs];
        let read: Vec<ReadOutline> = runs.iter().map(|run| ReadOutline::outline(run).unwrap()).collect();
        self.index().add(&runs.iter().zip(&read).collect::<Vec<_>>()).unwrap();
    }
}

#[test]
fn a_row_is_the_digest_of_its_record() {
    let lab = Lab::new(3);
    lab.add(0..2);
    let index = lab.index();
    for run in &lab.runs[..2] {
        let (row, whole) = (index.get(run).unwrap(), run.record().unwrap());
        assert_eq!(row, digest(whole.clone()));
        assert_eq!(digest(row.clone()), row, "a digest has no other digest");
        assert_eq!(row.found.series, whole.found.series, "digests equal their series");
        for name in ["schbench.latency.p99", "schbench.latency.mean", "migrations", "schbench.latency.count"]
        {
            assert_eq!(evaluate(&row, name), evaluate(&whole, name), "{name}");
            assert!(evaluate(&row, name).number().is_some() && !metric::beyond_index(name), "{name}");
        }
    }
    assert_eq!((index.len(), index.get(&lab.runs[2])), (2, None));
}

#[test]
fn a_changed_record_has_no_row() {
    let lab = Lab::new(2);
    lab.add(0..2);
    let path = lab.runs[0].path.join(RECORD_FILE);
    let text = fs::read_to_string(&path).unwrap();
    // File systems count time in ticks of up to 10 ms.
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&path, text.replace("\"migrations\":1000", "\"migrations\":1001")).unwrap();
    let index = lab.index();
    assert!(index.get(&lab.runs[0]).is_none(), "same size, other time");
    fs::remove_file(lab.runs[1].path.join(RECORD_FILE)).unwrap();
    assert!(index.get(&lab.runs[1]).is_none());
    lab.add(0..1);
    assert_eq!(lab.index().get(&lab.runs[0]).unwrap().found.counters["migrations"], 1001);
}

#[test]
fn a_record_that_changes_after_it_was_read_gets_no_row() {
    let lab = Lab::new(1);
    let run = &lab.runs[0];
    let read = ReadOutline::outline(run).unwrap();
    let text = fs::read_to_string(run.path.join(RECORD_FILE)).unwrap();
    fs::write(run.path.join(RECORD_FILE), text + " ").unwrap();
    lab.index().add(&[(run, &read)]).unwrap();
    assert_eq!((lab.index().len(), lab.index().get(run)), (1, None));
}

#[test]
fn a_damaged_file_counts_as_absent_and_is_removed() {
    let lab = Lab::new(2);
    lab.add(0..2);
    let [file] = &lab.files()[..] else { panic!("one file") };
    let whole = fs::read(file).unwrap();
    for at in (0..whole.len()).step_by(101) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x08;
        fs::write(file, &damaged).unwrap();
        assert!(lab.index().is_empty(), "byte {at}");
        fs::write(file, &whole[..at]).unwrap();
        assert!(lab.index().is_empty(), "{at} bytes");
    }
    let read: Vec<ReadOutline> = lab.runs.iter().map(|run| ReadOutline::outline(run).unwrap()).collect();
    let all: Vec<(&RunDir, &ReadOutline)> = lab.runs.iter().zip(&read).collect();
    lab.index().rebuild(&all).unwrap();
    assert_eq!((lab.files().len(), lab.index().len()), (1, 2));
}

#[test]
fn many_files_are_merged_and_concurrent_writers_lose_nothing() {
    let lab = Lab::new(12);
    std::thread::scope(|scope| {
        for at in 0..MOST_FILES {
            let lab = &lab;
            scope.spawn(move || lab.add(at..at + 1));
        }
    });
    assert_eq!(lab.index().len(), MOST_FILES);
    lab.add(MOST_FILES..12);
    assert_eq!((lab.files().len(), lab.index().len()), (1, 12));
    assert!(lab.runs.iter().all(|run| lab.index().get(run).is_some()));
}

#[test]
fn a_store_without_a_writable_index_works() {
    let lab = Lab::new(1);
    fs::write(lab.root().join(INDEX_FOLDER), "a file in its place").unwrap();
    let read = ReadOutline::outline(&lab.runs[0]).unwrap();
    let e = lab.index().add(&[(&lab.runs[0], &read)]).unwrap_err();
    assert!(e.remedy().is_some_and(|help| help.contains("move it away")), "{e}");
    assert!(lab.index().get(&lab.runs[0]).is_none());
    assert_eq!(store::list(&lab.root()).unwrap(), lab.runs);
}

#[test]
fn a_killed_writer_s_file_is_removed_and_a_young_one_stays() {
    let lab = Lab::new(2);
    lab.add(0..1);
    let folder = lab.root().join(INDEX_FOLDER);
    let [left, young] = ["0123", "4567"].map(|name| folder.join(format!(".{name}.rows.77.0.tmp")));
    [&left, &young].iter().for_each(|path| fs::write(path, "half").unwrap());
    let old = std::time::SystemTime::now() - 2 * temp::LEFT_AFTER;
    fs::File::open(&left).unwrap().set_modified(old).unwrap();
    lab.add(1..2);
    assert!(!left.exists() && young.exists());
    assert_eq!(lab.index().len(), 2);
}

#[test]
fn only_files_are_read_as_parts_of_an_index() {
    let lab = Lab::new(1);
    lab.add(0..1);
    let folder = lab.root().join(INDEX_FOLDER);
    std::os::unix::fs::symlink("/dev/zero", folder.join("zero.rows")).unwrap();
    fs::create_dir(folder.join("folder.rows")).unwrap();
    // A pipe without a writer: opening it would wait forever.
    let pipe = folder.join("pipe.rows");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (send, opened) = std::sync::mpsc::channel();
    let root = lab.root();
    std::thread::spawn(move || send.send(Index::open(&root).len()));
    assert_eq!(opened.recv_timeout(std::time::Duration::from_secs(30)), Ok(1));
}

#[test]
fn metrics_beyond_the_index_are_known() {
    for name in ["wakeup_delay.p99", "wakeup_delay.max", "migrations", "no.such", "woken.idle.share"] {
        assert!(!metric::beyond_index(name), "{name}");
    }
    for name in ["wakeup_delay.p97.3", "cpu0.ttwu_count", "task.a.cpu_time", "balance.newidle_entries"] {
        assert!(metric::beyond_index(name), "{name}");
    }
    // A record with only schedstat: a formula that has a value must have read it.
    let mut r = record(1);
    let cpu = r#"{"version": 17, "sg_scan": false, "timestamp": 1,
        "cpus": [[0, [1,2,3,4,5,6,7,8], [["SMT", "0", [[5], [5], [5]], [0]]]]]}"#;
    r.found.schedstat = Some(serde_json::from_str::<Schedstat>(cpu).unwrap());
    r.found.series.clear();
    let formulas = METRICS.iter().filter(|row| row.formula.is_some());
    let reading: Vec<&str> =
        formulas.filter(|row| row.formula.is_some_and(|of| of(&r).is_some())).map(|row| row.name).collect();
    assert!(reading.iter().all(|name| metric::beyond_index(name)), "{reading:?}");
    assert_eq!(reading, ["balance.newidle_entries"]);
}
