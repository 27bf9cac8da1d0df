//! Machines behind a link before a run.

use super::remote::Remote;
use crate::nested::machine::bare;
use crate::nested::set_up::prepare;
use crate::nested::{Hosted, Relay};
use crate::run::{load_workload, start_all};
use crate::system::System;
use schedlab_base::{CpuId, Result, Stream};
use schedlab_machine::Machine;
use schedlab_workload::{Built, Place, RemoteDecl};
use schedlab_world::engine::WinnerTree;

/// The machine with a CPU for each task: the host's costs, and no idle states.
///
/// # Errors
/// For a number of CPUs that no topology has.
pub fn machine(host: &Machine, decl: &RemoteDecl) -> Result<Machine> {
    bare(&decl.name, "a machine behind a link".to_owned(), decl.cpus, host.costs)
}

/// Boots the machine, with its tasks, and links it to the host.
pub fn boot<'s>(
    machine: &'s Machine,
    (decl, number): (&RemoteDecl, usize),
    part: Built,
    seed: u64,
    (relay, sink): (Relay, &'s mut Relay),
    host: &mut System<'s>,
) {
    let own = Stream::new(seed).purpose("remote").number(number as u64);
    let mut sys = System::new(machine, decl.kernel, own.below(0, u64::MAX), sink);
    let (cpus, place) = (sys.nr_cpus(), Place::Remote(number as u32));
    prepare(&mut sys, &part, place, Hosted::apart(cpus));
    let starters = load_workload(&mut sys, part, place);
    start_all(&mut sys, starters);
    let mut tree = WinnerTree::new(cpus, own.purpose("ties"));
    (0..cpus).for_each(|c| tree.arm(c, sys.next_event(CpuId::from(c))));
    sys.stepping.touched.clear();
    let (delay_ns, queues) = (decl.delay.0, decl.queues);
    let done = sys.run.alive == 0;
    host.run.alive += usize::from(!done);
    host.others.remotes.push(Remote { sys: Box::new(sys), delay_ns, queues, tree, relay, done });
}
