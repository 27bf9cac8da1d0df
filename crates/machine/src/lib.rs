//! The hardware: its topology, the sched domains and groups that a kernel derives from it, and the cost of each step.
//!
//! # Problem
//!
//! A decision of the scheduler depends on the shape of a machine (who shares a core, a cache, a node), and its effect
//! on the cost of each step there. The shape can be read from sysfs or a description. Most costs can't: they are
//! measured where the machine is at hand, taken from documents, or estimated. So every figure has a source and a range,
//! and `--uncertainty` draws figures from their ranges.
//!
//! # From a description to a machine
//!
//! A preset (compiled in) and a file have one form: `file` reads its sections, [`reader`] its TOML with places, `units`
//! and `uneven` topologies whose parts are unlike. A size (`smp-N`, `smt-N`) is a [`shape`]. This host, or a copy of
//! its sysfs, comes by [`sysfs`], with costs that [`probed`] keeps. All of them end in a [`Machine`]: plain data that
//! records embed, so a stored run needs no file of its own. [`Machine::under`] takes the costs of a kernel's version.
//! `write` writes a machine file again, `show` prints one.
//!
//! # Types, and where to start
//!
//! - [`Topology`]: CPUs with core, cluster, last-level cache and node; [`Distance`] between two of them. Start here.
//! - [`Domains`] ([`domains`]): sched domains and groups by kernel version, as `build_sched_domains` makes them.
//! - [`Costs`] ([`costs`]): one table with a row for each cost: name with unit, default, range, source, meaning.
//!   Machine files, `--uncertainty` and help follow from it.
//! - [`calls`]: calls on pipes, sockets and futexes in instructions, for levels at which code is charged by them.
//! - [`IdleState`], [`CacheLevel`], [`Background`] (tasks of an idle machine), [`Turns`] (CPUs that share one
//!   processor's time, as those of a deterministic guest).
//! - [`migration`]: the cost of moving a task, measured as a patch of 2005 did at boot.
//!
//! # Invariants
//!
//! CPUs count from 0 without gaps; `os_cpu` has the kernel's numbers where a host has gaps. A value outside its range,
//! an unknown key and a cost without a source are errors with file and line. A machine whose costs are not known can be
//! shown and is refused by a simulation ([`Unfit`]). Nothing here knows a scheduler's state.

pub mod background;
pub mod caches;
pub mod calls;
pub mod costs;
pub mod domains;
mod file;
pub mod migration;
mod presets;
pub mod probed;
pub mod reader;
pub mod shape;
mod show;
pub mod sysfs;
pub mod topology;
pub mod turns;
mod uncertain;
mod uneven;
mod unfit;
mod units;
mod write;

pub use background::{Background, BackgroundFile, BackgroundFrom};
pub use caches::{CacheLevel, Sharing};
pub use costs::{Costs, IdleGovernor, IdleState};
pub use domains::{Cores, Domain, DomainParams, Domains, Group, GroupFlags, Level};
pub use show::{Shown, show};
pub use topology::{Arch, Cpu, Distance, Topology};
pub use turns::{TurnRule, Turns};
pub use uncertain::{Drawn, Span};
pub use unfit::Unfit;

use schedlab_base::{CpuId, Error, Ns, Result, Version};
use serde::{Deserialize, Serialize};

/// The origin of a figure of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostNote {
    /// A cost's name, "idle.C6", or "topology".
    pub name: String,
    /// Lowest and highest plausible value, in the figure's unit.
    pub range: Option<(u64, u64)>,
    /// A document, a driver's table, a measurement, or a note that it is an estimate.
    pub source: String,
}

/// Costs that change with a kernel version, because code paths became longer or shorter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelCosts {
    /// The first kernel with these costs.
    pub since: Version,
    /// Costs by name. All others stay as under older kernels.
    pub costs: Vec<(String, u64)>,
    /// The costs of earlier newidle passes, if they differ from older kernels ([`Turns::newidle_ns`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newidle_ns: Option<[u32; 10]>,
    pub provenance: Vec<CostNote>,
}

/// A machine: of a simulation, or of a live run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The name for `--machine` ("fb-2x12-smt").
    pub name: String,
    /// Description, one line.
    pub about: String,
    pub topology: Topology,
    /// The cost of each step, with source and range in [`Costs::TABLE`] or the machine's file.
    pub costs: Costs,
    /// Costs that differ under later kernels, oldest first; empty in a machine that [`Machine::under`] has made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelCosts>,
    /// Idle states, shallowest first; empty means an idle CPU polls.
    pub idle_states: Vec<IdleState>,
    #[serde(default, skip_serializing_if = "IdleGovernor::is_menu")]
    pub idle_governor: IdleGovernor,
    /// The machine's own tasks (kworkers and the like).
    pub background: Vec<Background>,
    /// The origin of `background`, if it is not the machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_from: Option<BackgroundFrom>,
    /// Data caches, smallest first; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheLevel>,
    /// Cutoffs of migration by distance for this machine; `None`: they are measured, or are the kernel's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<migration::Overrides>,
    /// The rule by which CPUs share one processor's time; `None`: each has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
    /// Why it can't be simulated; `None`: it can ([`Machine::fit`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<Unfit>,
    /// Sources of costs that differ from [`Costs::TABLE`], of idle states, and of the topology.
    #[serde(default)]
    pub provenance: Vec<CostNote>,
    /// The kernel's number of each CPU, if a host's CPUs were renumbered to close gaps; else empty.
    #[serde(default)]
    pub os_cpu: Vec<u32>,
}

impl Machine {
    /// A machine known only by its name: it has no CPUs.
    ///
    /// # Errors
    /// Only a bug in schedlab.
    pub fn unknown(name: &str) -> Result<Machine> {
        let empty = serde_json::json!({
            "name": name, "about": "", "costs": {}, "idle_states": [], "background": [],
            "topology": { "cpus": [], "node_distance": [] },
        });
        serde_json::from_value(empty)
            .map_err(|e| Error::internal(format!("a machine of which nothing is known: {e}")))
    }

    /// The kernel's number of a CPU on the host.
    pub fn os_cpu(&self, cpu: CpuId) -> u32 {
        self.os_cpu.get(cpu.index()).copied().unwrap_or(cpu.0)
    }

    #[must_use]
    pub fn under(&self, kernel: Version) -> Machine {
        let mut machine = self.clone();
        for mut later in std::mem::take(&mut machine.kernels).into_iter().filter(|k| k.since <= kernel) {
            for (name, value) in &later.costs {
                machine.costs.set(name, *value);
            }
            if let (Some(turns), Some(known)) = (&mut machine.turns, later.newidle_ns) {
                turns.newidle_ns = known;
            }
            later.provenance.append(&mut machine.provenance);
            machine.provenance = later.provenance;
        }
        machine
    }

    /// Sets a cost, under all kernels.
    pub fn set_cost(&mut self, name: &str, value: u64) -> Result<()> {
        self.costs.change(name, value)?;
        self.kernels.iter_mut().for_each(|k| k.costs.retain(|(n, _)| n != name));
        self.states(name);
        Ok(())
    }

    /// The same machine, but no step of any kernel takes time, nor does leaving an idle state. Governors still see the
    /// states' times.
    ///
    /// # Errors
    /// Only a bug in the table of costs.
    pub fn without_costs(&self) -> Result<Machine> {
        let mut machine = self.clone();
        Costs::times().try_for_each(|name| machine.set_cost(name, 0))?;
        machine.idle_states.iter_mut().for_each(|state| state.typical = Ns::ZERO);
        machine.kernels.retain(|kernel| !kernel.costs.is_empty() || kernel.newidle_ns.is_some());
        Ok(machine)
    }

    /// Whether its costs are guesses. This is so for the host until it is probed: the topology is its own, the costs
    /// are those of a generic machine.
    pub fn is_guessed(&self) -> bool {
        self.name == sysfs::HOST
            && !self.provenance.iter().any(|n| n.source.starts_with(probed::MEASURED_HERE))
    }

    /// Range and source of a figure: from the machine, else from the cost table, else "not stated".
    pub fn note(&self, name: &str) -> CostNote {
        if let Some(own) = self.provenance.iter().find(|n| n.name == name) {
            return own.clone();
        }
        let row = Costs::TABLE.iter().find(|row| row.name == name);
        CostNote {
            name: name.into(),
            // A cost with default 0 is part of another cost, whose range covers it, unless a machine states it
            // separately.
            range: row.filter(|r| r.default > 0).map(|r| r.range),
            source: row.map_or("not stated", |r| r.source).into(),
        }
    }
}
