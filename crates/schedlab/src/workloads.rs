//! Workloads on the command line: a subcommand for each benchmark, its options made from the benchmark's own table; and
//! the options that say where it is run. `bench` and `knee` share them.

use crate::{common, variants};
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use schedlab_base::{Error, Ns, Result};
use schedlab_kernel::Variant;
use schedlab_kernel::variant::RUNNING;
use schedlab_lab::plan::Cell;
use schedlab_lab::{Backend, Executor};
use schedlab_machine::Machine;
use schedlab_workload::{BENCHMARKS, Benchmark, Param, ParamKind, Params, Spec, spec};
use std::path::Path;
use std::sync::Arc;

/// Where help lists a workload's own options.
pub const HEADING: &str = "Workload";

/// Where a workload is run.
#[derive(Args)]
pub struct Place {
    /// Where it is run: host (the running kernel) or sim (the simulator)
    #[arg(long, global = true, value_name = "BACKEND", default_value = "host")]
    backend: String,
    /// Machine to simulate: a preset, smp-N, smt-N, host or a file [default: host]
    #[arg(long, global = true, value_name = "MACHINE")]
    machine: Option<String>,
    /// Kernel to simulate [default: the latest that is modelled]
    #[arg(long, global = true, value_name = "VERSION")]
    kernel: Option<String>,
    /// Feature switched on (NAME) or off (NO_NAME); may be given more than once
    #[arg(long, global = true, value_name = "NAME")]
    feature: Vec<String>,
    /// Tunable set to a value; may be given more than once
    #[arg(long, global = true, value_name = "NAME=N")]
    tunable: Vec<String>,
}

impl Place {
    /// The backend.
    ///
    /// # Errors
    /// An unknown one.
    pub fn backend(&self) -> Result<Backend> {
        Backend::parse(&self.backend)
    }
    /// The executor.
    ///
    /// # Errors
    /// As [`Place::backend`].
    pub fn executor(&self) -> Result<&'static dyn Executor> {
        self.backend().map(common::executor)
    }
    /// The kernel with its changes.
    ///
    /// # Errors
    /// What the kernel's tables do not have, and changes to the running kernel.
    pub fn variant(&self) -> Result<Variant> {
        let backend = self.backend()?;
        let kernel = self.kernel.clone().unwrap_or_else(|| variants::default_kernel(backend));
        variants::of(&kernel, &self.feature, &self.tunable)
    }
    /// The cell of a workload under a variant.
    ///
    /// # Errors
    /// An unknown machine; a machine, kernel or change that the running kernel does not have.
    pub fn cell(&self, spec: Spec, variant: Variant) -> Result<Cell> {
        let load = load_name(&spec)?;
        match self.backend()? {
            Backend::Sim => {
                let machine = Machine::load(self.machine.as_deref().unwrap_or("host"))?;
                Cell::simulated(&Arc::new(machine), variant, spec, load)
            }
            Backend::Host => {
                let simulated = |what: &str| {
                    Error::input(format!("{what} is for the simulator, and this runs on the running kernel"))
                        .help("add --backend sim")
                };
                if let Some(machine) = &self.machine {
                    return Err(simulated(&format!("--machine {machine}")));
                }
                if variant.kernel != RUNNING || !variant.is_plain() {
                    return Err(simulated(&format!("the kernel '{}'", variant.name)));
                }
                Ok(Cell::live(&Arc::new(Machine::load("host")?), variant, spec, load))
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
        Spec::RtApp { .. } => "default".to_owned(),
    })
}

/// Adds a subcommand for each benchmark to a command.
pub fn with_benchmarks(command: Command, more: impl Fn(&Benchmark) -> Vec<Arg>) -> Command {
    let one = |b: &&'static Benchmark| {
        Command::new(b.name)
            .about(b.about)
            .args(b.params.iter().map(option))
            .args(more(b))
            .after_help("Times take ns, us, ms, s or m.")
    };
    command
        .subcommand_value_name("WORKLOAD")
        .subcommand_help_heading("Workloads")
        .disable_help_subcommand(true)
        .subcommands(BENCHMARKS.iter().map(one))
}

/// The option a row of a benchmark's table stands for. Values are read by the row itself, so that command line and TOML
/// agree in all they accept.
fn option(p: &Param) -> Arg {
    let value = |v: u64| match p.kind {
        ParamKind::Time(_) => Ns(v).to_string(),
        ParamKind::Count | ParamKind::Flag => v.to_string(),
    };
    let unit = match p.kind {
        ParamKind::Time(unit) => format!("; a bare number is {unit}"),
        ParamKind::Count | ParamKind::Flag => String::new(),
    };
    let default = p.default.map_or_else(String::new, |d| format!(" [default: {}]", value(d)));
    let arg = Arg::new(p.name).long(p.name.replace('_', "-")).help_heading(HEADING);
    let arg = match p.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    match p.kind {
        ParamKind::Flag => arg.action(ArgAction::SetTrue).help(p.about),
        kind => arg
            .value_name(if kind == ParamKind::Count { "N" } else { "TIME" })
            .allow_negative_numbers(true)
            .help(format!("{}{unit}{default}", p.about)),
    }
}

/// The benchmark that was chosen and the arguments of its subcommand; `None` when none was.
///
/// # Errors
/// A benchmark that is none (clap lets none through).
pub fn chosen(matches: &ArgMatches) -> Result<Option<(&'static Benchmark, &ArgMatches)>> {
    matches.subcommand().map(|(name, own)| Ok((spec::find(name)?, own))).transpose()
}

/// The workload that a benchmark's options describe.
///
/// # Errors
/// A value that is none or out of its range, and values that do not fit together.
pub fn described(bench: &Benchmark, matches: &ArgMatches) -> Result<Spec> {
    let mut params = Params::default();
    for p in bench.params {
        let text = match p.kind {
            ParamKind::Flag => matches.get_flag(p.name).then(|| "true".to_owned()),
            ParamKind::Count | ParamKind::Time(_) => matches.get_one::<String>(p.name).cloned(),
        };
        if let Some(text) = text {
            let value = p.parse(&text).map_err(|e| e.context(format!("--{}", p.name.replace('_', "-"))))?;
            params.0.insert(p.name.to_owned(), value);
        }
    }
    Spec::bench(bench.name, &params)
}

/// The workload in a file that was named instead of a benchmark.
///
/// # Errors
/// A name that is neither, and what is wrong in the file.
pub fn in_file(name: &str) -> Result<Spec> {
    let path = Path::new(name);
    if path.extension().is_some_and(|e| e == "json") || path.is_file() {
        return Spec::rtapp_file(path);
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
            described(bench, own)
        };
        let Spec::Bench { params, .. } = parse(&["bench", "schbench", "-m", "1", "-c", "500"]).unwrap()
        else {
            panic!("schbench is a benchmark");
        };
        assert_eq!((params.0["message_threads"], params.0["cputime"]), (1, 500_000), "-c takes us");
        let e = parse(&["bench", "schbench", "--threads", "0"]).unwrap_err();
        assert!(e.to_string().starts_with("--threads: threads = 0 is out of range"), "{e}");
    }
}
