//! Identifies a computer and its kernel's build, as far as live runs depend on them.
//!
//! Release and topology are elsewhere in a cell's key. They do not suffice: a rebuilt kernel has the same release, and
//! two computers may have the same topology. The values come from [`crate::environment`].

use crate::Record;
use schedlab_base::Backend;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Keys in the environment, in the order of the fields.
const KEYS: [&str; 4] = ["cpu.model", "kernel.version", "kernel.boot_options", "kernel.clocksource"];

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Computer {
    /// Model of its CPUs, as in /proc/cpuinfo.
    pub cpu: String,
    /// The kernel's build, as in /proc/sys/kernel/version.
    pub build: String,
    /// Words of the kernel's command line that change scheduling.
    pub boot_options: String,
    /// The clock source in use.
    pub clocksource: String,
}

impl Computer {
    /// The computer described by an environment, if it is.
    pub fn of(environment: &BTreeMap<String, String>) -> Option<Computer> {
        let [cpu, build, boot_options, clocksource] =
            KEYS.map(|key| environment.get(key).cloned().unwrap_or_default());
        let found = Computer { cpu, build, boot_options, clocksource };
        (found != Computer::default()).then_some(found)
    }
    /// The computer of a live run. `None` for simulated runs, for guests (their cells describe it otherwise), and for
    /// runs that do not name it.
    pub fn of_run(record: &Record) -> Option<Computer> {
        match record.backend.made_by() {
            Some(Backend::Sim | Backend::Vm | Backend::Code) => None,
            Some(Backend::Host) | None => Computer::of(&record.found.environment),
        }
    }
    /// Whether two runs are from one computer and kernel build, or do not depend on it.
    pub fn is_same(a: &Record, b: &Record) -> bool {
        let counts =
            |r: &Record| !matches!(r.backend.made_by(), Some(Backend::Sim | Backend::Vm | Backend::Code));
        let (here, there) = (&a.found.environment, &b.found.environment);
        counts(a) == counts(b) && (!counts(a) || KEYS.iter().all(|key| here.get(*key) == there.get(*key)))
    }
    /// The model of its CPUs, shortened: "AMD EPYC 9754" for "AMD EPYC 9754 128-Core Processor".
    pub fn cpu_in_short(&self) -> String {
        let plain = self.cpu.replace("(R)", "").replace("(TM)", "").replace("(tm)", "");
        let plain = plain.split('@').next().unwrap_or_default();
        let filler = |w: &&str| !matches!(*w, "CPU" | "Processor") && !w.ends_with("-Core");
        let words: Vec<&str> = plain.split_whitespace().filter(filler).collect();
        if words.is_empty() { self.cpu.clone() } else { words.join(" ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::record;

    #[test]
    fn only_live_runs_have_a_computer() {
        let mut r = record(1);
        r.found.environment.insert("cpu.model".into(), "A CPU".into());
        let of = |backend: Backend, r: &Record| {
            Computer::of_run(&Record { backend: backend.into(), ..r.clone() }).map(|c| c.cpu)
        };
        assert_eq!(of(Backend::Host, &r).as_deref(), Some("A CPU"));
        assert_eq!((of(Backend::Sim, &r), of(Backend::Vm, &r)), (None, None));
        r.found.environment.clear();
        assert_eq!(of(Backend::Host, &r), None);
    }

    #[test]
    fn a_cpu_has_a_short_name() {
        for (model, short) in [
            ("AMD EPYC 9754 128-Core Processor", "AMD EPYC 9754"),
            ("Intel(R) Xeon(R) Platinum 8488C", "Intel Xeon Platinum 8488C"),
            ("Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz", "Intel Core i7-8550U"),
            ("Processor", "Processor"),
        ] {
            assert_eq!(Computer { cpu: model.into(), ..Computer::default() }.cpu_in_short(), short);
        }
    }
}
