//! `schedlab new`: writes an experiment, commented and ready to run, and lists the names that fit in one.

use crate::cli::Entry;
use crate::names::{self, NameList};
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Backend, Error, Result, each_once};
use schedlab_kernel::DEFAULT_PROFILE;
use schedlab_kernel::variant::RUNNING;
use schedlab_lab::ask::experiment::draft::{self, Draft, Subject};
use schedlab_lab::ask::experiment::parse;
use schedlab_machine::Machine;
use schedlab_report::text::width;
use schedlab_workload::{BENCHMARKS, Spec, spec};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

pub const ENTRY: Entry = Entry { command, run };

/// The defaults of a draft: a well-known workload, on a machine that shows placement and SMT.
const WORKLOAD: &str = "schbench";
const MACHINE: &str = "smt-8";

/// The word that asks for lists, as the option does.
const LIST: &str = "list";

/// Columns for the commands to try next.
const NEXT: usize = 34;

#[derive(Args)]
struct NewArgs {
    /// The file to write, FILE.toml; an existing file is never overwritten
    #[arg(value_name = "FILE", required_unless_present = "list")]
    file: Option<String>,
    /// After the word list: WHAT, as with --list
    #[arg(value_name = "WHAT", hide = true)]
    what: Option<String>,
    /// A benchmark, or an rt-app file (.json) [default: schbench]
    #[arg(long, value_name = "NAME|FILE.json")]
    workload: Option<String>,
    /// A machine; may be given more than once [default: smt-8]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Vec<String>,
    /// A kernel: simulated (v6.5), real (6.1, or a bzImage), or running; may be given more than once [default: v6.5]
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// List the names that fit in an experiment: keys, workloads, machines, kernels, features, tunables or metrics
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "", conflicts_with = "file")]
    list: Option<String>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    NewArgs::augment_args(Command::new("new"))
        .about("Write an experiment of your own, ready to run; or list the names that fit in one")
        .after_help(
            "schedlab new mine.toml && schedlab run mine.toml\n\
             schedlab new pipes.toml --workload pipe --machine fb-2x12-smt --kernel v6.12\n\
             schedlab new list features",
        )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = NewArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    match (&args.list, &args.file) {
        (Some(what), _) => names::print(NameList::parse(what)?, args.json),
        (None, Some(word)) if word == LIST => {
            names::print(NameList::parse(args.what.as_deref().unwrap_or_default())?, args.json)
        }
        (None, Some(_)) if args.what.is_some() => {
            let strange = args.what.unwrap_or_default();
            Err(Error::input(format!("'{strange}' is one word too many"))
                .help("schedlab new mine.toml --workload NAME"))
        }
        (None, Some(file)) => create(file, &args),
        (None, None) => Err(Error::input("no file is named").help("schedlab new mine.toml")),
    }
}

fn create(file: &str, args: &NewArgs) -> Result<()> {
    let path = Path::new(file);
    check_name(file, path)?;
    let draft = drafted(file, path, args)?;
    let text = draft.text();
    let experiment = parse(path, &text, crate::common::cpus())?;
    write(path, &text)?;
    let variants: Vec<&str> = experiment.variants.iter().map(|v| v.name.as_str()).collect();
    let workload = experiment.loads.first().map_or("", |l| l.spec.name());
    if args.json {
        let what = serde_json::json!({
            "file": file, "workload": workload, "loads": experiment.loads.len(), "runs": experiment.runs,
            "machines": draft.machines, "variants": variants, "next": draft.command(),
        });
        return output::json_as("schedlab/new/1", &what);
    }
    output::result(|out| {
        let (on, under) = (draft.machines.join(", "), variants.join(" and "));
        let (loads, runs) = (experiment.loads.len(), experiment.runs);
        let many = if loads == 1 { "load" } else { "loads" };
        writeln!(
            out,
            "{file}: {workload} on {on} under {under}, {loads} {many}, {} each",
            schedlab_base::counted(runs, "run")
        )?;
        writeln!(out, "next:")?;
        let mut next = vec![(draft.command(), "run it and compare the variants")];
        next.extend(draft.fetch().map(|command| (command, "before that: fetch the kernels it boots")));
        next.push((format!("${{EDITOR:-vi}} {}", draft.file), "its comments list what else can be set"));
        next.push(("schedlab new --list".to_owned(), "all names that fit in it"));
        next.iter().try_for_each(|(command, about)| match width(command) {
            0..NEXT => writeln!(out, "  {command:<NEXT$} {about}"),
            // A longer command has a line of its own.
            _ => writeln!(out, "  {command}\n  {:<NEXT$} {about}", ""),
        })
    })?;
    note_two_places(&draft.kernels);
    if draft.backend() == Backend::Code {
        output::note(
            "--backend code runs the scheduler's own code on machines of any size, with gcc, flex and bison; guests of more \
             than 16 CPUs (--backend vm) take hours",
        );
    }
    Ok(())
}

/// Notes that no single run has all kernels: the running kernel is only measured, all others are simulated or booted.
fn note_two_places(kernels: &[String]) {
    let others: Vec<&str> = kernels.iter().filter(|k| *k != RUNNING).map(String::as_str).collect();
    if others.is_empty() || others.len() == kernels.len() {
        return;
    }
    let others = others.join(", ");
    output::note(&format!(
        "no run has both {RUNNING} and {others}: --backend host measures {RUNNING} alone, without --backend host it is \
         left out"
    ));
}

/// Refuses a name that is empty, a workload's, an existing file's, or not a file name.
pub(super) fn check_name(file: &str, path: &Path) -> Result<()> {
    if file.trim().is_empty() {
        return Err(Error::input("the file's name is empty").help("schedlab new mine.toml"));
    }
    if BENCHMARKS.iter().any(|b| b.name == file) || file.ends_with(".json") {
        let text = format!("'{file}' is a workload; the file to write comes first");
        return Err(Error::input(text).help(format!("schedlab new mine.toml --workload {file}")));
    }
    if names::NameList::parse(file).is_ok() {
        let text = format!("'{file}' is the name of a list; the file to write is named here");
        return Err(Error::input(text).help(format!("schedlab new list {file}, or schedlab new {file}.toml")));
    }
    if file.chars().any(char::is_control) {
        let text = format!("the file's name {file:?} has control characters");
        return Err(Error::input(text).help("give a name of printable characters"));
    }
    if path.file_name().is_some_and(|name| name == ".toml") {
        return Err(Error::input(format!("'{file}' is an ending without a name"))
            .help("the experiment is named after its file: schedlab new mine.toml"));
    }
    if path.exists() {
        return Err(Error::input(format!("{file} exists already, and is not overwritten"))
            .help("give another name, or remove it"));
    }
    Ok(())
}

fn drafted(file: &str, path: &Path, args: &NewArgs) -> Result<Draft> {
    let workload = args.workload.as_deref().unwrap_or(WORKLOAD);
    let subject = if workload.ends_with(".json") {
        Spec::rtapp_file(Path::new(workload), None)?;
        Subject::RtApp(seen_from(path, workload))
    } else {
        Subject::Bench(spec::find(workload).map_err(|e| {
            let help =
                format!("{}; 'schedlab new --list workloads' lists them", e.remedy().unwrap_or_default());
            e.help(help)
        })?)
    };
    let mut machines = once(&args.machine, MACHINE);
    let mut cpus = 0;
    for machine in &mut machines {
        cpus = cpus.max(Machine::load(machine)?.topology.nr_cpus());
        if machine.contains('/') || machine.ends_with(".toml") {
            *machine = seen_from(path, machine);
        }
    }
    let mut kernels = once(&args.kernel, &DEFAULT_PROFILE.to_string());
    for kernel in &mut kernels {
        draft::check_kernel(kernel)?;
        if Path::new(kernel).is_file() {
            *kernel = seen_from(path, kernel);
        }
    }
    let stem = path.file_stem().map_or_else(|| file.to_owned(), |s| s.to_string_lossy().into_owned());
    let word = |c: char| c.is_ascii_alphanumeric() || "._-/+,".contains(c);
    // A name that begins with a dash would be read as an option.
    let file = if file.starts_with('-') { format!("./{file}") } else { file.to_owned() };
    let named =
        if file.chars().all(word) { file.clone() } else { format!("'{}'", file.replace('\'', "'\\''")) };
    Ok(Draft { name: stem, file: named, subject, machines, kernels, cpus })
}

/// Each word once, or the default.
fn once(given: &[String], usual: &str) -> Vec<String> {
    if given.is_empty() { vec![usual.to_owned()] } else { each_once(given) }
}

/// A file's path as the experiment has to write it, since its files are relative to its own folder.
fn seen_from(experiment: &Path, file: &str) -> String {
    let here = experiment.parent().is_none_or(|p| p.as_os_str().is_empty() || p == Path::new("."));
    if here || Path::new(file).is_absolute() {
        return file.to_owned();
    }
    Path::new(file).canonicalize().map_or_else(|_| file.to_owned(), |p| p.display().to_string())
}

/// Writes a new file, completely or not at all, and never over another.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let wrong = |e: &std::io::Error| Error::io(path, "write", e);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|e| wrong(&e))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|e| {
        // A truncated file would be taken for an experiment.
        let _ = std::fs::remove_file(path);
        wrong(&e)
    })
}
