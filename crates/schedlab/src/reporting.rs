//! From stored runs to a page: the comparison, the runs that are made again for their strips, and the file.

use crate::commands::doctor::stored_floors;
use crate::listener;
use crate::progress::Bar;
use crate::{common, interrupt, rerun_command};
use schedlab_base::{Error, ErrorKind, Result, counted, temp, utc};
use schedlab_compare::comparison::stored::outlines;
use schedlab_compare::comparison::{
    self, Folders, Named, made_by_looks, of_one_source, runs_by_cell, shown_in_order,
};
use schedlab_compare::stats::Verdict;
use schedlab_compare::strips::Strips;
use schedlab_compare::{Comparison, Question, compare};
use schedlab_lab::make::request::question;
use schedlab_lab::stored::events::has_kept;
use schedlab_lab::stored::rerun::Rerun;
use schedlab_lab::stored::strips::{chosen, kept};
use schedlab_lab::{Backend, Experiment, Plan};
use schedlab_record::store::RECORD_FILE;
use schedlab_record::{Record, RunDir, cell_hash};
use schedlab_report::html::{HtmlReport, ShownRun, page};
use schedlab_report::number::three;
use schedlab_workload::command::one_line;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of the strips of one run. Two of them, as text in a page, take 7.4 MB.
const ROOM: usize = 2_750_000;

pub struct Subject {
    pub title: String,
    /// The question in a sentence or more; may be empty.
    pub about: String,
    pub runs: Vec<Named>,
    pub question: Question,
}

pub struct PageRequest {
    /// The command line, which the page shows.
    pub command: String,
    /// The variants whose CPUs are shown over time, at most two; empty: chosen. `None`: none is shown.
    pub strips: Option<Vec<String>>,
    pub quiet: bool,
}

pub struct Written {
    /// About the file, for a note.
    pub words: String,
    /// The outcome of the comparison, in a sentence.
    pub outcome: String,
}

/// The command line, quoted so that a shell takes it again.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned());
    one_line(&std::iter::once("schedlab".to_owned()).chain(words).collect::<Vec<_>>())
}

/// Runs of an experiment, and its question to them.
///
/// # Errors
/// When the question is wrong.
pub fn of_experiment(experiment: &Experiment, planned: &Plan, runs: Vec<RunDir>) -> Result<Subject> {
    let about = experiment.about.split_whitespace().collect::<Vec<_>>().join(" ");
    let runs = of_one_source(runs);
    Ok(Subject {
        title: experiment.name.clone(),
        about,
        runs,
        question: question(experiment, planned, &listener::Shown::new(false))?,
    })
}

/// Makes the page and writes it.
///
/// # Errors
/// A record that can't be read, runs that can't be compared, an interruption, or a file that can't be written.
pub fn write(subject: Subject, asked: &PageRequest, file: &Path) -> Result<Written> {
    let (mut folders, mut dirs) = (Folders::default(), BTreeMap::new());
    let stored: Vec<RunDir> = subject.runs.iter().map(|named| named.run.clone()).collect();
    let records = outlines(&stored)?;
    for (run, record) in stored.iter().zip(&records) {
        folders.add(run, record);
        dirs.entry((cell_hash(record), record.seed)).or_insert_with(|| run.clone());
    }
    let (records, mut question) = shown_in_order(&subject.runs, records, subject.question.kept_in(folders));
    if records.iter().any(|r| r.backend == Backend::Host) {
        question = question.with_floors(stored_floors()?);
    }
    let named = |b: &str| records.iter().any(|r| r.variant.name == b || r.kernel == b);
    if !subject.about.is_empty() {
        // The store may lack some of the experiment's variants.
        question.keep_baseline(named);
    }
    let comparison = compare(&records, &question, made_by_looks(&subject.runs).as_slice())?;
    let runs = runs_by_cell(&records);
    drop(records);
    let mut notes = Vec::new();
    let strips = match &asked.strips {
        None => {
            notes.push("Left out: --no-strips was given.".to_owned());
            Vec::new()
        }
        Some(wanted) => {
            let from = Stored { comparison: &comparison, runs: &runs, dirs: &dirs };
            from.strips(wanted, asked.quiet, &mut notes)?
        }
    };
    let shown: Vec<ShownRun<'_>> =
        strips.iter().map(|(cell, record, strips)| ShownRun { cell: *cell, record, strips }).collect();
    let again: Vec<Option<String>> = runs.iter().map(|cell| line(cell, &dirs)).collect();
    let html = page(&HtmlReport {
        title: &subject.title,
        about: &subject.about,
        command: &asked.command,
        version: env!("CARGO_PKG_VERSION"),
        made: dates(&stored),
        comparison: &comparison,
        runs: &runs,
        again: &again,
        shown: &shown,
        strip_notes: &notes,
    });
    temp::write_whole(file, html.as_bytes())?;
    let of = match shown.len() {
        0 => "no CPUs over time".to_owned(),
        n => format!("{} over time", counted(n, "run")),
    };
    let size = three(html.len() as f64 / 1e6);
    let cells = counted(comparison.cells.len(), "cell");
    Ok(Written { words: format!("{size} MB, {cells}, {of}"), outcome: outcome(&comparison) })
}

/// The command line that makes a cell's runs anew.
fn line(runs: &[Record], dirs: &BTreeMap<(String, u64), RunDir>) -> Option<String> {
    let first = runs.first()?;
    let dir = dirs.get(&(cell_hash(first), first.seed))?;
    rerun_command::line(first, dir, &runs.iter().map(|r| r.seed).collect::<Vec<_>>())
}

/// When the first and the last of the runs were stored, UTC.
fn dates(runs: &[RunDir]) -> (String, String) {
    let stored = |run: &RunDir| std::fs::metadata(run.path.join(RECORD_FILE)).ok()?.modified().ok();
    let times = || runs.iter().filter_map(stored).map(utc::since_1970_s);
    match times().min().zip(times().max()) {
        Some((first, last)) => (utc::minute(first), utc::minute(last)),
        None => Default::default(),
    }
}

/// "12 rows: 3 better, 1 worse".
fn outcome(c: &Comparison) -> String {
    let all = [Verdict::Better, Verdict::Worse, Verdict::Changed, Verdict::Same, Verdict::Unclear];
    let count = |v: Verdict| c.comparisons.iter().filter(|r| r.verdict == v).count();
    let counts: Vec<String> =
        all.into_iter().filter(|v| count(*v) > 0).map(|v| format!("{} {}", count(v), v.word())).collect();
    let (cells, rows) = (counted(c.cells.len(), "cell"), counted(c.comparisons.len(), "comparison"));
    format!("{cells}, {rows}: {}", counts.join(", "))
}

/// Runs by the cells of their comparison, and their places in the store.
struct Stored<'a> {
    comparison: &'a Comparison,
    runs: &'a [Vec<Record>],
    dirs: &'a BTreeMap<(String, u64), RunDir>,
}

impl Stored<'_> {
    /// The runs that are shown over time: their cell, their whole record, and their strips. `notes` gets a note about
    /// each that can't be shown.
    fn strips(
        &self,
        wanted: &[String],
        quiet: bool,
        notes: &mut Vec<String>,
    ) -> Result<Vec<(usize, Record, Strips)>> {
        let (c, runs) = (self.comparison, self.runs);
        let mut shown = Vec::new();
        let chosen = chosen(c, wanted)?;
        let seeds: Vec<u64> = chosen.iter().flat_map(|cell| runs[*cell].iter().map(|r| r.seed)).collect();
        let in_all = |seed: u64| chosen.iter().all(|cell| runs[*cell].iter().any(|r| r.seed == seed));
        let common = seeds.iter().copied().filter(|s| in_all(*s)).min();
        for cell in chosen {
            let at = runs[cell].iter().position(|r| Some(r.seed) == common).unwrap_or(0);
            let Some(outline) = runs[cell].get(at) else { continue };
            let Some(dir) = self.dirs.get(&(cell_hash(outline), outline.seed)) else { continue };
            // Its waits stand below its strips.
            let record = dir.record()?;
            match self.strips_of(&record, quiet)? {
                Ok(strips) => shown.push((cell, record, strips)),
                Err(why) => notes.push(format!(
                    "{} can't be shown over time: its events were not kept, and {why}.",
                    c.cells[cell].variant
                )),
            }
        }
        let groups = c.cells.chunk_by(comparison::Cell::same_group).count();
        if groups > 1 || c.cells.len() > 2 {
            notes.push(
                "Two runs of one load are shown. --load and --variant, or --strips VARIANT, make a report with others."
                    .to_owned(),
            );
        }
        Ok(shown)
    }

    /// One run's strips; the reason if it has kept no events and can't be made again.
    fn strips_of(&self, record: &Record, quiet: bool) -> Result<std::result::Result<Strips, String>> {
        let why = match Rerun::of(record) {
            Ok(again) => return made_again(again, quiet).map(Ok),
            Err(e) => e.message().to_owned(),
        };
        let Some(dir) = self.dirs.get(&(cell_hash(record), record.seed)).filter(|dir| has_kept(dir)) else {
            return Ok(Err(why));
        };
        kept(dir, record, ROOM, interrupt::stop_flag()?).map(Ok)
    }
}

fn made_again(again: Rerun<'_>, quiet: bool) -> Result<Strips> {
    let again = again.clocked(&common::SIMULATED);
    let bar = Bar::simulated(quiet, again.length(), &common::SIMULATED);
    bar.say("the run is made again".to_owned());
    let made = again.strips(ROOM, interrupt::stop_flag()?)?;
    drop(bar);
    made.ok_or_else(|| Error::new(ErrorKind::CheckFailed, "interrupted: the page was not written"))
}
