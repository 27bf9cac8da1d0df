//! `schedlab validate`: compares the simulator with real kernels, case by case.

use super::{validate_changes, validate_facts, validate_limits, validate_rules};
use crate::cli::Entry;
use crate::cluster::ClusterOptions;
use crate::code_options::CodeOptions;
use crate::listener::Shown;
use crate::progress::Bar;
use crate::{cases, common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::Backend;
use schedlab_base::temp::write_whole;
use schedlab_base::{Error, ErrorKind, Result, input};
use schedlab_cluster::parcel::Protocol;
use schedlab_compare::agreement::{CaseResult, NotRun, Validation, stored};
use schedlab_lab::Backends;
use schedlab_lab::ask::experiment::MAX_RUNS;
use schedlab_lab::ask::experiment::SlurmOptions;
use schedlab_lab::ask::levels::level_of;
use schedlab_lab::judge::validate::case::{self, CASE_FILE, Case, Real};
use schedlab_lab::judge::validate::draw::{self, Drawn, MAX_DRAWN, NOT_DRAWN};
use schedlab_lab::judge::validate::sides::{self, Sides};
use schedlab_lab::judge::validate::{Probing, RepeatDisturbed, judge_beside, run_and_judge, verifier};
use schedlab_lab::{Engine, Finished, Plan, Session};
use schedlab_record::Store;
use schedlab_report::{text::wrap, validation};
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

const FORMS: &[&str] = &["table", "markdown", "stored"];

#[derive(Args)]
pub(super) struct ValidateArgs {
    /// Case files, instead of those that ship with schedlab
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Only this case; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(super) case: Vec<String>,
    /// Only cases with this backend for the real kernel: host (the running kernel) or vm (a kernel in a guest)
    #[arg(long, value_name = "BACKEND", value_parser = output::word(Real::backend_of))]
    pub(super) backend: Option<Backend>,
    /// Cases of switched mechanisms instead: whether a switch moves a real kernel, in guests, as it moves the
    /// simulation
    #[arg(long, conflicts_with_all = ["draw", "write", "backend"])]
    changes: bool,
    /// Cases of CPU limits instead: whether each limit changes a real kernel's p99 as it changes the simulation's, in
    /// sign and in size
    #[arg(long, conflicts_with_all = ["changes", "rules", "facts", "draw", "write", "scx"])]
    limits: bool,
    /// Single decisions instead of runs: our rules and the kernel's own code are asked about the same drawn states
    #[arg(long, conflicts_with_all = ["changes", "draw", "write", "backend", "files", "case", "list", "runs", "judged", "level"])]
    rules: bool,
    /// Facts instead of runs: defaults and behaviour of the kernels 6.1, 6.12 and 7.3, asked in a guest of each
    #[arg(long, conflicts_with_all = ["rules", "changes", "draw", "write", "backend", "files", "case", "list", "runs", "judged", "json", "format"])]
    facts: bool,
    /// Only this function of --rules; may be given more than once
    #[arg(long, value_name = "NAME", requires = "rules")]
    pub(super) function: Vec<String>,
    /// Kernel of --rules, a series or the folder of a tree [default: 6.1, 6.12 and 7.3]; or of --limits, a profile
    /// (v7.3) [default: that of the case]. May be given more than once
    #[arg(long, value_name = "KERNEL")]
    pub(super) kernel: Vec<String>,
    /// States that --rules draws for each function and kernel
    #[arg(long, value_name = "N", requires = "rules", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(super) draws: u64,
    /// What is judged: sim (our rules) or code (the kernel's own code, built of the case's kernel; cases in guests)
    #[arg(long, value_name = "BACKEND", default_value = "sim")]
    judged: String,
    #[command(flatten)]
    pub(super) code: CodeOptions,
    /// List the cases
    #[arg(long)]
    pub(super) list: bool,
    /// Draw N cases instead of those that ship: workload, machine, kernel and features by a seeded program
    #[arg(long, value_name = "N", conflicts_with = "files", value_parser = clap::value_parser!(u64).range(1..=MAX_DRAWN))]
    draw: Option<u64>,
    /// Whether kernel 7.3 takes this sched_ext scheduler, a program and its arguments: it is loaded in a guest. With
    /// --draw the cases are drawn for it; several have them in turn. They are for 7.3 and at most 8 CPUs, and what is
    /// judged is the kernel's own code
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["files", "changes", "rules", "facts"])]
    scx: Vec<String>,
    /// Seed of --draw and --rules: the same seed draws the same cases
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Write the drawn cases to this folder, a file each, and run none
    #[arg(long, value_name = "DIR", requires = "draw", conflicts_with = "list")]
    write: Option<PathBuf>,
    /// Runs of the real side; overrides the cases'. Without it, a case makes up to sixteen times as many (on the host
    /// four) where the real means are not known well enough
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RUNS))]
    pub(super) runs: Option<u64>,
    /// A result of --format stored, whose real side is taken: only the simulated side is run, and no guest is needed.
    /// Of drawn cases those that it has are judged
    #[arg(long, value_name = "FILE", conflicts_with_all = ["changes", "rules", "facts", "runs"])]
    pub(super) real: Option<PathBuf>,
    /// Simulations side by side; all CPUs by default. Live runs are made one at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) jobs: Option<u64>,
    /// Where runs are stored; runs that are there already are not made again
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    cluster: ClusterOptions,
    /// Form of the result: table, markdown or stored (JSON with a line for each metric, for files that are kept)
    #[arg(long, value_name = "FORM", default_value = "table")]
    format: String,
    /// The result as JSON (docs/formats.md)
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    pub(super) quiet: bool,
}

impl ValidateArgs {
    fn form(&self) -> Result<&str> {
        let form = common::form_of(self.json, &self.format)?;
        if self.json || FORMS.contains(&form) {
            Ok(form)
        } else {
            Err(Error::unknown("format", form, FORMS.iter().copied()))
        }
    }
    /// The seed of draws.
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
    /// The judged backend.
    pub(super) fn judged(&self) -> Result<Backend> {
        let known = [Backend::Sim, Backend::Code];
        let found = known.into_iter().find(|b| b.name() == self.judged);
        found.ok_or_else(|| Error::unknown("--judged", &self.judged, known.map(Backend::name)))
    }
    /// The result that --real names.
    fn earlier(&self) -> Result<Option<Validation>> {
        let Some(file) = &self.real else { return Ok(None) };
        let read = |text: String| {
            stored::read(&text)
                .map_err(|e| Error::input(format!("{}: not a stored result: {e}", file.display())))
        };
        input::text(file).and_then(read).map(Some)
    }
    fn drawn(&self, n: u64) -> Vec<Drawn> {
        match self.scx.as_slice() {
            [] => draw::draw(self.seed(), n),
            schedulers => draw::draw_under(self.seed(), n, schedulers),
        }
    }
    fn cases(&self) -> Result<Vec<Case>> {
        let all = match (self.draw, self.files.as_slice()) {
            (Some(n), _) => self.drawn(n).iter().map(Drawn::case).collect::<Result<_>>()?,
            (None, []) => cases::all()?,
            (None, files) => files.iter().map(|f| case::load(f)).collect::<Result<_>>()?,
        };
        let mut chosen = cases::named(all, &self.case, |c| &c.name)?;
        if let Some(backend) = self.backend {
            chosen.retain(|c| c.real.backend() == backend);
        }
        if chosen.is_empty() { Err(Error::input("no case passes the filters")) } else { Ok(chosen) }
    }
}

fn command() -> Command {
    ValidateArgs::augment_args(Command::new("validate"))
        .about("Compare the simulator with real kernels: the same workloads, metric by metric")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = ValidateArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let form = args.form()?;
    args.cluster.check()?;
    if args.cluster.is_slurm() && (args.changes || args.jobs.is_some()) {
        let option = if args.changes { "--changes" } else { "--jobs" };
        let text = format!("{option} is for runs that are made here, and --engine slurm makes none here");
        return Err(Error::input(text).help("leave one of them out"));
    }
    if args.seed.is_some() && args.draw.is_none() && !args.rules {
        return Err(Error::input("--seed is for what is drawn").help("add --draw N or --rules"));
    }
    if !args.kernel.is_empty() && !args.rules && !args.limits {
        return Err(Error::input("--kernel is for --rules and --limits").help("a case names its own kernel"));
    }
    if args.limits {
        return validate_limits::run(&args, form);
    }
    if args.rules {
        return validate_rules::run(&args, form);
    }
    if args.changes {
        return validate_changes::run(&args, form);
    }
    if args.facts {
        return validate_facts::run(&args);
    }
    if !args.scx.is_empty() && args.draw.is_none() {
        return verdicts(&args);
    }
    let chosen = args.cases()?;
    if args.list {
        return list(&args, &chosen, form == "json");
    }
    if let Some(folder) = &args.write {
        return write(folder, &chosen);
    }
    let found = run_cases(&args, &chosen)?;
    match form {
        "json" => output::json(&found)?,
        "markdown" => output::result(|out| validation::markdown(&found, out))?,
        "stored" => {
            let text = stored::write(&found).map_err(|e| Error::internal(e.to_string()))?;
            output::result(|out| out.write_all(text.as_bytes()))?;
        }
        _ => output::result(|out| validation::text(&found, out))?,
    }
    if found.passed {
        return Ok(());
    }
    if found.cases.is_empty() {
        return Err(
            Error::machine("no case could be run here").help("'schedlab doctor' says what is missing")
        );
    }
    Err(Error::new(ErrorKind::CheckFailed, "the simulator does not agree with the kernel as well as it must"))
}

/// Asks a guest about each scheduler, and prints what its kernel says.
fn verdicts(args: &ValidateArgs) -> Result<()> {
    let backends = common::backends(None)?;
    let mut refused = 0;
    for command in &args.scx {
        let verdict = verifier::ask(command, &backends).map_err(|e| e.context(command.clone()))?;
        refused += usize::from(verdict.refused.is_some());
        output::result(|out| writeln!(out, "{command}: {}", verdict.words()))?;
    }
    if refused == 0 {
        return Ok(());
    }
    let text = format!("the kernel refuses {refused} of {} schedulers", args.scx.len());
    Err(Error::new(ErrorKind::CheckFailed, text)
        .help("backend 'code' has no verifier, and runs them all the same"))
}

fn list(args: &ValidateArgs, chosen: &[Case], json: bool) -> Result<()> {
    let left_out = if args.draw.is_some() { NOT_DRAWN } else { &[] };
    if json {
        let row = |c: &Case| {
            let mut row = serde_json::json!({ "name": c.name, "about": c.about, "backend": c.real.backend(),
                "machine": c.machine, "simulated": c.simulated, "image": c.image, "control": c.control.is_some() });
            if args.draw.is_some() {
                row["text"] = c.text.clone().into();
            }
            row
        };
        let rows: Vec<_> = chosen.iter().map(row).collect();
        let mut all = serde_json::json!({ "cases": rows });
        if args.draw.is_some() {
            let row = |(what, why): &(&str, &str)| serde_json::json!({ "what": what, "why": why });
            all["not_drawn"] = left_out.iter().map(row).collect();
        }
        return output::json_as("schedlab/cases/1", &all);
    }
    output::result(|out| {
        chosen.iter().try_for_each(|c| {
            write!(out, "{}", wrap(&format!("{:<27} {:<6}", c.name, c.real.backend()), &c.about))
        })?;
        left_out
            .iter()
            .try_for_each(|(what, why)| write!(out, "{}", wrap("never drawn: ", &format!("{what}: {why}"))))
    })
}

/// Writes each case to a file of its name. A file that is there already must hold the same text.
fn write(folder: &Path, chosen: &[Case]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create", &e))?;
    for case in chosen {
        let path = folder.join(&case.file);
        if input::text_if_there(&path)?.is_some_and(|there| there != case.text) {
            let text = format!("{} exists already with another text, and is not overwritten", path.display());
            return Err(Error::input(text).help("give another folder, or remove it"));
        }
        write_whole(&path, case.text.as_bytes())?;
    }
    output::result(|out| {
        let folder = folder.display();
        writeln!(out, "{} cases are in {folder}: schedlab validate {folder}/*.toml", chosen.len())
    })
}

/// Runs the cases one after the other. A case that this machine can't run does not stop the others. A case with an
/// error stops the command before any case is run.
fn run_cases(args: &ValidateArgs, chosen: &[Case]) -> Result<Validation> {
    let earlier = args.earlier()?;
    let of = |case: &Case| earlier.as_ref().map(|all| of_case(all, case)).transpose();
    // A kept result of drawn cases need not have all up to the last one: it says which were run.
    let chosen: Vec<&Case> = chosen.iter().filter(|case| args.draw.is_none() || of(case).is_ok()).collect();
    if let (Some(file), true) = (&args.real, chosen.is_empty()) {
        let text = format!("{} has none of the cases that were drawn", file.display());
        return Err(Error::input(text).help("give the --draw and --seed by which it was made"));
    }
    let planned: Vec<_> = chosen
        .iter()
        .map(|case| lacking(args, case, of(case).and_then(|earlier| plan(args, case, earlier))))
        .collect::<Result<_>>()?;
    let store = Store::create(&args.out)?;
    let (mut cases, mut not_run) = (Vec::new(), Vec::new());
    for (case, sides) in chosen.into_iter().zip(planned) {
        let done = match sides {
            Ok((sides, earlier)) => lacking(args, case, judge_case(args, case, sides, earlier, &store))?,
            Err(not_run) => Err(not_run),
        };
        match done {
            Ok(result) => cases.push(result),
            Err(why) => not_run.push(why),
        }
    }
    Ok(Validation::of(cases, not_run))
}

/// A case in an earlier result.
fn of_case<'a>(all: &'a Validation, case: &Case) -> Result<&'a CaseResult> {
    let found = all.cases.iter().find(|c| c.name == case.name);
    found.ok_or_else(|| Error::machine("the file of --real does not have this case"))
}

/// The plans of a case's sides, and the earlier result that replaces the real side.
fn plan<'a>(
    args: &ValidateArgs,
    case: &Case,
    earlier: Option<&'a CaseResult>,
) -> Result<(Sides, Option<&'a CaseResult>)> {
    let sides = match earlier {
        Some(earlier) => sides::plan_beside(case, earlier)?,
        None => sides::plan(case, args.runs)?,
    };
    // Only the kernel's own code has sched_ext.
    let judged = if case.scx.is_some() { Backend::Code } else { args.judged()? };
    let sides = match judged {
        Backend::Code if case.control.is_some() => {
            let text = "a control has a fault of the simulator's, which the kernel's own code can't have";
            return Err(Error::machine(text));
        }
        Backend::Code => {
            let level = args.code.level()?.unwrap_or(level_of("validate"));
            sides.by_code(case, level, &Shown::new(args.quiet))?
        }
        _ => sides,
    };
    Ok((sides, earlier))
}

/// Turns the error of a case that this machine can't run into a row of the table ([`reason`]). A drawn case that a side
/// refuses is such a row, too. Other errors stay errors.
fn lacking<T>(args: &ValidateArgs, case: &Case, done: Result<T>) -> Result<std::result::Result<T, NotRun>> {
    let refused = |e: &Error| args.draw.is_some() && e.kind() == ErrorKind::Input;
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(e) if matches!(e.kind(), ErrorKind::Machine | ErrorKind::Guest) || refused(&e) => {
            let why = reason(&case.name, &e);
            Ok(Err(NotRun { name: case.name.clone(), why }))
        }
        Err(e) => Err(e.context(format!("case {}", case.name))),
    }
}

/// The reason why a case is not run, in one line; a guest's last words go to standard error.
pub(super) fn reason(name: &str, e: &Error) -> String {
    if e.message().lines().nth(1).is_some() {
        output::note(&format!("case {name}: {e}"));
    }
    [e.message().lines().next(), e.remedy()].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Runs both sides, or the simulated one to compare with an earlier result, and judges them.
fn judge_case(
    args: &ValidateArgs,
    case: &Case,
    sides: Sides,
    earlier: Option<&CaseResult>,
    store: &Store,
) -> Result<CaseResult> {
    let backends = common::backends(None)?;
    let work = |plan: &Plan| work(args, case, plan, store, &backends);
    match earlier {
        Some(earlier) => judge_beside(case, &sides, earlier, work),
        None => run_and_judge(case, sides, args.runs.is_some(), work),
    }
}

fn work(
    args: &ValidateArgs,
    case: &Case,
    plan: &Plan,
    store: &Store,
    backends: &Backends,
) -> Result<Finished> {
    let bar = Bar::runs(args.quiet);
    let how = Protocol { events: false, validation: true };
    let cluster = args.cluster.cluster(&SlurmOptions::default(), &case.name, how)?;
    let executor = RepeatDisturbed(&Probing(backends));
    let session = Session {
        store: Some(store),
        attach: &[(CASE_FILE, case.text.as_bytes())],
        jobs: args.jobs.unwrap_or_else(common::cpus) as usize,
        progress: &bar,
        engine: cluster.as_ref().map(|c| c as &dyn Engine),
        ..Session::of(&executor, interrupt::stop_flag()?)
    };
    let finished = session.work(plan);
    drop(bar);
    let finished = finished?;
    if finished.interrupted {
        let text = format!("interrupted: the finished runs are kept in {}", store.root().display());
        return Err(Error::new(ErrorKind::CheckFailed, text).help("the same command continues from there"));
    }
    Ok(finished)
}
