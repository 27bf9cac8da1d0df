//! Guests at rest. A deterministic guest is booted once per image and machine, comes to rest, and is stopped and saved.
//! Each run loads that state and continues from it. So no run precedes another in the same guest, and all share one
//! boot.
//!
//! Invariant: the state that a run finds depends only on its guest, machine, programs and seed. The boot has its own
//! seed, it is stopped at an exact instant of the guest's time ([`crate::wake`]), and a state is loaded bit by bit.
//!
//! The guest's memory is in unnamed files of this process ([`crate::sys::memory_file`]). The booting guest writes to
//! them; guests that continue map them privately, so loading copies only the state of devices and CPUs, about 400 KB.
//! Everything disappears when the process ends, however it ends.

use crate::job::Boot;
use crate::limits::Limits;
use crate::qemu::{self, Files, Way};
use crate::run::{self, Place};
use crate::wake::SETTLE;
use crate::watch::{self, Rested};
use crate::{Guest, Mode, sys};
use schedlab_base::{Error, Result};
use schedlab_machine::Machine;
use schedlab_native::live::Request;
use schedlab_workload::Spec;
use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// The most guests at rest. Each occupies the memory that its boot wrote to, 150 to 250 MB.
const MOST: usize = 8;

#[derive(Debug)]
pub(crate) struct Rest {
    /// Its memory, one file per node.
    pub memory: Vec<File>,
    /// The state of its devices and CPUs.
    pub state: File,
    /// The kernel's log so far.
    pub log: String,
}

/// A slot for a guest at rest: empty until it is booted. A locked slot means that the boot is under way.
#[derive(Debug)]
struct Slot {
    key: String,
    rest: Mutex<Option<Arc<Rest>>>,
}

/// This process's guests at rest, kept for later runs. The least recently used one is dropped first.
#[derive(Debug, Default)]
pub struct AtRest {
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl AtRest {
    pub const fn new() -> AtRest {
        AtRest { slots: Mutex::new(Vec::new()) }
    }

    /// The guest at rest for a run, booted if necessary; `None` when `stop` became true before.
    pub(crate) fn of(
        &self,
        guest: &Guest,
        machine: &Machine,
        request: &Request,
        limits: Limits,
        stop: &AtomicBool,
    ) -> Result<Option<Arc<Rest>>> {
        let slot = self.slot(key(guest, machine, request)?);
        let mut rest = slot.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if rest.is_none() {
            *rest = boot(guest, machine, request, limits, stop)?.map(Arc::new);
        }
        Ok(rest.clone())
    }

    fn slot(&self, key: String) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match slots.iter().position(|slot| slot.key == key) {
            Some(at) => slots.remove(at),
            None => Arc::new(Slot { key, rest: Mutex::new(None) }),
        };
        if slots.len() >= MOST {
            slots.remove(0);
        }
        slots.push(slot.clone());
        slot
    }
}

/// Everything that a rest depends on: the guest, its machine, and the programs in its initramfs.
fn key(guest: &Guest, machine: &Machine, request: &Request) -> Result<String> {
    let command = matches!(request.spec, Spec::Command(_)).then_some(&request.spec);
    let parts = (
        guest.setup(machine),
        &guest.qemu.program,
        &machine.topology,
        command,
        request.variant.scx.as_ref().and_then(|scx| Some(scx.words()?.0.to_owned())),
    );
    serde_json::to_string(&parts).map_err(|e| Error::internal(format!("a guest as JSON: {e}")))
}

fn boot(
    guest: &Guest,
    machine: &Machine,
    request: &Request,
    limits: Limits,
    stop: &AtomicBool,
) -> Result<Option<Rest>> {
    let boot = Boot { settle: SETTLE, llc_balancing_off: guest.setup(machine).llc_balancing_off, job: None };
    let place = Place::new()?;
    place.pack(&guest.image, request, &boot)?;
    let memory = qemu::nodes(guest.memory_mb, &machine.topology)
        .into_iter()
        .map(|bytes| {
            let file = sys::memory_file()?;
            file.set_len(bytes)?;
            Ok(file)
        })
        .collect::<std::io::Result<Vec<File>>>()
        .and_then(|memory| Ok((memory, sys::memory_file()?)));
    let (memory, state) =
        memory.map_err(|e| Error::machine(format!("no memory for a guest at rest: {e}")))?;
    let files = Files { kernel: &guest.image.path, ..place.files() };
    let mut command = qemu::command(guest, machine, 0, files, Way::ToRest(&memory))?;
    sys::inherit(&mut command, std::slice::from_ref(&state));
    let rested = watch::watch_to_rest(command, place.outputs(true), &qemu::inherited(&state), limits, stop);
    match rested.map_err(|e| run::named(e, guest, machine))? {
        None => Ok(None),
        Some(Rested::Saved(log)) => Ok(Some(Rest { memory, state, log })),
        Some(Rested::Replied(left)) => {
            debug_assert_eq!(guest.mode, Mode::Deterministic);
            run::outcome(guest, machine, &request.variant, &left)?;
            Err(run::named(Error::internal("its init has replied without a job"), guest, machine))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_that_was_not_used_for_longest_goes_first() {
        let all = AtRest::new();
        let first = all.slot("0".to_owned());
        (1..MOST).for_each(|i| drop(all.slot(i.to_string())));
        assert!(Arc::ptr_eq(&first, &all.slot("0".to_owned())), "it is used again");
        drop(all.slot("more".to_owned()));
        let keys: Vec<String> = all.slots.lock().unwrap().iter().map(|slot| slot.key.clone()).collect();
        assert_eq!(keys.len(), MOST);
        assert!(keys.contains(&"0".to_owned()) && !keys.contains(&"1".to_owned()), "{keys:?}");
    }
}
