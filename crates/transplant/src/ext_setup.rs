//! Steps before a scheduler is attached: programs of kind syscall, which its own program runs.

use crate::ext::Functions;
use schedlab_base::{CpuId, Error, Result};
use schedlab_machine::Topology;
use schedlab_scx::{Scheduler, Setup};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;

/// Pages that the library takes from the arena at a time.
const STATIC_PAGES: u64 = 8;

/// Runs the steps. `programs`: the image's numbers of the scheduler's programs.
///
/// # Errors
/// If a program returns anything but 0.
pub(crate) fn run(
    scheduler: &Scheduler,
    functions: &Functions,
    programs: &[c_int],
    topology: &Topology,
) -> Result<()> {
    let call = |program: usize, context: &mut [u8]| -> Result<()> {
        // SAFETY: the program's argument is a struct of that many bytes, which lives through the call.
        let result =
            unsafe { (functions.img_bpf_program_run)(programs[program], context.as_mut_ptr().cast()) };
        let name = &scheduler.programs[program].name;
        match result {
            0 => Ok(()),
            other => Err(Error::input(format!("scheduler {}: {name} returns {other}", scheduler.name))),
        }
    };
    for step in &scheduler.setup {
        match step {
            Setup::Run { program, context } => call(*program, &mut context.clone())?,
            Setup::ArenaLibrary { programs, task_bytes } => {
                let [init, levels, mask, node] = programs[..] else { continue };
                call(init, &mut words(&[STATIC_PAGES, *task_bytes]))?;
                let most: Vec<u8> = most_children(topology).iter().flat_map(|n| n.to_le_bytes()).collect();
                call(levels, &mut most.clone())?;
                for (id, cpus) in units(topology) {
                    let mut made = words(&[0]);
                    call(mask, &mut made)?;
                    let at = u64::from_le_bytes(made[..].try_into().unwrap_or_default());
                    // SAFETY: the program gives a mask of the arena, with a bit for each CPU.
                    cpus.iter().for_each(|cpu| unsafe {
                        *(at as *mut u64).add(cpu / 64) |= 1 << (cpu % 64);
                    });
                    call(node, &mut words(&[at, 0, u64::from(id)]))?;
                }
            }
        }
    }
    Ok(())
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Numbers of a CPU's units, from the machine to the CPU.
fn path(topology: &Topology, cpu: usize) -> [u32; 5] {
    let c = topology.cpu(CpuId::from(cpu));
    [0, c.node, c.llc, c.core, cpu as u32]
}

/// The most parts that a unit of each level has.
fn most_children(topology: &Topology) -> [u32; 5] {
    let mut most = [0; 5];
    for level in 0..4 {
        let mut parts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for cpu in 0..topology.nr_cpus() {
            let path = path(topology, cpu);
            parts.entry(path[level]).or_default().insert(path[level + 1]);
        }
        most[level] = parts.values().map(BTreeSet::len).max().unwrap_or(0) as u32;
    }
    most
}

/// All units with their CPUs, larger ones first.
fn units(topology: &Topology) -> Vec<(u32, Vec<usize>)> {
    let mut made = Vec::new();
    for level in 0..5 {
        let mut units: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for cpu in 0..topology.nr_cpus() {
            units.entry(path(topology, cpu)[level]).or_default().push(cpu);
        }
        made.extend(units);
    }
    made
}
