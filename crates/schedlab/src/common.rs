//! Options and helpers that several commands share.

use crate::gate::{self, GateOptions};
use crate::listener::Shown;
use crate::outlets::{self, OutletOptions};
use crate::{colour, output};
use clap::Args;
use schedlab_base::{Error, Ns, Result, Warning, printable, temp};
use schedlab_compare::Comparison;
pub use schedlab_lab::ask::here::{cpus, running_kernel};
use schedlab_lab::{Backend, Backends, Compared, Experiment, Lab, RunOptions, RunRequest};
use schedlab_machine::Machine;
use schedlab_record::Observe;
use schedlab_report::plot::{self, PlotFile};
use schedlab_report::table::{limit, too_few_runs};
use schedlab_report::{Exporter, ReportForm};
use schedlab_trace::Window;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

/// Reads the value of `--for`; bare numbers are seconds.
///
/// # Errors
/// When it is not a time, or 0.
pub fn length_of_time(text: &str) -> Result<Ns> {
    let length = Ns::parse(text, "s").map_err(|e| e.context("--for"))?;
    if length == Ns::ZERO {
        return Err(Error::input("--for: the time is 0").help("write --for 10s"));
    }
    Ok(length)
}

/// The machine of that name, with the background of that name if one is given. Relative paths begin at the current
/// folder.
///
/// # Errors
/// When the machine or background does not exist, or its file has an error.
pub fn machine(name: &str, background: Option<&str>) -> Result<Machine> {
    let mut machine = Machine::load(name)?;
    if let Some(word) = background {
        machine.set_background(word, Path::new(""), false).map_err(|e| e.context("--background"))?;
    }
    Ok(machine)
}

/// The clock of the current simulation, simulated ns; of use only where one run is made at a time.
pub static SIMULATED: AtomicU64 = AtomicU64::new(0);

/// The environment variable that sets after how many steps the invariants of simulations are walked, for soaks
/// (docs/reliability.md).
const WALK_VARIABLE: &str = "SCHEDLAB_WALK_EVERY";

/// The number that [`WALK_VARIABLE`] holds.
///
/// # Errors
/// When it holds no number from 1 to 4096.
pub fn walk_every() -> Result<Option<u64>> {
    let Some(given) = std::env::var_os(WALK_VARIABLE) else { return Ok(None) };
    let given = given.to_string_lossy();
    let steps = given.parse().ok().filter(|steps| (1..=4096).contains(steps)).ok_or_else(|| {
        Error::input(format!("{WALK_VARIABLE} is '{given}'")).help("set it to a number of steps, 1 to 4096")
    })?;
    Ok(Some(steps))
}

/// How this process makes runs.
pub fn run_options() -> Result<RunOptions> {
    Ok(RunOptions { walk_every: walk_every()?, clock: Some(&SIMULATED), ..RunOptions::default() })
}

/// The executor of a command; `keep_events_in` is the folder in which events are kept.
pub fn backends(keep_events_in: Option<PathBuf>) -> Result<Backends> {
    Ok(Backends::new(RunOptions { keep_events_in, ..run_options()? }))
}

/// Makes the runs of a request in this process, shows their progress unless `quiet`, and compares them.
///
/// # Errors
/// As [`Lab::compared`].
pub fn compared(request: &RunRequest, experiment: Experiment, quiet: bool) -> Result<Compared> {
    Lab::here(&backends(None)?, &Shown::new(quiet)).compared(request, experiment)
}

/// Which counters live runs have.
#[derive(Clone, Copy, clap::ValueEnum)]
enum CountersOption {
    #[value(hide = true)]
    Usual,
    Caches,
}

/// How closely live runs are watched.
#[derive(Args)]
pub struct WatchOptions {
    /// Count cycles, instructions and the like in each task of live runs, with the value 'caches' also misses of the
    /// last-level cache, and record how long tasks stay on a CPU; this makes switches longer [default: only as far as
    /// the metrics asked for need it]
    #[arg(long, global = true, conflicts_with = "events", hide_short_help = true, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "usual", value_name = "caches")]
    counters: Option<CountersOption>,
    /// Record every switch, wakeup and migration of live runs through the kernel's tracepoints (root or CAP_PERFMON)
    #[arg(long, global = true, hide_short_help = true)]
    events: bool,
    /// Keep every event of each run beside its record, for 'schedlab trace'; on the running kernel this records events
    #[arg(long, global = true, conflicts_with = "counters", hide_short_help = true)]
    pub keep_events: bool,
}

impl WatchOptions {
    /// As with `--events`, unless counters were asked for.
    pub fn set_events(&mut self) {
        self.events |= self.counters.is_none();
    }
    /// How closely runs are watched, at the least.
    ///
    /// # Errors
    /// For an option where runs are not live, and when this user may not record events here.
    pub fn observe(&self, backend: Backend) -> Result<Observe> {
        let live = backend == Backend::Host;
        let (option, observe) = match (self.counters, self.events, self.keep_events && live) {
            (None, false, false) => return Ok(Observe::Accounts),
            (Some(CountersOption::Usual), _, _) => ("--counters", Observe::Counters),
            (Some(CountersOption::Caches), _, _) => ("--counters", Observe::Caches),
            (None, true, _) => ("--events", Observe::Events),
            (None, false, true) => ("--keep-events", Observe::Events),
        };
        let why = match backend {
            Backend::Host => {
                if observe == Observe::Events {
                    schedlab_native::tracepoints::check().map_err(|e| e.context(option))?;
                }
                return Ok(observe);
            }
            Backend::Sim | Backend::Code => "is for live runs: simulated machines record all events anyway",
            Backend::Vm => "is for the running kernel: guests record all events anyway",
        };
        Err(Error::input(format!("{option} {why}")).help("leave it out, or add --backend host"))
    }
}

/// A part of a recording.
#[derive(Args)]
pub struct WindowOptions {
    /// Only from this time on, since the recording's beginning (250ms, 1.5s)
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only for so long
    #[arg(long = "for", value_name = "TIME", conflicts_with = "until")]
    length: Option<String>,
    /// Only until this time, since the recording's beginning
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl WindowOptions {
    /// The window.
    ///
    /// # Errors
    /// When a time can't be read, or the window is empty.
    pub fn window(&self) -> Result<Window> {
        let time = |option: &str, text: &Option<String>| {
            text.as_deref().map(|t| Ns::parse(t, "s")).transpose().map_err(|e| e.context(option))
        };
        Window::of(time("--from", &self.from)?, time("--for", &self.length)?, time("--until", &self.until)?)
    }
}

/// The form in which a comparison is printed.
#[derive(Args)]
pub struct FormOptions {
    /// Form of the result: table, detail, lkml, markdown, csv, ranked, variants (a row for each
    /// variant), or sizes (a column for each machine)
    #[arg(long, value_name = "FORM", default_value = "table", conflicts_with = "json")]
    format: String,
    /// The result as JSON (docs/formats.md)
    #[arg(long)]
    json: bool,
    /// Plot it, too, as .svg or .png: metrics against the swept parameter, with 95 % intervals; without a sweep, bars
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Every row of a table, also where there are more than 50 and too few runs to show a change
    #[arg(long, hide_short_help = true)]
    pub all_rows: bool,
    #[command(flatten)]
    pub outlets: OutletOptions,
}

impl FormOptions {
    /// Whether a plot is asked for.
    pub fn plots(&self) -> bool {
        self.plot.is_some()
    }
    /// Whether a table for people is asked for.
    pub fn is_table(&self) -> bool {
        !self.json && ["table", "detail", "ranked", "variants"].contains(&self.format.as_str())
    }
    /// The form that was asked for.
    ///
    /// # Errors
    /// When it is unknown (the error offers the nearest), or as [`check_plot`].
    pub fn form(&self) -> Result<&'static ReportForm> {
        self.plot.as_deref().map_or(Ok(()), check_plot)?;
        self.outlets.check()?;
        schedlab_report::form(form_of(self.json, &self.format)?)
    }
}

/// The form of results as data, which `--json` asks for.
pub const JSON: &str = "json";

/// The form that `--json` or `--format NAME` asks for.
///
/// # Errors
/// For `--format json`: data has an option of its own.
pub fn form_of(json: bool, name: &str) -> Result<&str> {
    if json {
        return Ok(JSON);
    }
    if name == JSON {
        return Err(Error::input("--format json: data is not a form of text").help("write --json"));
    }
    Ok(name)
}

/// Checks a plot's file before the work whose result is plotted.
///
/// # Errors
/// When it is neither .svg nor .png, or can't be written.
pub fn check_plot(file: &Path) -> Result<()> {
    PlotFile::of(file)?;
    temp::check_place(file).map_err(|e| e.context("--plot"))
}

/// Prints a comparison, and plots it when that is asked for. `gate` says what fails in forms for CI.
///
/// # Errors
/// When standard output or the plot's file can't be written.
pub fn print(comparison: &Comparison, options: &FormOptions, gate: &GateOptions) -> Result<()> {
    deliver(comparison, options, gate, show)
}

/// As [`print`]; a table on a terminal is shortened, with a note.
pub fn print_shortened(comparison: &Comparison, options: &FormOptions, gate: &GateOptions) -> Result<()> {
    deliver(comparison, options, gate, show_shortened)
}

fn deliver(
    comparison: &Comparison,
    options: &FormOptions,
    gate: &GateOptions,
    show: fn(&Comparison, &ReportForm) -> Result<()>,
) -> Result<()> {
    if let Some(file) = &options.outlets.junit {
        outlets::junit(comparison, gate.failing(), file)?;
    }
    match &options.outlets.print {
        Some(metric) => outlets::print(comparison, metric)?,
        None => show_folded(comparison, options, show)?,
    }
    if let Some(file) = &options.plot {
        temp::write_whole(file, &plot::plot(comparison, PlotFile::of(file)?)?)?;
    }
    // A file without a test would pass in CI.
    if options.outlets.junit.is_some() { gate::some_row("--junit", &[comparison]) } else { Ok(()) }
}

/// Shows a comparison; a long table in which no row can show a change is shown in short.
fn show_folded(
    comparison: &Comparison,
    options: &FormOptions,
    show: fn(&Comparison, &ReportForm) -> Result<()>,
) -> Result<()> {
    let form = options.form()?;
    if form.name == "table" && !options.all_rows && too_few_runs::is_hopeless(comparison) {
        output::result(|out| too_few_runs::Short.export(comparison, out))
    } else {
        show(comparison, form)
    }
}

fn show_shortened(comparison: &Comparison, form: &ReportForm) -> Result<()> {
    if form.name != "table" || !std::io::stdout().is_terminal() {
        return show(comparison, form);
    }
    let mut shorter = comparison.clone();
    match limit::shorten(&mut shorter) {
        0 => show(comparison, form),
        hidden => {
            show(&shorter, form)?;
            output::result(|out| writeln!(out, "{hidden} more: --all"))
        }
    }
}

/// Prints a comparison in a form, with colours where they are wanted.
pub fn show(comparison: &Comparison, form: &ReportForm) -> Result<()> {
    output::painted(|out| form.exporter.export(comparison, out), |text| colour::verdicts(text, form.name))
}

/// Prints warnings on standard error, for a form of the result that has no place for them.
pub fn warn(warnings: &[Warning]) {
    for w in warnings {
        output::note(&format!("warning: {}", w.message));
    }
}

/// Checks the names that options give to stored things: an option's word and its value.
///
/// # Errors
/// When one is empty, or has characters that a terminal obeys.
pub fn check_names(given: &[(&str, Option<&String>)]) -> Result<()> {
    for (option, name) in given {
        if let Some((name, what)) = name.and_then(|name| Some((name, printable::unfit(name)?))) {
            return Err(Error::input(format!("{option}: {name:?} {what}"))
                .help("tables and files show this name: choose a plain one"));
        }
    }
    Ok(())
}
