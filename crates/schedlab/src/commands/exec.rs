//! `schedlab exec`: runs a command and its children, or changes a live process, under a policy, nice value, slice, CPUs
//! and settings.

use crate::cli::Entry;
use crate::{interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{CpuSet, Error, Ns, Result};
use schedlab_kernel::policy::SLICES;
use schedlab_kernel::variant::SLICES_SINCE;
use schedlab_kernel::{AttrChange, Policy};
use schedlab_native::exec::{self, Attributes, Supervisor};
use schedlab_native::settings::{self, Plan};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub const ENTRY: Entry = Entry { command, run };

/// Interval of the checks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Args)]
struct ExecArgs {
    /// Scheduling policy: other, batch, idle, fifo or rr
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Nice value
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(i8).range(-20..=19))]
    nice: Option<i8>,
    /// Slice to ask for, 100us to 100ms (6.12 and later)
    #[arg(long, value_name = "TIME")]
    slice: Option<String>,
    /// Priority under fifo and rr
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: Option<u8>,
    /// CPUs that may be used, e.g. 0,2-3
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// A setting of the system for that time (docs/live.md); may be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// A live process with all its threads, instead of a command
    #[arg(long, value_name = "PID", conflicts_with = "words", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// With --pid: also all its descendants
    #[arg(long)]
    children: bool,
    /// With --pid: put everything back after that time, or at Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// Print what was done
    #[arg(long, short)]
    verbose: bool,
    /// The command
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

fn command() -> Command {
    ExecArgs::augment_args(Command::new("exec"))
        .about("Run a command, or change a live process, under a policy, nice value, slice, CPUs or settings")
        .override_usage("schedlab exec [OPTIONS] -- COMMAND...\n       schedlab exec [OPTIONS] --pid PID")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = ExecArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    // clap's `requires` does not ask for --pid when the command, which excludes it, is given.
    if args.pid.is_none() && (args.children || args.length.is_some()) {
        let option = if args.children { "--children" } else { "--for" };
        return Err(Error::input(format!("{option} needs --pid")).help(
            "leave it out: a command's children inherit its attributes, and a command ends by itself",
        ));
    }
    let attributes = attributes(&args)?;
    let pairs = args.set.iter().map(|text| pair(text)).collect::<Result<Vec<_>>>()?;
    match args.pid {
        Some(pid) => live(&args, pid, &attributes, &pairs),
        None if args.words.is_empty() => {
            Err(Error::input("no command and no --pid").help("schedlab exec --policy batch -- make"))
        }
        None if pairs.is_empty() => {
            say(&args, &format!("this process becomes {}", args.words.join(" ")));
            Err(exec::replace(&args.words, &attributes))
        }
        None => with_settings(&args, &attributes, &pairs),
    }
}

fn say(args: &ExecArgs, text: &str) {
    if args.verbose {
        output::note(text);
    }
}

fn attributes(args: &ExecArgs) -> Result<Attributes> {
    let policy = args.policy.as_deref().map(Policy::parse).transpose().map_err(|e| e.context("--policy"))?;
    let slice =
        args.slice.as_deref().map(|t| Ns::parse(t, "")).transpose().map_err(|e| e.context("--slice"))?;
    if let Some(slice) = slice.filter(|s| !SLICES.contains(s)) {
        let text = format!("--slice: {slice} is not {} to {}", SLICES.start(), SLICES.end());
        return Err(Error::input(text));
    }
    if let (Some(policy), Some(_)) = (policy.filter(|p| !p.is_fair()), slice) {
        return Err(Error::input(format!("--slice: tasks of policy {policy} have no slice")));
    }
    if args.priority.is_some() && policy.is_none_or(Policy::is_fair) {
        return Err(
            Error::input("--priority needs the policy fifo or rr").help("write --policy fifo --priority 5")
        );
    }
    let cpus = args.cpus.as_deref().map(CpuSet::parse).transpose().map_err(|e| e.context("--cpus"))?;
    if cpus.as_ref().is_some_and(CpuSet::is_empty) {
        return Err(Error::input("--cpus: no CPU is named").help("write CPU lists as 0-3,8,10-11"));
    }
    if slice.is_some() {
        note_old_kernels(args);
    }
    let change = AttrChange { policy, nice: args.nice, slice };
    Ok(Attributes { change, priority: args.priority, cpus })
}

fn note_old_kernels(args: &ExecArgs) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = schedlab_base::Version::parse(text.trim());
    if version.is_ok_and(|v| v < SLICES_SINCE) {
        output::note(&format!("warning: this kernel ignores --slice, which needs {SLICES_SINCE} or later"));
    }
    say(args, "the slice is asked for with sched_setattr");
}

fn pair(text: &str) -> Result<(String, String)> {
    let parts = text.rsplit_once('=').filter(|(name, _)| name.starts_with(settings::FILE_PREFIX));
    let (name, value) = parts.or_else(|| text.split_once('=')).ok_or_else(|| {
        Error::input(format!("--set: '{text}' is not NAME=VALUE")).help("--set autogroup=0")
    })?;
    settings::check(name, value).map_err(|e| e.context("--set"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Applies the settings, and reports them and the settings of killed runs that were put back before.
fn apply(args: &ExecArgs, pairs: &[(String, String)]) -> Result<settings::Applied> {
    let applied = Plan::of_pairs(pairs)?.apply()?;
    applied.recovered.iter().for_each(|r| output::note(&format!("left by a killed run: {}", r.said)));
    applied.told.iter().for_each(|(name, value)| say(args, &format!("{name} = {value}")));
    Ok(applied)
}

fn with_settings(args: &ExecArgs, attributes: &Attributes, pairs: &[(String, String)]) -> Result<()> {
    let supervisor = Supervisor::new()?;
    let applied = apply(args, pairs)?;
    let ended = supervisor.run(&args.words, attributes);
    applied.put_back().iter().for_each(|w| output::note(&format!("warning: {}", w.message)));
    let code = ended?;
    say(args, &format!("exit code {code}; the settings are back"));
    std::process::exit(code)
}

fn live(args: &ExecArgs, pid: u32, attributes: &Attributes, pairs: &[(String, String)]) -> Result<()> {
    let parse = |t: &str| Ns::parse(t, "s").map_err(|e| e.context("--for"));
    let length = args.length.as_deref().map(parse).transpose()?;
    if attributes.is_empty() && pairs.is_empty() {
        return Err(Error::input("nothing is to be changed").help("give --policy, --nice, --slice or --cpus"));
    }
    if !pairs.is_empty() && length.is_none() {
        return Err(Error::input("--set with --pid needs --for").help("--for 10s says how long it holds"));
    }
    let stop = interrupt::stop_flag()?;
    let _applied = if pairs.is_empty() { None } else { Some(apply(args, pairs)?) };
    let changed = exec::change_live(pid, args.children, attributes)?;
    let (threads, processes) = changed.counts();
    let counted = format!(
        "{} of {}",
        schedlab_base::counted(threads, "thread"),
        schedlab_base::counted(processes, "process")
    );
    let Some(length) = length else {
        output::note(&format!(
            "{counted} changed for good: their old attributes are not kept (with --for they are put back)"
        ));
        return Ok(());
    };
    say(args, &format!("{counted} changed for {length}"));
    let (began, wanted) = (Instant::now(), Duration::from_nanos(length.0));
    while began.elapsed() < wanted && !stop.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK_EVERY.min(wanted.saturating_sub(began.elapsed())));
    }
    match changed.put_back() {
        0 => say(args, "put back"),
        n => output::note(&format!(
            "warning: {} could not be put back; raising a priority needs CAP_SYS_NICE",
            schedlab_base::counted(n, "thread")
        )),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_may_have_an_equals_sign() {
        assert_eq!(pair("file:/a=b/c=7").unwrap(), ("file:/a=b/c".to_owned(), "7".to_owned()));
        assert_eq!(pair("autogroup=0").unwrap(), ("autogroup".to_owned(), "0".to_owned()));
        assert!(
            pair("autogroup").is_err() && pair("autogrup=1").unwrap_err().to_string().contains("'autogroup'")
        );
    }
}
