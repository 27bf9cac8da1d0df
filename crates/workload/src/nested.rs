//! Virtual machines on the simulated machine: their vCPUs are threads of the host, and tasks of the workload run
//! inside.
//!
//! Times are ns.

use crate::build::Builder;
pub use crate::decl::NestedDecl;
use crate::op::{Env, Op, Program};
use crate::place::{self, MACHINES, Place};
use schedlab_base::{Error, Ns, Result, TaskId};
use schedlab_kernel::Variant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most vCPUs of a machine.
pub const MAX_VCPUS: u64 = 256;

/// A virtual machine in an experiment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NestedSpec {
    /// vCPU n is the thread `NAME/n`.
    pub name: String,
    pub vcpus: u64,
    pub kernel: String,
    /// Toggles of features, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tunables: BTreeMap<String, u64>,
    /// Whether its tick continues while a vCPU is idle, as in kernels without NO_HZ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub periodic_tick: bool,
    /// How long the host polls for work before a halted vCPU's thread sleeps (kvm's `halt_poll_ns`).
    #[serde(default)]
    pub halt_poll: Ns,
    /// Names of the tasks inside; "*": all.
    pub tasks: Vec<String>,
}

/// A machine's thread. The simulator runs the vCPU, or handles packets, in its place.
struct MachineThread;

impl Program for MachineThread {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        Op::Exit
    }
}

/// Declares the machines' vCPUs, and moves tasks into the machines.
///
/// # Errors
/// For an unknown kernel, feature, tunable or task, a number of vCPUs out of range, and a task in two machines.
pub(crate) fn build(machines: &[NestedSpec], b: &mut Builder) -> Result<()> {
    let tasks = b.next_task().index();
    place::check_names(machines.iter().map(|m| m.name.as_str()), b)?;
    for (number, spec) in machines.iter().enumerate() {
        for name in &spec.tasks {
            place::move_to(name, Place::Inside(number as u32), &mut b.tasks_from(0)[..tasks])
                .map_err(|e| e.context(format!("nested machine '{}'", spec.name)))?;
        }
    }
    for spec in machines {
        let decl = declare(spec, b).map_err(|e| e.context(format!("nested machine '{}'", spec.name)))?;
        b.nest(decl);
    }
    Ok(())
}

fn declare(spec: &NestedSpec, b: &mut Builder) -> Result<NestedDecl> {
    if !(1..=MAX_VCPUS).contains(&spec.vcpus) {
        return Err(Error::input(format!("{} vCPUs: 1 to {MAX_VCPUS} are possible", spec.vcpus)));
    }
    let (features, tunables) = (spec.features.clone(), spec.tunables.clone());
    let kernel = Variant { features, tunables, ..Variant::plain(&spec.kernel) }.resolve()?;
    let vcpus = (0..spec.vcpus)
        .map(|n| b.task(format!("{}/{n}", spec.name), Box::new(MachineThread)))
        .collect::<Result<Vec<TaskId>>>()?;
    let vhost = b.task(format!("{}/vhost", spec.name), Box::new(MachineThread))?;
    // It serves the machine, and is not one of the workload's own tasks.
    b.edit(vhost).background = true;
    vcpus.iter().chain([&vhost]).for_each(|thread| b.edit(*thread).part = MACHINES);
    Ok(NestedDecl {
        name: spec.name.clone(),
        vcpus,
        vhost,
        kernel,
        periodic_tick: spec.periodic_tick,
        halt_poll: spec.halt_poll,
    })
}
