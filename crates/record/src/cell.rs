//! The key of a cell, which all its runs share, and the hash that names the cell's folder.
//!
//! The hash is FNV-1a of 128 bits over canonical JSON (keys sorted): every process on every machine computes the same
//! name, so job arrays and resumed experiments need no lock. The seed is not in the key.

use crate::{Computer, Observe, Record, version_of};
use schedlab_base::content_hash;
use schedlab_base::{GuestMode, Origin};
pub use schedlab_kernel::Level;
use schedlab_kernel::{Kernel, Variant};
use schedlab_machine::{Costs, Machine, Span};
use serde::{Deserialize, Serialize};

/// The set-up of a guest. With machine, variant and workload it determines runs of the vm backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSetup {
    /// Hash of the kernel image's bytes.
    pub image: String,
    pub mode: GuestMode,
    pub qemu: String,
    /// The accelerator that executes the guest's instructions: "tcg" or "kvm".
    pub accelerator: String,
    /// Memory, MiB.
    pub memory_mb: u32,
    /// Words added to the kernel's command line.
    pub boot_options: Vec<String>,
    /// Hash of the runs that shared a boot: a run then followed others in the same running kernel. Only records from
    /// before saved states ([`at_rest`](Self::at_rest)) have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sitting: Option<String>,
    /// The model of the host's CPUs, for guests in real time, whose speed depends on it. Absent for guests whose time
    /// counts instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cpu: Option<String>,
    /// Whether each run continues from one saved state of the guest, whatever ran before; otherwise each run boots its
    /// own guest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_rest: bool,
    /// Whether the guest boots with balancing by last-level caches (SCHED_CACHE, 7.2) off because the machine has
    /// several; a variant may switch it on. Not stored when false, so that other cells keep their folders' names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub llc_balancing_off: bool,
}

/// The kernel's code that the code backend runs, as built. With machine, variant and workload it determines runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeSetup {
    /// The image's key: a hash of source, patches, configuration, compiler and shims.
    pub image: String,
    /// The tree's name, for readers.
    pub source: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// The configuration fragment, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The compiler's name and version.
    pub compiler: String,
    /// How the code's time is charged.
    pub level: Level,
    /// The key of the image without counting code, whose instruction counts scale this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<String>,
}

impl CodeSetup {
    /// The first digits of the image's key, as in lists of images.
    pub fn image_in_short(&self) -> &str {
        self.image.get(..8).unwrap_or(&self.image)
    }
}

/// A compiler's name without its distribution: "gcc 12.2.0" for "gcc (Debian 12.2.0-14) 12.2.0".
pub fn compiler_in_short(name: &str) -> String {
    let mut words = name.split_whitespace();
    let (first, last) = (words.next().unwrap_or_default(), words.next_back());
    last.map_or_else(|| first.to_owned(), |version| format!("{first} {version}"))
}

/// Everything that determines a cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellKey<'a> {
    /// The backend that makes its runs.
    pub backend: Origin,
    /// The machine. For a real kernel only name, topology and CPU numbers count, since costs are the simulator's.
    pub machine: &'a Machine,
    /// The machine's figures that each run draws from ranges; empty if the machine is used as stated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<&'a Span>,
    pub kernel: &'a str,
    /// The simulated kernel; `None` for a live one.
    pub resolved: Option<&'a Kernel>,
    /// The guest; `None` for other backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<&'a GuestSetup>,
    /// The kernel's code; `None` for other backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'a CodeSetup>,
    /// The variant as the experiment states it.
    pub variant: &'a Variant,
    /// The workload as plain data.
    pub spec: &'a serde_json::Value,
    pub load: &'a str,
    /// The computer of a live run and its kernel's build; `None` for other backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computer: Option<Computer>,
    /// How closely a live run is watched: watching costs time itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
}

impl<'a> CellKey<'a> {
    pub fn of(record: &'a Record) -> CellKey<'a> {
        CellKey {
            backend: record.backend.clone(),
            machine: &record.machine,
            uncertain: record.drawn.iter().map(|d| &d.span).collect(),
            kernel: &record.kernel,
            resolved: record.resolved.as_ref(),
            guest: record.guest.as_ref(),
            code: record.code.as_ref(),
            variant: &record.variant,
            spec: &record.spec,
            load: &record.load,
            computer: Computer::of_run(record),
            observe: record.observe,
        }
    }
    /// The folder's name: 32 hexadecimal digits. The hash also covers the record's version ([`version_of`]).
    pub fn hash(&self) -> String {
        self.hash_with(version_of(&self.backend))
    }
    fn hash_with(&self, version: u32) -> String {
        // serde_json sorts an object's keys, so structs become objects first. That can't fail for plain data with text
        // keys.
        let mut key = serde_json::json!(self);
        if !self.backend.is_simulated() {
            let Machine { name, topology, os_cpu, .. } = self.machine;
            key["machine"] = serde_json::json!({"name": name, "topology": topology, "os_cpu": os_cpu});
        } else if !self.code.is_some_and(|code| code.level.counts())
            && let Some(costs) = key["machine"]["costs"].as_object_mut()
        {
            costs.retain(|name, _| !Costs::OF_COUNTED_CODE.contains(&name.as_str()));
        }
        let canonical = serde_json::json!([version, key]).to_string();
        content_hash(canonical.as_bytes())
    }
}

/// The folder name of the record's cell, for the version that made the record.
pub fn cell_hash(record: &Record) -> String {
    CellKey::of(record).hash_with(record.model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::record;
    use schedlab_base::Backend;
    use schedlab_kernel::Feature;
    use schedlab_machine::Drawn;

    #[test]
    fn a_cell_is_everything_but_seed_and_results() {
        let drawn = |value| Drawn { span: Span { name: "tick_ns".into(), range: (1000, 3000) }, value };
        let (mut one, mut other) = (record(1), record(2));
        (one.drawn, other.drawn) = (vec![drawn(1500)], vec![drawn(2500)]);
        assert_eq!(cell_hash(&one), cell_hash(&other), "what is drawn differs by run");
        let (mut a, b) = (record(1), record(2));
        a.found.counters.insert("migrations".into(), 7);
        assert_eq!(cell_hash(&a), cell_hash(&b));
        for change in [
            |r: &mut Record| r.load = "6x24".into(),
            |r: &mut Record| r.variant.features.push("SIS_FIRST_IDLE".into()),
            |r: &mut Record| r.spec = serde_json::json!({"threads": 25}),
            |r: &mut Record| r.observe = Some(Observe::Accounts),
            |r: &mut Record| r.observe = Some(Observe::Events),
            |r: &mut Record| r.model += 1,
            |r: &mut Record| r.machine.name = "other".into(),
            |r: &mut Record| r.drawn = Machine::load("smp-2").unwrap().draw(1, None),
        ] {
            let mut other = record(1);
            change(&mut other);
            assert_ne!(cell_hash(&other), cell_hash(&b));
        }
    }

    #[test]
    fn runs_of_real_kernels_outlive_the_model() {
        for (backend, version) in
            [(Backend::Sim, crate::MODEL), (Backend::Host, crate::WATCHING), (Backend::Vm, crate::WATCHING)]
        {
            let mut made = record(1);
            made.backend = backend.into();
            for model in [version - 1, version, version + 1] {
                made.model = model;
                assert_eq!(
                    CellKey::of(&made).hash() == cell_hash(&made),
                    model == version,
                    "{backend}, {model}"
                );
            }
        }
    }

    #[test]
    fn costs_make_another_cell_of_simulated_backends_only() {
        for backend in Backend::ALL {
            let (mut one, mut other) = (record(1), record(1));
            (one.backend, other.backend) = (backend.into(), backend.into());
            other.machine.costs.tick_ns += 1;
            assert_eq!(cell_hash(&one) == cell_hash(&other), !backend.is_simulated(), "{backend}");
            other.machine.topology = Machine::load("smp-3").unwrap().topology;
            assert_ne!(cell_hash(&one), cell_hash(&other), "{backend}: other CPUs");
        }
    }

    #[test]
    fn a_live_cell_belongs_to_one_computer_and_one_kernel_build() {
        for key in ["cpu.model", "kernel.version", "kernel.boot_options", "kernel.clocksource"] {
            for backend in Backend::ALL {
                let (mut one, mut other) = (record(1), record(2));
                (one.backend, other.backend) = (backend.into(), backend.into());
                one.found.environment.insert(key.into(), "this".into());
                other.found.environment.insert(key.into(), "that".into());
                assert_eq!(
                    cell_hash(&one) == cell_hash(&other),
                    backend != Backend::Host,
                    "{backend}, {key}"
                );
            }
        }
        let (mut one, mut other) = (record(1), record(2));
        (one.backend, other.backend) = (Backend::Host.into(), Backend::Host.into());
        one.found.environment.insert("load.average".into(), "1".into());
        other.found.environment.insert("load.average".into(), "2".into());
        assert_eq!(cell_hash(&one), cell_hash(&other), "the rest of the environment differs by run");
    }

    #[test]
    fn features_are_stored_and_hashed_by_name_and_a_number_of_0_2_is_read() {
        let mut made = record(1);
        let mut kernel = Kernel::profile("v4.5").unwrap();
        // These features came later and have no bit in the number.
        kernel.features.switch(Feature::RtPushIpi, false);
        kernel.features.switch(Feature::RtRuntimeShare, false);
        made.resolved = Some(kernel);
        let mut stored = serde_json::to_value(&made).unwrap();
        let features = &mut stored["resolved"]["features"];
        assert!(features.as_array().unwrap().contains(&"SIS_SKIP_TARGET".into()), "{features}");
        *features = 73_975.into();
        let read = serde_json::from_value::<Record>(stored).unwrap();
        assert_eq!(read, made);
        let mut key = serde_json::json!(CellKey::of(&read));
        // Our rules do not use the costs of counted code.
        let costs = key["machine"]["costs"].as_object_mut().unwrap();
        costs.retain(|name, _| !Costs::OF_COUNTED_CODE.contains(&name.as_str()));
        let canonical = serde_json::json!([made.model, key]).to_string();
        assert_eq!(cell_hash(&made), content_hash(canonical.as_bytes()));
    }

    #[test]
    fn the_order_of_keys_in_the_input_does_not_matter() {
        let (mut a, mut b) = (record(1), record(1));
        a.spec = serde_json::from_str(r#"{"x": 1, "a": 2}"#).unwrap();
        b.spec = serde_json::from_str(r#"{"a": 2, "x": 1}"#).unwrap();
        assert_eq!(cell_hash(&a), cell_hash(&b));
    }

    #[test]
    fn only_a_guest_whose_llc_balancing_is_switched_off_says_so() {
        let setup = GuestSetup {
            image: "0".into(),
            mode: GuestMode::RealTime,
            qemu: "10.0".into(),
            accelerator: "tcg".into(),
            memory_mb: 1024,
            boot_options: Vec::new(),
            sitting: None,
            host_cpu: None,
            at_rest: false,
            llc_balancing_off: false,
        };
        let text = |off| {
            let setup = GuestSetup { llc_balancing_off: off, ..setup.clone() };
            serde_json::to_string(&setup).unwrap()
        };
        assert!(!text(false).contains("llc"), "cells of one cache keep their names: {}", text(false));
        assert!(text(true).contains(r#""llc_balancing_off":true"#));
    }
}
