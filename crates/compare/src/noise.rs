//! The machine's noise floor: the difference between two groups of runs of the same variant on this machine.
//!
//! A/A runs (the same variant under two names, in the order A B B A) are compared like any two variants. The end of the
//! interval that is farther from 0 is the floor of that workload and metric, in percent: this machine shows smaller
//! changes without any cause. On the host backend, if the floor exceeds the minimum effect, a change must reach the
//! floor to count. The limit for "same" remains the minimum effect. Floors are stored by host: model and number of its
//! CPUs, and the kernel's release.

use schedlab_base::{Backend, Error, Result, input, temp};
use schedlab_record::{Record, WATCHING};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const SCHEMA: &str = "schedlab/noise/1";
/// The floors' file in the state folder.
pub const FILE: &str = "noise.json";

/// The result of A/A runs of one workload for one metric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Floor {
    /// The host, as [`host_of`] names it.
    pub host: String,
    pub workload: String,
    pub load: String,
    pub metric: String,
    /// The floor: the end of the 95 % interval that is farther from 0, percent.
    pub floor_pct: f64,
    /// Half the width of the interval, percent.
    pub half_width_pct: f64,
    /// The estimated change, without its sign, percent.
    pub change_pct: f64,
    /// Runs in each of the two groups.
    pub runs: usize,
    /// The time, as "2026-11-22 06:10" UTC.
    pub at: String,
    /// The version of the code that watched the runs ([`WATCHING`]); 0 in old files without it.
    #[serde(default)]
    pub watching: u32,
}

/// Floors of any number of hosts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Floors {
    schema: String,
    /// Sorted by host, workload and metric.
    pub floors: Vec<Floor>,
}

impl Floors {
    /// The stored floors; none if there is no file. Floors from runs that another version watched are ignored: the way
    /// of watching affects a metric, and so its floor.
    ///
    /// # Errors
    /// When the file can't be read or does not hold noise floors.
    pub fn load(path: &Path) -> Result<Floors> {
        let Some(text) = input::text_if_there(path)? else { return Ok(Floors::default()) };
        let bad = |what: String| {
            Error::input(format!("{} holds no noise floors: {what}", path.display()))
                .help("remove it; 'schedlab doctor --noise' makes it anew")
        };
        let mut floors: Floors = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        floors.floors.retain(|f| f.watching == WATCHING);
        if floors.schema == SCHEMA { Ok(floors) } else { Err(bad(format!("schema '{}'", floors.schema))) }
    }
    /// Stores the floors; the file is renamed into place.
    ///
    /// # Errors
    /// When writing fails.
    pub fn store(&self, path: &Path) -> Result<()> {
        let stored = Floors { schema: SCHEMA.to_owned(), floors: self.floors.clone() };
        let text = serde_json::to_string_pretty(&stored).map_err(|e| Error::internal(e.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create the folder", &e))?;
        temp::write_whole(path, (text + "\n").as_bytes())
    }
    /// Adds newer floors, which replace all of the same host and workload.
    pub fn renew(&mut self, new: Vec<Floor>) {
        let same = |a: &Floor, b: &Floor| (&a.host, &a.workload) == (&b.host, &b.workload);
        self.floors.retain(|old| !new.iter().any(|n| same(old, n)));
        self.floors.extend(new);
        let key = |f: &Floor| (f.host.clone(), f.workload.clone(), f.metric.clone());
        self.floors.sort_by_key(key);
    }
    pub fn of(&self, host: &str, workload: &str, metric: &str) -> Option<&Floor> {
        self.floors.iter().find(|f| f.host == host && f.workload == workload && f.metric == metric)
    }

    /// The floor of a metric on a record's host, if it exceeds the minimum effect.
    pub(crate) fn above(&self, base: &Record, metric: &str, min_effect_pct: f64) -> Option<f64> {
        if base.backend != Backend::Host {
            return None;
        }
        let floor = self.of(&host_of(base), &base.workload, metric)?.floor_pct;
        (floor > min_effect_pct).then_some(floor)
    }
}

/// The host of a live record: model and number of its CPUs, release of its kernel.
pub fn host_of(record: &Record) -> String {
    let model = record.found.environment.get("cpu.model").map_or("unknown CPUs", String::as_str);
    format!("{} x {model}, {}", record.machine.topology.nr_cpus(), record.kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(workload: &str, metric: &str, pct: f64) -> Floor {
        let text = |t: &str| t.to_owned();
        Floor {
            host: text("2 x A, 6.1"),
            workload: text(workload),
            load: text("2x16"),
            metric: text(metric),
            floor_pct: pct,
            half_width_pct: pct / 2.0,
            change_pct: 0.1,
            runs: 8,
            at: text("2026-11-22 06:10"),
            watching: WATCHING,
        }
    }

    #[test]
    fn stored_floors_are_read_back_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state").join(FILE);
        assert_eq!(Floors::load(&path).unwrap(), Floors::default());
        let mut floors = Floors::default();
        floors.renew(vec![floor("pipe", "work", 3.5), floor("pipe", "elapsed", 1.0)]);
        floors.store(&path).unwrap();
        assert_eq!(Floors::load(&path).unwrap().floors, floors.floors);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing half-written is left");
        let text = fs::read_to_string(&path).unwrap();
        let own = format!("\"watching\": {WATCHING}");
        assert!(text.contains(&own));
        fs::write(&path, text.replace(&own, "\"watching\": 1")).unwrap();
        assert_eq!(Floors::load(&path).unwrap().floors, [], "watched by another version");
        fs::write(&path, text.replace(&format!(",\n      {own}"), "")).unwrap();
        assert_eq!(Floors::load(&path).unwrap().floors, [], "of a version that did not tell");
        fs::write(&path, r#"{"schema": "other/1", "floors": []}"#).unwrap();
        assert!(Floors::load(&path).unwrap_err().to_string().contains("doctor --noise"));
    }

    #[test]
    fn newer_floors_replace_those_of_their_workload() {
        let mut floors = Floors::default();
        floors.renew(vec![
            floor("pipe", "work", 3.5),
            floor("pipe", "gone", 9.0),
            floor("slice", "work", 2.0),
        ]);
        floors.renew(vec![floor("pipe", "work", 4.5)]);
        let kept: Vec<(&str, f64)> =
            floors.floors.iter().map(|f| (f.workload.as_str(), f.floor_pct)).collect();
        assert_eq!(kept, [("pipe", 4.5), ("slice", 2.0)]);
        assert!(floors.of("2 x A, 6.1", "pipe", "gone").is_none());
        assert!(floors.of("2 x A, 6.2", "pipe", "work").is_none(), "another kernel is another machine");
    }
}
