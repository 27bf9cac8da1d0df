//! Workloads on the command line: a subcommand for each benchmark, with options from the benchmark's own table, and the
//! options that choose where it runs. `bench` and `knee` share them.

use crate::code_options::CodeOptions;
use crate::common::{self, WatchOptions};
use crate::guests::{DEFAULT_MACHINE, GuestOptions};
use crate::listener::Shown;
use crate::output;
use crate::scheduler_options::SchedulerOptions;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use schedlab_base::{Error, Ns, Result};
use schedlab_guest::Mode;
use schedlab_kernel::Variant;
use schedlab_kernel::variant::RUNNING;
use schedlab_lab::Backend;
use schedlab_lab::Backends;
use schedlab_lab::ask::cell::Cell;
use schedlab_lab::ask::code;
use schedlab_lab::ask::state;
use schedlab_lab::ask::variant_words::{self, Changes};
use schedlab_lab::ask::{guests, scx, variant_checks};
use schedlab_machine::Machine;
use schedlab_machine::sysfs::HOST;
use schedlab_workload::{BENCHMARKS, Benchmark, Choice, Param, ParamKind, Params, Spec, rtapp, spec};
use std::path::Path;
use std::sync::Arc;

/// The heading of a workload's own options in help.
pub const HEADING: &str = "Workload";

/// Where a workload is run.
#[derive(Args)]
pub struct RunPlace {
    /// Where it is run: host (the running kernel), sim (the simulator), code (the scheduler's own code of a kernel's
    /// tree, on a simulated machine) or vm (a kernel in a guest) [default: host, with --machine sim]
    #[arg(long, global = true, value_name = "BACKEND", value_parser = output::word(Backend::parse))]
    backend: Option<Backend>,
    /// Machine of the simulator [default: host] or the guest [default: 4cpu]: a preset, Ncpu, smt-N, host or a file
    #[arg(long, global = true, value_name = "MACHINE")]
    machine: Option<String>,
    /// What the simulated machine runs by itself, in place of its own: a file that 'schedlab machine background' wrote,
    /// a shipped one (idle-guest-2) or none
    #[arg(long, global = true, value_name = "FILE|NAME")]
    background: Option<String>,
    /// Kernel to simulate [default: on machine host the profile nearest to the running kernel, on others v6.5, the last
    /// CFS], or to boot: a series such as 6.1, or a bzImage. Several are compared side by side
    #[arg(long, global = true, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Feature switched on (NAME) or off (NO_NAME), with @TIME from then on; may be given more than once
    #[arg(long, global = true, value_name = "NAME[@TIME]")]
    feature: Vec<String>,
    /// Tunable set to a value, with @TIME from then on; may be given more than once
    #[arg(long, global = true, value_name = "NAME=N[@TIME]")]
    tunable: Vec<String>,
    /// Scheduling policy of all tasks of the workload, whatever its own options say: other, batch, idle, fifo or rr
    #[arg(long, global = true, value_name = "POLICY")]
    policy: Option<String>,
    /// Nice value of all tasks of the workload
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true)]
    nice: Option<String>,
    /// Slice that all tasks of the workload ask for (kernels from 6.12 on)
    #[arg(long, global = true, value_name = "TIME")]
    slice: Option<String>,
    /// Draw costs from their stated ranges, run by run (simulator; 40 runs unless --runs is given), and show which
    /// costs move the results
    #[arg(long, global = true)]
    pub uncertainty: bool,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    guest: GuestOptions,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    scheduler: SchedulerOptions,
}

/// The default mode of guests for a single workload, where a quick look is wanted.
const USUAL_MODE: Mode = Mode::RealTime;

impl RunPlace {
    /// The backend.
    ///
    /// # Errors
    /// When an option of another backend was given.
    pub fn backend(&self) -> Result<Backend> {
        let backend = match self.backend {
            named if self.scheduler.asked()? => self.scheduler.backend(named)?,
            Some(backend) => backend,
            None if self.is_implied() => Backend::Sim,
            None => Backend::Host,
        };
        self.guest.check(backend)?;
        self.code.check(backend)?;
        Ok(backend)
    }
    /// Whether the machine implies that the workload is simulated: it is not this host.
    fn is_implied(&self) -> bool {
        self.backend.is_none()
            && matches!(self.scheduler.asked(), Ok(false))
            && self.machine.as_deref().is_some_and(|name| name != HOST)
    }
    /// The kernels, each with the changes. A note names the profile that stands for the running kernel, unless `quiet`.
    ///
    /// # Errors
    /// When the kernel's tables lack something, and for changes to the running kernel.
    pub fn variants(&self, quiet: bool) -> Result<Vec<Variant>> {
        let backend = self.backend()?;
        if self.is_implied() && !quiet {
            // An unknown machine must be an error before a note takes it for a machine.
            common::machine(self.simulated(), self.background.as_deref())?;
            output::note(&format!(
                "simulated, since this host is not {}; --backend vm boots it",
                self.simulated()
            ));
        }
        let attributes = [&self.policy, &self.nice, &self.slice].map(Option::as_ref);
        let changes = Changes { features: &self.feature, tunables: &self.tunable, attributes };
        let one = |kernel: &str| match backend {
            Backend::Vm | Backend::Code => variant_words::of_image(kernel, changes),
            Backend::Sim | Backend::Host => variant_words::with_changes(kernel, changes),
        };
        match self.kernel.as_slice() {
            named if self.scheduler.asked()? => {
                if named.len() > 1 {
                    return Err(
                        Error::input("schedulers are compared on one kernel").help("name one --kernel")
                    );
                }
                let kernel = self.scheduler.kernel(named.first().map(String::as_str), backend)?;
                let (baseline, others) = self.scheduler.sides(&one(&kernel)?)?;
                Ok(std::iter::once(baseline).chain(others).collect())
            }
            [] => {
                let kernel = variant_words::default_kernel(backend, self.simulated())?;
                if backend == Backend::Sim && self.simulated() == HOST && !quiet {
                    output::note(&format!(
                        "simulated as {kernel}, the profile nearest to the running kernel; --kernel names another"
                    ));
                }
                Ok(vec![one(&kernel)?])
            }
            named => named.iter().map(|kernel| one(kernel)).collect(),
        }
    }
    /// The machine of the simulator.
    fn simulated(&self) -> &str {
        self.machine.as_deref().unwrap_or(HOST)
    }
    /// The default runtime there of a program without an end of its own; `None`: its own default.
    ///
    /// # Errors
    /// As [`RunPlace::backend`], and for an unknown mode.
    pub fn usual_runtime(&self) -> Result<Option<Ns>> {
        if self.backend()? == Backend::Vm { self.guest.usual_runtime(USUAL_MODE) } else { Ok(None) }
    }
    /// A cell of a guest.
    fn in_guest(&self, spec: Spec, variant: Variant, load: String) -> Result<Cell> {
        let word = &variant.kernel;
        let all = self.guest.setup()?.guests(std::slice::from_ref(word), Some(USUAL_MODE))?;
        let (_, image) = all.images.first().ok_or_else(|| Error::internal("a guest without an image"))?;
        let named = if variant.name.starts_with(word.as_str()) {
            let (short, _) = guests::named_image(word)?;
            variant.name.replacen(word.as_str(), &short, 1)
        } else {
            variant.name.clone()
        };
        let guest = all.guest(image.clone());
        let variant = Variant { name: named, kernel: guests::series(&guest.image), ..variant };
        let machine = Machine::load(self.machine.as_deref().unwrap_or(DEFAULT_MACHINE))?;
        Cell::in_guest(&Arc::new(machine), guest, variant, spec, load)
    }
    /// The executor of the runs; `store` is where they are stored, and their events, if that is asked for.
    pub fn backends(&self, store: &Path) -> Result<Backends> {
        common::backends(self.watch.keep_events.then(|| store.to_owned()))
    }
    /// The cell of a workload under a variant.
    ///
    /// # Errors
    /// For an unknown machine, and for a machine, kernel or change that the running kernel does not have.
    pub fn cell(&self, spec: Spec, variant: Variant) -> Result<Cell> {
        let cell = self.stated(spec, variant)?;
        if self.uncertainty { cell.with_uncertainty() } else { Ok(cell) }
    }

    /// The cell with costs as the machine states them.
    fn stated(&self, spec: Spec, variant: Variant) -> Result<Cell> {
        state::warn_if_unreadable(&output::note);
        let load = load_name(&spec)?;
        let observe = self.watch.observe(self.backend()?)?;
        variant_checks::watched(observe, &spec)?;
        match self.backend()? {
            // An image is a real kernel: it has all policies, as the running one.
            Backend::Vm | Backend::Code => {
                variant_checks::check(&Variant { kernel: RUNNING.to_owned(), ..variant.clone() }, &spec)?
            }
            Backend::Sim | Backend::Host => variant_checks::check(&variant, &spec)?,
        }
        if let (Some(word), Backend::Vm | Backend::Host) = (&self.background, self.backend()?) {
            let what = format!("--background {word} is for the simulator: a real kernel has its own");
            return Err(Error::input(what).help("leave it out, or add --backend sim"));
        }
        let variant = match self.backend()? {
            Backend::Vm | Backend::Host => scx::live(&variant, Path::new(""))?,
            Backend::Sim | Backend::Code => variant,
        };
        match self.backend()? {
            Backend::Vm => self.in_guest(spec, variant, load),
            Backend::Code => {
                let name = self.machine.as_deref().unwrap_or(DEFAULT_MACHINE);
                let machine = common::machine(name, self.background.as_deref())?;
                let variant = self.code.of(variant)?;
                let image = code::image_of(&variant, Path::new("."), &Shown::new(false))?;
                Cell::of_code(&Arc::new(machine), image, variant, spec, load)
            }
            Backend::Sim => {
                let machine = common::machine(self.simulated(), self.background.as_deref())?;
                Cell::simulated(&Arc::new(machine), variant, spec, load)
            }
            Backend::Host => {
                let simulated = |what: &str| {
                    Error::input(format!(
                        "{what} is for the simulator and for guests, but this workload runs on the running kernel"
                    ))
                    .help("add --backend sim or --backend vm")
                };
                if let Some(machine) = &self.machine {
                    return Err(simulated(&format!("--machine {machine}")));
                }
                let besides = Variant { scx: None, ..variant.clone() };
                if variant.kernel == RUNNING && !besides.is_plain() {
                    let text = format!(
                        "--feature and --tunable change simulated kernels, but '{}' is live",
                        variant.name
                    );
                    let help = "add --backend sim; live: schedlab exec --set features=NO_NAME -- schedlab bench ..., or a \
                                variant's settings in an experiment (docs/live.md)";
                    return Err(Error::input(text).help(help));
                }
                if variant.kernel != RUNNING {
                    return Err(simulated(&format!("the kernel '{}'", variant.name)));
                }
                let cell = Cell::live(&Arc::new(Machine::load("host")?), variant, spec, load);
                Ok(Cell { observe, ..cell })
            }
        }
    }
}

/// The name of a load in records: the value of the parameter that `knee` raises.
fn load_name(workload: &Spec) -> Result<String> {
    Ok(match workload {
        Spec::Bench { name, params } => {
            let bench = spec::find(name)?;
            format!("{}={}", bench.load_param, params.get(bench.load_param)?)
        }
        Spec::RtApp { .. } | Spec::Replay { .. } | Spec::Command(_) | Spec::Together { .. } => {
            "default".to_owned()
        }
    })
}

/// Adds a subcommand for each benchmark to a command.
pub fn with_benchmarks(command: Command, more: impl Fn(&Benchmark) -> Vec<Arg>) -> Command {
    let plain = |name: &'static str, b: &'static Benchmark| {
        Command::new(name)
            .about(b.about)
            .args(b.params.iter().flat_map(options))
            .args(more(b))
            .after_help("Times take ns, us, ms, s or m.")
    };
    let one = |b: &&'static Benchmark| {
        let forms = BENCHMARKS.iter().filter_map(|f| f.form_of.filter(|(of, _)| *of == b.name).zip(Some(f)));
        forms.fold(plain(b.name, b), |command, ((_, switch), form)| {
            // The form has options of its own, so the switch comes first, like a subcommand.
            let form = plain(form.name, form).long_flag(switch);
            command
                .subcommand(form)
                .subcommand_value_name("FORM")
                .subcommand_help_heading("Forms")
                .disable_help_subcommand(true)
                .args_conflicts_with_subcommands(true)
        })
    };
    command
        .subcommand_value_name("WORKLOAD")
        .subcommand_help_heading("Workloads")
        .disable_help_subcommand(true)
        .subcommands(BENCHMARKS.iter().map(one))
}

/// The options for a row of a benchmark's table: one, and the original's switches for the words of a choice. The row
/// itself reads values, so that command line and TOML accept the same.
fn options(p: &Param) -> Vec<Arg> {
    let (unit, value_name) = match p.kind {
        ParamKind::Time(unit) => (format!("; a bare number is {unit}"), "TIME"),
        ParamKind::Choice(words) => {
            let words: Vec<&str> = words.iter().map(|w| w.name).collect();
            (format!("; one of {}", words.join(", ")), "WORD")
        }
        ParamKind::Count | ParamKind::Nice | ParamKind::Flag => (String::new(), "N"),
    };
    let default = p.default.map_or_else(String::new, |d| format!(" [default: {}]", p.kind.show(d)));
    let arg = Arg::new(p.name).long(p.name.replace('_', "-")).help_heading(HEADING);
    let arg = match p.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    match p.kind {
        ParamKind::Flag => vec![arg.action(ArgAction::SetTrue).help(p.about)],
        kind => {
            let arg = arg.value_name(value_name).allow_negative_numbers(true);
            let mut all = vec![arg.help(format!("{}{unit}{default}", p.about))];
            all.extend(switches(p.name, kind));
            all
        }
    }
}

/// The original's switches for the words of a choice. Only one of them, or the option itself, may be given.
fn switches(option: &'static str, kind: ParamKind) -> Vec<Arg> {
    let ParamKind::Choice(words) = kind else { return Vec::new() };
    let all = words.iter().filter_map(|w| w.switch.map(|(long, short)| (w.name, long, short)));
    let one = |(word, long, short): (&str, &'static str, char)| {
        let others = words.iter().filter_map(|w| w.switch.map(|s| s.0)).filter(|s| *s != long);
        Arg::new(long)
            .long(long)
            .short(short)
            .action(ArgAction::SetTrue)
            .help_heading(HEADING)
            .conflicts_with(option)
            .conflicts_with_all(others)
            .help(format!("the same as --{} {word}", option.replace('_', "-")))
    };
    all.map(one).collect()
}

/// The chosen benchmark and the arguments of its subcommand; `None` when none was chosen.
///
/// # Errors
/// For an unknown benchmark (clap lets none through).
pub fn chosen(matches: &ArgMatches) -> Result<Option<(&'static Benchmark, &ArgMatches)>> {
    let innermost = |(name, own)| match ArgMatches::subcommand(own) {
        Some((form, own)) => (form, own),
        None => (name, own),
    };
    matches.subcommand().map(innermost).map(|(name, own)| Ok((spec::find(name)?, own))).transpose()
}

/// The workload that a benchmark's options describe. If it runs for a stated time, `usual` is the default of that time.
///
/// # Errors
/// For a value that can't be read or is out of its range, and values that do not fit together.
pub fn described(bench: &Benchmark, matches: &ArgMatches, usual: Option<Ns>) -> Result<Spec> {
    let mut params = Params::default();
    for p in bench.params {
        let text = match p.kind {
            ParamKind::Flag => matches.get_flag(p.name).then(|| "true".to_owned()),
            ParamKind::Choice(words) => {
                let switched = |w: &&Choice| w.switch.is_some_and(|(long, _)| matches.get_flag(long));
                let switched = words.iter().find(switched).map(|w| w.name.to_owned());
                switched.or_else(|| matches.get_one::<String>(p.name).cloned())
            }
            ParamKind::Count | ParamKind::Nice | ParamKind::Time(_) => {
                matches.get_one::<String>(p.name).cloned()
            }
        };
        if let Some(text) = text {
            let value = p.parse(&text).map_err(|e| e.context(format!("--{}", p.name.replace('_', "-"))))?;
            params.0.insert(p.name.to_owned(), value);
        }
    }
    let spec = Spec::bench(bench.name, &params)?;
    match usual.filter(|_| bench.param(RUNTIME).is_ok() && !params.0.contains_key(RUNTIME)) {
        Some(time) if !spec.build(0)?.to_the_end => {
            params.0.insert(RUNTIME.to_owned(), time.0);
            Spec::bench(bench.name, &params)
        }
        _ => Ok(spec),
    }
}

const RUNTIME: &str = "runtime";

/// The argument that names a file instead of a benchmark, and the options of files.
pub fn file_args(name: &'static str) -> Vec<Arg> {
    let file = Arg::new(name).value_name("FILE").help("An rt-app file (.json), instead of a workload");
    let mut all = vec![file];
    all.extend(options(&rtapp::RUNTIME).into_iter().map(|arg| arg.help_heading("rt-app files")));
    all
}

/// Checks that the options of files were not given for a benchmark, which has options of its own.
///
/// # Errors
/// When one was.
pub fn no_file_options(bench: &Benchmark, matches: &ArgMatches) -> Result<()> {
    match matches.contains_id(rtapp::RUNTIME.name) {
        true => Err(Error::input("-r before the workload's name is for rt-app files")
            .help(format!("put it behind: schedlab bench {} -r TIME", bench.name))),
        false => Ok(()),
    }
}

/// The workload in a file that was named instead of a benchmark, with the options given for it.
///
/// # Errors
/// When the name is neither, or the file has an error.
pub fn in_file(name: &str, matches: &ArgMatches) -> Result<Spec> {
    let path = Path::new(name);
    if path.extension().is_some_and(|e| e == "json") || path.is_file() {
        let runtime = matches.get_one::<String>(rtapp::RUNTIME.name).map(|time| rtapp::RUNTIME.parse(time));
        let runtime = runtime.transpose().map_err(|e| e.context("--runtime"))?;
        return Spec::rtapp_file(path, runtime.map(Ns));
    }
    match spec::find(name) {
        Ok(_) => Err(Error::internal(format!("the workload '{name}' was taken for a file"))),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_from_the_table_and_so_do_their_values() {
        let command = with_benchmarks(Command::new("bench"), |_| Vec::new());
        let parse = |words: &[&str]| {
            let m = command.clone().try_get_matches_from(words).unwrap();
            let (bench, own) = chosen(&m).unwrap().unwrap();
            described(bench, own, None)
        };
        let Spec::Bench { params, .. } = parse(&["bench", "schbench", "-m", "1", "-c", "500"]).unwrap()
        else {
            panic!("schbench is a benchmark");
        };
        assert_eq!((params.0["message_threads"], params.0["cputime"]), (1, 500_000), "-c takes us");
        let e = parse(&["bench", "schbench", "--threads", "0"]).unwrap_err();
        assert!(e.to_string().starts_with("--threads: threads = 0 is out of range"), "{e}");
    }

    fn parsed(words: &[&str]) -> std::result::Result<Spec, String> {
        let command = with_benchmarks(Command::new("bench"), |_| Vec::new());
        command.clone().debug_assert();
        let m = command.try_get_matches_from(words).map_err(|e| e.to_string())?;
        let (bench, own) = chosen(&m).unwrap().unwrap();
        described(bench, own, None).map_err(|e| e.to_string())
    }

    #[test]
    fn words_of_a_choice_have_the_originals_switches() {
        let given = |words: &[&str]| {
            let Spec::Bench { params, .. } = parsed(words).unwrap() else { panic!("a benchmark") };
            (params.0["transport"], params.0["mode"])
        };
        assert_eq!(given(&["bench", "hackbench"]), (0, 0), "sockets and processes, as the original");
        assert_eq!(given(&["bench", "hackbench", "-p", "-T"]), (1, 1));
        assert_eq!(given(&["bench", "hackbench", "--transport", "pipe", "--mode", "thread"]), (1, 1));
        assert!(parsed(&["bench", "hackbench", "-P", "-T"]).unwrap_err().contains("cannot be used with"));
        let e = parsed(&["bench", "hackbench", "--transport", "pip"]).unwrap_err();
        assert!(e.contains("--transport: unknown transport 'pip'") && e.contains("'pipe'"), "{e}");
    }

    #[test]
    fn todays_schbench_is_a_form_of_schbench() {
        let modern = parsed(&["bench", "schbench", "--modern", "-m", "2", "-s", "50"]).unwrap();
        assert_eq!(modern, parsed(&["bench", "schbench-modern", "-m", "2", "-s", "50"]).unwrap());
        let Spec::Bench { name, params } = modern else { panic!("a benchmark") };
        assert_eq!((name.as_str(), params.0["sleep_usec"]), ("schbench-modern", 50_000));
        assert!(parsed(&["bench", "schbench", "-m", "2", "--modern"]).is_err(), "its options are others");
    }
}
