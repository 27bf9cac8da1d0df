//! `schedlab machine probe`: what steps, caches and moves cost on this machine; kept for the machine `host`, and
//! written as a machine file.

use crate::progress::Bar;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result, printable, temp};
use schedlab_kernel::DEFAULT_PROFILE;
use schedlab_machine::Machine;
use schedlab_machine::migration::Overrides;
use schedlab_machine::probed::Probed;
use schedlab_native::probe::migration::{Ask, Calibration, Step, calibrate, host_distances};
use schedlab_native::probe::{self, Effort};
use schedlab_report::text::wrap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

#[derive(Args)]
struct Own {
    /// Write a machine file (.toml) with all that was measured, so that --machine FILE simulates this machine
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Measure the cost of moves by distance, too (as 'schedlab migration-cost'), about a minute more
    #[arg(long)]
    migration: bool,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// The subcommand.
pub fn command() -> Command {
    Own::augment_args(Command::new("probe"))
        .about("Measure what steps cost here, and give these costs to the machine 'host' from then on")
        .after_help("It takes under a minute without --migration, no privilege, and needs a quiet machine.")
}

/// Measures, keeps, prints and writes.
///
/// # Errors
/// With fewer than two CPUs, after Ctrl-C, and when a file can't be written.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(file) = &own.write {
        check(file)?;
        // An irregular topology is refused before the work.
        written(&Probed::here(Vec::new()), None, file)?;
    }
    let probed = probe::measure(Effort::FULL)?;
    let moves = if own.migration { Some(moves(own.quiet)?) } else { None };
    if !own.quiet {
        tell_load();
    }
    let kept = probed.keep()?;
    if let Some(file) = &own.write {
        temp::write_whole(file, written(&probed, moves.as_ref(), file)?.as_bytes())?;
    }
    if own.json {
        let moves = serde_json::json!({ "probe": probed, "migration": moves });
        return if own.migration {
            output::json_as("schedlab/probe-migration/1", &moves)
        } else {
            output::json_as("schedlab/probe/1", &probed)
        };
    }
    show(&probed, moves.as_ref())?;
    if own.quiet {
        return Ok(());
    }
    output::note(&format!("kept in {}; 'schedlab machine host' shows the machine", kept.display()));
    if let Some(file) = &own.write {
        output::note(&format!("written to {0}; --machine {0} simulates it", file.display()));
    }
    Ok(())
}

/// A note where other programs have kept the CPUs busy: the costs are not the machine's then.
fn tell_load() {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    // The probe's own two threads make a load of nearly two.
    if load > common::cpus().max(2) as f64 + 0.5 {
        let told = format!(
            "warning: a load of {load} tasks: other programs ran meanwhile, so the costs are too high"
        );
        output::note(&told);
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
        "{} CPUs of {}",
        host.topology.nr_cpus(),
        if probed.model.is_empty() { "no known model" } else { &probed.model }
    );
    let comment = format!("Written by 'schedlab machine probe' under Linux {}.", probed.release);
    host.text(&name, &comment)
}
