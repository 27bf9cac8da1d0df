//! A variant's changes of the live system: writes before the run, and timed writes during it.
//!
//! A variant's tunables mean the same as in the simulator: CFS's granularities and EEVDF's base slice are stated before
//! the kernel multiplies them for its CPUs. The kernel's files have the product, so they are multiplied here. Settings
//! are written unchanged. A tunable that is not in the table is a file of the running kernel.

use super::expand::{expand, place_of, refused};
use super::files::Files;
use super::form::Write;
use super::system::System;
use super::table::{FILE_PREFIX, SETTINGS, row};
use crate::settings::cgroups::Groups;
use schedlab_base::{CpuSet, Error, Ns, Result, Version};
use schedlab_kernel::tunable::{SCALED, TUNABLES};
use schedlab_kernel::{Tunables, Variant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Writes during a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Later {
    /// Counted from the end of the warm-up.
    pub time: Ns,
    pub writes: Vec<Write>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Writes before the run.
    pub writes: Vec<Write>,
    /// Writes before the run to files of control groups that the plan makes. These files disappear with the groups, so
    /// the journal does not have them.
    pub within: Vec<Write>,
    /// Writes during the run, in order of time.
    pub later: Vec<Later>,
}

impl Plan {
    /// A variant's changes of the running kernel on this machine.
    ///
    /// # Errors
    /// When a change is unknown, this machine lacks it, or this user may not make it. The error names the first such
    /// change and the variant.
    pub fn of(variant: &Variant) -> Result<Plan> {
        Plan::on(&System::live(), variant)
    }
    /// The changes of individually given settings.
    pub fn of_pairs(pairs: &[(String, String)]) -> Result<Plan> {
        let settings: BTreeMap<String, String> = pairs.iter().cloned().collect();
        Ok(Plan { writes: step(&System::live(), &[], &BTreeMap::new(), &settings)?, ..Plan::default() })
    }
    /// As [`Plan::of`], on other files.
    pub fn on(files: &dyn Files, variant: &Variant) -> Result<Plan> {
        let make = || {
            let writes = step(files, &variant.features, &variant.tunables, &variant.settings)?;
            let later = variant.at.iter().filter(|change| change.is_of_kernel()).map(|change| {
                let writes = step(files, &change.features, &change.tunables, &BTreeMap::new())?;
                Ok(Later { time: change.time, writes })
            });
            Ok(Plan { writes, later: later.collect::<Result<_>>()?, ..Plan::default() })
        };
        make().map_err(|e: Error| e.context(format!("variant '{}'", variant.name)))
    }
    /// Also makes a run's control groups, after the settings are changed.
    pub fn group(&mut self, groups: &Groups) {
        self.writes.extend(groups.kept.iter().cloned());
        self.within.extend(groups.within.iter().cloned());
    }
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.later.is_empty()
    }
    /// Every write that must be undone, in order of time.
    pub fn all(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().chain(self.later.iter().flat_map(|l| &l.writes))
    }
}

fn step(
    files: &dyn Files,
    features: &[String],
    tunables: &BTreeMap<String, u64>,
    settings: &BTreeMap<String, String>,
) -> Result<Vec<Write>> {
    let mut wanted: Vec<(String, String)> = Vec::new();
    if !features.is_empty() {
        wanted.push(("features".to_owned(), features.join(",")));
    }
    for (name, value) in tunables {
        wanted.push(live_tunable(files, name, *value)?);
    }
    wanted.extend(settings.iter().map(|(name, value)| (name.clone(), value.clone())));
    let rank = |name: &str| SETTINGS.iter().position(|r| r.name == name).unwrap_or(usize::MAX);
    wanted.sort_by_key(|(name, _)| if name.starts_with(FILE_PREFIX) { 0 } else { rank(name) });
    let mut writes: Vec<Write> = Vec::new();
    for (name, value) in wanted {
        for write in expand(files, &name, &value)? {
            match writes.iter().find(|w| w.same_knob(&write)) {
                Some(other) if other.value != write.value => {
                    return Err(Error::input(format!(
                        "setting '{name}' is given two values: {} and {}",
                        other.value, write.value
                    )));
                }
                Some(_) => {}
                None => writes.push(write),
            }
        }
    }
    Ok(writes)
}

/// The folders whose files are the kernel's own tunables.
const FOLDERS: [&str; 2] = ["/sys/kernel/debug/sched", "/proc/sys/kernel"];

/// The file of a tunable that is not in the table, as a setting.
fn file_of(files: &dyn Files, name: &str) -> Result<String> {
    let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_/".contains(&c);
    let unknown = || Error::unknown("tunable", name, TUNABLES.iter().map(|t| t.name));
    if name.starts_with('/') || !name.bytes().all(good) {
        return Err(unknown());
    }
    let paths = FOLDERS.map(|folder| files.place(&format!("{folder}/{name}")));
    let text = |path: &&PathBuf| files.read(path);
    // A file that only root can see may or may not exist.
    let hidden = |path: &&PathBuf| text(path).is_err_and(|e| e.kind() != ErrorKind::NotFound);
    let found = paths.iter().find(|path| text(path).is_ok()).or_else(|| paths.iter().find(hidden));
    match found {
        Some(path) => Ok(format!("{FILE_PREFIX}{}", path.display())),
        None if name.contains('/') => {
            let text =
                format!("this kernel has no tunable '{name}': no such file in {}", FOLDERS.join(" and "));
            Err(Error::machine(text))
        }
        None => Err(unknown()),
    }
}

/// Turns a tunable of the simulator into a setting of the live kernel.
fn live_tunable(files: &dyn Files, name: &str, value: u64) -> Result<(String, String)> {
    let Some(known) = TUNABLES.iter().find(|t| t.name == name) else {
        return Ok((file_of(files, name)?, value.to_string()));
    };
    if !(known.range.0..=known.range.1).contains(&value) {
        return Err(Error::input(format!("{name} = {value} is out of range"))
            .help(format!("it takes {}", known.takes())));
    }
    if row(name).is_err() {
        let why = match name {
            "hz" => "the tick is compiled in (CONFIG_HZ)",
            "scale_by_cpus" => {
                "the live kernel has the setting tunable_scaling instead, whose numbers mean something else"
            }
            "timer_slack_ns" => "slack belongs to each task, not to the kernel",
            _ => "only the simulator has it",
        };
        return Err(Error::machine(format!("tunable '{name}' can't be set on a live kernel: {why}"))
            .help("leave it out of variants of the running kernel, or use --backend sim"));
    }
    if !known.words().is_empty() {
        return Ok((name.to_owned(), known.text(value)));
    }
    let factor = if SCALED.contains(&name) { factor(files)? } else { 1 };
    Ok((name.to_owned(), value.saturating_mul(factor).to_string()))
}

/// The factor by which this kernel multiplies slices for its CPUs (`sched_tunable_scaling`, 2.6.33). Older kernels
/// always use the logarithm; before 2.6.32, of all CPUs.
fn factor(files: &dyn Files) -> Result<u64> {
    let text = |path: &str| files.read(&files.place(path)).unwrap_or_default();
    let online = CpuSet::parse(text("/sys/devices/system/cpu/online").trim()).unwrap_or_default();
    let cpus = online.len().max(1);
    let version = Version::parse(text("/proc/sys/kernel/osrelease").trim())?;
    let by_log = Tunables::defaults(version).factor(cpus);
    let Some((_, paths)) = place_of(files, row("tunable_scaling")?) else { return Ok(by_log) };
    let path = &paths[0];
    let scaling = files.read(path).map_err(|e| refused("tunable_scaling", path, "read", &e))?;
    Ok(match scaling.trim() {
        "0" => 1,
        "2" => cpus.clamp(1, 8) as u64,
        _ => by_log,
    })
}
