//! Replay: a recorded schedule as a workload.
//!
//! A recording shows when tasks ran. From that, the tasks' intentions are derived: how long they computed between two
//! sleeps, whom they woke, and the event that each sleep waited for. These are the *steps* of a [`Schedule`]. A burst
//! is not cut where the recorded scheduler preempted the task, since another scheduler might not do so.
//!
//! - A sleep that a task ended waits for that task ([`Step::Await`], [`Step::Wake`]). Wakeups are counted: one that
//!   comes before its sleep ends the sleep at once.
//! - A sleep that a timer or a device ended has its recorded length ([`Step::Sleep`]).
//! - A recorded burst includes the kernel's work (switches, wakeups, system calls), and the replaying machine adds its
//!   own. So each wakeup and each sleep takes a *price* off the bursts ([`Schedule::prices`]).
//!
//! Times are ns. `schedule` has the data and its text, `program` runs it, `rtapp` exports it.

mod program;
mod rtapp;
mod schedule;

pub use rtapp::rtapp;
pub use schedule::{Part, Prices, Schedule, Start, Step};

use crate::build::Builder;
use program::{Replay, Word};
use schedlab_base::{Ns, Result, TaskId};
use schedlab_kernel::{Attr, Policy};

/// A replay is cut off after this multiple of its recorded length.
const PATIENCE: u64 = 4;
/// A replay is never cut off before this time.
const LEAST: Ns = Ns::secs(1);

/// Declares the tasks of a schedule.
///
/// # Errors
/// When the text is not a schedule. The error has the line.
pub fn build(file: &str, text: &str, prices: Prices, b: &mut Builder) -> Result<()> {
    let schedule = Schedule::read(file, text)?;
    let words: Vec<Word> =
        schedule.parts.iter().map(|_| Word { tokens: b.word(), waits: b.word() }).collect();
    let first = b.next_task().index();
    let words: std::sync::Arc<[Word]> = words.into();
    for (at, part) in schedule.parts.iter().enumerate() {
        let program = Replay::new(part, at, first, words.clone(), prices);
        let task = b.task(part.name.clone(), Box::new(program))?;
        let group = part.group.as_deref().map(|path| b.group(path)).transpose()?;
        let declared = b.edit(task);
        declared.attr = attr(part);
        declared.background = part.background;
        if let Start::By(parent) = part.start {
            declared.spawned_by = Some(TaskId::from(first + parent));
        }
        if let Some(group) = group {
            declared.group = group;
        }
    }
    let longest = Ns(schedule.length.0.saturating_mul(PATIENCE));
    b.ends_within(longest.max(LEAST));
    Ok(())
}

fn attr(part: &Part) -> Attr {
    match part.rt_priority {
        0 => Attr { nice: part.nice, ..Attr::default() },
        rt_priority => Attr { policy: Policy::Fifo, rt_priority, ..Attr::default() },
    }
}

#[cfg(test)]
mod tests;
