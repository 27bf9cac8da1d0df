//! Runs on the kernel's own code. A machine boots and comes to rest once, in a process of its own, of which each run is
//! a copy ([`crate::make::exec::image_process`]).

mod at_rest;
mod debugging;
mod process;
mod scheduler;

pub use at_rest::end_waiting;
pub use debugging::DEBUG_VARIABLE;
pub(crate) use process::run;
pub use process::{COMMAND, child};

use super::executor::Made;
use super::options::RunOptions;
use super::simulated;
use crate::ask::cell::Cell;
use crate::ask::code::{CodeImage, settings};
use debugging::Debugging;
use schedlab_base::{Error, Ns, Result, Version, Warning};
use schedlab_board::nested::Guest;
use schedlab_board::net::Peer;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Change, History, Kernel, Tunables};
use schedlab_machine::Machine;
use schedlab_sim::{Explainer, Guests, Unlinked};
use schedlab_transplant::{Ground, Rested, Setting, Setup, fault, visits};

/// The file of a run with the visits of the addresses that were watched: a number a line, in their order.
pub(crate) const VISITS: &str = "visits";

fn image(cell: &Cell) -> Result<&CodeImage> {
    cell.code.as_ref().ok_or_else(|| Error::internal("a cell of code without an image"))
}

/// The cell's machine at rest under its kernel; `beside` has the costs that counted code does not have. A process makes
/// one.
fn rested<'m>(
    cell: &'m Cell,
    [machine, beside]: [&'m Machine; 2],
    watched: &[u64],
    debug: Debugging,
) -> Result<Rested<'m>> {
    let code = image(cell)?;
    let mut watches = Ok(());
    let ground = Ground {
        machine,
        beside,
        object: &code.object,
        plain: code.plain.as_deref(),
        level: code.setup.level,
        history: History::of(code.version),
        preempt: Preempt::numbered(code.preempt),
        settings: settings(&cell.variant.features, &cell.variant.tunables, factor(cell, code.version))?,
        background: !machine.background.is_empty(),
    };
    let mut debug = schedlab_transplant::Debug {
        guard: debug.guard,
        loaded: &mut || {
            watches = visits::watch(watched);
            if debug.gdb {
                fault::wait_for_debugger();
            }
        },
    };
    let rested = Rested::of(ground, &mut debug)?;
    watches.map(|()| rested)
}

/// Makes a run on a machine at rest, in this process.
fn here(rested: Rested<'_>, cell: &Cell, seed: u64, options: &RunOptions) -> Result<Option<Made>> {
    let code = image(cell)?;
    let factor = factor(cell, code.version);
    let made = simulated::made(cell, seed, options, |mut prepared, sink| {
        let warmup = prepared.workload.warmup;
        let workload = &mut prepared.workload;
        let mut guests = Guests::of(prepared.machine, workload)?;
        let mut links = Unlinked::of(prepared.machine, workload)?;
        let guests = guests.boot(seed).into_iter().map(|own| Box::new(own) as Box<dyn Guest + '_>).collect();
        let peers = links.boot(seed).into_iter().map(|peer| Box::new(peer) as Box<dyn Peer + '_>).collect();
        let setup = Setup {
            changes: changes(&cell.variant.at, warmup, factor)?,
            workload: prepared.workload,
            guests,
            peers,
            seed,
            ext: cell.variant.scx.as_ref().map_or(Ok(None), |scx| scheduler::of(scx, &cell.machine, code))?,
            later_ext: scheduler::later(cell, warmup, code)?,
            rules: match options.explains {
                true => Some(Box::new(Explainer::new(prepared.machine, Kernel::of(code.version))?)),
                false => None,
            },
            walk_every: options.walk_every,
            until: options.until,
            stop: None,
            clock: None,
        };
        schedlab_transplant::simulate(rested, setup, sink)
    })?;
    Ok(made.map(|mut made| {
        if !options.explains {
            made.record.found.keep_what_code_shows();
        }
        if !options.watched.is_empty() {
            let counts: Vec<String> = visits::counts().iter().map(u64::to_string).collect();
            made.files.push((VISITS, counts.join("\n").into_bytes()));
        }
        let warnings = code.warnings.iter().map(|text| Warning::new("code.patch", text));
        made.record.found.warnings.extend(warnings);
        made
    }))
}

/// The factor of granularities for the machine's CPUs.
fn factor(cell: &Cell, version: Version) -> u64 {
    let mut tunables = Tunables::defaults(version);
    if let Some(scaling) = cell.variant.tunables.get("scale_by_cpus") {
        tunables.scale_by_cpus = *scaling;
    }
    tunables.factor(cell.machine.topology.cpus.len())
}

/// A variant's changes of the kernel in the middle of a run.
fn changes(at: &[Change], warmup: Ns, factor: u64) -> Result<Vec<(Ns, Vec<Setting>)>> {
    let of = |c: &Change| Ok((warmup.plus(c.time), settings(&c.features, &c.tunables, factor)?));
    at.iter().filter(|c| c.is_of_kernel()).map(of).collect()
}
