//! Machines behind a link before a run.

use super::remote::Remote;
use crate::nested::machine::bare;
use crate::nested::set_up::part;
use crate::nested::{Hosted, Relay};
use crate::run::{load_workload, start_all};
use crate::system::System;
use schedlab_base::{CpuId, Result, Stream};
use schedlab_board::board::Kernel as _;
use schedlab_board::engine::WinnerTree;
use schedlab_board::masks::confine;
use schedlab_machine::Machine;
use schedlab_workload::{Built, Place, RemoteDecl};

/// The machines behind a workload's links, before they boot.
pub struct Unlinked(Vec<Unbooted>);

struct Unbooted {
    decl: RemoteDecl,
    machine: Machine,
    part: Option<Built>,
    relay: Relay,
    sink: Relay,
}

impl Unlinked {
    /// Takes the machines, with their tasks' programs, out of a workload of `host`. Each has a CPU for each task, the
    /// host's costs, and no idle states.
    ///
    /// # Errors
    /// For a number of CPUs that no topology has.
    pub fn of(host: &Machine, workload: &mut Built) -> Result<Unlinked> {
        let decls = std::mem::take(&mut workload.remotes);
        let one = |(n, decl): (usize, RemoteDecl)| {
            let about = "a machine behind a link".to_owned();
            let machine = bare(&decl.name, about, decl.cpus, host.costs)?;
            let mut part = part(workload, Place::Remote(n as u32));
            confine(&mut part, &machine)?;
            let relay = Relay::default();
            Ok(Unbooted { decl, machine, part: Some(part), sink: relay.clone(), relay })
        };
        Ok(Unlinked(decls.into_iter().enumerate().map(one).collect::<Result<_>>()?))
    }

    /// Boots the machines, with their tasks.
    pub fn boot(&mut self, seed: u64) -> Vec<Remote<'_>> {
        self.0.iter_mut().enumerate().filter_map(|(number, own)| own.boot(number, seed)).collect()
    }
}

impl Unbooted {
    fn boot(&mut self, number: usize, seed: u64) -> Option<Remote<'_>> {
        let (decl, part) = (&self.decl, self.part.take()?);
        let own = Stream::new(seed).purpose("remote").number(number as u64);
        let mut sys = System::new(&self.machine, decl.kernel, own.below(0, u64::MAX), &mut self.sink);
        let (cpus, place) = (sys.nr_cpus(), Place::Remote(number as u32));
        sys.hosted = Some(Hosted::apart(cpus));
        let starters = load_workload(&mut sys, part, place);
        start_all(&mut sys, starters);
        let mut tree = WinnerTree::new(cpus, own.purpose("ties"));
        (0..cpus).for_each(|c| tree.arm(c, sys.next_event(CpuId::from(c))));
        sys.stepping.touched.clear();
        let done = sys.run.alive == 0;
        let (delay_ns, queues, relay) = (decl.delay.0, decl.queues, self.relay.clone());
        Some(Remote { sys: Box::new(sys), delay_ns, queues, tree, relay, done })
    }
}
