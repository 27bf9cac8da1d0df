//! `schedlab doctor --noise`: makes A/A runs and stores the noise floors.

use crate::interrupt;
use crate::output;
use crate::progress::Bar;
use schedlab_base::{Error, ErrorKind, Result, utc};
use schedlab_compare::noise::{Floor, Floors};
use schedlab_lab::ask::state;
use schedlab_lab::judge::noise_floor;
use schedlab_lab::{Backends, Session};
use schedlab_record::Record;
use schedlab_report::text::wrap;
use std::io::Write;
use std::time::SystemTime;

/// The prefix of warning codes about other users of the machine.
const DISTURBED: &str = "host.";

/// The stored floors; empty without a state folder. A folder that can't be read is a warning.
///
/// # Errors
/// When the file is torn or holds something else.
pub fn stored() -> Result<Floors> {
    state::noise_floors(&output::note)
}

/// Makes the runs, stores and prints the floors.
///
/// # Errors
/// For an unknown workload, a run that fails, an interruption, or a full disk.
pub fn measure(workloads: &[String], runs: u64, json: bool, quiet: bool) -> Result<()> {
    let usual = || noise_floor::SHORT.iter().map(|(name, _)| (*name).to_owned()).collect();
    let names = if workloads.is_empty() { usual() } else { workloads.to_vec() };
    let plan = noise_floor::plan(&names, runs)?;
    let (path, mut floors) = (state::noise_file()?, stored()?);
    let stop = interrupt::stop_flag()?;
    let bar = Bar::runs(quiet);
    let backends = Backends::default();
    let session = Session { progress: &bar, ..Session::of(&backends, stop) };
    let finished = session.work(&plan)?;
    drop(bar);
    if finished.interrupted {
        return Err(Error::new(ErrorKind::CheckFailed, "interrupted: the noise floor is as it was before"));
    }
    let disturbed = |r: &&Record| r.found.warnings.iter().any(|w| w.code.starts_with(DISTURBED));
    let n = finished.records.iter().filter(disturbed).count();
    if n > 0 && !quiet {
        let all = finished.records.len();
        output::note(&format!(
            "warning: other work used the machine in {n} of {}, so the floors are higher than they need be; \
             measure them again when it is quiet, or with more --runs",
            schedlab_base::counted(all, "run")
        ));
    }
    let new = noise_floor::floors(&finished.records, &utc::minute(utc::since_1970_s(SystemTime::now())))?;
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
    let text = "Two groups of runs of the same workload are compared. The floor is the end of the 95 % interval \
                that lies farther from 0, the change is the estimate. Comparisons on this host take the floor as the \
                minimum effect where it is larger.";
    write!(out, "{}", wrap("", text))
}
