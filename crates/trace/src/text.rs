//! A run as ftrace text, as in tracefs's `trace` and in the output of `trace-cmd report`.
//!
//! Times are in nanoseconds, as with `trace-cmd report -t`, from the start of the run. Facts that tracepoints do not
//! report are `tracing_mark_write` lines, which real kernels also have from user space: why a task was placed, why it
//! had to give way, and how a balancer's passes ended.

mod names;
#[cfg(test)]
mod tests;

use crate::points::{self, Left, Point, Points, Tracepoint};
use crate::{Cast, Event, EventKind, Sink};
use names::Names;
use schedlab_base::{CpuId, Ns, TaskId, TextRow};
use std::io::{self, Write};

/// Text is written in blocks of this many bytes, which stay in a CPU's cache until then. Larger ones are not faster.
const BLOCK: usize = 1 << 17;

/// Writes large blocks: `out` needs no buffer. A sink can't return errors, so after a failure nothing more is written,
/// and [`Text::finish`] returns the error.
pub struct Text<'a, W> {
    out: W,
    lines: Lines<'a>,
    marks: bool,
    details: bool,
    failed: Option<io::Error>,
}

/// The unwritten lines, and the state for the next ones.
struct Lines<'a> {
    row: TextRow,
    names: Names<'a>,
    points: Points,
}

impl<'a, W: Write> Text<'a, W> {
    pub fn new(out: W, cast: &'a Cast) -> Text<'a, W> {
        let mut lines = Lines { row: TextRow::default(), names: Names::new(cast), points: Points::default() };
        lines.head(cast.cpus);
        Text { out, lines, marks: true, details: false, failed: None }
    }
    /// Leaves out lines that do not come from tracepoints.
    #[must_use]
    pub fn without_marks(mut self) -> Text<'a, W> {
        self.marks = false;
        self
    }
    /// Asks the simulator for details ([`Sink::wants_details`]).
    #[must_use]
    pub fn detailed(mut self) -> Text<'a, W> {
        self.details = true;
        self
    }
    /// # Errors
    /// The first failure to write.
    pub fn finish(mut self) -> io::Result<W> {
        self.write();
        match self.failed {
            Some(e) => Err(e),
            None => self.out.flush().map(|()| self.out),
        }
    }
    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(self.lines.row.bytes()).err();
        }
        self.lines.row.clear();
    }
}

impl Lines<'_> {
    fn head(&mut self, cpus: usize) {
        let lines = [
            "# tracer: nop\n#",
            &format!("# entries-in-buffer/entries-written: 0/0   #P:{cpus}\n#"),
            "#                                _-----=> irqs-off/BH-disabled",
            "#                               / _----=> need-resched",
            "#                              | / _---=> hardirq/softirq",
            "#                              || / _--=> preempt-depth",
            "#                              ||| / _-=> migrate-disable",
            "#                              |||| /     delay",
            "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION",
            "#              | |         |   |||||     |         |",
        ];
        for line in lines {
            self.row.text(line).text("\n");
        }
    }

    /// Begins a line: current task, CPU, flags, time.
    #[inline]
    fn begin(&mut self, at: Ns, cpu: CpuId, current: Option<TaskId>, irq: bool) -> &mut TextRow {
        let (seconds, ns) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        self.row.text(self.names.of(current, cpu).current());
        self.row.text(b"[").zeros::<3>(cpu.0).text(if irq { b"] ..h.. " } else { b"] ..... " });
        self.row.right(5, seconds).text(b".").zeros::<9>(ns).text(b": ")
    }

    fn point(&mut self, p: &Tracepoint) {
        let irq = matches!(p.point, Point::Waking { irq: true, .. });
        self.begin(p.at, p.cpu, p.current, irq);
        match p.point {
            Point::Switch { prev, state, next } => {
                let letters = if prev.is_some() { state.letters() } else { "R" };
                self.row.text(b"sched_switch: ").text(self.names.of(prev, p.cpu).prev()).text(letters);
                self.row.text(b" ==> ").text(self.names.of(next, p.cpu).next());
                if let (Some(gone), Left::Dead) = (prev, state) {
                    self.names.forget(gone);
                }
            }
            Point::Waking { task, target, .. } => self.woken("sched_waking: ", task, target),
            Point::Wakeup { task, target, new: false } => self.woken("sched_wakeup: ", task, target),
            Point::Wakeup { task, target, new: true } => self.woken("sched_wakeup_new: ", task, target),
            Point::Migrate { task, from, to } => {
                self.row.text(b"sched_migrate_task: ").text(self.names.of(Some(task), p.cpu).who());
                self.row.text(b" orig_cpu=").number(from.0).text(b" dest_cpu=").number(to.0).text(b"\n");
            }
            Point::NewTask { task } => self.forked(task, p),
            Point::Exit { task } => {
                let who = self.names.of(Some(task), p.cpu).who();
                self.row.text(b"sched_process_exit: ").text(who).text(b"\n");
            }
            Point::Idle { state } => {
                let state = state.map_or(u32::MAX, u32::from);
                self.row
                    .text(b"cpu_idle: state=")
                    .number(state)
                    .text(b" cpu_id=")
                    .number(p.cpu.0)
                    .text(b"\n");
            }
        }
    }
    fn woken(&mut self, name: &str, task: TaskId, target: CpuId) {
        self.row.text(name).text(self.names.of(Some(task), target).who());
        self.row.text(b" target_cpu=").zeros::<3>(target.0).text(b"\n");
    }
    fn forked(&mut self, task: TaskId, p: &Tracepoint) {
        let parent = p.current.map_or(0, |task| self.names.tid(task));
        self.row.text(b"sched_process_fork: comm=").text(self.names.of(p.current, p.cpu).name());
        self.row.text(b" pid=").number(parent);
        self.row.text(b" child_comm=").text(self.names.of(Some(task), p.cpu).name());
        self.row.text(b" child_pid=").number(self.names.tid(task)).text(b"\n");
    }

    /// Writes facts that tracepoints do not report.
    fn mark(&mut self, event: &Event) {
        match event.kind {
            EventKind::Placed { task, target, reason, probes } => {
                self.begin_mark(event).text(b"placed ");
                self.row.text(self.names.of(Some(task), target).name()).text(b" on cpu ").number(target.0);
                self.row.text(b": ").text(reason.name()).text(b", ").number(probes).text(b" probes\n");
            }
            EventKind::Switch { prev: Some(prev), why, next }
                if points::is_untold(why) && next != Some(prev) =>
            {
                self.begin_mark(event);
                self.row.text(self.names.of(Some(prev), event.cpu).name());
                self.row.text(b" gave way: ").text(why.name()).text(b"\n");
            }
            EventKind::Balance { level, trigger, why, moved, visited, took_ns, src } => {
                let row = self.begin_mark(event).text(trigger.name()).text(b" balance at level ");
                row.number(level).text(b": ").text(why.name()).text(b", moved ").number(moved);
                if let Some(src) = src {
                    row.text(b" from cpu ").number(src.0);
                }
                row.text(b", read ").number(visited).text(b" cpus in ").number(took_ns).text(b" ns\n");
            }
            EventKind::Skip { level, why, .. } => {
                let row = self.begin_mark(event).text(b"no balance at level ").number(level);
                row.text(b": ").text(why.name()).text(b"\n");
            }
            EventKind::Kick { why, .. } => {
                self.begin_mark(event).text(b"kick: ").text(why.name()).text(b"\n");
            }
            _ => {}
        }
    }
    fn begin_mark(&mut self, event: &Event) -> &mut TextRow {
        let current = self.points.current(event.cpu);
        self.begin(event.at, event.cpu, current, false).text(b"tracing_mark_write: ")
    }

    fn event(&mut self, event: &Event, marks: bool) {
        if let EventKind::Lost { count } = event.kind {
            self.row.text(b"CPU:").number(event.cpu.0).text(b" [LOST ").number(count).text(b" EVENTS]\n");
            return;
        }
        // A reason precedes the switch, since afterwards another task is current.
        if marks {
            self.mark(event);
        }
        for point in self.points.of(event) {
            self.point(&point);
        }
    }
}

impl<W: Write> Sink for Text<'_, W> {
    fn event(&mut self, event: &Event) {
        if self.failed.is_none() {
            self.lines.event(event, self.marks);
            if self.lines.row.bytes().len() >= BLOCK {
                self.write();
            }
        }
    }
    fn wants_details(&self) -> bool {
        self.details
    }
}
