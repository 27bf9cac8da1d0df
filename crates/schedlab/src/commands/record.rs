//! `schedlab record`: the live schedule of this machine becomes a stored run with its events.

use crate::cli::Entry;
use crate::recordings::{StoreOptions, TaskOptions, shown};
use crate::{interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Ns, Result, Warning, counted};
use schedlab_import::Imported;
use schedlab_import::hears::Hears;
use schedlab_import::to_run::{ChosenTasks, record};
use schedlab_lab::stored::replay::kept_groups::{KeptGroup, LIMIT_CHANGED, groups_of};
use schedlab_machine::Machine;
use schedlab_native::cgroups::WatchedGroup;
use schedlab_native::settings::System;
use schedlab_native::tracepoints::live::{FinishedRecording, Recorder, RecordingResult};
use schedlab_record::{Record, Store, Stored, environment};
use schedlab_report::run as one_run;
use schedlab_workload::command::one_line;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct RecordArgs {
    /// A command to record, with its arguments: recording ends with it, and it and its descendants are the workload
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<String>,
    /// How long to record
    #[arg(long, visible_alias = "for", value_name = "TIME", conflicts_with = "command")]
    duration: Option<String>,
    /// Also keep what this control group is limited to, and how often it was throttled meanwhile: its folder, or its
    /// path in the hierarchy of the cpu controller; may be given more than once
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<String>,
    #[command(flatten)]
    tasks: TaskOptions,
    #[command(flatten)]
    kept: StoreOptions,
}

fn command() -> Command {
    let command = RecordArgs::augment_args(Command::new("record"));
    StoreOptions::with_defaults(command, "the kernel's release", "the command's name, or recording")
        .mut_arg("task", |arg| {
            arg.help(
                "Only tasks of this name, or of names that begin so (NAME*), are the workload; may be given more than once",
            )
        })
        .about("Record the live schedule of this machine, for a while or around a command, as a run")
        .override_usage(
            "schedlab record [OPTIONS] --duration TIME\n       schedlab record [OPTIONS] [--] COMMAND...",
        )
        .arg_required_else_help(true)
        .after_help(
            "Needs root, or CAP_PERFMON and a readable tracefs. Ctrl-C ends the recording and stores what there is. \
             'schedlab explain', 'trace', 'replay', 'compare' and 'runs' take the run as any other. A recording around \
             a command ends with the command's exit code.",
        )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = RecordArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.kept.check()?;
    let length = args.length()?;
    let stop = interrupt::stop_flag()?;
    let store = Store::create(&args.kept.out)?;
    let machine = Machine::load("host").ok();
    let system = System::live();
    let groups = args.cgroup.iter().map(|path| WatchedGroup::begin(&system, path));
    let groups = groups.collect::<Result<Vec<_>>>().map_err(|e| e.context("--cgroup"))?;
    let (recorded, command) = watch(&args, length, stop)?;
    let throttled: Vec<_> = groups.iter().map(|group| group.counted(&system)).collect();
    let described = args.tasks.chosen();
    let mut chosen = ChosenTasks { but: Some(std::process::id()), ..described.clone() };
    if let Some((process, _)) = command.filter(|_| described.is_all()) {
        (chosen.pids, chosen.descendants) = (vec![process], true);
    }
    let mut hears = Hears::new(&args.kept.out, chosen, machine.as_ref())?;
    let length = recorded.length();
    // A Ctrl-C that ended the recording must not end its analysis; the next one does.
    stop.store(false, Ordering::SeqCst);
    let Some(RecordingResult { mut imported, warnings }) =
        recorded.replay(machine.as_ref(), &mut hears, stop)
    else {
        return Err(Error::new(ErrorKind::CheckFailed, "interrupted: nothing is stored"));
    };
    if imported.records == 0 {
        return Err(Error::machine(format!("the kernel reported no events in {length}"))
            .help("'schedlab doctor' says how events are recorded here"));
    }
    // Every recording is a separate run, so its time becomes its seed.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    imported.fingerprint = now.as_micros() as u64;
    let (mut found, events) = hears.finish(&mut imported);
    found.environment = environment::capture();
    found.environment.extend(groups.iter().flat_map(|group| group.stated(&system)));
    found.counters.extend(throttled.into_iter().flatten());
    found.warnings.extend(warnings);
    let changed = groups.iter().filter_map(|group| group.changed(&system));
    found.warnings.extend(changed.map(|words| Warning::new(LIMIT_CHANGED, words)));
    let program = args.command.first().map(|word| Path::new(word).file_name().unwrap_or_default());
    let about = args.kept.labels(imported.cast.release.clone(), program.map(shown), machine);
    let mut record = record(about, &described, &imported, found)?;
    if !args.command.is_empty() {
        // Recordings of different commands are different cells.
        record.spec["params"]["command"] = one_line(&args.command).into();
    }
    let stored = events.stored(&store, &record, imported.cast.clone())?;
    show(&imported, length, &stored, &record, args.kept.json)?;
    match command {
        None | Some((_, 0)) => Ok(()),
        Some((_, code)) => std::process::exit(code.into()),
    }
}

/// Prints the run, and how much was recorded.
fn show(imported: &Imported, length: Ns, stored: &Stored, record: &Record, json: bool) -> Result<()> {
    let folder = stored.run().path.display().to_string();
    let run = one_run::Run::of(record);
    let groups = groups_of(record)?;
    if json {
        let value = serde_json::json!({
            "folder": folder, "events": imported.records, "duration_ns": length,
            "cpus": imported.cast.cpus, "tasks": imported.cast.tasks.len(), "run": run,
            "groups": groups.iter().map(|group| of_group(group, record)).collect::<Vec<_>>(),
            "next": next(&groups, &folder),
        });
        return output::json_as("schedlab/recording/1", &value);
    }
    output::result(|out| {
        run.export(out)?;
        let events = counted(imported.records, "event");
        let tasks = counted(imported.cast.tasks.len(), "task");
        writeln!(out, "\n{events} of {tasks} in {length}, stored in {folder}")?;
        groups.iter().try_for_each(|group| writeln!(out, "{}", of_group(group, record)))?;
        next(&groups, &folder).map_or(Ok(()), |line| writeln!(out, "next: {line}"))
    })
}

/// What a group was limited to, and how often it was throttled.
fn of_group(group: &KeptGroup, record: &Record) -> String {
    let count = |name: &str| record.found.counters.get(&format!("group.{}.{name}", group.path));
    let throttled = count("nr_throttled").zip(count("nr_periods")).filter(|_| group.limit.quota.is_some());
    let often = throttled.map_or_else(String::new, |(n, all)| format!("; throttled in {n} of {all} periods"));
    format!("{}: {}{often}", group.path, group.words())
}

/// The command that answers what the limits of recorded groups do.
fn next(groups: &[KeptGroup], folder: &str) -> Option<String> {
    let limited: Vec<&KeptGroup> = groups.iter().filter(|group| group.limit.quota.is_some()).collect();
    let further = match (&limited[..], groups) {
        ([], []) => return None,
        ([_], _) => String::new(),
        ([], [_]) => " --try LIMIT".to_owned(),
        ([], [one, ..]) => format!(" --group {} --try LIMIT", one.path),
        ([one, ..], _) => format!(" --group {}", one.path),
    };
    Some(format!("schedlab limits {folder}{further}"))
}

impl RecordArgs {
    /// How long to record.
    fn length(&self) -> Result<Ns> {
        let Some(text) = &self.duration else {
            return match self.command.is_empty() {
                false => Ok(Ns(u64::MAX)),
                true => {
                    Err(Error::input("neither a command nor --duration")
                        .help("schedlab record --duration 5s"))
                }
            };
        };
        match Ns::parse(text, "s").map_err(|e| e.context("--duration"))? {
            Ns::ZERO => Err(Error::input("--duration: the time is 0").help("write --duration 5s")),
            length => Ok(length),
        }
    }
}

/// Records; the command's process and its exit code, if there is one.
fn watch(args: &RecordArgs, length: Ns, stop: &AtomicBool) -> Result<(FinishedRecording, Option<(u32, u8)>)> {
    let mut recorder = Recorder::begin(&args.kept.out)?;
    let command = if args.command.is_empty() {
        recorder.for_a_while(length, stop);
        None
    } else {
        Some(recorder.around(&args.command, args.kept.json, stop)?)
    };
    Ok((recorder.end()?, command))
}
