//! `schedlab limits`: what a CPU limit does to a service's latency and to its neighbours.

use super::limits_recorded::{self, HOW_TO_RECORD, Recorded, ScheduleFile};
use super::limits_refused as refused;
use crate::cli::Entry;
use crate::common;
use crate::experiments::{self, ExperimentOptions};
use crate::workloads;
use crate::{commands::new, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, Warning, input};
use schedlab_compare::comparison::CountedWarning;
use schedlab_kernel::cpu_limit::{self, FORMULAS, Formula, LIMITS, LanguageRuntime, REQUESTS, Request};
use schedlab_kernel::{Limit, Variant};
use schedlab_lab::Backend;
use schedlab_lab::ask::variant_words;
use schedlab_lab::make::plan;
use schedlab_lab::search::limits::{self, DEFAULT_MACHINE, LimitsRequest, Neighbours, Tried};
use schedlab_lab::stored::replay::kept_groups::KeptGroup;
use schedlab_machine::sysfs::HOST;
use schedlab_record::store::RECORD_FILE;
use schedlab_report::answer::{self, AsRecorded};
use schedlab_workload::replay::Prices;
use schedlab_workload::spec::MAX_FILE_MB;
use schedlab_workload::{Spec, spec};
use std::collections::BTreeSet;
use std::path::Path;

pub const ENTRY: Entry = Entry { command, run };

const FILE: &str = "file";
/// The neighbours, if none are named: as many hogs as CPUs.
const NEIGHBOURS: &str = "hogs,tasks={cpus}";
/// What a recording lacks that knows no groups.
const NO_GROUPS: &str = "no task was recorded in a control group";
/// The parameter that a language runtime's count of CPUs sets.
const THREADS: &str = "threads";

#[derive(Args)]
struct LimitsArgs {
    /// The limit of the service as it is, in the words of any tool: 2, 500m, "50000 100000", 150%, none; with a burst
    /// 2+1 (docs/limits.md has all) [default: that of the recorded group, as 'record --cgroup' keeps it]
    #[arg(long, value_name = "LIMIT", allow_hyphen_values = true)]
    limit: Option<String>,
    /// What the service requests: 1, 250m, shares=512, weight=50 [default: the recorded weight; else as much as the
    /// limit, as Kubernetes has it]
    #[arg(id = "cpu_request", long = "request", value_name = "REQUEST", allow_hyphen_values = true)]
    request: Option<String>,
    /// A further limit to try; may be given more than once. The usual ones are none, half of it, the same with a burst
    /// of one quota, and none with a request of its size in its place
    #[arg(id = "try_limit", long = "try", value_name = "LIMIT", allow_hyphen_values = true)]
    tried: Vec<String>,
    /// The neighbours: a workload with its parameters [default: hogs,tasks={cpus}; for a recording those that were
    /// recorded]
    #[arg(
        id = "neighbours",
        long = "beside",
        value_name = "NAME[,PARAMETER=VALUE...]",
        conflicts_with = "alone"
    )]
    beside: Option<String>,
    /// What the neighbours request
    #[arg(
        long,
        value_name = "REQUEST",
        default_value = "1",
        conflicts_with = "alone",
        allow_hyphen_values = true
    )]
    beside_request: String,
    /// No neighbours
    #[arg(long)]
    alone: bool,
    /// How a container runtime makes a weight of a request's shares: quadratic (since 2025), linear (before), systemd,
    /// or v1 (not at all, under cgroup v1) [default: quadratic; v1 for a group that was recorded there]
    #[arg(long, value_name = "FORMULA")]
    formula: Option<String>,
    /// Give the workload as many threads as this language runtime makes of the limit (go-1.25, go-1.24, automaxprocs,
    /// jvm, dotnet, rust, libuv-1.51, python-3.14); several are a table each
    #[arg(long, value_name = "RUNTIME")]
    threads_of: Vec<String>,
    /// Of a recording: the service's tasks, where the recording does not know groups; their names, or what these begin
    /// with (NAME*); may be given more than once
    #[arg(id = "service_task", long = "task", value_name = "NAME", conflicts_with = "recorded_group")]
    task: Vec<String>,
    /// Of a recording: the group whose limit is in question [default: the one that was recorded with its limit, or the
    /// only one]
    #[arg(id = "recorded_group", long = "group", value_name = "PATH")]
    group: Option<String>,
    /// Write the experiment into a new file and run nothing
    #[arg(long, value_name = "FILE.toml")]
    save: Option<String>,
    #[command(flatten)]
    options: ExperimentOptions,
}

fn command() -> Command {
    let command = LimitsArgs::augment_args(Command::new("limits"))
        .mut_arg("format", |arg| {
            arg.default_value("variants")
                .help("Form of the result: variants (a row for each limit), table, detail, ranked, lkml, markdown or csv")
        })
        .mut_arg("machine", |arg| {
            arg.help(format!("Machine [default: {DEFAULT_MACHINE}]: as in experiments; may be given more than once"))
        })
        .mut_arg("kernel", |arg| {
            arg.hide_short_help(false).help(
                "Kernel: a profile (v6.12), for --backend vm and code a series (6.12); several are a table each [default: \
                 v6.5]",
            )
        })
        .mut_arg("load", |arg| arg.hide(true))
        .mut_arg("workload", |arg| arg.hide(true))
        .mut_args(|arg| arg.global(true));
    let own: BTreeSet<String> =
        command.get_arguments().filter_map(|a| Some(a.get_long()?.to_owned())).collect();
    let command = command
        .about("Compare CPU limits: what would removing, halving, bursting or weighting one do to a service's p99 and to its neighbours?")
        .args(workloads::file_args(FILE))
        .mut_arg(FILE, |arg| {
            arg.help("A recorded run (its folder), a schedule (.sched) or an rt-app file (.json), instead of a workload")
        })
        .override_usage(
            "schedlab limits [OPTIONS] <RUN|FILE.sched>\n       \
             schedlab limits [OPTIONS] --limit LIMIT <WORKLOAD|FILE> [WORKLOAD'S OPTIONS]",
        )
        .arg_required_else_help(true)
        .after_help(recipe());
    // An option of a workload that has the name of one of ours has the workload's in front: --http-request.
    workloads::with_benchmarks(command, |_| Vec::new()).mut_subcommands(|sub| {
        let bench = sub.get_name().to_owned();
        sub.mut_args(|arg| match arg.get_long().map(str::to_owned) {
            Some(long) if own.contains(&long) => arg.long(format!("{bench}-{long}")),
            _ => arg,
        })
    })
}

/// The words, and how to find out in ten minutes whether removing a limit helps.
fn recipe() -> String {
    let limits: Vec<&str> = LIMITS.iter().map(|f| f.example).collect();
    let requests: Vec<&str> = REQUESTS.iter().map(|f| f.example).collect();
    format!(
        "Would removing the limit help? Of a container in the control group /web (root, while it has its usual work):\n  \
         schedlab record --duration 10s --cgroup /web                its schedule and limit, as a run\n  \
         schedlab limits runs/FOLDER/SEED                            the answer, by replays of what was recorded\n\n\
         Of a service that is described:\n  \
         schedlab limits http --limit 2 --request 1 --rate 1500        a service like yours, beside a batch job\n  \
         schedlab limits http --limit 2 --rate 1500 --kernel v4.14 --kernel v6.12\n  \
         schedlab limits pool --limit 2 --threads-of go-1.24 --threads-of go-1.25\n  \
         schedlab limits http --limit 2 --rate 1500 --save mine.toml   an experiment, to be changed and run\n  \
         schedlab limits http --limit 2 --rate 150 --backend host      this machine, by its control groups (root)\n\n\
         Limits: {}\nRequests: {}\ndocs/limits.md says what each tool makes of them.",
        limits.join(", "),
        requests.join(", ")
    )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let chosen = workloads::chosen(matches)?;
    let args = LimitsArgs::from_arg_matches(chosen.map_or(matches, |(_, sub)| sub));
    let mut args = args.map_err(|e| Error::internal(e.to_string()))?;
    let wanted = args.options.take_kernels();
    args.options.check()?;
    let machines = machines(&mut args.options)?;
    let asked = match (chosen, matches.get_one::<String>(FILE)) {
        (Some((bench, sub)), _) => {
            workloads::no_file_options(bench, matches)?;
            AskedWorkload::of(workloads::described(bench, sub, None)?)
        }
        (None, Some(file)) => args.named(file, matches)?,
        (None, None) => {
            return Err(Error::input("no workload")
                .help("schedlab limits --help lists them: http, oltp, pool ...; or name a recorded run"));
        }
    };
    if matches!(asked.spec, Spec::Replay { .. }) {
        refused::of_schedule(args.alone, !args.threads_of.is_empty())?;
        if args.options.backend() == Backend::Host {
            // Without programs that measure their requests, events do.
            args.options.set_events();
            args.options.check()?;
        }
    }
    let group = args.group(&asked)?;
    let (limit, request) = args.words(&asked, &group)?;
    if let Some(text) = &args.limit {
        let (name, cpus) = args.largest(&machines, &asked)?;
        refused::above_the_machine(text, &limit, (&name, cpus), asked.kept(&group).map(|kept| &kept.limit))?;
    }
    if let Some(file) = &args.save {
        new::check_name(file, Path::new(file))?;
    }
    let tried = args.tried(&limit, request)?;
    let kernels = kernels(&wanted, &args.options, &machines, asked.recorded.as_ref())?;
    let neighbours = args.neighbours(&asked)?;
    let kept_request = asked.kept(&group).and_then(|kept| kept.request);
    let fixed = asked.recorded.as_ref().map_or_else(Vec::new, |recorded| recorded.fixed(&group));
    let is_as_recorded = wanted.is_empty() && machines.is_empty();
    let machines = args.machines_of(machines, &asked)?;
    let mut question = LimitsRequest {
        workloads: &[],
        group: &group,
        limit,
        request,
        formula: formula(args.formula.as_deref(), asked.kept(&group).map(KeptGroup::formula))?,
        tried: &tried,
        neighbours: neighbours.as_ref(),
        fixed: &fixed,
        periods: None,
        kernels: &kernels,
        machines: &machines,
        host_cpus: common::cpus(),
    };
    // What can't be compared is refused before anything is simulated.
    limits::variants(&question)?;
    let Replayable { spec, notes, figures, periods } = args.replayable(asked, &question)?;
    let figures = figures.map(|all| AsRecorded { is_baseline: is_as_recorded, ..all });
    let weights = kept_request.and_then(|was| limits_recorded::other_weight(&question, was));
    question.periods = periods;
    let workloads = args.workloads(spec, &limit, &machines)?;
    question.workloads = &workloads;
    let mut experiment = limits::experiment(&question)?;
    if let Some(file) = &args.save {
        let beside = limits_recorded::name_files_beside(file, &machines, &mut experiment.text);
        new::write(Path::new(file), &experiment.text)?;
        return output::result(|out| {
            writeln!(out, "{file}: {}", experiment.about)?;
            beside.iter().try_for_each(|other| writeln!(out, "{other}: belongs to it"))?;
            writeln!(out, "next: schedlab run {file} --format variants")
        });
    }
    plan::check_compares(&experiment, args.options.backend())?;
    experiments::conduct_noted(experiment, &args.options, |comparison| {
        let off = figures.iter().map(|all| Warning::new("replay.off", all.off(comparison)));
        let notes = off.chain(notes).chain(weights).map(CountedWarning::of_all);
        comparison.warnings.extend(notes.collect::<Vec<_>>());
        comparison.answers = answer::limits(comparison, &group, figures.as_ref());
    })
}

/// A workload that can be run.
struct Replayable {
    spec: Spec,
    notes: Vec<Warning>,
    /// Figures of a recording and of its replay.
    figures: Option<AsRecorded>,
    /// How often a recorded group was busy.
    periods: Option<u64>,
}

/// What was named: a workload, and the recording if it is one.
struct AskedWorkload {
    spec: Spec,
    recorded: Option<Recorded>,
}

impl AskedWorkload {
    fn of(spec: Spec) -> AskedWorkload {
        AskedWorkload { spec, recorded: None }
    }
    /// What the recording kept of a group.
    fn kept(&self, group: &str) -> Option<&KeptGroup> {
        self.recorded.as_ref()?.kept(group)
    }
}

impl LimitsArgs {
    /// The workload of a name: a recorded schedule, an rt-app file, or a stored run.
    fn named(&self, name: &str, matches: &ArgMatches) -> Result<AskedWorkload> {
        let path = Path::new(name);
        if path.extension().is_some_and(|e| e == "sched") {
            let text = input::text_up_to(path, MAX_FILE_MB)?;
            return Spec::replay(name, text, Prices::default()).map(AskedWorkload::of);
        }
        let ends = |with: &str| path.extension().is_some_and(|e| e == with);
        let is_other =
            path.ends_with(RECORD_FILE) || ends("toml") || schedlab_import::form_at(path).is_some();
        let is_description = (ends("json") || path.is_file()) && !is_other;
        if is_description || name == "-" {
            let read = workloads::in_file(name, matches).map_err(|e| refused::unless_described(path, e));
            return read.map(AskedWorkload::of);
        }
        let (backend, quiet) = (self.options.backend(), self.options.quiet());
        let mut recorded = Recorded::find(name, self.options.out(), backend, quiet)?;
        if !self.task.is_empty() {
            recorded.put_into(limits::SERVICE, &self.task).map_err(|e| e.context("--task"))?;
        }
        Ok(AskedWorkload { spec: recorded.spec.clone(), recorded: Some(recorded) })
    }
    /// The group of the service.
    fn group(&self, asked: &AskedWorkload) -> Result<String> {
        let Spec::Replay { file, .. } = &asked.spec else {
            return match (&self.group, self.task.first()) {
                (None, None) => Ok(limits::SERVICE.to_owned()),
                (Some(path), _) => Err(Error::input(format!("--group {path} is for recordings"))
                    .help(format!("the service of other workloads is {}", limits::SERVICE))),
                (None, Some(task)) => Err(Error::input(format!("--task {task} is for recordings"))
                    .help("all tasks of other workloads are the service's, but clients")),
            };
        };
        if !self.task.is_empty() {
            return Ok(limits::SERVICE.to_owned());
        }
        let there = limits::recorded_groups(&asked.spec)?;
        let kept = asked.recorded.as_ref().filter(|_| self.group.is_none());
        if let Some(kept) = kept.map(Recorded::group).transpose()?.flatten() {
            return Ok(kept.path.clone());
        }
        match (&self.group, &there[..]) {
            (Some(path), _) if there.contains(path) => Ok(path.clone()),
            (Some(path), []) => Err(Error::input(format!("--group {path}: {NO_GROUPS}")).help(HOW_TO_RECORD)),
            (Some(path), _) => {
                Err(Error::unknown("group", path, there.iter().map(String::as_str)).context("--group"))
            }
            (None, [one]) => Ok(one.clone()),
            (None, []) => Err(Error::input(NO_GROUPS)
                .help(format!("{HOW_TO_RECORD}; or --task NAME says which tasks are the service's"))),
            (None, all) => Err(Error::input(format!("{file} has {} groups", all.len()))
                .help(format!("--group {}", all.join(", or --group ")))),
        }
    }
    /// The limit as it is, and what the service asks for.
    fn words(&self, asked: &AskedWorkload, group: &str) -> Result<(Limit, Request)> {
        let kept = asked.kept(group);
        let limit = match (self.limit.as_deref(), kept) {
            (Some(text), _) => cpu_limit::limit(text).map_err(|e| e.context("--limit"))?,
            (None, Some(KeptGroup { changed: Some(words), .. })) => {
                return Err(Error::input(format!("a limit changed while it was recorded: {words}"))
                    .help("--limit says which one is meant"));
            }
            (None, Some(kept)) => kept.limit,
            (None, None) if asked.recorded.is_some() => {
                return Err(Error::input(format!("the recording did not keep the limit of {group}"))
                    .help(format!("--limit says it; {HOW_TO_RECORD}")));
            }
            (None, None) => {
                return Err(Error::input("the limit is not said")
                    .help("--limit 2, or in the words of your tool: schedlab limits --help"));
            }
        };
        let request = match (&self.request, kept.and_then(|kept| kept.request), limit.quota) {
            (Some(text), _, _) => cpu_limit::request(text).map_err(|e| e.context("--request"))?,
            (None, Some(request), _) => request,
            (None, None, Some(quota)) => Request::of_cpus(quota, limit.period),
            (None, None, None) => Request::of_cpus(limit.period, limit.period),
        };
        Ok((limit, request))
    }
    /// The workload as it can be run: a recording becomes a schedule in a file.
    fn replayable(&self, asked: AskedWorkload, question: &LimitsRequest<'_>) -> Result<Replayable> {
        let schedule = self.save.as_deref().map(limits_recorded::schedule_beside);
        let Some(recorded) = asked.recorded else {
            return Ok(Replayable { spec: asked.spec, notes: Vec::new(), figures: None, periods: None });
        };
        if let Some(path) = &schedule {
            new::check_name(&path.display().to_string(), path)?;
        }
        let to = schedule.as_deref().map_or(ScheduleFile::In(self.options.out()), ScheduleFile::At);
        // The code of another kernel may stand for that of the recorded one.
        let by = question.kernels.first().filter(|_| self.options.backend() == Backend::Code);
        let as_is = limits::as_it_is(question, by.unwrap_or(&recorded.kernel));
        let fitted = recorded.fitted(as_is, &to, (self.options.backend(), self.options.quiet()))?;
        let (notes, figures) = (fitted.notes, Some(fitted.figures));
        Ok(Replayable { spec: fitted.spec, notes, figures, periods: fitted.periods })
    }
    /// The machine with most CPUs, and their number.
    fn largest(&self, named: &[String], asked: &AskedWorkload) -> Result<(String, u64)> {
        if self.options.backend() == Backend::Host {
            return Ok(("this host".to_owned(), common::cpus()));
        }
        if let Some(recorded) = asked.recorded.as_ref().filter(|_| named.is_empty()) {
            return Ok(("the recorded machine".to_owned(), recorded.cpus()));
        }
        let default = [DEFAULT_MACHINE.to_owned()];
        let all = if named.is_empty() { &default } else { named };
        let of = |name: &String| Ok((name.clone(), common::machine(name, None)?.topology.nr_cpus() as u64));
        let all = all.iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(all.into_iter().max_by_key(|(_, cpus)| *cpus).unwrap_or_default())
    }
    /// The machines of the question: those that were named, or the recorded one.
    fn machines_of(&self, named: Vec<String>, asked: &AskedWorkload) -> Result<Vec<String>> {
        match &asked.recorded {
            Some(recorded) if named.is_empty() && self.options.backend() != Backend::Host => {
                let beside =
                    self.save.as_deref().map(|file| Path::new(file).parent().unwrap_or(Path::new("")));
                Ok(vec![recorded.machine(beside.unwrap_or(self.options.out()))?])
            }
            _ => Ok(named),
        }
    }

    fn tried(&self, limit: &Limit, request: Request) -> Result<Vec<Tried>> {
        let mut all = limits::usual(limit, request);
        for text in &self.tried {
            let limit = cpu_limit::limit(text).map_err(|e| e.context("--try"))?;
            all.push(Tried { name: cpu_limit::cpus_in_words(&limit), limit, request: None });
        }
        Ok(all)
    }

    fn neighbours(&self, asked: &AskedWorkload) -> Result<Option<Neighbours>> {
        // A recording holds the neighbours that there were.
        let has_its_own = matches!(asked.spec, Spec::Replay { .. }) && self.beside.is_none();
        if self.alone || has_its_own {
            return Ok(None);
        }
        let text = self.beside.as_deref().unwrap_or(NEIGHBOURS);
        let mut words = text.split(',');
        let bench = spec::find(words.next().unwrap_or_default()).map_err(|e| e.context("--beside"))?;
        let param = |word: &str| {
            let (name, value) = word.split_once('=').ok_or_else(|| {
                Error::input(format!("--beside: '{word}' is not a parameter with its value"))
                    .help("--beside hogs,tasks=4")
            })?;
            let param = bench.param(&name.replace('-', "_")).map_err(|e| e.context("--beside"))?;
            Ok((param.name.to_owned(), value.to_owned()))
        };
        let params = words.map(param).collect::<Result<_>>()?;
        let request = cpu_limit::request(&self.beside_request).map_err(|e| e.context("--beside-request"))?;
        Ok(Some(Neighbours { name: bench.name.to_owned(), params, request }))
    }

    /// The workload, once or with the threads of each language runtime.
    fn workloads(
        &self,
        spec: Spec,
        limit: &Limit,
        machines: &[String],
    ) -> Result<Vec<(Option<String>, Spec)>> {
        if self.threads_of.is_empty() {
            return Ok(vec![(None, spec)]);
        }
        let Spec::Bench { name, params } = &spec else {
            return Err(Error::input("--threads-of sets the threads of a benchmark, not of an rt-app file"));
        };
        if spec::find(name)?.param(THREADS).is_err() {
            return Err(Error::input(format!("--threads-of: {name} has no threads to set")).help("pool has"));
        }
        let cpus = match (self.options.backend(), machines) {
            (Backend::Host, _) => common::cpus(),
            (_, []) => common::machine(DEFAULT_MACHINE, None)?.topology.nr_cpus() as u64,
            (_, [one]) => common::machine(one, None)?.topology.nr_cpus() as u64,
            _ => {
                return Err(Error::input(
                    "--threads-of: the number of threads depends on the machine's CPUs",
                )
                .help("name one --machine"));
            }
        };
        let of = |runtime: &String| {
            let threads = LanguageRuntime::find(runtime)?.threads(limit, cpus);
            let mut params = params.clone();
            params.0.insert(THREADS.to_owned(), threads);
            Ok((Some(format!("{runtime}:{threads}")), Spec::bench(name, &params)?))
        };
        self.threads_of.iter().map(of).collect::<Result<_>>().map_err(|e: Error| e.context("--threads-of"))
    }
}

/// The machines, which this host is by itself.
fn machines(options: &mut ExperimentOptions) -> Result<Vec<String>> {
    if options.backend() == Backend::Host {
        return Ok(Vec::new());
    }
    let machines = options.take_machines();
    for name in &machines {
        common::machine(name, None).map_err(|e| e.context("--machine"))?;
    }
    Ok(machines)
}

fn formula(name: Option<&str>, recorded: Option<&'static Formula>) -> Result<&'static Formula> {
    let Some(name) = name else { return Ok(recorded.unwrap_or(&FORMULAS[0])) };
    let found = FORMULAS.iter().find(|f| f.name == name);
    found.ok_or_else(|| Error::unknown("--formula", name, FORMULAS.iter().map(|f| f.name)))
}

/// The kernels that were named, or the recorded one, or the default one.
fn kernels(
    wanted: &[String],
    options: &ExperimentOptions,
    machines: &[String],
    recorded: Option<&Recorded>,
) -> Result<Vec<Variant>> {
    let backend = options.backend();
    if let Some(recorded) = recorded.filter(|_| wanted.is_empty() && backend.is_simulated()) {
        return Ok(vec![recorded.kernel.clone()]);
    }
    if let Some(recorded) = recorded.filter(|_| wanted.is_empty() && backend == Backend::Vm) {
        return Err(refused::no_kernel(backend, &recorded.kernel.kernel));
    }
    if wanted.is_empty() {
        let machine = machines.first().map_or(DEFAULT_MACHINE, String::as_str);
        let simulated = if backend == Backend::Host { HOST } else { machine };
        return Ok(vec![variant_words::in_short(&variant_words::default_kernel(backend, simulated)?)?]);
    }
    wanted.iter().map(|word| variant_words::in_short(word).map_err(|e| e.context("--kernel"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::cpu_limit::LANGUAGES;

    #[test]
    fn every_language_and_formula_is_in_the_help() {
        let mut command = command();
        let help = command.render_long_help().to_string();
        assert!(LANGUAGES.iter().all(|l| help.contains(l.name)), "{help}");
        assert!(FORMULAS.iter().all(|f| help.contains(f.name)), "{help}");
    }

    #[test]
    fn no_option_of_a_workload_hides_one_of_ours() {
        let command = command();
        let ours: BTreeSet<String> = command.get_arguments().map(|a| a.get_id().to_string()).collect();
        for sub in command.get_subcommands() {
            let clash: Vec<String> = sub
                .get_arguments()
                .map(|a| a.get_id().to_string())
                .filter(|id| ours.contains(id) && id != "runtime")
                .collect();
            assert!(clash.is_empty(), "{}: {clash:?}", sub.get_name());
            let longs: Vec<&str> = sub.get_arguments().filter_map(clap::Arg::get_long).collect();
            let ours: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            let twice = longs.iter().find(|l| ours.contains(l) && **l != "runtime");
            assert!(twice.is_none(), "{}: {twice:?}", sub.get_name());
        }
    }
}
