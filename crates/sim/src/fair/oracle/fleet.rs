//! Questions about a whole machine. It has no time: what a function costs is set to nothing, so that no gate sees it.
//!
//! Groups are part of a state only where their shares are asked for. Of real-time tasks a state has what they take of a
//! CPU and their number.

use crate::balance::spare::imbalance::{Amount, AmountRule};
use crate::balance::state::Why;
use crate::fair::{Cfs, Eevdf, Fair};
use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, GroupId, Result, TaskId};
use schedlab_board::decision::{AskedFleet, FleetAnswer, FleetQuestion};
use schedlab_kernel::Kernel;
use schedlab_machine::Machine;
use schedlab_trace::{Event, EventKind, Sink};
use std::cell::Cell;

/// What the rules report while they are asked.
struct Reasons<'a> {
    /// The state is complete; what happened before is not of the answer.
    asking: &'a Cell<bool>,
    moved: Vec<TaskId>,
    words: Vec<String>,
}

impl Sink for Reasons<'_> {
    fn event(&mut self, event: &Event) {
        if !self.asking.get() {
            return;
        }
        match event.kind {
            EventKind::Migrate { task, .. } => self.moved.push(task),
            EventKind::Placed { reason, .. } => self.words = vec![format!("{reason:?}")],
            EventKind::Balance { level, why, .. } => self.words.push(format!("level {level}: {why:?}")),
            EventKind::Skip { level, why, .. } => self.words.push(format!("level {level}: {why:?}")),
            _ => {}
        }
    }
    fn wants_details(&self) -> bool {
        true
    }
}

/// The machine without costs, as all states have it.
///
/// # Errors
/// As [`Machine::without_costs`].
pub fn timeless(machine: &Machine) -> Result<Machine> {
    let mut machine = machine.without_costs()?;
    // The way to the next task is not part of a question: it stays ahead.
    let ahead = ["schedule_idle_ns", "schedule_sleep_ns", "schedule_preempt_ns"];
    ahead.iter().try_for_each(|name| machine.set_cost(name, 1_000))?;
    Ok(machine)
}

/// The answer of our rules, and why. The machine is one of [`timeless`].
pub fn answer(
    machine: &Machine,
    kernel: &Kernel,
    state: &AskedFleet,
    question: FleetQuestion,
) -> (FleetAnswer, String) {
    let asking = Cell::new(false);
    let mut reasons = Reasons { asking: &asking, moved: Vec::new(), words: Vec::new() };
    let mut sys = System::new(machine, *kernel, 1, &mut reasons);
    // A group is declared before any task.
    let group = (question == FleetQuestion::Shares).then(|| sys.declare(&state.group, state.cpu));
    let tasks = sys.write_fleet(state);
    asking.set(true);
    let (answer, why) = sys.ask_fleet(state, question, &tasks, group);
    drop(sys);
    let why = format!("{why}{}", reasons.words.join(", "));
    let named = |t: &TaskId| tasks.iter().position(|own| own == t);
    let mut moved: Vec<usize> = reasons.moved.iter().filter_map(named).collect();
    let answer = match answer {
        FleetAnswer::Moved(_) => FleetAnswer::Moved(moved),
        FleetAnswer::Searched { levels, .. } => {
            moved.sort_unstable();
            FleetAnswer::Searched { levels, came: moved }
        }
        answer => answer,
    };
    (answer, why)
}

impl System<'_> {
    /// Asks about a state that has been written. Tasks that move are reported to the sink, and not in the answer.
    fn ask_fleet(
        &mut self,
        state: &AskedFleet,
        question: FleetQuestion,
        tasks: &[TaskId],
        group: Option<GroupId>,
    ) -> (FleetAnswer, String) {
        let none = Vec::new;
        match question {
            FleetQuestion::Select => {
                let chosen = self.ask_select(state.cpu, tasks[state.about], state.sync);
                let why = chosen.affine.map(|why| format!("{why:?}, ")).unwrap_or_default();
                (FleetAnswer::At(chosen.cpu), why)
            }
            FleetQuestion::Busiest => {
                let pull = self.ask_busiest(state.cpu, state.level, state.trigger);
                let why = pull.map(|(_, amount)| format!("{:?}", amount.how)).unwrap_or_default();
                (FleetAnswer::Group(pull.map(|(cpu, amount)| (cpu, amount.migration, amount.amount))), why)
            }
            FleetQuestion::Detach => {
                let how = AmountRule::ToAverage;
                let amount = Amount { migration: state.migration, amount: state.imbalance, how };
                self.ask_detach(state.cpu, state.level, state.trigger, state.src, amount);
                (FleetAnswer::Moved(none()), String::new())
            }
            FleetQuestion::Newidle => {
                let levels = self.ask_newidle(state.cpu);
                (FleetAnswer::Searched { levels, came: none() }, String::new())
            }
            FleetQuestion::Fork | FleetQuestion::Exec => {
                let why = if question == FleetQuestion::Exec { Why::Exec } else { Why::Fork };
                let (cpu, steps) = self.ask_idlest(state.cpu, tasks[state.about], why);
                (FleetAnswer::At(cpu), steps.join(", "))
            }
            FleetQuestion::Shares => (FleetAnswer::Weight(self.ask_shares(group, state.cpu)), String::new()),
        }
    }

    fn ask_shares(&mut self, group: Option<GroupId>, cpu: CpuId) -> u64 {
        let Some(owner) = group.and_then(|g| self.owner_of(g, cpu)) else { return 0 };
        match self.fixed.fair {
            Class::Eevdf => Fair::<Eevdf>::update_group(self, owner),
            _ => Fair::<Cfs>::update_group(self, owner),
        }
        self.fair.entities[owner].fine_weight
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
