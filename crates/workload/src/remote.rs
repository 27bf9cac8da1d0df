//! Machines behind a link: a client on another host, with a CPU for each of its tasks.
//!
//! Its tasks meet the others only at channels. A message takes the link's delay in each direction, ns. The network's
//! bandwidth, loss, windows and acknowledgements are not modelled.

use crate::build::Builder;
pub use crate::decl::RemoteDecl;
use crate::place::{self, Place};
use schedlab_base::{Error, Ns, Result};
use schedlab_kernel::Variant;
use serde::{Deserialize, Serialize};

/// The most CPUs of a machine behind a link.
const MAX_CPUS: u64 = 512;

/// A machine behind a link in an experiment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemoteSpec {
    pub name: String,
    pub kernel: String,
    /// One-way delay of the link.
    pub delay: Ns,
    /// Number of queues of the network interface at this end: the first CPUs take its interrupts, by connection.
    pub queues: u64,
    pub tasks: Vec<String>,
}

/// Declares the machines, and moves tasks there.
///
/// # Errors
/// For an unknown kernel or task, and a task on two machines.
pub(crate) fn build(machines: &[RemoteSpec], b: &mut Builder) -> Result<()> {
    place::check_names(machines.iter().map(|m| m.name.as_str()), b)?;
    for (number, spec) in machines.iter().enumerate() {
        let decl = declare(spec, Place::Remote(number as u32), b)
            .map_err(|e| e.context(format!("remote machine '{}'", spec.name)))?;
        b.link_to(decl);
    }
    Ok(())
}

fn declare(spec: &RemoteSpec, place: Place, b: &mut Builder) -> Result<RemoteDecl> {
    if spec.queues == 0 {
        return Err(Error::input("a network interface has one queue or more"));
    }
    if spec.tasks.is_empty() {
        return Err(Error::input("no tasks are on it").help("tasks = [\"client\"]"));
    }
    for name in &spec.tasks {
        place::move_to(name, place, b.tasks_from(0))?;
    }
    let there = b.tasks_from(0).iter().filter(|t| t.place == place).count() as u64;
    let kernel = Variant::plain(&spec.kernel).resolve()?;
    Ok(RemoteDecl {
        name: spec.name.clone(),
        cpus: there.clamp(1, MAX_CPUS) as u32,
        kernel,
        delay: spec.delay,
        queues: spec.queues.min(u64::from(u32::MAX)) as u32,
    })
}
