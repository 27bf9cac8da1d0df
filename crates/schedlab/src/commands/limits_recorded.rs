//! A stored recording in the question about a limit: the schedule that is made of it, and what the recording says about
//! its group, machine and kernel.

use super::limits_refused as refused;
use super::replay::{self, Replaying};
use crate::{common, output};
use schedlab_base::temp::write_whole;
use schedlab_base::{Backend, Error, Origin, Result, Warning, hash};
use schedlab_compare::runs::Filter;
use schedlab_import::to_run::ChosenTasks;
use schedlab_kernel::Variant;
use schedlab_kernel::cpu_limit::Request;
use schedlab_lab::ask::experiment::write::quoted;
use schedlab_lab::search::limits::{LimitsRequest, other_groups, recorded_groups};
use schedlab_lab::stored::events::Events;
use schedlab_lab::stored::named::RunChoice;
use schedlab_lab::stored::replay::fit::{self, Off, Recording};
use schedlab_lab::stored::replay::kept_groups::{KeptGroup, groups_of};
use schedlab_machine::Machine;
use schedlab_record::store::RECORD_FILE;
use schedlab_record::{Record, RunDir, Series, Store, store};
use schedlab_report::answer::{AsRecorded, Figure};
use schedlab_workload::Spec;
use schedlab_workload::replay::Prices;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a group's limit gets into a recording.
pub const HOW_TO_RECORD: &str =
    "schedlab record --duration 10s --cgroup /web records the schedule with a group and its limit";

/// The beginning of the names of groups that the kernel makes for sessions.
const AUTOGROUP: &str = "/autogroup-";

/// A recording that was read.
pub struct Recorded {
    record: Record,
    recording: Recording,
    machine: Machine,
    /// The kernel that was recorded.
    pub kernel: Variant,
    kept: Vec<KeptGroup>,
    /// The schedule as it was, which shows what groups there are.
    pub spec: Spec,
    /// Whether its tasks were put into a group afterwards.
    grouped: bool,
}

impl Recorded {
    /// The recording of that name in a store.
    ///
    /// # Errors
    /// When there is none, it kept no events, or nothing runs in it.
    pub fn find(name: &str, store: &Path, backend: Backend, quiet: bool) -> Result<Recorded> {
        let run = newest_named(name, store)?;
        let record = run.record()?;
        let (machine, kernel, recording) = {
            let mut events = Events::of(&run, &record)?.clocked(&common::SIMULATED);
            let mut machine = replay::recorded_machine(&record, &mut events)?;
            let by_code = backend == Backend::Code;
            let kernel = replay::recorded_kernel(None, by_code, &record, events.cast())?;
            let mut recording = replay::read(quiet, &mut events, &machine)?;
            // The recording already holds the recorded machine's own tasks.
            machine.background.clear();
            let counted = record.found.counters.iter().filter(|(name, _)| name.starts_with("group./"));
            recording.found.counters.extend(counted.map(|(name, n)| (name.clone(), *n)));
            (machine, kernel, recording)
        };
        let spec = Spec::replay(&record.workload, recording.schedule.text(), Prices::default())?;
        let kept = groups_of(&record)?;
        Ok(Recorded { record, recording, machine, kernel, kept, spec, grouped: false })
    }

    /// Puts the tasks of these names (`NAME*`: that begin so) into a group: a recording may not know groups.
    ///
    /// # Errors
    /// When no task has such a name.
    pub fn put_into(&mut self, group: &str, names: &[String]) -> Result<()> {
        let chosen = ChosenTasks { names: names.to_vec(), ..ChosenTasks::default() };
        let parts = &mut self.recording.schedule.parts;
        let mut own: Vec<_> = parts.iter_mut().filter(|part| chosen.names_task(&part.name)).collect();
        // The kernel's own groups of sessions are not those of services.
        let there = own.iter().filter_map(|part| part.group.as_deref());
        let there: BTreeSet<&str> = there.filter(|path| !path.starts_with(AUTOGROUP)).collect();
        if !there.is_empty() {
            let there: Vec<&str> = there.into_iter().collect();
            return Err(Error::input(format!("this recording knows the groups of {}", names.join(" and ")))
                .help(format!("--group {}", there.join(", or --group "))));
        }
        own.iter_mut().for_each(|part| (part.group, part.background) = (Some(group.to_owned()), false));
        if own.is_empty() {
            return Err(Error::input(format!("no task of the recording is named {}", names.join(" or ")))
                .help("'schedlab latency RUN' lists its tasks; NAME* takes all names that begin so"));
        }
        self.spec = Spec::replay(&self.record.workload, self.recording.schedule.text(), Prices::default())?;
        self.grouped = true;
        Ok(())
    }

    /// The group that was recorded with its limit, if there is one.
    ///
    /// # Errors
    /// When several have limits, or no task of it ran.
    pub fn group(&self) -> Result<Option<&KeptGroup>> {
        let limited: Vec<&KeptGroup> = self.kept.iter().filter(|g| g.limit.quota.is_some()).collect();
        let chosen = match (&limited[..], &self.kept[..]) {
            ([], []) => return Ok(None),
            ([one], _) => one,
            ([], [one]) => one,
            (_, all) => {
                let paths: Vec<&str> = all.iter().map(|g| g.path.as_str()).collect();
                return Err(Error::input(format!("the recording kept the limits of {} groups", all.len()))
                    .help(format!("--group {}", paths.join(", or --group "))));
            }
        };
        let there = recorded_groups(&self.spec)?;
        if there.contains(&chosen.path) {
            return Ok(Some(chosen));
        }
        let names = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        Err(Error::input(format!("no task of {} ran while it was recorded", chosen.path))
            .help(format!("record longer, or while it has work; groups with tasks that ran: {names}")))
    }
    /// What was kept of the group with that path.
    pub fn kept(&self, path: &str) -> Option<&KeptGroup> {
        self.kept.iter().find(|group| group.path == path)
    }
    /// The other groups that have a limit, as they were.
    pub fn fixed(&self, path: &str) -> Vec<schedlab_kernel::GroupSpec> {
        let others = self.kept.iter().filter(|g| g.path != path && g.limit.quota.is_some());
        others.map(KeptGroup::spec).collect()
    }
    /// How often the group was busy; `None` if the recording has no wakeups.
    fn periods(&self, path: &str) -> Option<u64> {
        let busy = self.recording.found.series.get(&format!("group.{path}.busy"));
        (!self.recording.lacks_wakeups && !self.grouped).then(|| busy.map_or(0, Series::count))
    }
    /// The recorded machine by its name, or else by a file that is written for it.
    ///
    /// # Errors
    /// When a file can't express it, or be written.
    pub fn machine(&self, folder: &Path) -> Result<String> {
        let name = &self.machine.name;
        if common::machine(name, None)
            .is_ok_and(|m| m.topology == self.machine.topology && m.background.is_empty())
        {
            return Ok(name.clone());
        }
        let text = self.machine.text(name, "a recorded machine")?;
        self.write(folder, "machine.toml", &text).map(|path| path.display().to_string())
    }

    /// Writes a file of this recording into a folder; its name holds a mark of its text.
    fn write(&self, folder: &Path, ending: &str, text: &str) -> Result<PathBuf> {
        if !folder.as_os_str().is_empty() {
            Store::create(folder)?;
        }
        let mark: String = hash::content_hash(text.as_bytes()).chars().take(8).collect();
        let word = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name: String = self.record.workload.chars().map(word).collect();
        let path = folder.join(format!("{name}-{mark}.{ending}"));
        write_whole(&path, text.as_bytes()).map(|()| path)
    }

    /// CPUs of the recorded machine.
    pub fn cpus(&self) -> u64 {
        self.machine.topology.nr_cpus() as u64
    }

    /// The schedule as a workload, fitted to its machine, with the group limited as it was; and how far its replay is
    /// from the recording.
    ///
    /// # Errors
    /// When the schedule can't be replayed, or the file not written.
    pub fn fitted(
        &self,
        as_is: Variant,
        to: &ScheduleFile<'_>,
        (backend, quiet): (Backend, bool),
    ) -> Result<Fitted> {
        let by = if backend == Backend::Code { backend } else { Backend::Sim };
        let group = as_is.groups.first().map(|group| group.path.clone()).unwrap_or_default();
        // A kernel that was named needs not be offered.
        let is_recorded = as_is.kernel == self.kernel.kernel;
        let kernels = Replaying::of(by, vec![as_is], &Arc::new(self.machine.clone()), quiet)
            .map_err(|e| if is_recorded { refused::no_code(e, &self.kernel.kernel) } else { e })?;
        let stop = crate::interrupt::stop_flag()?;
        let name = format!("{} replayed", self.record.workload);
        let fitted = fit::fit(&name, &self.recording, &|spec| kernels.cell(0, spec), 1, stop)?
            .ok_or_else(|| replay::interrupted("nothing was replayed"))?;
        let text = self.recording.schedule.clone().paid(fitted.prices).text();
        let path = match to {
            ScheduleFile::At(path) => write_whole(path, text.as_bytes()).map(|()| (*path).to_owned())?,
            ScheduleFile::In(folder) => self.write(folder, "sched", &text)?,
        };
        let own = ["busy.p50", "busy.mean", "run_delay.mean", "nr_throttled", "nr_periods"];
        let own = own.map(|metric| format!("group.{group}.{metric}"));
        let others = other_groups(&self.spec, &group)?;
        let all = ["cpu_time", "switches.voluntary"].into_iter();
        let compared: Vec<&str> = all.chain(own.iter().chain(&others).map(String::as_str)).collect();
        let figures = fit::errors_in(&compared, &self.recording, &fitted.run).into_iter();
        let figures = figures.map(|Off { metric, unit, recorded, replayed }| Figure {
            metric,
            unit,
            recorded,
            replayed,
        });
        let figures = AsRecorded { figures: figures.collect(), far_pct: fit::FAR_PCT, is_baseline: false };
        let mut notes = Vec::new();
        if self.periods(&group) == Some(0) {
            let text = format!(
                "{group} was never asleep: it has no busy periods, and its waits for a CPU are shown"
            );
            notes.push(Warning::new("limits.never_asleep", text));
        }
        let spec = Spec::replay(&path.display().to_string(), text, Prices::default())?;
        let worse = fit::worse(&self.recording, fitted.prices, &fit::errors(&self.recording, &fitted.run));
        let worse = worse.into_iter().map(|w| {
            Warning::new(
                "replay.worse",
                format!("the replay's {} is off by {:+.1}%: {}", w.what, w.off_pct, w.why),
            )
        });
        let of_recording = self.record.found.warnings.iter().chain(&self.recording.warnings);
        let losses = of_recording.filter(|w| {
            ["recording.", "record.", "replay.", "trace.gaps"].iter().any(|code| w.code.starts_with(code))
        });
        notes.extend(worse.chain(losses.cloned()));
        let busy = fitted.run.found.series.get(&format!("group.{group}.busy")).map_or(0, Series::count);
        let periods = self.periods(&group).or(Some(busy).filter(|_| !self.recording.lacks_wakeups));
        Ok(Fitted { spec, notes, figures, periods })
    }
}

/// The weight of the row that sets another one than the group had.
pub fn other_weight(question: &LimitsRequest<'_>, was: Request) -> Option<Warning> {
    let (name, own) = question.tried.iter().find_map(|tried| Some((&tried.name, tried.request?)))?;
    let (sets, had) = (own.shares(question.formula), was.shares(question.formula));
    let text = format!(
        "row '{name}' sets a weight of {sets} shares, and the recorded group has {had} (1024 are a cpu.weight of 100)"
    );
    (sets != had).then(|| Warning::new("limits.weight", text))
}

/// Where a schedule is written.
pub enum ScheduleFile<'a> {
    At(&'a Path),
    /// Into this folder, under a name of its own.
    In(&'a Path),
}

/// The replay of a recording.
pub struct Fitted {
    pub spec: Spec,
    /// Where it is off, and what the recording lacks.
    pub notes: Vec<Warning>,
    /// How often the group was busy, as far as it is known.
    pub periods: Option<u64>,
    /// Figures of both.
    pub figures: AsRecorded,
}

/// The run of that name; of a cell with several recordings the newest, with a note.
fn newest_named(name: &str, store: &Path) -> Result<RunDir> {
    let path = Path::new(name);
    let wanted = RunChoice { store, filter: Filter::default(), seed: None };
    let run = wanted.find(name).map_err(|e| refused::of_store(path, e))?;
    let is_one = path.is_file() || path.join(RECORD_FILE).is_file();
    let has_seed = !path.exists() && run.path.file_name().is_some_and(|seed| path.ends_with(seed));
    let Some(cell) = run.path.parent().filter(|_| !is_one && !has_seed) else { return Ok(run) };
    if run.record()?.backend.name() != Origin::RECORDING {
        return Ok(run);
    }
    let written =
        |run: &RunDir| run.path.join(RECORD_FILE).metadata().and_then(|about| about.modified()).ok();
    let mut all = store::list(cell)?;
    // The seeds of live recordings ascend, and so do times of those that were imported.
    all.sort_by_key(written);
    let Some(newest) = all.pop().filter(|_| !all.is_empty()) else { return Ok(run) };
    let others: Vec<String> = all.iter().rev().map(|run| run.path.display().to_string()).collect();
    let (newest_at, others) = (newest.path.display(), others.join(", "));
    output::note(&format!(
        "{name} has several recordings: the newest is taken, {newest_at}; others: {others}"
    ));
    Ok(newest)
}

/// The schedule of an experiment that is saved, beside its file.
pub fn schedule_beside(file: &str) -> PathBuf {
    Path::new(file).with_extension("sched")
}

/// In an experiment that is saved, the files beside it are named from its folder; their paths.
pub fn name_files_beside(file: &str, machines: &[String], text: &mut String) -> Vec<String> {
    let schedule = schedule_beside(file);
    let mut beside = Vec::new();
    for path in [schedule.as_path()].into_iter().chain(machines.iter().map(Path::new)) {
        if let Some(name) = path.file_name().filter(|_| path.parent() == Path::new(file).parent()) {
            let (whole, own) = (path.display().to_string(), name.to_string_lossy());
            if path.is_file() && text.contains(&quoted(&whole)) {
                beside.push(whole.clone());
            }
            *text = text.replace(&quoted(&whole), &quoted(&own));
        }
    }
    beside
}
