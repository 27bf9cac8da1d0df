//! `schedlab limits`: what a CPU limit does to a service's latency and to its neighbours.

use crate::cli::Entry;
use crate::common;
use crate::experiments::{self, ExperimentOptions};
use crate::workloads;
use crate::{commands::new, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, input};
use schedlab_kernel::cpu_limit::{self, FORMULAS, Formula, LIMITS, LanguageRuntime, REQUESTS, Request};
use schedlab_kernel::{Limit, Variant};
use schedlab_lab::Backend;
use schedlab_lab::ask::variant_words;
use schedlab_lab::make::plan;
use schedlab_lab::search::limits::{self, DEFAULT_MACHINE, LimitsRequest, Neighbours, Tried};
use schedlab_machine::sysfs::HOST;
use schedlab_workload::replay::Prices;
use schedlab_workload::spec::MAX_FILE_MB;
use schedlab_workload::{Spec, spec};
use std::collections::BTreeSet;
use std::path::Path;

pub const ENTRY: Entry = Entry { command, run };

const FILE: &str = "file";
/// The neighbours, if none are named: as many hogs as CPUs.
const NEIGHBOURS: &str = "hogs,tasks={cpus}";
/// The parameter that a language runtime's count of CPUs sets.
const THREADS: &str = "threads";

#[derive(Args)]
struct LimitsArgs {
    /// The limit of the service as it is, in the words of any tool: 2, 500m, "50000 100000", 150%, none; with a burst
    /// 2+1 (docs/limits.md has all)
    #[arg(long, value_name = "LIMIT", allow_hyphen_values = true)]
    limit: Option<String>,
    /// What the service requests: 1, 250m, shares=512, weight=50 [default: as much as the limit, as Kubernetes has it]
    #[arg(id = "cpu_request", long = "request", value_name = "REQUEST", allow_hyphen_values = true)]
    request: Option<String>,
    /// A further limit to try; may be given more than once. The usual ones are none, half of it, the same with a burst
    /// of one quota, and none with a request of its size in its place
    #[arg(id = "try_limit", long = "try", value_name = "LIMIT", allow_hyphen_values = true)]
    tried: Vec<String>,
    /// The neighbours: a workload with its parameters [default: hogs,tasks={cpus}]
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
    /// or v1 (not at all, under cgroup v1)
    #[arg(long, value_name = "FORMULA", default_value = "quadratic")]
    formula: String,
    /// Give the workload as many threads as this language runtime makes of the limit (go-1.25, go-1.24, automaxprocs,
    /// jvm, dotnet, rust, libuv-1.51, python-3.14); several are a table each
    #[arg(long, value_name = "RUNTIME")]
    threads_of: Vec<String>,
    /// Of a recorded schedule: the group whose limit is in question [default: the only one]
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
        .override_usage("schedlab limits [OPTIONS] --limit LIMIT <WORKLOAD|FILE> [WORKLOAD'S OPTIONS]")
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
        "Would removing the limit help?\n  \
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
    let spec = match (chosen, matches.get_one::<String>(FILE)) {
        (Some((bench, sub)), _) => {
            workloads::no_file_options(bench, matches)?;
            workloads::described(bench, sub, None)?
        }
        (None, Some(file)) => in_file(file, matches)?,
        (None, None) => {
            return Err(
                Error::input("no workload").help("schedlab limits --help lists them: http, oltp, pool ...")
            );
        }
    };
    let group = args.group(&spec)?;
    let wanted = args.options.take_kernels();
    args.options.check()?;
    let machines = machines(&mut args.options)?;
    let (limit, request) = args.words()?;
    let tried = args.tried(&limit, request)?;
    let kernels = kernels(&wanted, &args.options, &machines)?;
    let workloads = args.workloads(spec, &limit, &machines)?;
    let experiment = limits::experiment(&LimitsRequest {
        workloads: &workloads,
        group: &group,
        limit,
        request,
        formula: formula(&args.formula)?,
        tried: &tried,
        neighbours: args.neighbours()?.as_ref(),
        kernels: &kernels,
        machines: &machines,
        host_cpus: common::cpus(),
    })?;
    if let Some(file) = &args.save {
        new::check_name(file, Path::new(file))?;
        new::write(Path::new(file), &experiment.text)?;
        return output::result(|out| {
            writeln!(out, "{file}: {}\nnext: schedlab run {file} --format variants", experiment.about)
        });
    }
    plan::check_compares(&experiment, args.options.backend())?;
    experiments::conduct(experiment, &args.options)
}

/// The workload of a file: a recorded schedule, or an rt-app file.
fn in_file(name: &str, matches: &ArgMatches) -> Result<Spec> {
    let path = Path::new(name);
    if path.extension().is_some_and(|e| e == "sched") {
        return Spec::replay(name, input::text_up_to(path, MAX_FILE_MB)?, Prices::default());
    }
    workloads::in_file(name, matches)
}

impl LimitsArgs {
    /// The group of the service.
    fn group(&self, spec: &Spec) -> Result<String> {
        let Spec::Replay { file, .. } = spec else {
            return match &self.group {
                None => Ok(limits::SERVICE.to_owned()),
                Some(path) => Err(Error::input(format!("--group {path} is for recorded schedules"))
                    .help(format!("the service of other workloads is {}", limits::SERVICE))),
            };
        };
        let there = limits::recorded_groups(spec)?;
        match (&self.group, &there[..]) {
            (Some(path), _) if there.contains(path) => Ok(path.clone()),
            (Some(path), _) => {
                Err(Error::unknown("group", path, there.iter().map(String::as_str)).context("--group"))
            }
            (None, [one]) => Ok(one.clone()),
            (None, []) => Err(Error::input(format!("no task of {file} was recorded in a control group"))
                .help("record the service in its group: docs/recordings.md")),
            (None, all) => Err(Error::input(format!("{file} has {} groups", all.len()))
                .help(format!("--group {}", all.join(", or --group ")))),
        }
    }
    /// The limit as it is, and what the service asks for.
    fn words(&self) -> Result<(Limit, Request)> {
        let text = self.limit.as_deref().ok_or_else(|| {
            Error::input("the limit is not said")
                .help("--limit 2, or in the words of your tool: schedlab limits --help")
        })?;
        let limit = cpu_limit::limit(text).map_err(|e| e.context("--limit"))?;
        let request = match (&self.request, limit.quota) {
            (Some(text), _) => cpu_limit::request(text).map_err(|e| e.context("--request"))?,
            (None, Some(quota)) => Request::of_cpus(quota, limit.period),
            (None, None) => Request::of_cpus(limit.period, limit.period),
        };
        Ok((limit, request))
    }

    fn tried(&self, limit: &Limit, request: Request) -> Result<Vec<Tried>> {
        let mut all = limits::usual(limit, request);
        for text in &self.tried {
            let limit = cpu_limit::limit(text).map_err(|e| e.context("--try"))?;
            all.push(Tried { name: cpu_limit::cpus_in_words(&limit), limit, request: None });
        }
        Ok(all)
    }

    fn neighbours(&self) -> Result<Option<Neighbours>> {
        if self.alone {
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

fn formula(name: &str) -> Result<&'static Formula> {
    let found = FORMULAS.iter().find(|f| f.name == name);
    found.ok_or_else(|| Error::unknown("--formula", name, FORMULAS.iter().map(|f| f.name)))
}

/// The kernels that were named, or the default one.
fn kernels(wanted: &[String], options: &ExperimentOptions, machines: &[String]) -> Result<Vec<Variant>> {
    let backend = options.backend();
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
