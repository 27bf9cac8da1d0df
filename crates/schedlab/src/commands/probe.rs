//! `schedlab machine probe`: measures steps, caches and moves on this machine; keeps the costs for the machine `host`,
//! and writes them as a machine file.

use crate::progress::Bar;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result, printable, temp};
use schedlab_kernel::DEFAULT_PROFILE;
use schedlab_machine::Machine;
use schedlab_machine::migration::Calibration;
use schedlab_machine::migration::Overrides;
use schedlab_machine::probed::Probed;
use schedlab_native::probe::migration::{Ask, Step, calibrate, host_distances};
use schedlab_native::probe::{self, Effort};
use schedlab_report::text::wrap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

#[derive(Args)]
struct ProbeArgs {
    /// Write a machine file (.toml) with all that was measured, so that --machine FILE simulates this machine
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Measure the cost of moves by distance, too (as 'schedlab migration-cost'), about a minute more
    #[arg(long)]
    migration: bool,
    /// Keep and write the costs also where other programs kept the CPUs busy meanwhile: they are too high then
    #[arg(long)]
    even_if_busy: bool,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub fn command() -> Command {
    ProbeArgs::augment_args(Command::new("probe"))
        .about("Measure what steps cost here, and give these costs to the machine 'host' from then on")
        .after_help("It takes under a minute without --migration, no privilege, and needs a quiet machine.")
}

/// Measures, keeps, prints and writes.
///
/// # Errors
/// With fewer than two CPUs, after Ctrl-C, and when a file can't be written.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let args = ProbeArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(file) = &args.write {
        check(file)?;
        // Values that no file can hold are refused before the work.
        written(&Probed::here(Vec::new()), None, file)?;
    }
    let before = Busy::now();
    let probed = probe::measure(Effort::FULL)?;
    let moves = if args.migration { Some(moves(args.quiet)?) } else { None };
    if let Some(others_pct) = Busy::now().zip(before).and_then(|(now, before)| now.others_pct(before)) {
        busy(&args, others_pct)?;
    }
    let kept = probed.keep()?;
    if let Some(file) = &args.write {
        temp::write_whole(file, written(&probed, moves.as_ref(), file)?.as_bytes())?;
    }
    if args.json {
        let moves = serde_json::json!({ "probe": probed, "migration": moves });
        return if args.migration {
            output::json_as("schedlab/probe-migration/1", &moves)
        } else {
            output::json_as("schedlab/probe/1", &probed)
        };
    }
    show(&probed, moves.as_ref())?;
    if args.quiet {
        return Ok(());
    }
    output::note(&format!("kept in {}; 'schedlab machine host' shows the machine", kept.display()));
    if let Some(file) = &args.write {
        output::note(&format!("written to {0}; --machine {0} simulates it", file.display()));
    }
    Ok(())
}

/// Refuses to keep costs measured while other programs ran: all later simulations of this machine would use them.
fn busy(args: &ProbeArgs, others_pct: f64) -> Result<()> {
    if others_pct <= MOST_OTHERS_PCT {
        return Ok(());
    }
    let disturbed =
        format!("other programs had {others_pct:.0}% of the CPUs meanwhile, so the costs are too high");
    if args.even_if_busy {
        output::note(&format!("warning: {disturbed}"));
        return Ok(());
    }
    Err(Error::machine(format!("{disturbed}: nothing is kept"))
        .help("measure again when the machine is quiet; --even-if-busy keeps them all the same"))
}

/// Other programs may have this share of all CPUs, per cent.
const MOST_OTHERS_PCT: f64 = 10.0;

/// CPU time so far, in ticks of 10 ms: used on this machine (with the time its hypervisor took), used by this process
/// with its children, and available.
#[derive(Clone, Copy)]
struct Busy {
    all: u64,
    own: u64,
    there_was: u64,
}

impl Busy {
    /// `None` if the kernel does not report it.
    fn now() -> Option<Busy> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let (stat, of_self) = (read("/proc/stat")?, read("/proc/self/stat")?);
        let first = stat.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; the rest is in the first two.
        let ticks: Vec<u64> = first.split_whitespace().take(8).map(|n| n.parse().unwrap_or(0)).collect();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let there_was: u64 = ticks.iter().sum();
        // utime, stime, cutime and cstime, after a name that may hold blanks.
        let fields = of_self.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
        let own = fields.map(|n| n.parse::<u64>().unwrap_or(0)).sum();
        Some(Busy { all: there_was - idle, own, there_was })
    }
    /// The share of the CPUs that other processes have used since then, per cent.
    fn others_pct(self, before: Busy) -> Option<f64> {
        let (all, own) = (self.all.checked_sub(before.all)?, self.own.saturating_sub(before.own));
        let there_was = self.there_was.checked_sub(before.there_was).filter(|n| *n > 0)?;
        Some(100.0 * all.saturating_sub(own) as f64 / there_was as f64)
    }
}

fn check(file: &Path) -> Result<()> {
    if file.extension().and_then(|e| e.to_str()) != Some("toml") {
        return Err(Error::input(format!("--write {}: a machine file ends in .toml", file.display())));
    }
    temp::check_place(file).map_err(|e| e.context("--write"))
}

fn show(probed: &Probed, moves: Option<&Calibration>) -> Result<()> {
    output::result(|out| {
        writeln!(out, "cost                      value  range            what was timed (ns)")?;
        for m in &probed.measured {
            let range = format!("{}..{}", m.range.0, m.range.1);
            write!(out, "{}", wrap(&format!("{:<22} {:>8}  {range:<15}  ", m.name, m.value), &m.how))?;
        }
        for cache in &probed.caches {
            writeln!(out, "cache L{}: {} KB, lines of {} B", cache.level, cache.size_kb, cache.line)?;
        }
        let entries = moves.iter().flat_map(|found| &found.matrix.entries);
        for entry in entries {
            writeln!(out, "cutoff of distance {}: {} ns", entry.distance, entry.cutoff_ns)?;
        }
        Ok(())
    })?;
    moves.iter().for_each(|found| common::warn(&found.warnings));
    Ok(())
}

/// The cost of moves by the distances of the running kernel.
fn moves(quiet: bool) -> Result<Calibration> {
    let stop = interrupt::stop_flag()?;
    let (host, distances) = host_distances(common::running_kernel().unwrap_or(DEFAULT_PROFILE))?;
    let bar = Bar::share(quiet);
    calibrate(&host, &distances, &Ask::default(), &mut |step| {
        if stop.load(Relaxed) {
            return Err(Error::new(ErrorKind::CheckFailed, "interrupted: nothing is kept"));
        }
        if let Step::Done(share, words) = step {
            bar.at(share, words);
        }
        Ok(())
    })
}

/// The text of this machine's file.
fn written(probed: &Probed, moves: Option<&Calibration>, file: &Path) -> Result<String> {
    let mut host: Machine = probed.host()?;
    if let Some(found) = moves {
        let last = found.matrix.entries.iter().map(|e| e.distance + 1).max().unwrap_or(0);
        // 0 would ask for a measurement.
        let us = |ns: u64| (ns / 1000).max(1);
        let of = |distance| found.matrix.cutoff_ns(distance).map_or(0, us);
        host.migration = Some(Overrides { cost_us: (0..last).map(of).collect(), ..Overrides::default() });
    }
    let stem = file.file_stem().map_or_else(|| "mine".into(), |s| s.to_string_lossy());
    let name = printable::name(&stem).into_owned();
    host.about = format!(
        "{} of {}",
        schedlab_base::counted(host.topology.nr_cpus(), "CPU"),
        if probed.model.is_empty() { "no known model" } else { &probed.model }
    );
    let comment = format!("Written by 'schedlab machine probe' under Linux {}.", probed.release);
    host.text(&name, &comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_others_is_neither_idle_nor_our_own() {
        let before = Busy { all: 100, own: 10, there_was: 1000 };
        let after = Busy { all: 180, own: 50, there_was: 1200 };
        assert_eq!(after.others_pct(before), Some(20.0));
        assert_eq!(before.others_pct(after), None);
        assert_eq!(before.others_pct(before), None, "no time has passed");
        assert!(Busy::now().is_some_and(|now| now.there_was >= now.all));
    }
}
