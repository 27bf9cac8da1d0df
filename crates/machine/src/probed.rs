//! The costs that `schedlab machine probe` measured on this machine, kept in schedlab's state folder.
//!
//! The machine "host" has these costs if they were measured under the running kernel, on as many CPUs of the same
//! model. Otherwise it has those of a generic machine. A measured value may lie outside the table's range.

use crate::{CacheLevel, CostNote, Costs, IdleGovernor, IdleState, Machine, sysfs};
use schedlab_base::{Error, Ns, Result, input, own_uid, temp};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The environment variable that names schedlab's state folder.
pub const STATE_VARIABLE: &str = "SCHEDLAB_STATE_DIR";
/// The probe's file in that folder.
pub const FILE: &str = "probe.json";
/// The name of the time to leave a halt. It belongs to an idle state, not to the table of costs.
pub const IDLE_EXIT: &str = "idle.exit";
/// The prefix of cache hit times: "cache.L1", ns per KB. Such a note has the source of the whole level.
const CACHE: &str = "cache.L";
/// The prefix of sources of probed costs.
pub const MEASURED_HERE: &str = "measured here";
/// The cost of recording an event.
const WATCHED: &str = "trace_event_ns";

/// The name of the time to leave a halt after `since_ns`. On a virtual machine a halt gets deeper as it lasts.
pub fn idle_exit_after(since_ns: u64) -> String {
    format!("{IDLE_EXIT}.{since_ns}")
}

/// The length of the halt in such a name ([`idle_exit_after`]); `None` for other names.
fn after(name: &str) -> Option<Ns> {
    name.strip_prefix(IDLE_EXIT)?.strip_prefix('.')?.parse().ok().map(Ns)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The cost's name in the table; or [`IDLE_EXIT`], the time until a halted CPU runs again; or the same after a halt
    /// of some length ([`idle_exit_after`]).
    pub name: String,
    /// Median, ns.
    pub value: u64,
    /// 5th and 95th percentile of the batches, ns.
    pub range: (u64, u64),
    /// The timed step, in a few words.
    pub how: String,
}

/// All measurements, and the machine on which they were made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probed {
    pub release: String,
    pub model: String,
    /// Number of online CPUs.
    pub cpus: usize,
    pub measured: Vec<Measured>,
    /// Data caches with measured times, smallest first; empty if not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheLevel>,
}

impl Probed {
    /// Measurements of this machine, made now.
    pub fn here(measured: Vec<Measured>) -> Probed {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
        Probed {
            release: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            model: model.map_or_else(String::new, |(_, m)| m.trim().to_owned()),
            cpus: info.lines().filter(|l| l.starts_with("processor")).count(),
            measured,
            caches: Vec::new(),
        }
    }
    #[must_use]
    pub fn with_caches(self, caches: Vec<CacheLevel>) -> Probed {
        Probed { caches, ..self }
    }
    /// Whether the measurements are of this machine and the running kernel.
    fn holds(&self) -> bool {
        let now = Probed::here(Vec::new());
        (&self.release, &self.model, self.cpus) == (&now.release, &now.model, now.cpus)
    }
    /// The kept measurements, if they still hold for this machine. An unreadable file counts as none.
    ///
    /// # Errors
    /// When the file does not have schedlab's form.
    pub fn kept() -> Result<Option<Probed>> {
        let Some(file) = file() else { return Ok(None) };
        let Some(text) = text_of(&file)? else { return Ok(None) };
        let probed: Probed = serde_json::from_str(&text).map_err(|e| {
            Error::input(format!("{}: {e}", file.display())).help("'schedlab machine probe' writes it anew")
        })?;
        Ok(probed.holds().then_some(probed))
    }
    /// Replaces the kept measurements, and returns the file's path.
    ///
    /// # Errors
    /// When there is no folder for the file, or the disk refuses it.
    pub fn keep(&self) -> Result<PathBuf> {
        let file = file().ok_or_else(|| {
            Error::input("there is no folder to keep the probe in: HOME is not set")
                .help(format!("{STATE_VARIABLE} names one"))
        })?;
        let text = serde_json::to_string_pretty(self).map_err(|e| Error::internal(e.to_string()))?;
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create the folder", &e))?;
        temp::write_whole(&file, text.as_bytes())?;
        Ok(file)
    }
    /// This machine with these costs.
    ///
    /// # Errors
    /// When sysfs can't be read, or a cost has an impossible value.
    pub fn host(&self) -> Result<Machine> {
        let mut host = sysfs::read(Path::new("/sys"))?;
        self.apply(&mut host)?;
        Ok(host)
    }
    /// The mean of several probes, for each cost that all of them have. Its range covers all their ranges. `None`
    /// without probes.
    pub fn mean(all: &[Probed]) -> Option<Probed> {
        let (first, n) = (all.first()?, all.len() as u64);
        let measured = first.measured.iter().filter_map(|cost| {
            let same = |p: &Probed| p.measured.iter().find(|m| m.name == cost.name).cloned();
            let each = all.iter().map(same).collect::<Option<Vec<Measured>>>()?;
            let value = each.iter().map(|m| m.value).sum::<u64>() / n;
            let low = each.iter().map(|m| m.range.0).min()?;
            let high = each.iter().map(|m| m.range.1).max()?;
            Some(Measured { value, range: (low, high), ..cost.clone() })
        });
        Some(Probed { measured: measured.collect(), ..first.clone() })
    }
    /// The cost of recording an event, ns. It is not part of the machine's costs: only watched runs pay it.
    pub fn watched_ns(&self) -> Option<u64> {
        self.measured.iter().find(|m| m.name == WATCHED).map(|m| m.value)
    }
    ///
    /// # Errors
    /// When a cost has an impossible value.
    pub fn apply(&self, machine: &mut Machine) -> Result<()> {
        let deepened = self.deepen(machine);
        if !self.caches.is_empty() {
            machine.caches.clone_from(&self.caches);
        }
        for found in self.measured.iter().filter(|m| m.name != WATCHED) {
            let name = if found.name == IDLE_EXIT {
                if deepened {
                    continue;
                }
                let Some(deepest) = machine.idle_states.last_mut() else { continue };
                deepest.typical = Ns(found.value);
                format!("idle.{}", deepest.name)
            } else if Costs::TABLE.iter().any(|row| row.name == found.name) {
                machine.costs.change(&found.name, found.value).map_err(|e| {
                    e.context("the kept probe of this machine")
                        .help("'schedlab machine probe' measures it anew")
                })?;
                found.name.clone()
            } else if found.name.starts_with(CACHE) {
                found.name.clone()
            } else {
                // Another version of schedlab wrote the file.
                continue;
            };
            let source = format!("{MEASURED_HERE}: {}", found.how);
            machine.provenance.retain(|n| n.name != name);
            machine.provenance.push(CostNote { name, range: Some(found.range), source });
        }
        Ok(())
    }
    /// On a guest whose idle CPUs halt: replaces the halt state by one state per measured length of a halt. Returns
    /// whether it did.
    fn deepen(&self, machine: &mut Machine) -> bool {
        let halts = machine.idle_governor != IdleGovernor::Menu && machine.idle_states.len() > 1;
        let depths: Vec<(Ns, &Measured)> =
            self.measured.iter().filter_map(|m| Some((after(&m.name)?, m))).collect();
        if !halts || depths.is_empty() {
            return false;
        }
        let Some(halt) = machine.idle_states.pop() else { return false };
        for (residency, found) in depths {
            let name = format!("{} {residency}", halt.name);
            let source = format!("measured here: {}", found.how);
            machine.provenance.push(CostNote {
                name: format!("idle.{name}"),
                range: Some(found.range),
                source,
            });
            machine.idle_states.push(IdleState { name, residency, typical: Ns(found.value), ..halt.clone() });
        }
        true
    }
}

/// A probe's text; `None` if the file is missing or this user can't read it. A file that is too long or not text is an
/// error.
fn text_of(file: &Path) -> Result<Option<String>> {
    // schedlab keeps a regular file here; opening a pipe would wait for its writer.
    if !std::fs::metadata(file).is_ok_and(|about| about.is_file()) {
        return Ok(None);
    }
    match std::fs::File::open(file) {
        Ok(_) => input::text_if_there(file),
        Err(_) => Ok(None),
    }
}

fn file() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let root = || own_uid() == Some(0);
    named(STATE_VARIABLE)
        .or_else(|| root().then(|| PathBuf::from("/var/lib/schedlab")))
        .or_else(|| named("XDG_STATE_HOME").map(|d| d.join("schedlab")))
        .or_else(|| named("HOME").map(|d| d.join(".local/state/schedlab")))
        .map(|folder| folder.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, value: u64) -> Measured {
        Measured { name: name.into(), value, range: (value / 2, value * 2), how: "a test".into() }
    }

    #[test]
    fn a_machine_takes_measured_costs_and_notes_their_source() {
        let mut machine = Machine::load("smp-2").unwrap();
        let all = ["syscall_ns", "no_such_cost", WATCHED, IDLE_EXIT].map(|n| measured(n, 7_000));
        let probed = Probed::here(all.to_vec());
        probed.apply(&mut machine).unwrap();
        assert_eq!((machine.costs.trace_event_ns, probed.watched_ns()), (0, Some(7_000)), "nobody watches");
        assert_eq!(
            (machine.costs.syscall_ns, machine.idle_states.last().unwrap().typical),
            (7_000, Ns(7_000))
        );
        let note = machine.note("syscall_ns");
        assert_eq!((note.range, note.source.as_str()), (Some((3_500, 14_000)), "measured here: a test"));
        assert_ne!(machine.costs.context_switch_ns, 7_000);
    }

    #[test]
    fn a_machine_takes_the_caches_that_were_measured_with_their_sources() {
        let l1 =
            CacheLevel { level: 1, size_kb: 32, line: 64, shared: crate::Sharing::Core, hit_ns_per_kb: 17 };
        let mut machine = Machine::load("smp-2").unwrap();
        Probed::here(vec![measured("cache.L1", 17)]).with_caches(vec![l1]).apply(&mut machine).unwrap();
        assert_eq!(machine.caches, [l1]);
        assert_eq!(machine.note("cache.L1").range, Some((8, 34)));
        let before = machine.caches.clone();
        Probed::here(Vec::new()).apply(&mut machine).unwrap();
        assert_eq!(machine.caches, before, "a probe without caches takes none away");
    }

    #[test]
    fn the_mean_of_probes_has_what_all_of_them_measured() {
        let of = |all: &[(&str, u64)]| Probed::here(all.iter().map(|(n, v)| measured(n, *v)).collect());
        let mean =
            Probed::mean(&[of(&[("ipi_near_ns", 1_000), ("syscall_ns", 50)]), of(&[("ipi_near_ns", 2_000)])]);
        let want = Measured { range: (500, 4_000), ..measured("ipi_near_ns", 1_500) };
        assert_eq!(mean.unwrap().measured, [want]);
        assert_eq!(Probed::mean(&[]), None);
    }

    #[test]
    fn a_guests_halt_gets_as_many_depths_as_lengths_were_measured() {
        let depths = [
            measured(&idle_exit_after(0), 12_000),
            measured(&idle_exit_after(200_000), 40_000),
            measured(IDLE_EXIT, 30_000),
        ];
        let probed = Probed::here(depths.to_vec());
        let mut machine = Machine::load("smp-2").unwrap();
        let state = |name: &str| IdleState {
            name: name.into(),
            exit: Ns(1_000),
            typical: Ns(1_000),
            residency: Ns(0),
        };
        machine.idle_states = vec![state("POLL"), state("halt")];
        machine.idle_governor = IdleGovernor::Menu;
        probed.apply(&mut machine).unwrap();
        assert_eq!(machine.idle_states.len(), 2, "a CPU that chooses its state sinks no further");
        machine.idle_governor = IdleGovernor::Halt;
        probed.apply(&mut machine).unwrap();
        let states: Vec<_> =
            machine.idle_states.iter().map(|s| (s.name.as_str(), s.residency, s.typical)).collect();
        let want = [
            ("POLL", Ns(0), Ns(1_000)),
            ("halt 0ns", Ns(0), Ns(12_000)),
            ("halt 200us", Ns(200_000), Ns(40_000)),
        ];
        assert_eq!(states, want);
        assert_eq!(machine.note("idle.halt 200us").range, Some((20_000, 80_000)));
    }

    #[test]
    fn a_pipe_instead_of_a_probe_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        assert_eq!(text_of(&file).unwrap(), None);
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        let (sender, told) = std::sync::mpsc::channel();
        let pipe = file.clone();
        std::thread::spawn(move || sender.send(text_of(&pipe).unwrap()));
        let told = told.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(told.expect("the pipe is not opened"), None);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(text_of(&file).unwrap().as_deref(), Some("{}"));
        std::fs::write(&file, [0xff]).unwrap();
        assert!(text_of(&file).unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn measurements_under_another_kernel_do_not_hold() {
        let here = Probed::here(Vec::new());
        assert!(here.holds() && !here.release.is_empty() && here.cpus > 0);
        assert!(!Probed { release: "2.6.30".into(), ..here.clone() }.holds());
        assert!(!Probed { cpus: here.cpus + 1, ..here }.holds());
    }
}
