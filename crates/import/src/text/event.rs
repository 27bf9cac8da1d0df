//! Reads the fields of an event, as the kernel prints them (`prev_comm=bash prev_pid=12 ...`), or as libtraceevent's
//! plugins print switches and wakeups (`bash:12 [120] S ==> swapper/0:0 [120]`).

use super::bare;
use super::number::{Cursor, number};
use crate::sched_record::{CLONE_THREAD, Comm, MAX_CPUS, MAX_THREADS, RecordKind, Thread};
use crate::states::States;
use memchr::memmem;
use schedlab_trace::SwitchReason;

/// The longest name of a task.
const COMM_LEN: usize = 15;

/// The result of reading an event's fields.
pub enum Read {
    RecordKind(RecordKind),
    /// An event that is not read, or that says that nothing happened.
    Other,
    /// Fields that can't be read.
    Unreadable,
}

/// Reads the fields of the event with a name. `current` is the thread that ran; `states` knows the meaning of a state's
/// bits.
#[inline]
pub fn read(
    name: &[u8],
    fields: &[u8],
    in_interrupt: bool,
    states: &mut States,
    current: impl Fn() -> Thread,
) -> Read {
    let waker = || if in_interrupt { bare(0) } else { current() };
    let what = match name {
        b"sched_switch" => switch(fields, states).or_else(|| plugin_switch(fields, states)),
        b"sched_waking" | b"sched_wakeup" | b"sched_wakeup_new" => {
            let told = wakeup(fields).or_else(|| plugin_wakeup(fields)).or_else(|| first_wakeup(fields));
            if let Some((.., false)) = told {
                return Read::Other;
            }
            told.map(|(thread, cpu, _)| match name {
                b"sched_waking" => RecordKind::Waking { thread, waker: waker(), cpu },
                _ => RecordKind::Queued { thread, waker: waker(), cpu, new: name == b"sched_wakeup_new" },
            })
        }
        b"sched_migrate_task" => migrate(fields),
        b"sched_process_fork" => fork(fields),
        b"task_newtask" => new_task(fields, current()),
        b"sched_process_exit" => exit(fields),
        b"task_rename" => match rename(fields) {
            // Since 6.14 it does not report which thread was renamed.
            None => return Read::Other,
            told => told,
        },
        _ => return Read::Other,
    };
    what.map_or(Read::Unreadable, Read::RecordKind)
}

/// The length of a name that stands before `anchor`. A name may contain the anchor, so the last anchor within the
/// longest possible name counts, else the first.
#[inline]
fn name_before(text: &[u8], anchor: &[u8]) -> Option<usize> {
    let within = &text[..text.len().min(COMM_LEN + anchor.len())];
    memmem::rfind(within, anchor).or_else(|| memmem::find(text, anchor))
}

/// `comm=NAME pid=12 prio=120`, with a word before each of them.
#[inline]
fn person(at: &mut Cursor<'_>, words: [&[u8]; 3]) -> Option<Thread> {
    let [comm, pid, prio] = words;
    if !at.past(comm) {
        return None;
    }
    let length = name_before(at.0, pid)?;
    let comm = Comm::of(at.take(length));
    let tid = thread(at.field(pid)?)?;
    let prio = match prio.is_empty() {
        true => None,
        false => Some(prio_of(at, prio)?),
    };
    Some(Thread { tid, comm, prio })
}

/// A priority; it is negative for deadline tasks.
#[inline]
fn prio_of(at: &mut Cursor<'_>, word: &[u8]) -> Option<i32> {
    if at.past(word) { at.signed().and_then(|n| i32::try_from(n).ok()) } else { None }
}

fn thread(n: u64) -> Option<u32> {
    u32::try_from(n).ok().filter(|n| *n < MAX_THREADS)
}

fn cpu(n: u64) -> Option<u32> {
    u32::try_from(n).ok().filter(|n| *n < MAX_CPUS)
}

#[inline]
fn switch(fields: &[u8], states: &mut States) -> Option<RecordKind> {
    let mut at = Cursor(fields);
    let prev = person(&mut at, [b"prev_comm=", b" prev_pid=", b" prev_prio="])?;
    if !at.past(b" prev_state=") {
        return None;
    }
    // Raw fields (trace-cmd report -R) have no arrow.
    let end = memmem::find(at.0, b" ==> ").or_else(|| memmem::find(at.0, b" next_comm="))?;
    let state = at.take(end).trim_ascii();
    let _ = at.past(b" ==> ") || at.past(b" ");
    let next = person(&mut at, [b"next_comm=", b" next_pid=", b" next_prio="])?;
    Some(RecordKind::Switch { prev, next, why: why(prev.tid, state, states)? })
}

/// Reads `bash:12 [120] S ==> swapper/0:0 [120]`, starting from the arrow: names may hold colons and brackets. Kernels
/// before 2.6.33 print `task bash:12 [120] (S) ==> swapper:0 [120]`.
fn plugin_switch(fields: &[u8], states: &mut States) -> Option<RecordKind> {
    let arrow = memmem::find(fields, b" ==> ")?;
    let (left, right) = (&fields[..arrow], &fields[arrow + 5..]);
    let at = memchr::memrchr(b' ', left)?;
    let state = &left[at + 1..];
    let (left, state) = match state.strip_prefix(b"(").and_then(|s| s.strip_suffix(b")")) {
        Some(state) => (left[..at].strip_prefix(b"task ").unwrap_or(&left[..at]), state),
        None => (&left[..at], state),
    };
    let prev = plugin_person(left)?.0;
    let next = plugin_person(right)?.0;
    Some(RecordKind::Switch { prev, next, why: why(prev.tid, state, states)? })
}

/// `bash:12 [120]`, and the text after the bracket.
fn plugin_person(text: &[u8]) -> Option<(Thread, &[u8])> {
    memchr::memchr_iter(b'[', text).find_map(|open| {
        let mut at = Cursor(&text[open + 1..]);
        let prio = i32::try_from(at.signed()?).ok()?;
        if !at.past(b"]") {
            return None;
        }
        let before = text[..open].strip_suffix(b" ")?;
        let colon = memchr::memrchr(b':', before)?;
        let (tid, taken) = number(&before[colon + 1..])?;
        (colon + 1 + taken == before.len()).then_some(())?;
        Some((Thread { tid: thread(tid)?, comm: Comm::of(&before[..colon]), prio: Some(prio) }, at.0))
    })
}

/// Why the previous task's stay ended. A task that is still runnable was preempted or yielded; the kernel does not say
/// which.
#[inline]
fn why(prev: u32, state: &[u8], states: &mut States) -> Option<SwitchReason> {
    if prev == 0 {
        return Some(SwitchReason::FromIdle);
    }
    Some(match state {
        [b'R', ..] | [.., b'+'] => SwitchReason::Preempted,
        [b'0'..=b'9' | b'-', ..] => of_bits(state, states)?,
        [] => return None,
        _ if state.iter().any(|b| b"XxZ".contains(b)) => SwitchReason::Exited,
        _ => SwitchReason::Blocked,
    })
}

/// A state as a number: from tools that print fields unchanged, or that do not know the letters.
fn of_bits(state: &[u8], states: &mut States) -> Option<SwitchReason> {
    let mut at = Cursor(state);
    let bits = at.signed()?;
    at.0.is_empty().then(|| states.ended_by(bits as u64))
}

/// The thread, the CPU, and whether a task was woken at all (kernels before 4.3 also report wakeups that woke nobody).
#[inline]
fn wakeup(fields: &[u8]) -> Option<(Thread, u32, bool)> {
    let mut at = Cursor(fields);
    let who = person(&mut at, [b"comm=", b" pid=", b" prio="])?;
    let woken = at.field(b" success=") != Some(0);
    Some((who, cpu(at.field(b" target_cpu=")?)?, woken))
}

/// `bash:12 [120] success=1 CPU:003`
fn plugin_wakeup(fields: &[u8]) -> Option<(Thread, u32, bool)> {
    let (who, rest) = plugin_person(fields)?;
    let woken = memmem::find(rest, b"success=0").is_none();
    let at = memmem::rfind(rest, b"CPU:")?;
    Some((who, cpu(number(&rest[at + 4..])?.0)?, woken))
}

/// `task bash:12 [120] success=1 [003]`, as kernels before 2.6.33 print it.
fn first_wakeup(fields: &[u8]) -> Option<(Thread, u32, bool)> {
    let (who, rest) = plugin_person(fields.strip_prefix(b"task ")?)?;
    let woken = memmem::find(rest, b"success=0").is_none();
    let at = memchr::memrchr(b'[', rest)?;
    Some((who, cpu(number(&rest[at + 1..])?.0)?, woken))
}

fn migrate(fields: &[u8]) -> Option<RecordKind> {
    let mut at = Cursor(fields);
    let thread = person(&mut at, [b"comm=", b" pid=", b" prio="])?;
    Some(RecordKind::Migrate {
        thread,
        from: cpu(at.field(b" orig_cpu=")?)?,
        to: cpu(at.field(b" dest_cpu=")?)?,
    })
}

fn fork(fields: &[u8]) -> Option<RecordKind> {
    let mut at = Cursor(fields);
    // Raw fields have other names.
    let parent = person(&mut at, [b"comm=", b" pid=", b""])
        .or_else(|| person(&mut at, [b"parent_comm=", b" parent_pid=", b""]))?;
    let child = person(&mut at, [b" child_comm=", b" child_pid=", b""])?;
    Some(RecordKind::Fork { parent, child, own_process: None })
}

fn new_task(fields: &[u8], parent: Thread) -> Option<RecordKind> {
    let mut at = Cursor(fields);
    if !at.past(b"pid=") {
        return None;
    }
    let tid = thread(at.number()?)?;
    if !at.past(b" comm=") {
        return None;
    }
    let length = name_before(at.0, b" clone_flags=")?;
    let comm = Comm::of(at.take(length));
    at.past(b" clone_flags=");
    at.past(b"0x");
    let digits = at.0.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let flags = u64::from_str_radix(std::str::from_utf8(at.take(digits)).ok()?, 16).ok()?;
    let child = Thread { tid, comm, prio: None };
    Some(RecordKind::Fork { parent, child, own_process: Some(flags & CLONE_THREAD == 0) })
}

fn exit(fields: &[u8]) -> Option<RecordKind> {
    let mut at = Cursor(fields);
    Some(RecordKind::Exit { thread: person(&mut at, [b"comm=", b" pid=", b" prio="])? })
}

fn rename(fields: &[u8]) -> Option<RecordKind> {
    let mut at = Cursor(fields);
    let tid = thread(at.field(b"pid=")?)?;
    if !at.past(b" oldcomm=") {
        return None;
    }
    let length = name_before(at.0, b" newcomm=")?;
    at.take(length);
    at.past(b" newcomm=");
    let length = name_before(at.0, b" oom_score_adj=").unwrap_or(at.0.len());
    Some(RecordKind::Rename { thread: Thread { tid, comm: Comm::of(at.take(length)), prio: None } })
}
