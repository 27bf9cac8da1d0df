//! Warnings of simulated runs: where the figures say less than they seem to.

use crate::ask::cell::Cell;
use schedlab_base::{Backend, Ns, Ns32, Result, Warning};
use schedlab_guest::llc;
use schedlab_kernel::variant::SLICES_SINCE;
use schedlab_kernel::{Kernel, Policy};
use schedlab_machine::Machine;
use schedlab_record::Findings;
use schedlab_sim::{SimReport, booted};
use schedlab_workload::Built;
use schedlab_workload::beside::Parts;
use schedlab_workload::build::cut_off;

/// What warnings ask of a workload, noted before its run takes it.
pub(super) struct Noted {
    warmup: Ns,
    duration: Ns,
    /// Whether the run lasts until its programs are done.
    to_the_end: bool,
    asks_slices: bool,
    policies: Vec<Policy>,
    beside: Parts,
}

impl Noted {
    pub(super) fn of(workload: &Built) -> Noted {
        Noted {
            warmup: workload.warmup,
            duration: workload.duration,
            to_the_end: workload.to_the_end,
            asks_slices: workload.attrs().any(|a| a.slice != Ns32::ZERO && a.policy.is_fair()),
            policies: workload.attrs().map(|a| a.policy).collect(),
            beside: Parts::of(workload),
        }
    }

    /// The warnings of the run, in the order in which readers get them.
    ///
    /// # Errors
    /// When the variant's changes can't be resolved.
    pub(super) fn warnings(
        &self,
        cell: &Cell,
        machine: &Machine,
        report: &SimReport,
        found: &Findings,
    ) -> Result<Vec<Warning>> {
        let mut warnings = Vec::new();
        if cell.resolved.is_some() {
            warnings.extend(cell.variant.without_effect()?);
        }
        warnings.extend(guessed(cell));
        warnings.extend(ungathered(cell));
        let cut = self.to_the_end && report.end >= self.warmup.plus(self.duration);
        warnings.extend(cut.then(|| cut_off(self.duration)));
        warnings.extend(self.without_slices(cell));
        warnings.extend(self.without_policy(cell));
        let searched = found.counters.get("placement.probes").is_some_and(|probes| *probes > 0);
        if let (Some(kernel), true) = (&cell.resolved, searched && !self.to_the_end) {
            warnings.extend(too_short(machine, kernel, self.warmup, self.duration));
        }
        let ends: Vec<Option<Ns>> = report.tasks.iter().map(|t| t.ended).collect();
        warnings.extend(self.beside.ended_early(&ends, self.warmup, report.end));
        warnings.extend(report.missed.map(missed));
        Ok(warnings)
    }

    fn without_slices(&self, cell: &Cell) -> Option<Warning> {
        let is_old = cell.release().is_some_and(|version| version < SLICES_SINCE);
        let unasked = cell.variant.tasks.values().all(|t| t.slice.is_none());
        let text =
            || format!("its tasks ask for slices, which kernels before {SLICES_SINCE} take no notice of");
        (self.asks_slices && is_old && unasked).then(|| Warning::new("workload.slice", text()))
    }

    fn without_policy(&self, cell: &Cell) -> Option<Warning> {
        let version = cell.release().unwrap_or(SLICES_SINCE);
        let absent = |p: &Policy| p.since().filter(|v| version < *v).map(|since| (*p, since));
        let (policy, since) = self.policies.iter().find_map(absent)?;
        let text = format!(
            "its tasks of policy {policy} are taken as ordinary ones: kernels before {since} have no such policy"
        );
        Some(Warning::new("workload.policy", text))
    }
}

/// The warning of a simulated run whose costs were neither stated nor measured. A probe of this host takes
/// seconds, and its costs may be several times the assumed ones.
pub(crate) fn guessed(cell: &Cell) -> Option<Warning> {
    let guessed = cell.backend == Backend::Sim && cell.machine.is_guessed();
    let text = "the costs of machine 'host' are guesses, those of a machine of no make: times may be off several-fold, \
                and changes with them; 'schedlab machine probe' measures this machine's in about eight seconds, and \
                simulations of 'host' have them from then on";
    guessed.then(|| Warning::new("costs.guessed", text.to_owned()))
}

/// The warning of a simulated run of a kernel that would gather a process in one of the machine's caches.
fn ungathered(cell: &Cell) -> Option<Warning> {
    let version = cell.release().filter(|_| cell.backend == Backend::Sim)?;
    let text = || {
        format!(
            "kernels from {} on gather the threads of a process in one last-level cache (SCHED_CACHE, on where \
             a machine has several, as {} has); the rules of {version} lack that, so their migrations and times may be \
             others: --backend code has it",
            llc::SINCE,
            cell.machine.name
        )
    };
    llc::is_on(version, &cell.machine.topology).then(|| Warning::new("sim.caches", text()))
}

/// The warning about a change after the run's end, as a live run gives it.
fn missed(at: Ns) -> Warning {
    Warning::new("settings.missed", format!("the run was over before its change at {at} was made"))
}

/// Warns of a run that measures a kernel whose slow state does not follow the load yet: half of the measured time or
/// more passes before busy CPUs compute it a second time. They compute it first at the first tick.
fn too_short(machine: &Machine, kernel: &Kernel, warmup: Ns, duration: Ns) -> Option<Warning> {
    let late = |every: Ns| every > warmup.plus(Ns(duration.0 / 2));
    let slow = booted::slow(machine, kernel).into_iter().find(|s| late(s.every))?;
    let (reader, name, every) = (slow.reader, slow.name, slow.every);
    let text = format!(
        "{reader} reads {name}, which busy CPUs of {} compute every {every}: most of this run has the value of its first \
         tick. A longer run, or as long a warm-up where the workload has one, shows the kernel under its load",
        machine.name
    );
    Some(Warning::new("run.short", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_short_if_its_slow_state_is_computed_once() {
        // nr_idle_scan is computed every 1,020 ms there.
        let machine = Machine::load("smp-32").expect("a preset");
        let warns = |kernel: &str, warmup_ms: u64, ms: u64| {
            let kernel = Kernel::profile(kernel).expect("a profile");
            too_short(&machine, &kernel, Ns::ms(warmup_ms), Ns::ms(ms)).is_some()
        };
        assert!(warns("v6.1", 0, 300) && warns("v6.1", 0, 2_000));
        assert!(!warns("v6.1", 0, 2_100) && !warns("v6.1", 1_000, 300), "a long run, and a long warm-up");
        assert!(!warns("v5.15", 0, 300), "nothing reads it there");
    }
}
