//! Virtual machines on the machine that is simulated: their vCPUs are threads of the host, and tasks of the workload
//! run inside.
//!
//! A task has a place: the host, or one of the machines. Words and cells are shared by the tasks of one place only, so
//! all tasks of a benchmark are in the same place. Times are ns.

use crate::build::Builder;
use crate::op::{Env, Op, Program};
use schedlab_base::{Error, Ns, Result, TaskId};
use schedlab_kernel::policy::{EVERY_TASK, group_of};
use schedlab_kernel::{Kernel, Variant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most vCPUs that a machine may have.
pub const MAX_VCPUS: u64 = 256;

/// The place where a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// The machine itself.
    #[default]
    Host,
    /// The virtual machine of that number.
    Inside(u32),
}

/// A virtual machine as an experiment states it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NestedSpec {
    /// Its name; vCPU n is the thread `NAME/n`.
    pub name: String,
    /// Number of vCPUs.
    pub vcpus: u64,
    /// The profile of its kernel.
    pub kernel: String,
    /// Toggles of its features, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Its tunables by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tunables: BTreeMap<String, u64>,
    /// Whether its tick goes on while a vCPU is idle, as in kernels without NO_HZ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub periodic_tick: bool,
    /// How long the host polls for work before it puts a halted vCPU's thread to sleep (kvm's `halt_poll_ns`).
    #[serde(default)]
    pub halt_poll: Ns,
    /// Names of the tasks inside; "*" for all.
    pub tasks: Vec<String>,
}

/// A virtual machine, resolved.
#[derive(Clone, Debug)]
pub struct NestedDecl {
    /// Its name.
    pub name: String,
    /// The threads of its vCPUs.
    pub vcpus: Vec<TaskId>,
    /// Its kernel.
    pub kernel: Kernel,
    /// Whether its tick goes on while a vCPU is idle.
    pub periodic_tick: bool,
    /// `halt_poll_ns` of the host.
    pub halt_poll: Ns,
}

/// The thread of a vCPU. The simulator runs the vCPU in its place.
struct VcpuThread;

impl Program for VcpuThread {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        Op::Exit
    }
}

/// Declares the machines' vCPUs and moves tasks into the machines.
///
/// # Errors
/// For an unknown kernel, feature, tunable or task, a number of vCPUs out of range, a task that two machines want, and a
/// benchmark that would be in two places.
pub(crate) fn build(machines: &[NestedSpec], b: &mut Builder) -> Result<()> {
    let tasks = b.next_task().index();
    for (number, spec) in machines.iter().enumerate() {
        for name in &spec.tasks {
            move_in(name, number as u32, &mut b.tasks_from(0)[..tasks])
                .map_err(|e| e.context(format!("nested machine '{}'", spec.name)))?;
        }
    }
    whole(&b.tasks_from(0)[..tasks])?;
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
        .map(|n| b.task(format!("{}/{n}", spec.name), Box::new(VcpuThread)))
        .collect::<Result<Vec<TaskId>>>()?;
    Ok(NestedDecl {
        name: spec.name.clone(),
        vcpus,
        kernel,
        periodic_tick: spec.periodic_tick,
        halt_poll: spec.halt_poll,
    })
}

/// Moves the tasks of that name into a machine.
fn move_in(name: &str, machine: u32, tasks: &mut [crate::build::TaskDecl]) -> Result<()> {
    let mut found = false;
    let mut known: Vec<String> = Vec::new();
    for task in tasks {
        let own = group_of(&task.name);
        if name == EVERY_TASK || own == name || task.name == name {
            if task.place != Place::Host && task.place != Place::Inside(machine) {
                return Err(Error::input(format!("task '{}' is in another machine already", task.name)));
            }
            task.place = Place::Inside(machine);
            found = true;
        } else if !known.iter().any(|k| k == own) {
            known.push(own.to_owned());
        }
    }
    if found { Ok(()) } else { Err(Error::unknown("task", name, known.iter().map(String::as_str))) }
}

/// Refuses a benchmark whose tasks are in several places.
fn whole(tasks: &[crate::build::TaskDecl]) -> Result<()> {
    for pair in tasks.windows(2) {
        if pair[0].part == pair[1].part && pair[0].place != pair[1].place {
            let text = format!("tasks '{}' and '{}' belong together", pair[0].name, pair[1].name);
            return Err(Error::input(text).help("name all tasks of a benchmark, or none"));
        }
    }
    Ok(())
}
