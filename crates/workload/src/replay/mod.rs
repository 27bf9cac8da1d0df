//! Replay: a recorded schedule as a workload.
//!
//! A recording says when tasks ran. What the tasks wanted is a little less and a little more: how long they computed
//! between two sleeps, whom they woke on the way, and what each sleep waited for. Those are the *steps* of a
//! [`Schedule`]. A burst is never cut where the recorded scheduler took the CPU away, since another scheduler would
//! not.
//!
//! - A sleep that a task ended waits for that task ([`Step::Await`], [`Step::Wake`]). Wakeups count: one that comes
//!   before its sleep ends the sleep at once.
//! - A sleep that a timer or a device ended lasts as long as it did ([`Step::Sleep`]).
//! - The kernel's own work (switches, wakeups, system calls) is in a recorded burst, and the machine of the replay adds
//!   its own. So each wakeup and each sleep takes a *price* off the bursts ([`Schedule::prices`]).
//!
//! Times are ns. `schedule` is the data and its text, `program` runs it, `rtapp` writes it for others.

mod program;
mod rtapp;
mod schedule;

pub use rtapp::rtapp;
pub use schedule::{Part, Prices, Schedule, Start, Step};

use crate::build::Builder;
use program::{Replay, Word};
use schedlab_base::{Ns, Result, TaskId};
use schedlab_kernel::{Attr, Policy};

/// How many times its recorded length a replay may take before it is cut off.
const PATIENCE: u64 = 4;
/// The least that it may take.
const LEAST: Ns = Ns::secs(1);

/// Declares the tasks of a schedule.
///
/// # Errors
/// When the text is not a schedule, with its line.
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
