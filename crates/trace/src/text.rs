//! A run as ftrace text: what tracefs shows in `trace` and `trace-cmd report` prints, for all that reads these.
//!
//! Times have nanoseconds, as with `trace-cmd report -t`; they count from the begin of the run. What a kernel's
//! tracepoints do not say stands in lines of `tracing_mark_write`, as a kernel's own users write them: why a task was
//! placed, why it had to give way, and how a balancer's passes ended.

#[cfg(test)]
mod tests;

use crate::points::{self, Point, Points, Tracepoint};
use crate::{Cast, Event, EventKind, Sink};
use schedlab_base::printable::name;
use schedlab_base::{CpuId, Ns, TaskId};
use std::io::{self, Write};

/// A text that is being written.
///
/// A failure to write ends the writing and is told by [`Text::finish`], since a sink has no way to tell it.
pub struct Text<'a, W> {
    out: W,
    cast: &'a Cast,
    points: Points,
    marks: bool,
    details: bool,
    failed: Option<io::Error>,
}

impl<'a, W: Write> Text<'a, W> {
    /// Begins a text.
    pub fn new(out: W, cast: &'a Cast) -> Text<'a, W> {
        let mut text =
            Text { out, cast, points: Points::default(), marks: true, details: false, failed: None };
        text.failed = text.head().err();
        text
    }
    /// The same without lines that a kernel's tracepoints do not have.
    #[must_use]
    pub fn without_marks(mut self) -> Text<'a, W> {
        self.marks = false;
        self
    }
    /// The same, asking the simulator for details ([`Sink::wants_details`]).
    #[must_use]
    pub fn detailed(mut self) -> Text<'a, W> {
        self.details = true;
        self
    }
    /// Ends the text.
    ///
    /// # Errors
    /// What went wrong first while it was written.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failed {
            Some(e) => Err(e),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn head(&mut self) -> io::Result<()> {
        writeln!(self.out, "# tracer: nop\n#")?;
        writeln!(self.out, "# entries-in-buffer/entries-written: 0/0   #P:{}\n#", self.cast.cpus)?;
        writeln!(self.out, "#                                _-----=> irqs-off/BH-disabled")?;
        writeln!(self.out, "#                               / _----=> need-resched")?;
        writeln!(self.out, "#                              | / _---=> hardirq/softirq")?;
        writeln!(self.out, "#                              || / _--=> preempt-depth")?;
        writeln!(self.out, "#                              ||| / _-=> migrate-disable")?;
        writeln!(self.out, "#                              |||| /     delay")?;
        writeln!(self.out, "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION")?;
        writeln!(self.out, "#              | |         |   |||||     |         |")
    }

    fn tid(&self, task: Option<TaskId>) -> u32 {
        task.map_or(0, |t| self.cast.tid(t))
    }
    fn prio(&self, task: Option<TaskId>) -> i32 {
        self.cast.prio(task)
    }

    /// Begins a line: the current task, CPU, flags, time.
    fn begin(&mut self, at: Ns, cpu: CpuId, current: Option<TaskId>, irq: bool) -> io::Result<()> {
        let (seconds, ns) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        let flags = if irq { "..h.." } else { "....." };
        let (tid, cpu) = (self.tid(current), cpu.0);
        match current {
            Some(task) => write!(self.out, "{:>16}", name(&self.cast.name(task)))?,
            None => write!(self.out, "{:>16}", "<idle>")?,
        }
        write!(self.out, "-{tid:<7} [{cpu:03}] {flags} {seconds:>5}.{ns:09}: ")
    }

    fn comm(&mut self, task: Option<TaskId>, cpu: CpuId) -> io::Result<()> {
        match task.map(|t| (t, self.cast.of(t))) {
            Some((_, Some(actor))) => self.out.write_all(name(&actor.name).as_bytes()),
            Some((task, None)) => write!(self.out, "task {}", task.index()),
            None => write!(self.out, "swapper/{}", cpu.0),
        }
    }
    /// `comm=... pid=... prio=...`
    fn who(&mut self, task: TaskId) -> io::Result<()> {
        write!(self.out, "comm=")?;
        self.comm(Some(task), CpuId(0))?;
        write!(self.out, " pid={} prio={}", self.tid(Some(task)), self.prio(Some(task)))
    }

    fn point(&mut self, p: &Tracepoint) -> io::Result<()> {
        let irq = matches!(p.point, Point::Waking { irq: true, .. });
        self.begin(p.at, p.cpu, p.current, irq)?;
        match p.point {
            Point::Switch { prev, state, next } => {
                write!(self.out, "sched_switch: prev_comm=")?;
                self.comm(prev, p.cpu)?;
                let state = if prev.is_some() { state.letters() } else { "R" };
                write!(
                    self.out,
                    " prev_pid={} prev_prio={} prev_state={state} ==> next_comm=",
                    self.tid(prev),
                    self.prio(prev)
                )?;
                self.comm(next, p.cpu)?;
                writeln!(self.out, " next_pid={} next_prio={}", self.tid(next), self.prio(next))
            }
            Point::Waking { task, target, .. } => self.woken("sched_waking", task, target),
            Point::Wakeup { task, target, new: false } => self.woken("sched_wakeup", task, target),
            Point::Wakeup { task, target, new: true } => self.woken("sched_wakeup_new", task, target),
            Point::Migrate { task, from, to } => {
                write!(self.out, "sched_migrate_task: ")?;
                self.who(task)?;
                writeln!(self.out, " orig_cpu={} dest_cpu={}", from.0, to.0)
            }
            Point::NewTask { task } => {
                write!(self.out, "sched_process_fork: comm=")?;
                self.comm(p.current, p.cpu)?;
                write!(self.out, " pid={} child_comm=", self.tid(p.current))?;
                self.comm(Some(task), p.cpu)?;
                writeln!(self.out, " child_pid={}", self.tid(Some(task)))
            }
            Point::Exit { task } => {
                write!(self.out, "sched_process_exit: ")?;
                self.who(task)?;
                writeln!(self.out)
            }
            Point::Idle { state } => {
                let state = state.map_or(u32::MAX, u32::from);
                writeln!(self.out, "cpu_idle: state={state} cpu_id={}", p.cpu.0)
            }
        }
    }
    fn woken(&mut self, name: &str, task: TaskId, target: CpuId) -> io::Result<()> {
        write!(self.out, "{name}: ")?;
        self.who(task)?;
        writeln!(self.out, " target_cpu={:03}", target.0)
    }

    /// What the kernel's tracepoints do not say.
    fn mark(&mut self, event: &Event) -> io::Result<()> {
        let about = |e: &Event, cast: &Cast| match e.kind {
            EventKind::Placed { task, target, reason, probes } => Some(format!(
                "placed {} on cpu {}: {}, {probes} probes",
                cast.name(task),
                target.0,
                reason.name()
            )),
            EventKind::Switch { prev: Some(prev), why, next }
                if points::is_untold(why) && next != Some(prev) =>
            {
                Some(format!("{} gave way: {}", cast.name(prev), why.name()))
            }
            EventKind::Balance { level, trigger, why, moved, visited, took_ns, src } => {
                let from = src.map_or_else(String::new, |src| format!(" from cpu {}", src.0));
                Some(format!(
                    "{} balance at level {level}: {}, moved {moved}{from}, read {visited} cpus in {took_ns} ns",
                    trigger.name(),
                    why.name()
                ))
            }
            EventKind::Skip { level, why, .. } => {
                Some(format!("no balance at level {level}: {}", why.name()))
            }
            EventKind::Kick { why, .. } => Some(format!("kick: {}", why.name())),
            _ => None,
        };
        let Some(said) = about(event, self.cast) else { return Ok(()) };
        let current = self.points.current(event.cpu);
        self.begin(event.at, event.cpu, current, false)?;
        writeln!(self.out, "tracing_mark_write: {}", name(&said))
    }
    fn line(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::Lost { count } = event.kind {
            return writeln!(self.out, "CPU:{} [LOST {count} EVENTS]", event.cpu.0);
        }
        // A reason stands before the switch: afterwards another task is current.
        if self.marks {
            self.mark(event)?;
        }
        for point in self.points.of(event) {
            self.point(&point)?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for Text<'_, W> {
    fn event(&mut self, event: &Event) {
        if self.failed.is_none() {
            self.failed = self.line(event).err();
        }
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
    fn wants_details(&self) -> bool {
        self.details
    }
}
