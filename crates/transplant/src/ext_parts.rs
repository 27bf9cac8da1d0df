//! A run under sched_ext schedulers: one from its start, and others instead, or none, each from its time on.
//!
//! A scheduler ends where the next one begins: tasks are the fair class's for an instant, as on a kernel. A program is
//! asked to end (SIGINT) and takes its scheduler off itself; an object is unregistered.

use crate::engine::Engine;
use crate::ext::Enabled;
use crate::ext_account::Account;
use crate::ext_program::{self, Program};
use crate::run::{Clock, Ended, Order, Outside, Scx};
use schedlab_base::{Ns, Result, SchedulerFailure, TaskId};
use schedlab_record::Findings;
use schedlab_scx::broker::Outcome;
use std::path::Path;

/// The schedulers that a run has had. Their figures are of the whole run.
#[derive(Default)]
pub(crate) struct Ran(Vec<(Account, Option<Outcome>)>);

impl Ran {
    /// A part of the run is over, with its scheduler if it had one.
    pub fn has_ended(&mut self, scheduler: Option<&Enabled>, said: Option<Outcome>) -> Result<()> {
        if let Some(account) = scheduler.map(Enabled::account) {
            account.has_lasted()?;
            self.0.push((account, said));
        }
        Ok(())
    }
    /// Into a record. Counters are sums; of several schedulers each word has its scheduler's name.
    pub fn report_in(&self, found: &mut Findings) {
        let is_one = self.0.len() == 1;
        for (account, said) in &self.0 {
            account.count_in(found);
            found.warnings.extend(said.as_ref().and_then(ext_program::warning));
            append(found, "scx.ops", account.name.clone());
            let of_program = said.iter().flat_map(ext_program::facts);
            for (name, value) in account.facts().into_iter().chain(of_program) {
                let is_plain = is_one || value.is_empty();
                append(found, name, if is_plain { value } else { format!("{}: {value}", account.name) });
            }
        }
    }
}

/// A fact behind those of earlier schedulers; output of several lines begins on one of its own.
fn append(found: &mut Findings, name: &str, value: String) {
    let words = found.environment.entry(name.to_owned()).or_default();
    if !words.is_empty() && !value.is_empty() {
        words.push_str(if words.contains('\n') || value.contains('\n') { "\n" } else { ", then " });
    }
    words.push_str(&value);
}

/// The parts of a run under one scheduler after another.
pub(crate) struct Parts<'a> {
    /// The one that has the tasks from the start, and the same as far as it is an object.
    pub first: Option<Scx>,
    pub enabled: Option<Enabled>,
    /// Tasks that start when the first one's program has attached.
    pub waiting: Vec<TaskId>,
    /// Others instead, each from its time on; `None`: the kernel's own classes.
    pub later: Vec<(Ns, Option<Scx>)>,
    /// The image's file.
    pub object: &'a Path,
}

impl Parts<'_> {
    /// # Errors
    /// As [`Order::drive`], and when a scheduler can't be enabled or has not lasted for its part.
    pub fn drive<'m>(
        self,
        engine: &mut Engine<'m>,
        (order, clock): (&mut Order, &Clock<'_>),
        outside: &mut Outside<'m>,
        ran: &mut Ran,
    ) -> Result<Ended> {
        let Parts { first, mut enabled, mut waiting, later, object } = self;
        let ends: Vec<u64> = later.iter().map(|(at, _)| at.0.min(clock.end)).chain([clock.end]).collect();
        let all = std::iter::once(first).chain(later.into_iter().map(|(_, scx)| scx));
        let mut before = None;
        for ((number, scx), until) in all.enumerate().zip(ends) {
            let mut part_clock = clock.ending_at(until.max(engine.now));
            part_clock.under_scheduler = scx.is_some();
            let (part, scheduler, said) = match scx {
                Some(Scx::Program(program)) => {
                    let program = (*program, std::mem::take(&mut waiting));
                    let (part, scheduler, said) =
                        beside(program, engine, (&mut *order, &part_clock), outside, object)?;
                    (part, Some(scheduler), Some(said))
                }
                Some(Scx::Object(ext)) => {
                    engine.finish_verbs();
                    let scheduler = match enabled.take() {
                        Some(scheduler) if number == 0 => scheduler,
                        _ => ext
                            .enable(engine, object)
                            .map_err(|e| e.of_scheduler(SchedulerFailure::Refused))?,
                    };
                    (order.drive(engine, &part_clock, outside)?, Some(scheduler), None)
                }
                None => (order.drive(engine, &part_clock, outside)?, None, None),
            };
            engine.now = part.at;
            let is_over = part.stopped || engine.alive == 0 || until >= clock.end;
            if let Some(scheduler) = scheduler.as_ref().filter(|_| !is_over) {
                engine.finish_verbs();
                scheduler.disable(engine);
            }
            ran.has_ended(scheduler.as_ref(), said)?;
            let ended = Ended { before: part.before.or(before.take()), ..part };
            if is_over {
                return Ok(ended);
            }
            before = ended.before;
        }
        Ok(Ended { at: clock.end, stopped: false, before })
    }
}

/// A run with a scheduler's program beside it, and the tasks that start when it has attached.
fn beside<'m>(
    program: (Program, Vec<TaskId>),
    engine: &mut Engine<'m>,
    (order, clock): (&mut Order, &Clock<'_>),
    outside: &mut Outside<'m>,
    object: &Path,
) -> Result<(Ended, Enabled, Outcome)> {
    let mut ended = Ended::at(clock.end);
    let mut runs_up = |engine: &mut Engine<'m>, until: u64| {
        let until = until.clamp(engine.now, clock.end);
        let part = order.drive(engine, &clock.ending_at(until), outside)?;
        let is_over = until == clock.end || part.stopped || engine.alive == 0;
        engine.now = part.at;
        ended = Ended { before: part.before.or(ended.before.take()), ..part };
        Ok((engine.now, is_over))
    };
    let (scheduler, said) = ext_program::run(program, engine, object, &mut runs_up)?;
    Ok((ended, scheduler, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, n: u64) -> Account {
        Account {
            name: name.to_owned(),
            exit_kind: if n > 1 { 0 } else { 64 },
            reason: "unregistered from user space".to_owned(),
            ops: vec![("enqueue".to_owned(), n, 10 * n)],
            events: vec![("reenq_immed".to_owned(), n)],
            ..Account::default()
        }
    }

    #[test]
    fn a_second_scheduler_adds_to_the_first_and_each_fact_has_its_name() {
        let said = |words: &str| Outcome { output: words.as_bytes().to_vec(), ..Outcome::default() };
        let mut found = Findings::default();
        let ran =
            vec![(account("a", 1), Some(said("local=1\nglobal=2\n"))), (account("b", 2), Some(said("done")))];
        Ran(ran).report_in(&mut found);
        let of = |name: &str| found.counters[name];
        assert_eq!((of("scx.calls.enqueue"), of("scx.instructions.enqueue")), (3, 30));
        assert_eq!((of("scx.event.reenq_immed"), of("scx.exit_kind")), (3, 0));
        let fact = |name: &str| found.environment[name].as_str();
        assert_eq!(fact("scx.ops"), "a, then b");
        let exit = "a: kind 64, code 0: unregistered from user space, then b: it has run to the end";
        assert_eq!(fact("scx.exit"), exit);
        assert_eq!(fact("scx.output"), "a: local=1\nglobal=2\nb: done");
        assert_eq!(fact("scx.refused"), "");
        let mut alone = Findings::default();
        Ran(vec![(account("b", 2), None)]).report_in(&mut alone);
        assert_eq!(alone.environment["scx.exit"], "it has run to the end");
        assert!(!alone.environment.contains_key("scx.output"), "an object prints nothing");
    }
}
