//! The events of a phase, as in the file.

use super::json::{Kind, Member, Source};
use super::{keys, read};
use schedlab_base::{Error, Ns, Result};

/// An event and its place.
#[derive(Debug)]
pub struct Event {
    /// Byte offset of the key.
    pub at: usize,
    pub what: EventAction,
}

/// The next activation of a late timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// One period from now: a late activation delays later ones.
    Relative,
    /// On the grid of its start: a late task catches up.
    Absolute,
}

#[derive(Debug)]
pub enum EventAction {
    /// Compute for this time of a CPU at full speed.
    Run(Ns),
    /// Spin for this wall time.
    Runtime(Ns),
    Sleep(Ns),
    /// Sleep to the timer's next activation.
    Timer {
        name: String,
        /// Time between activations.
        period: Ns,
        /// `None`: this use names no mode.
        mode: Option<Mode>,
    },
    Lock(String),
    Unlock(String),
    /// Wait on a condition; a held mutex is released while waiting.
    Wait(Condition),
    /// Signal the condition, then wait on it.
    Sync(Condition),
    /// Wake one waiter of a condition.
    Signal(String),
    /// Wake all waiters of a condition.
    Broad(String),
    /// Wait for a resume.
    Suspend(String),
    /// Resume all tasks suspended under the name.
    Resume(String),
    /// Wait for all other users.
    Barrier(String),
    /// Touch this number of bytes of the thread's buffer.
    Memory(u64),
    /// Wait for a device to take this number of bytes.
    Io(u64),
    /// sched_yield.
    Yield,
    /// Start a thread of the named task.
    Fork(String),
}

#[derive(Debug)]
pub struct Condition {
    pub name: String,
    pub mutex: String,
}

/// Reads an event of the given kind (a name in the key table) of task `task`.
///
/// # Errors
/// When a value has the wrong kind or is out of range.
pub fn read(source: Source<'_>, kind: &str, member: &Member, task: &str) -> Result<Event> {
    let name = || read::name(source, member);
    let what = match kind {
        "run" => EventAction::Run(read::time_us(source, member, 0)?),
        "runtime" => EventAction::Runtime(read::time_us(source, member, 0)?),
        "sleep" => EventAction::Sleep(read::time_us(source, member, 0)?),
        "timer" => timer(source, member)?,
        "lock" => EventAction::Lock(name()?),
        "unlock" => EventAction::Unlock(name()?),
        "wait" => EventAction::Wait(condition(source, member)?),
        "sync" => EventAction::Sync(condition(source, member)?),
        "signal" => EventAction::Signal(name()?),
        "broad" => EventAction::Broad(name()?),
        "suspend" => EventAction::Suspend(own_or_named(source, member, task)?),
        "resume" => EventAction::Resume(name()?),
        "barrier" => EventAction::Barrier(name()?),
        "yield" => match read::text(source, member) {
            Err(e) if !matches!(member.value.kind, Kind::Null) => return Err(e),
            _ => EventAction::Yield,
        },
        "fork" => EventAction::Fork(name()?),
        "mem" => EventAction::Memory(read::bytes(source, member, 0)?),
        "iorun" => EventAction::Io(read::bytes(source, member, 0)?),
        other => return Err(Error::internal(format!("event '{other}' is in the table but is not read"))),
    };
    Ok(Event { at: member.at, what })
}

fn own_or_named(source: Source<'_>, member: &Member, task: &str) -> Result<String> {
    let name = read::text(source, member)?;
    Ok(if name.is_empty() { task.to_owned() } else { name.to_owned() })
}

/// The members `names` of an event's object, in that order. All others are errors.
fn fields<'a, const N: usize>(
    source: Source<'_>,
    member: &'a Member,
    names: [&str; N],
) -> Result<[Option<&'a Member>; N]> {
    let mut found = [None; N];
    for field in read::object(source, member)? {
        let at = names.iter().position(|n| *n == field.key).ok_or_else(|| {
            Error::unknown(&format!("key in {}", member.key), &field.key, names).at(source.spot(field.at))
        })?;
        keys::once(source, field)?;
        found[at] = Some(field);
    }
    Ok(found)
}

fn needed<'a>(
    source: Source<'_>,
    member: &Member,
    field: Option<&'a Member>,
    name: &str,
) -> Result<&'a Member> {
    field.ok_or_else(|| source.error(member.value.at, format!("'{}' has no '{name}'", member.key)))
}

fn timer(source: Source<'_>, member: &Member) -> Result<EventAction> {
    let [name, period, mode] = fields(source, member, ["ref", "period", "mode"])?;
    let name = read::name(source, needed(source, member, name, "ref")?)?;
    let period = read::time_us(source, needed(source, member, period, "period")?, 1)?;
    let mode = mode.map(|m| match read::text(source, m)? {
        "relative" => Ok(Mode::Relative),
        "absolute" => Ok(Mode::Absolute),
        other => {
            Err(Error::unknown("timer mode", other, ["relative", "absolute"]).at(source.spot(m.value.at)))
        }
    });
    Ok(EventAction::Timer { name, period, mode: mode.transpose()? })
}

fn condition(source: Source<'_>, member: &Member) -> Result<Condition> {
    let [name, mutex] = fields(source, member, ["ref", "mutex"])?;
    Ok(Condition {
        name: read::name(source, needed(source, member, name, "ref")?)?,
        mutex: read::name(source, needed(source, member, mutex, "mutex")?)?,
    })
}
