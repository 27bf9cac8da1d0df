//! Machines behind a link before a run.

use super::Nic;
use super::remote::Remote;
use crate::engine::WinnerTree;
use crate::nested::{Hosted, Relay};
use crate::run::load_workload;
use crate::system::System;
use schedlab_base::{CpuId, Ns, Result, Stream};
use schedlab_machine::shape::Shape;
use schedlab_machine::{IdleGovernor, IdleState, Machine};
use schedlab_workload::{Built, Place, RemoteDecl};

/// The machine with a CPU for each task: the host's costs, and no idle states.
///
/// # Errors
/// For a number of CPUs that no topology has.
pub fn machine(host: &Machine, decl: &RemoteDecl) -> Result<Machine> {
    let awake = |name: &str| IdleState {
        name: name.to_owned(),
        exit: Ns::ZERO,
        residency: Ns::ZERO,
        typical: Ns::ZERO,
    };
    Ok(Machine {
        name: decl.name.clone(),
        about: "a machine behind a link".to_owned(),
        topology: Shape::flat(decl.cpus, 1).topology()?,
        costs: host.costs,
        kernels: Vec::new(),
        idle_states: vec![awake("POLL"), awake("HLT")],
        idle_governor: IdleGovernor::Halt,
        background: Vec::new(),
        background_from: None,
        caches: Vec::new(),
        migration: None,
        turns: None,
        unfit: None,
        provenance: Vec::new(),
        os_cpu: Vec::new(),
    })
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
    sys.accounts.measure_from = part.warmup.0;
    sys.others.hosted = Some(Hosted::apart(cpus));
    sys.others.nic = Nic::new(&part, place, cpus);
    for task in load_workload(&mut sys, part, place) {
        sys.start_task(task);
        let cpu = sys.tasks[task].cpu;
        sys.kick(CpuId(0), cpu);
    }
    let mut tree = WinnerTree::new(cpus, own.purpose("ties"));
    (0..cpus).for_each(|c| tree.arm(c, sys.next_event(CpuId::from(c))));
    sys.stepping.touched.clear();
    let (delay_ns, queues) = (decl.delay.0, decl.queues);
    let done = sys.run.alive == 0;
    host.run.alive += usize::from(!done);
    host.others.remotes.push(Remote { sys: Box::new(sys), delay_ns, queues, tree, relay, done });
}
