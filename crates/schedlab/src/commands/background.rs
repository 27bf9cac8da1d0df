//! `schedlab machine background`: what this machine runs by itself while it is idle, as a table and as a file that any
//! machine can name.

use crate::{common, interrupt, output};
use clap::{Args, Command, FromArgMatches};
use schedlab_analyse::background::{Group, ThreadKind, file, groups};
use schedlab_base::{Error, Ns, Result, Warning, printable, temp};
use schedlab_native::tracepoints::background::{Watched, watch};
use schedlab_record::environment;
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name of a background that is written to no file.
const NAMELESS: &str = "background";
/// The sentence about measurements under a hypervisor.
const NOT_A_SERVER: &str = "This is a virtual machine. Its background is not a server's: it has fewer devices and \
                            daemons, and the hypervisor's share of each stay is in the run times.";

#[derive(Args)]
struct BackgroundArgs {
    /// How long the machine is watched
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Leave processes out of the file, and keep the kernel's threads
    #[arg(long)]
    kernel_only: bool,
    /// The file (.toml) that machines can name: background = "FILE" in a machine's file, or --background FILE
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

pub fn command() -> Command {
    BackgroundArgs::augment_args(Command::new("background"))
        .about("Measure what this machine runs by itself while it is idle: kernel threads and processes")
        .after_help(
            "It records every switch and wakeup through the kernel's tracepoints, and takes root or CAP_PERFMON. Keep \
             the machine idle meanwhile.",
        )
}

/// Measures, prints and writes.
///
/// # Errors
/// When events can't be recorded here, after Ctrl-C, and when the file can't be written.
pub fn run(matches: &clap::ArgMatches) -> Result<()> {
    let args = BackgroundArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(path) = &args.output {
        check(path)?;
    }
    let stop = interrupt::stop_flag()?;
    output::note(&format!("watching this machine for {} s; keep it idle", args.seconds));
    let watched = watch(Ns::secs(args.seconds), stop)?;
    let result = Measured::of(&watched);
    if watched.lost > 0 {
        let text = format!(
            "{} {} lost after {}: only what came before counts",
            schedlab_base::counted(watched.lost, "event"),
            schedlab_base::one_or(watched.lost, "was", "were"),
            watched.window
        );
        common::warn(&[Warning::new("events.lost", text)]);
    }
    let stem = args.output.as_deref().and_then(Path::file_stem).map(|s| s.to_string_lossy().into_owned());
    let name = printable::name(stem.as_deref().unwrap_or(NAMELESS)).into_owned();
    let about = result.about();
    let named = (name.as_str(), about.as_str());
    let (rows, left_out) = file(named, &result.groups, result.cpus, result.window, args.kernel_only);
    if let Some(path) = &args.output {
        temp::write_whole(path, rows.text(&result.comment()).as_bytes())?;
        output::note(&format!(
            "{} {} in {}",
            schedlab_base::counted(rows.rows.len(), "row"),
            schedlab_base::one_or(rows.rows.len(), "is", "are"),
            path.display()
        ));
    }
    if args.json {
        let left_out: Vec<_> =
            left_out.iter().map(|(name, why)| json!({ "name": name, "why": why })).collect();
        return output::json_as(
            "schedlab/background/1",
            &json!({
                "window_ns": result.window, "cpus": result.cpus, "kernel": result.kernel,
                "virtual": result.is_virtual, "lost": watched.lost, "groups": result.groups,
                "left_out": left_out,
            }),
        );
    }
    output::result(|out| result.table(&left_out, out))
}

/// Checks the file's name and place before the recording.
fn check(path: &Path) -> Result<()> {
    if path.extension().is_none_or(|e| e != "toml") {
        let what = format!("--output {}: machines name a file that ends in .toml", path.display());
        return Err(Error::input(what).help(format!("--output {}", path.with_extension("toml").display())));
    }
    temp::check_place(path).map_err(|e| e.context("--output"))
}

/// The groups, and where they were measured.
struct Measured {
    groups: Vec<Group>,
    cpus: usize,
    window: Ns,
    kernel: String,
    /// Whether it runs under a hypervisor; `None` where the CPU does not report it.
    is_virtual: Option<bool>,
}

impl Measured {
    fn of(watched: &Watched) -> Measured {
        let kernel =
            common::running_kernel().map_or_else(|| "an unknown kernel".to_owned(), |v| v.to_string());
        let hypervisor = environment::capture().remove("cpu.hypervisor");
        Measured {
            groups: groups(&watched.threads, watched.cpus, watched.window),
            cpus: watched.cpus,
            window: watched.window,
            kernel,
            is_virtual: hypervisor.map(|word| word == "yes"),
        }
    }
    fn about(&self) -> String {
        let kind = if self.is_virtual == Some(true) { "a hypervisor's guest" } else { "a machine" };
        format!(
            "{kind} with {}, kernel {}, watched for {}",
            schedlab_base::counted(self.cpus, "CPU"),
            self.kernel,
            self.window
        )
    }
    /// The lines above the file.
    fn comment(&self) -> String {
        let what = "Measured by 'schedlab machine background'. Rows are mean gaps and mean run times; the simulator\n\
                    draws both from exponential distributions.";
        match self.is_virtual {
            Some(true) => format!("{what}\n{}", schedlab_report::text::wrap("", NOT_A_SERVER).trim_end()),
            _ => what.to_owned(),
        }
    }
    fn table(&self, left_out: &[(String, &str)], out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}\n", self.about())?;
        writeln!(
            out,
            "{:<20} {:<4} {:>7} {:>9} {:>8} {:>8}  {:<8} {:>6}",
            "group", "per", "threads", "wakeups/s", "run p50", "run p90", "gaps", "CPU %"
        )?;
        for g in &self.groups {
            let time =
                |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| Ns(ns.round() as u64).to_string());
            let per = if g.per_cpu { "CPU" } else { "one" };
            let name =
                if g.kind == ThreadKind::User { format!("process {}", g.name) } else { g.name.clone() };
            writeln!(
                out,
                "{:<20} {per:<4} {:>7} {:>9.2} {:>8} {:>8}  {:<8} {:>6}",
                name.chars().take(20).collect::<String>(),
                g.threads,
                g.per_second,
                time(g.run.p50),
                time(g.run.p90),
                g.shape.name(),
                percent(g.cpu_pct)
            )?;
        }
        writeln!(out, "\nper CPU: wakeups/s are of each CPU. CPU %: of one CPU, all threads together.")?;
        for (name, why) in left_out {
            writeln!(out, "not in a file: {name} ({why})")?;
        }
        if self.is_virtual == Some(true) {
            write!(out, "{}", schedlab_report::text::wrap("", NOT_A_SERVER))?;
        }
        Ok(())
    }
}

/// A share in at most six columns: a busy machine of many CPUs has thousands of percent.
fn percent(share: f64) -> String {
    if share < 100.0 { format!("{share:.2}") } else { format!("{share:.0}") }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_busy_machines_share_keeps_to_its_column() {
        assert_eq!(percent(0.034), "0.03");
        for share in [0.0, 99.994, 99.999, 108.73, 12_800.5] {
            assert!(percent(share).len() <= 6, "{share}: {}", percent(share));
        }
    }
}
