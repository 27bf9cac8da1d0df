//! Runs on the kernel's own code, each in a process of its own.

mod debugging;
mod process;

pub use debugging::DEBUG_VARIABLE;
pub(crate) use process::run;
pub use process::{COMMAND, child};

use super::executor::Made;
use super::options::RunOptions;
use super::simulated;
use crate::ask::cell::Cell;
use crate::ask::code::settings;
use debugging::Debugging;
use schedlab_base::{Error, Ns, Result, Version, Warning};
use schedlab_board::nested::Guest;
use schedlab_board::net::Peer;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Change, History, Kernel, Tunables};
use schedlab_sim::{Explainer, Guests, Unlinked};
use schedlab_transplant::{Setting, Setup, fault, visits};

/// The file of a run with the visits of the addresses that were watched: a number a line, in their order.
pub(crate) const VISITS: &str = "visits";

/// Makes a run in this process, which must not have made another: an image has global state.
fn here(cell: &Cell, seed: u64, options: &RunOptions, debug: Debugging) -> Result<Option<Made>> {
    let code = cell.code.as_ref().ok_or_else(|| Error::internal("a cell of code without an image"))?;
    let factor = factor(cell, code.version);
    let settings = settings(&cell.variant.features, &cell.variant.tunables, factor)?;
    let mut watched = Ok(());
    let explains = options.explains || debug.rules;
    let made = simulated::made(cell, seed, options, |mut prepared, sink| {
        let warmup = prepared.workload.warmup;
        let workload = &mut prepared.workload;
        let mut guests = Guests::of(prepared.machine, workload)?;
        let mut links = Unlinked::of(prepared.machine, workload)?;
        let guests = guests.boot(seed).into_iter().map(|own| Box::new(own) as Box<dyn Guest + '_>).collect();
        let peers = links.boot(seed).into_iter().map(|peer| Box::new(peer) as Box<dyn Peer + '_>).collect();
        let setup = Setup {
            machine: prepared.machine,
            object: &code.object,
            plain: code.plain.as_deref(),
            level: code.setup.level,
            history: History::of(code.version),
            preempt: Preempt::numbered(code.preempt),
            settings,
            changes: changes(&cell.variant.at, warmup, factor)?,
            workload: prepared.workload,
            guests,
            peers,
            seed,
            background: !prepared.machine.background.is_empty(),
            rules: match explains {
                true => Some(Box::new(Explainer::new(prepared.machine, Kernel::of(code.version))?)),
                false => None,
            },
            walk_every: options.walk_every,
            debug: schedlab_transplant::Debug {
                guard: debug.guard,
                loaded: &mut || {
                    watched = visits::watch(&options.watched);
                    if debug.gdb {
                        fault::wait_for_debugger();
                    }
                },
            },
            stop: None,
            clock: None,
        };
        schedlab_transplant::simulate(setup, sink)
    })?;
    watched?;
    Ok(made.map(|mut made| {
        if !explains {
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
