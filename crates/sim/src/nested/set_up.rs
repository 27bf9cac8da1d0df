//! Virtual machines before a run: the workload's tasks go to their places, and the guests boot.

use super::machine::guest;
use super::{GuestKernel, Hosted, Relay};
use crate::run::{load_workload, start_all};
use crate::system::System;
use schedlab_base::{CpuId, Result, Stream};
use schedlab_board::masks::confine;
use schedlab_machine::Machine;
use schedlab_workload::{Built, Env, NestedDecl, Op, Place, Program, TaskDecl};

/// A task that is elsewhere.
struct Elsewhere;

impl Program for Elsewhere {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        Op::Exit
    }
}

/// Takes the part that runs elsewhere out of the workload. It has all tasks by their ids; those that are not there
/// never start.
pub fn part(whole: &mut Built, place: Place) -> Built {
    let tasks = whole.tasks.iter_mut().map(|task| twin(task, place)).collect();
    Built {
        tasks,
        words: whole.words,
        slots: whole.slots,
        series: whole.series.clone(),
        channels: whole.channels.clone(),
        sets: whole.sets.clone(),
        masks: whole.masks.clone(),
        cpus_at: whole.cpus_at.clone(),
        later_attrs: Vec::new(),
        later: Vec::new(),
        duration: whole.duration,
        warmup: whole.warmup,
        to_the_end: whole.to_the_end,
        processes: whole.processes,
        beside: Vec::new(),
        groups: whole.groups[..1].to_vec(),
        nested: Vec::new(),
        remotes: Vec::new(),
        ends: whole.ends.clone(),
    }
}

/// The task as a part has it; the program goes to the part that runs it.
fn twin(task: &mut TaskDecl, place: Place) -> TaskDecl {
    let mut twin = task.without_program(Box::new(Elsewhere));
    if task.place == place {
        std::mem::swap(&mut twin.program, &mut task.program);
        // It runs on the CPUs of its own machine.
        task.affinity = None;
    } else {
        twin.affinity = None;
    }
    twin
}

/// The virtual machines of a workload, before they boot.
pub struct Guests(Vec<Unbooted>);

struct Unbooted {
    decl: NestedDecl,
    /// The machine that it sees.
    seen: Machine,
    part: Option<Built>,
    relay: Relay,
    sink: Relay,
}

impl Guests {
    /// Takes the virtual machines, with their tasks' programs, out of a workload of `host`.
    ///
    /// # Errors
    /// For a number of vCPUs that no topology has.
    pub fn of(host: &Machine, workload: &mut Built) -> Result<Guests> {
        let decls = std::mem::take(&mut workload.nested);
        let one = |(n, decl): (usize, NestedDecl)| {
            let seen = guest(host, &decl.name, decl.vcpus.len() as u32)?;
            let mut part = part(workload, Place::Inside(n as u32));
            confine(&mut part, &seen)?;
            let relay = Relay::default();
            Ok(Unbooted { decl, seen, part: Some(part), sink: relay.clone(), relay })
        };
        Ok(Guests(decls.into_iter().enumerate().map(one).collect::<Result<_>>()?))
    }

    /// Boots the guests: their tasks are there, and run as soon as their vCPUs do.
    pub fn boot(&mut self, seed: u64) -> Vec<GuestKernel<'_>> {
        self.0.iter_mut().enumerate().filter_map(|(number, own)| own.boot(number, seed)).collect()
    }
}

impl Unbooted {
    fn boot(&mut self, number: usize, seed: u64) -> Option<GuestKernel<'_>> {
        let (decl, part) = (&self.decl, self.part.take()?);
        let vcpus = decl.vcpus.len();
        let own_seed = Stream::new(seed).purpose("nested").number(number as u64).below(0, u64::MAX);
        let place = Place::Inside(number as u32);
        let mut sys = System::new(&self.seen, decl.kernel, own_seed, &mut self.sink);
        sys.hosted = Some(Hosted::new(vcpus, decl.periodic_tick));
        if decl.periodic_tick {
            // Each vCPU starts its timer as it boots: ticks are out of phase.
            let phases = sys.fixed.stream.purpose("tick");
            for cpu in (0..vcpus).map(CpuId::from) {
                sys.cpus[cpu].tick_at = 1 + phases.number(u64::from(cpu.0)).below(0, sys.fixed.tick_ns);
            }
        }
        let starters = load_workload(&mut sys, part, place);
        start_all(&mut sys, starters);
        sys.stepping.touched.clear();
        Some(GuestKernel {
            sys: Box::new(sys),
            threads: (decl.vcpus.clone(), decl.vhost),
            paused_at: vec![0; vcpus],
            halt_poll_ns: decl.halt_poll.0,
            relay: self.relay.clone(),
            done: false,
        })
    }
}
