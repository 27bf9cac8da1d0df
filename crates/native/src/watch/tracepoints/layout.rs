//! The recorded tracepoints, and the content of their records.

use schedlab_base::Result;
use schedlab_import::binary::format::{Format, Place};
use schedlab_import::sched_record::IN_INTERRUPT;
use schedlab_import::states::States;
use schedlab_trace::SwitchReason;

pub use schedlab_import::sched_record::TRACEPOINTS as NAMES;

/// The content of a record. Threads have the kernel's own numbers; 0 is the idle task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TracepointKind {
    /// `prev` left the CPU for `next`.
    Switch {
        prev: u32,
        next: u32,
        why: SwitchReason,
    },
    /// `waker` began to wake `thread`; 0: an interrupt or the idle task.
    Waking {
        thread: u32,
        waker: u32,
    },
    /// `thread` was queued on `cpu`.
    Queued {
        thread: u32,
        cpu: u32,
        new: bool,
    },
    /// `thread` moves to another CPU.
    Migrate {
        thread: u32,
        from: u32,
        to: u32,
    },
    Fork {
        parent: u32,
        child: u32,
    },
    Exit {
        thread: u32,
    },
}

struct Switch {
    id: u16,
    prev: Place,
    state: Place,
    states: States,
    comm: Place,
    next: Place,
}

impl Switch {
    /// A leaving task that is still runnable was preempted or gave way; the kernel does not report which (a return to
    /// user mode and sched_yield look the same).
    fn read(&self, record: &[u8]) -> Option<TracepointKind> {
        let (prev, next) = (self.prev.small(record)?, self.next.small(record)?);
        let state = self.state.number(record)?;
        let why = if prev == 0 { SwitchReason::FromIdle } else { self.states.reason(state) };
        Some(TracepointKind::Switch { prev, next, why })
    }
}

struct Queued {
    id: u16,
    thread: Place,
    cpu: Place,
}

/// Positions of all fields in this kernel's records.
pub struct Layouts {
    /// Numbers of the tracepoints, in the order of [`NAMES`].
    pub ids: [u16; NAMES.len()],
    kind: Place,
    flags: Place,
    current: Place,
    switch: Switch,
    waking: (u16, Place),
    wakeup: Queued,
    wakeup_new: Queued,
    migrate: (u16, [Place; 3]),
    fork: (u16, [Place; 2]),
    exit: (u16, Place),
}

impl Layouts {
    /// Layouts from the formats of [`NAMES`], in that order.
    ///
    /// # Errors
    /// When a required field is missing.
    pub fn of(formats: &[Format; NAMES.len()]) -> Result<Layouts> {
        let [switch, waking, wakeup, new, migrate, fork, exit] = formats;
        let queued = |f: &Format| -> Result<Queued> {
            Ok(Queued { id: f.id, thread: f.number("pid")?, cpu: f.number("target_cpu")? })
        };
        Ok(Layouts {
            ids: std::array::from_fn(|at| formats[at].id),
            kind: switch.number("common_type")?,
            flags: switch.number("common_flags")?,
            current: switch.number("common_pid")?,
            switch: Switch {
                id: switch.id,
                prev: switch.number("prev_pid")?,
                state: switch.number("prev_state")?,
                states: switch.states,
                comm: switch.any("prev_comm")?,
                next: switch.number("next_pid")?,
            },
            waking: (waking.id, waking.number("pid")?),
            wakeup: queued(wakeup)?,
            wakeup_new: queued(new)?,
            migrate: (
                migrate.id,
                [migrate.number("pid")?, migrate.number("orig_cpu")?, migrate.number("dest_cpu")?],
            ),
            fork: (fork.id, [fork.number("parent_pid")?, fork.number("child_pid")?]),
            exit: (exit.id, exit.number("pid")?),
        })
    }

    /// The content of a record; `None` if it belongs to another tracepoint or is too short.
    pub fn read(&self, record: &[u8]) -> Option<TracepointKind> {
        let kind = self.kind.number(record)? as u16;
        let queued = |q: &Queued, new| {
            Some(TracepointKind::Queued { thread: q.thread.small(record)?, cpu: q.cpu.small(record)?, new })
        };
        match kind {
            id if id == self.switch.id => self.switch.read(record),
            id if id == self.waking.0 => {
                let interrupt = self.flags.number(record)? & IN_INTERRUPT != 0;
                let waker = if interrupt { 0 } else { self.current.small(record)? };
                Some(TracepointKind::Waking { thread: self.waking.1.small(record)?, waker })
            }
            id if id == self.wakeup.id => queued(&self.wakeup, false),
            id if id == self.wakeup_new.id => queued(&self.wakeup_new, true),
            id if id == self.migrate.0 => {
                let [thread, from, to] = self.migrate.1;
                let (thread, from, to) = (thread.small(record)?, from.small(record)?, to.small(record)?);
                Some(TracepointKind::Migrate { thread, from, to })
            }
            id if id == self.fork.0 => {
                let [parent, child] = self.fork.1;
                Some(TracepointKind::Fork { parent: parent.small(record)?, child: child.small(record)? })
            }
            id if id == self.exit.0 => Some(TracepointKind::Exit { thread: self.exit.1.small(record)? }),
            _ => None,
        }
    }

    /// The thread that was running.
    #[inline]
    pub fn current(&self, record: &[u8]) -> Option<u32> {
        self.current.small(record)
    }
    /// The name of the leaving task in a switch.
    #[inline]
    pub fn name<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        self.switch.comm.bytes(record)
    }
}
