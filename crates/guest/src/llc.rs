//! Balancing by last-level caches (SCHED_CACHE, 7.2; read in 7.2.12 and 7.3.4), which no profile models.
//!
//! A kernel with SCHED_CACHE moves the threads of a program to one last-level cache if the machine has several. The
//! simulator does not, so a guest with several caches boots with it disabled. If a variant sets the tunable
//! [`TUNABLE`], its value applies before the run begins. With one cache the kernel disables it itself, and the guest is
//! not changed.

use schedlab_base::{Version, Warning};
use schedlab_kernel::Variant;
use schedlab_machine::Topology;
use std::fs;
use std::path::Path;

/// The first kernel that can have it.
pub const SINCE: Version = Version::new(7, 2);

/// The kernel's switch as a tunable: a file in debugfs's `sched`.
pub const TUNABLE: &str = "llc_balancing/enabled";

/// The kernel's switch in debugfs. Kernels without SCHED_CACHE lack the file.
const SWITCH: &str = "/sys/kernel/debug/sched/llc_balancing/enabled";

/// Whether a kernel enables it by default on these CPUs.
pub fn is_on(version: Version, topology: &Topology) -> bool {
    version >= SINCE && topology.cpus.iter().any(|cpu| cpu.llc != topology.cpus[0].llc)
}

/// Whether a guest with this kernel and these CPUs boots with it disabled.
pub fn is_switched_off(release: &str, topology: &Topology) -> bool {
    Version::parse(release).is_ok_and(|version| is_on(version, topology))
}

/// Whether a variant sets it at the start.
pub fn is_chosen(variant: &Variant) -> bool {
    variant.tunables.contains_key(TUNABLE)
}

/// Disables it in the guest. Returns a warning about it; `None` if the kernel does not have it.
pub fn switch_off() -> Option<Warning> {
    let switch = Path::new(SWITCH);
    if !switch.exists() {
        return None;
    }
    let text = match fs::write(switch, "0") {
        Ok(()) => "balancing by last-level caches (SCHED_CACHE) is switched off in this guest, since no profile models it".to_owned(),
        Err(e) => format!(
            "balancing by last-level caches (SCHED_CACHE), which no profile models, can't be switched off ({SWITCH}: {e})"
        ),
    };
    Some(Warning::new("guest.llc_balancing", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Change;
    use schedlab_machine::Machine;

    #[test]
    fn only_guests_of_several_caches_and_kernels_that_may_have_it_run_without_it() {
        let of = |release: &str, machine: &str| {
            is_switched_off(release, &Machine::load(machine).expect("a machine").topology)
        };
        assert!(of("7.3.4+deb13-cloud-amd64", "nodes-2x4"));
        assert!(!of("7.3.4+deb13-cloud-amd64", "smp-8"));
        assert!(!of("6.12.117", "nodes-2x4") && !of("7.1.5", "nodes-2x4"));
    }

    #[test]
    fn a_variant_that_switches_it_in_the_middle_of_a_run_begins_with_it_off() {
        let mut variant = Variant::plain("7.3");
        let tunables = [(TUNABLE.to_owned(), 1)];
        variant.at = vec![Change { tunables: tunables.clone().into(), ..Change::default() }];
        assert!(!is_chosen(&variant));
        variant.tunables.extend(tunables);
        assert!(is_chosen(&variant));
    }
}
