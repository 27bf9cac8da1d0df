//! The posted series that ship with schedlab: experiments with the figures that their authors published, compiled in.

use crate::experiments::{self, ExperimentOptions};
use crate::output;
use schedlab_base::{Error, Result, Warning, counted, input, temp};
use schedlab_compare::comparison::CountedWarning;
use schedlab_compare::published::{FoundSeries, JudgedSeries, doubts, fault, judge, read, write};
use schedlab_kernel::Level;
use schedlab_lab::Experiment;
use schedlab_lab::ask::experiment::parse;
use schedlab_record::{ENGINE, PostedSeries};
use std::collections::BTreeSet;
use std::path::Path;

pub use schedlab_lab::ask::studies::PUBLISHED as NAME;

/// The question of the study `published`.
pub const ABOUT: &str =
    "posted series of patches: whether the kernel's own code changes here as their authors saw it change.";

macro_rules! series_files {
    ($($name:literal)*) => {
        /// Name and text of every series.
        const SERIES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../studies/published/", $name, ".toml"))),)*];
    };
}

series_files! {
    "sis-util" "sis-node" "tg-load-avg-ratelimit" "wakelist-idle-wakee" "cache-aware" "delay-dequeue" "next-buddy"
    "newidle-cost-tracking" "sched-balance-running" "rq-reorder"
}

/// The code of the warning about values of another engine or level.
const OTHER_ENGINE: &str = "published.engine";

/// Their values that ship with schedlab.
const KEPT: &str = include_str!("../../../cases/results/published.json");

/// A series and its experiment.
#[derive(Clone)]
struct Posted {
    series: PostedSeries,
    experiment: Experiment,
}

impl Posted {
    /// Leaves loads of which nothing was published; with `quick` also those that take long, and those on another
    /// reading of the machine than the one that counts.
    fn narrow(&mut self, quick: bool) {
        let Experiment { posted, loads, machines, .. } = &mut self.experiment;
        let tables = posted.iter().filter(|table| table.not_modelled.is_none());
        let readings = if quick { 1 } else { usize::MAX };
        let asked: BTreeSet<(&str, &str)> = tables
            .flat_map(|t| {
                t.machines.iter().take(readings).flat_map(|m| t.figures.iter().map(move |f| (m, f)))
            })
            .map(|(machine, (load, _))| (machine.as_str(), load.as_str()))
            .collect();
        loads.retain(|load| {
            asked.contains(&(&*machines[load.machine].name, &*load.name))
                && (!quick || self.series.quick.contains(&load.name))
        });
    }
}

/// The series that are asked for, and how.
pub struct Ask<'a> {
    /// Names, or files of series; all that ship if there is none.
    pub names: &'a [String],
    /// Only the loads that take little time.
    pub quick: bool,
    /// The file that keeps the values of what was run, beside those of other loads.
    pub keep: Option<&'a Path>,
}

impl Ask<'_> {
    /// Runs the series, and judges each.
    ///
    /// # Errors
    /// For unknown names and errors in options and files, when a run fails, or on an interruption.
    pub fn run(&self, options: &ExperimentOptions) -> Result<Vec<JudgedSeries>> {
        if let Some(file) = self.keep {
            // Runs take long: whether they can be kept is known before.
            let all = input::text_if_there(file)?.map_or(Ok(Vec::new()), |text| kept_in(file, &text))?;
            write_all(file, &all)?;
        }
        let one = |posted: Posted| {
            let mut wanted = posted.clone();
            wanted.narrow(self.quick);
            let (found, warnings) = run(wanted, options)?;
            let lost = self.keep.map_or(Ok(None), |file| keep(file, &found))?;
            Ok(judged(&posted, &found, warnings.into_iter().chain(lost).collect()))
        };
        self.posted()?.into_iter().map(one).collect()
    }
    /// Judges the series by values that are kept in a file, by default in the one that ships with schedlab.
    ///
    /// # Errors
    /// For unknown names and errors in files.
    pub fn kept(&self, file: Option<&Path>) -> Result<Vec<JudgedSeries>> {
        let kept = match file {
            Some(file) => kept_in(file, &input::text(file)?)?,
            None => kept_in(Path::new("cases/results/published.json"), KEPT)?,
        };
        let one = |posted: Posted| {
            let name = &posted.experiment.name;
            let own = posted.experiment.variants.first().map_or(Level::Woven, |v| v.level);
            let of_level = kept.iter().filter(|found| found.name == *name);
            let found = of_level.clone().find(|found| found.level == own).or(of_level.clone().next());
            let mut found = found.cloned().unwrap_or_else(|| FoundSeries::none(name));
            let (engine, level) = (found.engine, found.level.word());
            let is_current = found.loads.is_empty() || (engine, found.level) == (ENGINE, own);
            let other =
                format!("its values are of engine {engine} at level {level}; this is engine {ENGINE}");
            let warning = (!is_current).then(|| Warning::new(OTHER_ENGINE, other));
            let stale = found.leave_stale(&posted.experiment.made_of()?).join("; ");
            let stale = (!stale.is_empty())
                .then(|| Warning::new("published.stale", format!("stale, so to be run again: {stale}")));
            Ok(judged(&posted, &found, warning.into_iter().chain(stale).collect()))
        };
        self.posted()?.into_iter().map(one).collect()
    }
    fn posted(&self) -> Result<Vec<Posted>> {
        let all: Vec<String> = SERIES.iter().map(|(name, _)| (*name).to_owned()).collect();
        let names = if self.names.is_empty() { &all } else { self.names };
        names.iter().map(|name| posted(name)).collect()
    }
}

/// Warnings of mechanisms that a change touches, given its features, tunables and functions, where runs of the kernel's
/// own code show too few of the changes that others published.
///
/// # Errors
/// None that is known: the series ship with schedlab.
pub fn doubted<'w>(touched: impl IntoIterator<Item = &'w str>) -> Result<Vec<CountedWarning>> {
    let ask = Ask { names: &[], quick: false, keep: None };
    let mut judged = ask.kept(None)?;
    // What another engine has shown is not this one's.
    judged.retain(|series| series.warnings.iter().all(|warning| warning.code != OTHER_ENGINE));
    let warning = |text| CountedWarning::of_all(Warning::new("published.mechanism", text));
    Ok(doubts(touched, &judged).into_iter().map(warning).collect())
}

/// The series of a name or a file, as backend code runs it.
fn posted(name: &str) -> Result<Posted> {
    let cpus = crate::common::cpus();
    let shipped = SERIES.iter().find(|(n, _)| *n == name);
    let experiment = match shipped {
        Some((name, text)) => parse(Path::new(&format!("studies/published/{name}.toml")), text, cpus)?,
        None if name.ends_with(".toml") => parse(Path::new(name), &input::text(Path::new(name))?, cpus)?,
        None => return Err(Error::unknown("series", name, SERIES.iter().map(|(n, _)| *n))),
    };
    let experiment = experiment.on_code();
    Ok(Posted { series: experiment.checked_series()?.clone(), experiment })
}

fn judged(posted: &Posted, found: &FoundSeries, warnings: Vec<Warning>) -> JudgedSeries {
    let Experiment { name, posted: figures, baseline, .. } = &posted.experiment;
    JudgedSeries { warnings, ..judge((name, &posted.series), figures, baseline, &found.loads) }
}

/// The values of a series by runs, and the warnings about these.
fn run(posted: Posted, options: &ExperimentOptions) -> Result<(FoundSeries, Vec<Warning>)> {
    let Posted { series, experiment } = posted;
    let (name, figures, baseline) =
        (experiment.name.clone(), experiment.posted.clone(), experiment.baseline.clone());
    if !options.quiet() {
        output::note(&format!("{name}: {}", series.title));
    }
    if experiment.loads.is_empty() {
        return Ok((FoundSeries::none(&name), Vec::new()));
    }
    let made_of = experiment.made_of()?;
    let runs = experiments::compared(experiment, options)?;
    Ok((FoundSeries::of(&name, (&figures, &made_of), &baseline, &runs), runs.warnings_of_runs()))
}

fn kept_in(file: &Path, text: &str) -> Result<Vec<FoundSeries>> {
    let help = "'schedlab study published --keep' writes such files";
    let all = read(text).map_err(|e| {
        Error::input(format!("{}: no values of posted series: {e}", file.display())).help(help)
    })?;
    let help = "take the row's line out of the file, and run its load again with --keep";
    let wrong =
        |fault| Error::input(format!("{}: no run gives such values: {fault}", file.display())).help(help);
    fault(&all).map_or(Ok(all), |fault| Err(wrong(fault)))
}

/// Keeps values in a file. What is there of other series and levels stays, and of the same ones what the same engine
/// has made of other loads. Warns of values of another engine, which are given up.
fn keep(file: &Path, found: &FoundSeries) -> Result<Option<Warning>> {
    let text = input::text_if_there(file)?;
    let mut all = text.map_or(Ok(Vec::new()), |text| kept_in(file, &text))?;
    if found.loads.is_empty() {
        return Ok(None);
    }
    let (mut found, mut warning) = (found.clone(), None);
    let is_it = |earlier: &FoundSeries| (&earlier.name, earlier.level) == (&found.name, found.level);
    if let Some(at) = all.iter().position(is_it) {
        let earlier = all.remove(at);
        if !found.complete(&earlier) {
            let (values, engine) = (counted(earlier.loads.len(), "line"), earlier.engine);
            let text =
                format!("{}: {values} of engine {engine} made room for engine {ENGINE}", file.display());
            warning = Some(Warning::new("published.given_up", text));
        }
    }
    all.push(found);
    all.sort_by(|a, b| (&a.name, a.level.word()).cmp(&(&b.name, b.level.word())));
    write_all(file, &all)?;
    Ok(warning)
}

fn write_all(file: &Path, all: &[FoundSeries]) -> Result<()> {
    let text = write(all).map_err(|e| Error::internal(e.to_string()))?;
    temp::write_whole(file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::page_has;
    use schedlab_compare::published::{LoadValues, MadeOf};

    #[test]
    fn every_file_is_a_series_under_its_own_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/published");
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let mut files: Vec<String> = files.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        files.sort();
        let mut known: Vec<String> = SERIES.iter().map(|(name, _)| format!("{name}.toml")).collect();
        known.sort();
        assert_eq!(files, known);
        for (name, _) in SERIES {
            let series = posted(name).unwrap_or_else(|e| panic!("{name}: {e}")).experiment;
            assert_eq!(series.name, *name);
            assert!(!series.posted.is_empty(), "{name}");
        }
    }

    const BEGIN: &str = "<!-- published: made from schedlab study published --kept --format markdown -->\n";
    const END: &str = "<!-- end -->";

    #[test]
    fn the_page_has_the_verdicts_that_follow_from_the_kept_values() {
        let mut table = b"\n".to_vec();
        let judged = Ask { names: &[], quick: false, keep: None }.kept(None).unwrap();
        schedlab_report::published::markdown(&judged, &mut table).unwrap();
        page_has("docs/published.md", [BEGIN, END], &String::from_utf8(table).unwrap());
    }

    #[test]
    fn kept_values_are_replaced_load_by_load_and_other_series_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept.json");
        let found = |name: &str, load: &str, n: f64| {
            let values = [("on".to_owned(), vec![n])].into();
            let (load, made_of) = (load.to_owned(), MadeOf::default());
            let load = LoadValues { machine: "m".into(), load, metric: "work".into(), made_of, values };
            FoundSeries { level: Level::Woven, loads: vec![load], ..FoundSeries::none(name) }
        };
        let kept = || {
            let all = kept_in(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
            let of = |s: &FoundSeries, l: &LoadValues| {
                format!("{} {} {} {}", s.name, s.level.word(), l.load, l.values["on"][0])
            };
            all.iter().flat_map(|s| s.loads.iter().map(|l| of(s, l)).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        for (name, load, n) in [("b", "l", 1.0), ("a", "l", 2.0), ("b", "k", 3.0), ("b", "l", 4.0)] {
            assert_eq!(keep(&file, &found(name, load, n)).unwrap(), None);
        }
        for nothing in ["b", "c"] {
            keep(&file, &FoundSeries::none(nothing)).unwrap();
        }
        let woven = ["a woven l 2", "b woven k 3", "b woven l 4"];
        assert_eq!(kept(), woven);
        keep(&file, &FoundSeries { level: Level::Counted, ..found("b", "l", 5.0) }).unwrap();
        assert_eq!(kept(), ["a woven l 2", "b counted l 5", "b woven k 3", "b woven l 4"]);
        let later = FoundSeries { engine: ENGINE + 1, ..found("b", "l", 6.0) };
        let warning = keep(&file, &later).unwrap().unwrap();
        assert!(warning.message.contains("2 lines of engine"), "{warning:?}");
        assert_eq!(kept(), ["a woven l 2", "b counted l 5", "b woven l 6"]);
    }

    #[test]
    fn values_of_another_machine_are_stale_and_of_another_level_are_not_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept.json");
        let name = "newidle-cost-tracking";
        let names = [name.to_owned()];
        let ask = Ask { names: &names, quick: false, keep: None };
        let mut found = kept_in(Path::new("shipped"), KEPT).unwrap();
        found.retain(|series| series.name == name);
        let run = |series: &JudgedSeries| series.rows.iter().filter(|row| row.ours.is_some()).count();
        let judged = |found: &FoundSeries| {
            std::fs::write(&file, write(std::slice::from_ref(found)).unwrap()).unwrap();
            ask.kept(Some(&file)).unwrap().remove(0)
        };
        let made_of = posted(name).unwrap().experiment.made_of().unwrap();
        for values in &mut found[0].loads {
            // Whether those that ship are stale is not asked here.
            values.made_of = made_of[&[values.machine.clone(), values.load.clone()]].clone();
        }
        let now = FoundSeries { engine: ENGINE, ..found.remove(0) };
        assert_eq!((run(&judged(&now)), judged(&now).warnings.len()), (now.loads.len(), 0));
        let mut other = now.clone();
        other.loads[0].made_of.machine = "of lower costs".into();
        let stale = judged(&other);
        assert_eq!(run(&stale), now.loads.len() - 1);
        let wanted = format!("run again: {}@thx2 (machine)", now.loads[0].load);
        assert!(stale.warnings[0].message.ends_with(&wanted), "{:?}", stale.warnings);
        let counted = FoundSeries { level: Level::Counted, ..now };
        assert!(judged(&counted).warnings[0].message.contains("at level counted"));
    }
}
