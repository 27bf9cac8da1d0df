//! Faults of the kernel's code that no kernel may have and that nothing in it notices: a runnable task on no queue, a
//! wakeup without effect, a CPU that goes idle with queued tasks, a silent tracepoint.
//!
//! The image notes most of them (`shim/image/audit.c`): some at a task's own event, others in a look at all tasks and
//! queues each [`EVERY_NS`] and at the end. Where CPUs are woven, such a look may come in the middle of a verb. Then
//! only findings that two looks have unchanged count. The events themselves must fit: a task that runs was woken, and
//! is on the CPU of its last event. Two findings end the run: a lost task, and a CPU that runs another task than
//! `sched_switch` reported. The rest are warnings of the run, one of each kind with its first case.
//!
//! Invariant: a look changes nothing that a run computes.

use crate::abi::finding;
use crate::cpu::{Activity, Current};
use crate::engine::Engine;
use crate::kernel::called_by;
use crate::note::Found;
use crate::task::{LastEvent, Life};
use crate::verbs::Verb;
use schedlab_base::{Arena, CpuId, Error, Ns, Result, TaskId, Warning};
use schedlab_board::board::Kernel as _;
use schedlab_board::ensure;
use schedlab_board::walk::Wrong;
use std::collections::{BTreeMap, BTreeSet};

/// Interval of the looks at all tasks and queues.
pub const EVERY_NS: u64 = 1_000_000_000;

/// Findings of the engine itself, numbered after `enum img_finding`.
const NO_WAKEUP: u16 = 101;
const NO_WAKING: u16 = 102;
const NO_MIGRATION: u16 = 103;
const SECOND_WAKING: u16 = 104;

/// The first case of a kind in words, and the number of cases.
struct Cases {
    first: String,
    count: u64,
}

/// The identity of a look's finding: kind, CPU, task, value.
type Suspect = (u16, u32, i32, u64);

#[derive(Default)]
pub struct Findings {
    /// When the next look is due.
    pub due: u64,
    cases: BTreeMap<u16, Cases>,
    /// Findings of the look under way; `None` without one.
    look: Option<Vec<Suspect>>,
    /// Findings of the last look whose tasks may have been on their way.
    suspects: BTreeSet<Suspect>,
    /// Findings of looks that have been counted.
    known: BTreeSet<Suspect>,
}

impl Findings {
    /// The run begins: the machine has come to rest.
    pub fn begin(&mut self) {
        self.due = EVERY_NS;
    }
    fn add(&mut self, kind: u16, first: impl FnOnce() -> String) {
        match self.cases.get_mut(&kind) {
            Some(cases) => cases.count += 1,
            None => _ = self.cases.insert(kind, Cases { first: first(), count: 1 }),
        }
    }
    /// A warning for each kind.
    pub fn warnings(&self) -> impl Iterator<Item = Warning> {
        self.cases.values().map(|Cases { first, count }| {
            let times =
                if *count > 1 { format!(" ({count} times; this is the first)") } else { String::new() };
            Warning::new("kernel.wrong", format!("the kernel's code is wrong: {first}{times}"))
        })
    }
}

impl Engine<'_> {
    /// Walks the invariants of the board, and of what the engine knows of CPUs and tasks.
    ///
    /// # Errors
    /// The first one that does not hold.
    pub fn walk(&self) -> Result<()> {
        let parked =
            self.tasks.iter().filter_map(|t| t.parked.as_ref()).flat_map(|p| p.to_wake.iter().copied());
        let waits = |task: TaskId, _| self.tasks[task].slept.is_some();
        let walked = self.walk_cpus().and_then(|()| self.board.walk(parked, waits));
        walked.map_err(|what| Error::internal(format!("at {} ns: {what}", self.now)))
    }

    fn walk_cpus(&self) -> Wrong {
        let mut runs: Arena<TaskId, Option<CpuId>> = Arena::filled(None, self.tasks.len());
        for (cpu, c) in self.cpus.ids().map(|cpu| (cpu, &self.cpus[cpu])) {
            // The time of CPUs that wait for their turn is put off when it comes.
            let goes_on = c.ends >= self.now || self.board.turns.is_some();
            ensure!(goes_on, "{cpu} is at {:?} up to {}, before {}", c.activity, c.ends, self.now);
            ensure!(!c.in_user() || c.left.is_none(), "{cpu} is in user mode and has left {:?}", c.left);
            let Some(task) = c.current.program() else {
                ensure!(!c.in_user(), "{cpu} is in user mode and runs {:?}", c.current);
                continue;
            };
            let other = runs[task].replace(cpu);
            ensure!(other.is_none(), "{task:?} is current on {other:?} and {cpu}");
            let t = &self.tasks[task];
            ensure!(t.life != Life::Unborn && t.pid != 0, "{cpu} runs {task:?}, pid {}: {:?}", t.pid, t.life);
            let halted = matches!(c.activity, Activity::Halted { .. });
            ensure!(!halted, "{cpu} is halted and has {task:?}");
        }
        for (pid, task) in self.by_pid.iter().enumerate().filter_map(|(pid, t)| Some((pid, (*t)?))) {
            let own = self.tasks[task].pid;
            ensure!(own as usize == pid, "pid {pid} is that of {task:?}, which has {own}");
        }
        Ok(())
    }

    /// What a task is called.
    fn name_of(&self, pid: i32) -> String {
        self.task_of(pid)
            .map_or_else(|| self.kernel.own_name(pid), |task| self.board.threads[task].name.clone())
    }
    fn time_words(&self, at: u64) -> String {
        if self.watched { format!("at {}", Ns(at)) } else { "before the run".to_owned() }
    }
    /// The last event of a task: ", sched_wakeup on CPU 2 at 3 ms was the last of it".
    fn last_words(&self, pid: i32) -> String {
        let last = self.task_of(pid).and_then(|task| self.tasks[task].last);
        last.map_or_else(String::new, |LastEvent { at, cpu, name }| {
            format!("; the last event of it was {name} on CPU {} {}", cpu.0, self.time_words(at))
        })
    }

    /// The image has found something at `at`. That costs nothing.
    pub fn found(&mut self, found: Found, at: u64) -> u64 {
        let Found { kind, on, pid, value, verb, calls } = found;
        let suspect = (kind, on.0, pid, value);
        if let Some(look) = &mut self.findings.look {
            look.push(suspect);
        } else if kind == finding::LOST_TASK {
            let calls = called_by(&self.kernel.image().calls(calls));
            self.lose(pid, at, &calls);
        } else if self.findings.cases.contains_key(&kind) {
            self.findings.add(kind, String::new);
        } else {
            let calls = called_by(&self.kernel.image().calls(calls));
            let words = self.words(suspect, at, (&calls, verb));
            self.findings.add(kind, || words);
        }
        0
    }

    /// A runnable task on no queue ends the run.
    fn lose(&mut self, pid: i32, at: u64, calls: &str) {
        let (name, when, last) = (self.name_of(pid), self.time_words(at), self.last_words(pid));
        let text = format!(
            "the kernel's code has lost task '{name}': {when} it is runnable, and no queue has it{calls}{last}"
        );
        self.fail(
            Error::input(text)
                .help("it is to be enqueued where it was last seen, or where it was moved from"),
        );
    }

    fn words(&self, (kind, cpu, pid, value): Suspect, at: u64, (by, verb): (&str, Option<Verb>)) -> String {
        let (name, when) = (self.name_of(pid), self.time_words(at));
        match kind {
            finding::DROPPED_WAKEUP => {
                format!(
                    "{when} a wakeup of '{name}' is dropped: try_to_wake_up() returns {value}, and the task sleeps on"
                )
            }
            finding::DROPPED_TIMER => {
                let due = self.time_words(value.saturating_sub(self.epoch));
                format!(
                    "a wakeup of '{name}' by its timer is dropped: it was due {due}, and {when} the task sleeps on"
                )
            }
            finding::IDLE_BESIDE_TASKS => {
                format!(
                    "{when} CPU {cpu} goes idle with {value} tasks on its queue (rq->nr_running), and its pick has found none{by}"
                )
            }
            finding::SLEEPER_QUEUED => {
                let last = self.last_words(pid);
                format!(
                    "{when} '{name}' sleeps and is on a queue: it was not dequeued, or was queued without a wakeup{last}"
                )
            }
            finding::WRONG_COUNT => {
                let (counts, has) = (value >> 32, value & u64::from(u32::MAX));
                format!("{when} the queue of CPU {cpu} counts {counts} tasks (rq->nr_running) and has {has}")
            }
            finding::PREEMPT_COUNT => {
                let more = value as i64;
                let side = if more < 0 { "lower" } else { "higher" };
                let size = more.unsigned_abs();
                format!(
                    "{when} preempt_count is {size:#x} {side} after {} than before, on CPU {cpu}",
                    verb_words(verb)
                )
            }
            finding::IRQS_OFF => format!("{when} {} leaves interrupts off on CPU {cpu}", verb_words(verb)),
            finding::PASSED_OVER => {
                let runs = self.name_of(value as i32);
                format!(
                    "{when} '{name}' waits behind '{runs}' on CPU {cpu}, though its class, priority or deadline goes first, \
                     and need_resched is not set"
                )
            }
            finding::NOT_PUSHABLE => {
                format!(
                    "{when} '{name}' waits on CPU {cpu} and is not one of its pushable tasks, so no other CPU can take it{by}"
                )
            }
            finding::NOT_ON_CPU => {
                format!("{when} '{name}' runs on CPU {cpu}, and its on_cpu is 0: another CPU may take it")
            }
            other => format!("{when} the image finds {other} of '{name}' on CPU {cpu}"),
        }
    }

    /// A look at all tasks and queues. `at_end`: no CPU is in the middle of a verb.
    pub fn audit(&mut self, at_end: bool) {
        self.findings.due = self.now.saturating_add(EVERY_NS);
        self.enter(CpuId(0));
        self.findings.look = Some(Vec::new());
        self.kernel.image().audit();
        self.take_notes(CpuId(0));
        let seen = self.findings.look.take().unwrap_or_default();
        let is_sure = at_end || !self.kernel.weaves();
        let before = std::mem::replace(&mut self.findings.suspects, seen.iter().copied().collect());
        for suspect in seen {
            if (is_sure || before.contains(&suspect)) && self.findings.known.insert(suspect) {
                self.settle_finding(suspect);
            }
        }
    }
    fn settle_finding(&mut self, suspect: Suspect) {
        let (kind, _, pid, _) = suspect;
        if kind == finding::LOST_TASK {
            return self.lose(pid, self.now, "");
        }
        let words = self.words(suspect, self.now, ("", None));
        self.findings.add(kind, || words);
    }

    /// Checks that the CPU's current task is the one of the last `sched_switch`.
    pub fn check_current(&mut self, cpu: CpuId) {
        let runs = self.kernel.image().current();
        let fits = match self.cpus[cpu].current {
            Current::Idle => runs == 0,
            Current::Task(task) => self.tasks[task].pid == runs,
            Current::Kthread(_) => runs != 0,
        };
        if !fits {
            let (name, when) = (self.name_of(runs), self.time_words(self.now));
            let text = format!(
                "the kernel's code is wrong: {when} CPU {} runs '{name}', and no sched_switch has said so",
                cpu.0
            );
            self.fail(
                Error::input(text)
                    .help("a run follows trace_sched_switch(): __schedule() calls it at each switch"),
            );
        }
    }

    /// `sched_waking`.
    pub fn waking(&mut self, task: TaskId, event: LastEvent) {
        self.happened(task, event);
        let is_second =
            self.tasks.get_mut(task.index()).is_some_and(|own| std::mem::replace(&mut own.waking, true));
        if is_second {
            self.silent(SECOND_WAKING, task, event);
        }
    }
    /// An event of a task.
    pub fn happened(&mut self, task: TaskId, event: LastEvent) {
        if let Some(own) = self.tasks.get_mut(task.index()) {
            own.last = Some(event);
        }
    }
    /// `sched_wakeup`, or `sched_wakeup_new`.
    pub fn woken(&mut self, task: TaskId, event: LastEvent, is_new: bool) {
        let Some(own) = self.tasks.get_mut(task.index()) else { return };
        own.last = Some(event);
        own.asleep = false;
        if is_new {
            own.placed = Some(event.cpu);
        }
        if !std::mem::take(&mut own.waking) && !is_new {
            self.silent(NO_WAKING, task, event);
        }
    }
    /// `sched_switch`. `sleeps`: the task that leaves goes to sleep.
    pub fn follow_switch(
        &mut self,
        event: LastEvent,
        (prev, sleeps): (Option<TaskId>, bool),
        next: Option<TaskId>,
    ) {
        if let Some(own) = prev.and_then(|task| self.tasks.get_mut(task.index())) {
            own.last = Some(event);
            own.asleep = sleeps;
        }
        let Some(task) = next else { return };
        let Some(own) = self.tasks.get_mut(task.index()) else { return };
        own.last = Some(event);
        let (slept, placed) = (std::mem::take(&mut own.asleep), own.placed.replace(event.cpu));
        if slept {
            self.silent(NO_WAKEUP, task, event);
        }
        if placed.is_some_and(|at| at != event.cpu) {
            self.silent(NO_MIGRATION, task, event);
        }
    }
    /// An expected tracepoint was missing, or came twice.
    fn silent(&mut self, kind: u16, task: TaskId, event: LastEvent) {
        if self.findings.cases.contains_key(&kind) {
            return self.findings.add(kind, String::new);
        }
        let (name, when, cpu) = (&self.board.threads[task].name, self.time_words(event.at), event.cpu.0);
        let words = match kind {
            NO_WAKEUP => {
                format!(
                    "{when} '{name}', which slept, runs on CPU {cpu}, and no sched_wakeup has said that it was woken"
                )
            }
            NO_WAKING => format!(
                "{when} '{name}' is woken on CPU {cpu} (sched_wakeup), and no sched_waking came before"
            ),
            SECOND_WAKING => {
                format!(
                    "{when} '{name}' is woken a second time (sched_waking), and no sched_wakeup came between"
                )
            }
            _ => format!(
                "{when} '{name}' runs on CPU {cpu}, and no sched_migrate_task has said that it came there"
            ),
        };
        self.findings.add(kind, || words);
    }
}

/// What ran as something was found.
fn verb_words(verb: Option<Verb>) -> &'static str {
    verb.map_or("a change from outside", Verb::words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_warning_with_its_first_case_and_their_number() {
        let mut findings = Findings::default();
        for n in 0..3 {
            findings.add(finding::IDLE_BESIDE_TASKS, || format!("case {n}"));
        }
        findings.add(NO_WAKING, || "once".to_owned());
        let texts: Vec<String> = findings.warnings().map(|w| w.message).collect();
        let known = ["case 0 (3 times; this is the first)", "once"];
        assert_eq!(texts, known.map(|k| format!("the kernel's code is wrong: {k}")));
    }
}
