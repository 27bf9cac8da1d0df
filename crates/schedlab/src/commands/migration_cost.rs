//! `schedlab migration-cost`: the cost of moving a task on this machine, by distance (D003).

use super::migration_simulated::Simulated;
use crate::cli::Entry;
use crate::progress::Bar;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{CpuId, Error, ErrorKind, Result, Version, temp};
use schedlab_kernel::DEFAULT_PROFILE;
use schedlab_machine::migration::Calibration;
use schedlab_machine::migration::{Distances, Overrides, Pattern, parse_costs};
use schedlab_machine::sysfs::HOST;
use schedlab_machine::{Distance, Machine};
use schedlab_native::probe::migration::{Ahead, Ask, Step, calibrate, host_distances};
use schedlab_native::settings::{Access, Plan, System, survey};
use schedlab_report::migration as show;
use schedlab_report::plot::{PlotFile, heat::Heat};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

pub const ENTRY: Entry = Entry { command, run };

/// The setting that `--apply` changes.
const SETTING: &str = "migration_cost_ns";
/// The title of heat maps.
const TITLE: &str = "migration cost: how long a task is cache hot, ms";
/// Work that takes longer than this is announced, ns.
const LONG_NS: u64 = 20_000_000_000;

#[derive(Args)]
struct MigrationCostArgs {
    /// A machine with caches (a preset or a file): what the procedure would find there, simulated [default: this
    /// machine]
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["all_pairs", "apply"])]
    machine: Option<String>,
    /// Measure every pair of CPUs at the dearest size of its distance; otherwise one pair of each distance, and samples
    #[arg(long)]
    all_pairs: bool,
    /// Cutoffs by distance in place of measured ones, us; 0: measure
    #[arg(long, value_name = "A,B,C")]
    migration_cost: Option<String>,
    /// Per cent of the measured cutoffs that count [default: 100, with --machine its own]
    #[arg(long, value_name = "P")]
    migration_factor: Option<u64>,
    /// Order of touching: shuffled, or 2005 for the document's streams
    #[arg(long, value_name = "ORDER", default_value = "shuffled")]
    pattern: String,
    /// Largest working set, such as 8M [default: twice the largest cache]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Kernel whose domains are the distances [default: the running kernel, with --machine v6.5]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Draw a heat map of all pairs, too, as .svg or .png
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Propose a migration_cost for the running kernel; with --yes, set it
    #[arg(long)]
    apply: bool,
    /// Set what --apply proposes; 'schedlab restore' puts the old value back
    #[arg(long, requires = "apply")]
    yes: bool,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

impl MigrationCostArgs {
    /// The request for a machine with these overrides of its own.
    fn ask(&self, own: Overrides) -> Result<Ask> {
        let cost_us = self.migration_cost.as_deref().map(parse_costs).transpose()?;
        let overrides = own.with(cost_us.as_deref(), self.migration_factor);
        overrides.check()?;
        let words = || Pattern::NAMES.iter().map(|(name, _)| *name);
        let found = Pattern::NAMES.iter().find(|(name, _)| *name == self.pattern);
        let pattern = found
            .map(|(_, pattern)| *pattern)
            .ok_or_else(|| Error::unknown("pattern", &self.pattern, words()).context("--pattern"))?;
        let largest = self.size.as_deref().map(bytes).transpose()?;
        Ok(Ask { overrides, pattern, largest, all_pairs: self.all_pairs })
    }
    fn kernel(&self) -> Result<Version> {
        match &self.kernel {
            Some(text) => Version::parse(text),
            None if self.simulated().is_some() => Ok(DEFAULT_PROFILE),
            None => Ok(common::running_kernel().unwrap_or(DEFAULT_PROFILE)),
        }
    }
    /// The machine to simulate; `None` for this one.
    fn simulated(&self) -> Option<&str> {
        self.machine.as_deref().filter(|name| *name != HOST)
    }
}

/// Reads a size such as 512K, 8M, 8MB or 65536.
fn bytes(text: &str) -> Result<u64> {
    let trimmed = text.trim().trim_end_matches(['B', 'b', 'i']);
    let (digits, shift) = match trimmed.chars().last().map(|c| c.to_ascii_uppercase()) {
        Some('K') => (&trimmed[..trimmed.len() - 1], 10),
        Some('M') => (&trimmed[..trimmed.len() - 1], 20),
        Some('G') => (&trimmed[..trimmed.len() - 1], 30),
        _ => (trimmed, 0),
    };
    let number = digits.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    number.ok_or_else(|| {
        Error::input(format!("--size: '{text}' is not a size")).help("write 512K, 8M or bytes")
    })
}

fn command() -> Command {
    MigrationCostArgs::augment_args(Command::new("migration-cost"))
        .about("Measure what moving a task costs, by distance of CPUs and working set")
        .after_help(
            "It takes about a minute, and needs a quiet machine. A cutoff is twice the cost of a move: \
             a task that ran more recently is cache hot. docs/studies/migration-cost.md describes the procedure.",
        )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = MigrationCostArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(file) = &args.plot {
        common::check_plot(file)?;
    }
    if let Some(name) = args.simulated() {
        return simulate(&args, name);
    }
    let ask = args.ask(Overrides::default())?;
    let (host, distances) = host_distances(args.kernel()?)?;
    let found = measured(&args, &ask, &host, &distances)?;
    if let Some(file) = &args.plot {
        let drawn = heat(&found, &distances).plot(PlotFile::of(file)?)?;
        temp::write_whole(file, &drawn)?;
    }
    let proposal = args.apply.then(|| Proposal::of(&found, &host, &distances)).transpose()?;
    if args.json {
        let classes: Vec<_> = distances.classes.iter().map(|class| class.name).collect();
        let proposal =
            proposal.as_ref().map(|p| json!({ "setting": SETTING, "value_ns": p.value_ns, "now": p.now }));
        output::json_as(
            "schedlab/migration-cost/1",
            &json!({ "distance_names": classes, "calibration": found, "proposal": proposal }),
        )?;
    } else {
        output::result(|out| {
            show::text(&found, &distances, mhz(), out)?;
            proposal.as_ref().map_or(Ok(()), |p| p.print(args.yes, out))
        })?;
    }
    match proposal {
        Some(proposal) if args.yes => proposal.apply(),
        _ => Ok(()),
    }
}

/// Runs the procedure on a machine's simulated caches.
fn simulate(args: &MigrationCostArgs, name: &str) -> Result<()> {
    let machine = common::machine(name, None)?;
    let ask = args.ask(machine.migration.clone().unwrap_or_default())?;
    let found = Simulated::measure(machine, args.kernel()?, &ask)?;
    if let Some(file) = &args.plot {
        let (cpus, ms) = found.ms();
        let about = format!("{name}, simulated");
        let drawn = Heat { title: TITLE.into(), about, cpus, ms }.plot(PlotFile::of(file)?)?;
        temp::write_whole(file, &drawn)?;
    }
    if args.json { found.json() } else { found.print() }
}

/// Calibrates under a progress bar.
fn measured(
    args: &MigrationCostArgs,
    ask: &Ask,
    host: &Machine,
    distances: &Distances,
) -> Result<Calibration> {
    let stop = interrupt::stop_flag()?;
    let bar = Bar::share(args.quiet);
    let mut watch = |step: Step| {
        if stop.load(Relaxed) {
            return Err(Error::new(ErrorKind::CheckFailed, "interrupted: nothing is kept"));
        }
        match step {
            Step::Caches => bar.at(0, "looking for the size of the largest cache".into()),
            Step::Ahead(ahead) if !args.quiet => announce(&ahead, args.all_pairs),
            Step::Ahead(_) => {}
            Step::Done(share, words) => bar.at(share, words),
        }
        Ok(())
    };
    calibrate(host, distances, ask, &mut watch)
}

fn announce(ahead: &Ahead, all_pairs: bool) {
    if ahead.expected_ns < LONG_NS && !all_pairs {
        return;
    }
    let seconds = ahead.expected_ns.div_ceil(1_000_000_000);
    let time =
        if seconds > 600 { format!("{} minutes", seconds.div_ceil(60)) } else { format!("{seconds} s") };
    let curves = if ahead.curves == 1 { "1 distance" } else { &format!("{} distances", ahead.curves) };
    output::note(&format!("{curves} of {} sizes and {} other pairs: about {time}", ahead.sizes, ahead.pairs));
}

/// The clock of the first CPU by /proc/cpuinfo, MHz.
fn mhz() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("cpu MHz"))?;
    let text = line.split(':').nth(1)?.trim();
    text.split('.').next()?.parse().ok()
}

/// The cutoffs of all pairs, in the order of the topology.
fn heat(found: &Calibration, distances: &Distances) -> Heat {
    let ms = |a: u32, b: u32| {
        found.cutoff_ns(distances, CpuId(a), CpuId(b)).filter(|_| a != b).map(|ns| ns as f64 / 1e6)
    };
    let row = |a: &u32| found.order.iter().map(|b| ms(*a, *b)).collect();
    let os = |cpu: &u32| found.os_cpu.get(*cpu as usize).copied().unwrap_or(*cpu);
    Heat {
        title: TITLE.into(),
        about: format!("CPUs by package, node, cache and core; sets up to {} MB", found.largest >> 20),
        cpus: found.order.iter().map(os).collect(),
        ms: found.order.iter().map(row).collect(),
    }
}

/// A value for the running kernel.
struct Proposal {
    value_ns: u64,
    distance: usize,
    name: &'static str,
    now: Option<String>,
    /// Why it can't be set here.
    hindrance: Option<String>,
}

impl Proposal {
    /// The cutoff of the farthest distance within a last-level cache, or of the nearest beyond it where none is within.
    fn of(found: &Calibration, host: &Machine, distances: &Distances) -> Result<Proposal> {
        let apart =
            |distance: usize| distances.pairs(distance).first().map(|(a, b)| host.topology.distance(*a, *b));
        let known = || found.matrix.entries.iter().map(|e| (apart(e.distance), e));
        let within = known().rfind(|(apart, _)| *apart == Some(Distance::Llc));
        let beyond = known().find(|(apart, _)| *apart > Some(Distance::Llc));
        let Some((_, entry)) = within.or(beyond).filter(|(_, e)| e.cutoff_ns > 0) else {
            return Err(Error::machine("no distance has a cost from which a migration_cost would follow")
                .help("measure again on a quiet machine, or give one with --migration-cost"));
        };
        let seen = survey(&System::live()).into_iter().find(|s| s.name == SETTING);
        let hindrance = seen.as_ref().filter(|s| s.access != Access::Yes).and_then(|s| s.remedy.clone());
        let name = distances.classes[entry.distance].name;
        let now = seen.and_then(|s| s.now);
        Ok(Proposal { value_ns: entry.cutoff_ns, distance: entry.distance, name, now, hindrance })
    }
    fn print(&self, sets: bool, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        let now = self.now.as_deref().unwrap_or("unknown");
        writeln!(out, "\nproposal: {SETTING} = {} (now {now})", self.value_ns)?;
        let why = format!(
            "the cutoff of distance {} ({}): the kernel compares one value in all domains above siblings, and most moves are \
             made within a last-level cache, where a farther distance's cutoff would hold back cheap ones",
            self.distance, self.name
        );
        write!(out, "{}", schedlab_report::text::wrap("  ", &why))?;
        match &self.hindrance {
            Some(why) if !sets => {
                write!(out, "{}", schedlab_report::text::wrap("  it can't be set here: ", why))
            }
            _ if sets => Ok(()),
            _ => writeln!(out, "  --apply --yes sets it, and 'schedlab restore' puts the old value back"),
        }
    }
    fn apply(&self) -> Result<()> {
        let plan = Plan::of_pairs(&[(SETTING.to_owned(), self.value_ns.to_string())])?;
        for (setting, value) in plan.keep()? {
            output::note(&format!("{setting} = {value}; 'schedlab restore' puts the old value back"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let read = |text| bytes(text).ok();
        assert_eq!(read("8M"), Some(8 << 20));
        assert_eq!(read("512 KB"), Some(512 << 10));
        assert_eq!(read("65536"), Some(65536));
        assert_eq!(read("1GiB"), Some(1 << 30));
        assert_eq!((read("M"), read(""), read("8X"), read("99999999999G")), (None, None, None, None));
    }
}
