//! A machine, as the image takes it.

use crate::abi;
use schedlab_machine::Machine;
use std::ffi::{CString, c_uint};

/// The arrays behind `struct img_machine`.
pub struct Arrays {
    node: Vec<c_uint>,
    package: Vec<c_uint>,
    core: Vec<c_uint>,
    cluster: Vec<c_uint>,
    llc: Vec<c_uint>,
    capacity: Vec<c_uint>,
    distance: Vec<u8>,
    nr_nodes: usize,
    state_names: Vec<CString>,
    states: Vec<abi::IdleState>,
}

impl Arrays {
    pub fn of(machine: &Machine) -> Arrays {
        let topology = &machine.topology;
        let by = |unit: fn(&schedlab_machine::Cpu) -> u32| topology.cpus.iter().map(unit).collect();
        let nr_nodes = topology.cpus.iter().map(|c| c.node as usize + 1).max().unwrap_or(1);
        let far = |a: usize, b: usize| {
            let stated = topology.node_distance.get(a).and_then(|row| row.get(b)).copied();
            stated.unwrap_or(if a == b { 10 } else { 20 }).min(255) as u8
        };
        let state_names: Vec<CString> =
            machine.idle_states.iter().map(|s| CString::new(s.name.as_str()).unwrap_or_default()).collect();
        let states = machine.idle_states.iter().zip(&state_names).map(|(state, name)| abi::IdleState {
            name: name.as_ptr(),
            exit_ns: state.exit.0,
            residency_ns: state.residency.0,
            polls: 0,
        });
        Arrays {
            node: by(|c| c.node),
            package: by(|c| c.package),
            core: by(|c| c.core),
            cluster: by(|c| c.cluster),
            llc: by(|c| c.llc),
            capacity: (0..topology.nr_cpus()).map(|c| topology.capacity.get(c).map_or(1024, |c| *c as c_uint)).collect(),
            distance: (0..nr_nodes).flat_map(|a| (0..nr_nodes).map(move |b| far(a, b))).collect(),
            nr_nodes,
            states: states.collect(),
            state_names,
        }
    }

    /// The image's view of the arrays, valid as long as they are.
    pub fn raw(&self, machine: &Machine, seed: u64) -> abi::Machine {
        debug_assert_eq!(self.state_names.len(), self.states.len());
        let largest = machine.caches.last().map_or(32 << 20, |c| c.size_kb << 10);
        abi::Machine {
            nr_cpus: self.node.len() as c_uint,
            nr_nodes: self.nr_nodes as c_uint,
            node: self.node.as_ptr(),
            package: self.package.as_ptr(),
            core: self.core.as_ptr(),
            cluster: self.cluster.as_ptr(),
            llc: self.llc.as_ptr(),
            capacity: self.capacity.as_ptr(),
            distance: self.distance.as_ptr(),
            llc_bytes: largest,
            seed,
            hz: 0,
            nr_idle_states: self.states.len() as c_uint,
            idle_states: self.states.as_ptr(),
        }
    }
}
