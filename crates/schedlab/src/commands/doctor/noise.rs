//! `schedlab doctor --noise`: A/A runs, and the floors that stay.

use crate::interrupt;
use crate::output;
use crate::progress::Bar;
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_lab::noise::{self, FILE, Floor, Floors};
use schedlab_lab::{Host, Session};
use schedlab_native::settings::journal;
use schedlab_record::Record;
use schedlab_report::text::wrap;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

/// What the codes of warnings about other users of the machine begin with.
const DISTURBED: &str = "host.";

/// The floors of this machine's users: where they are.
///
/// # Errors
/// When the environment names no folder.
pub fn file() -> Result<PathBuf> {
    Ok(journal::state_folder()?.join(FILE))
}

/// What is stored; without a folder for it there is nothing.
///
/// # Errors
/// A file that is torn or of something else.
pub fn stored() -> Result<Floors> {
    file().map_or_else(|_| Ok(Floors::default()), |path| Floors::load(&path))
}

/// Makes the runs, stores and prints the floors.
///
/// # Errors
/// An unknown workload, a run that fails, an interruption, or a full disk.
pub fn measure(workloads: &[String], runs: u64, json: bool, quiet: bool) -> Result<()> {
    let usual = || noise::SHORT.iter().map(|(name, _)| (*name).to_owned()).collect();
    let names = if workloads.is_empty() { usual() } else { workloads.to_vec() };
    let plan = noise::plan(&names, runs)?;
    let (path, mut floors) = (file()?, stored()?);
    let stop = interrupt::stop_flag()?;
    let bar = Bar::runs(quiet);
    let session = Session { executor: &Host, store: None, attach: &[], jobs: 1, progress: &bar, stop };
    let finished = session.work(&plan)?;
    drop(bar);
    if finished.interrupted {
        return Err(Error::new(ErrorKind::CheckFailed, "interrupted: the noise floor is as it was before"));
    }
    let disturbed = |r: &&Record| r.warnings.iter().any(|w| w.code.starts_with(DISTURBED));
    let n = finished.records.iter().filter(disturbed).count();
    if n > 0 && !quiet {
        let all = finished.records.len();
        output::note(&format!(
            "warning: something else used the machine in {n} of {all} runs: the floors are higher than they need be; \
             make them again when it is quiet, or with more --runs"
        ));
    }
    let new = noise::floors(&finished.records, &minute(since_1970_s()))?;
    floors.renew(new.clone());
    floors.store(&path)?;
    if json {
        return output::json_as("schedlab/noise/1", &serde_json::json!({ "floors": new }));
    }
    output::result(|out| print(&new, out))?;
    output::note(&format!("kept in {}", path.display()));
    Ok(())
}

/// The floors as a table.
pub fn print(floors: &[Floor], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{:<12} {:<30} {:>8} {:>8}  measured (UTC)", "workload", "metric", "floor", "change")?;
    for f in floors {
        let (floor, change) = (format!("{:.1}%", f.floor_pct), format!("{:.1}%", f.change_pct));
        writeln!(out, "{:<12} {:<30} {floor:>8} {change:>8}  {}", f.workload, f.metric, f.at)?;
    }
    let text = "Two groups of runs of the same thing, compared: floor is the end of the 95 % interval that lies \
                farther from 0, change the estimate. Comparisons on this host take the floor for the minimum effect \
                where it is larger.";
    write!(out, "{}", wrap("", text))
}

fn since_1970_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// "2026-11-22 06:10" of seconds since 1970, UTC. Years are counted from March, so that the leap day ends them.
fn minute(since_1970_s: u64) -> String {
    let (days, s) = (since_1970_s / 86_400, since_1970_s % 86_400);
    // Days since 1 March of the year 0; 400 years have 146,097 of them.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (of_month, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{of_month:02} {:02}:{:02}", s / 3_600, s % 3_600 / 60)
}

#[cfg(test)]
mod tests {
    use super::minute;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (s, date) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_251_199, "2024-02-29 23:59"),
            (1_795_327_800, "2026-11-22 06:10"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(minute(s), date);
        }
    }
}
