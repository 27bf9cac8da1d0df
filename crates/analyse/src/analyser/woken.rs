//! Where woken tasks go, from any source of events, relative to the CPU of a task's last stay and to its waker's CPU.
//! The kernel's reason is not used: only a simulator knows it.
//!
//! A wakeup counts in the first class that fits. Apart from these classes, the chosen CPU was `idle` if its idle task
//! was current and its queue empty when the woken task was queued (sched_wakeup), else `busy`.

use schedlab_base::CpuId;
use schedlab_machine::Topology;
use schedlab_machine::topology::Distance;
use schedlab_record::metric::woken::{PLACES, STATES};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum WokenPlace {
    Prev,
    Waker,
    Core,
    Llc,
    Node,
    Far,
}

/// The counters, and the topology by which wakeups are classified.
pub(super) struct Woken {
    topology: Topology,
    places: [u64; PLACES.len()],
    idle: u64,
}

impl Woken {
    pub fn on(topology: Topology) -> Woken {
        Woken { topology, places: [0; PLACES.len()], idle: 0 }
    }

    /// Counts a task queued on `target`; `waker` is its waker's CPU, `None` for a wakeup by an interrupt.
    pub fn count(&mut self, target: CpuId, prev: CpuId, waker: Option<CpuId>, idle: bool) {
        let Some(place) = self.place(target, prev, waker) else { return };
        self.places[place as usize] += 1;
        self.idle += u64::from(idle);
    }

    /// `None` if the machine lacks one of the CPUs.
    fn place(&self, target: CpuId, prev: CpuId, waker: Option<CpuId>) -> Option<WokenPlace> {
        if target.index().max(prev.index()) >= self.topology.nr_cpus() {
            return None;
        }
        Some(match self.topology.distance(prev, target) {
            Distance::Own => WokenPlace::Prev,
            _ if waker == Some(target) => WokenPlace::Waker,
            Distance::Smt => WokenPlace::Core,
            Distance::Llc => WokenPlace::Llc,
            // Cores that share a node may be in different packages; both count as the node.
            _ if self.topology.cpu(prev).node == self.topology.cpu(target).node => WokenPlace::Node,
            _ => WokenPlace::Far,
        })
    }

    /// Counters by metric name.
    pub fn counters(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let all: u64 = self.places.iter().sum();
        let places = PLACES.iter().map(|(name, _)| *name).zip(self.places);
        let states = STATES.iter().map(|(name, _)| *name).zip([self.idle, all - self.idle]);
        let named = places.chain(states).map(|(name, n)| (format!("woken.{name}"), n));
        std::iter::once(("woken".to_owned(), all)).chain(named)
    }
}
