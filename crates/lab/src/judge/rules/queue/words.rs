//! States and answers, in words.

use schedlab_base::Ns;
use schedlab_board::decision::{AskedEntity, AskedQueue, QueueAnswer};
use schedlab_kernel::Policy;

/// A state, a line for each entity and one for the queue.
pub fn state(s: &AskedQueue, deadlines: bool) -> Vec<String> {
    let mut lines: Vec<String> =
        s.entities.iter().enumerate().map(|(i, e)| entity(s, i, e, deadlines)).collect();
    let mut queue = vec![format!("queue at {}", time(s.min_vruntime))];
    if s.ran_ns > 0 && s.current.is_some() {
        queue.push(format!("the running one is to be charged {}", Ns(s.ran_ns)));
    }
    lines.push(queue.join(", "));
    lines
}

fn entity(s: &AskedQueue, i: usize, e: &AskedEntity, deadlines: bool) -> String {
    let mut words = vec![format!("vruntime {}", time(e.vruntime))];
    if deadlines {
        let what = if e.relative { "deadline in" } else { "deadline" };
        words.push(format!("{what} {}", time(e.deadline)));
    }
    match e.policy {
        Policy::Other => {}
        policy => words.push(format!("{policy:?}").to_uppercase()),
    }
    if e.nice != 0 {
        words.push(format!("nice {}", e.nice));
    }
    if e.slice_ns > 0 {
        words.push(format!("slice {}", Ns(e.slice_ns.into())));
    }
    if s.absent == Some(i) && e.lag != 0 {
        words.push(format!("lag {}", time(e.lag)));
    }
    if s.current == Some(i) && deadlines && e.protected_until > e.vruntime {
        words.push(format!("protected until {}", time(e.protected_until)));
    }
    let buddies = [(s.next, "next buddy"), (s.last, "last buddy"), (s.skip, "yielded")];
    words.extend(buddies.iter().filter(|b| b.0 == Some(i)).map(|b| b.1.to_owned()));
    let role = match () {
        () if s.current == Some(i) => "runs",
        () if s.absent == Some(i) && s.is_new => "is new",
        () if s.absent == Some(i) => "wakes up",
        () if s.about == i && s.is_new => "waits, is new",
        () if s.about == i && s.sync => "waits, was woken by one that will sleep",
        () => "waits",
    };
    format!("{i} {role}: {}", words.join(", "))
}

/// Virtual time, signed.
fn time(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "" }, Ns(ns.unsigned_abs()))
}

/// The necessary parts of a smallest state: its cause, as far as parts of a state show it.
pub fn needs(s: &AskedQueue) -> Vec<String> {
    let mut all = vec![format!("{} entities", s.entities.len())];
    let mut part = |has: bool, what: &str| {
        if has {
            all.push(what.to_owned());
        }
    };
    let any = |test: fn(&AskedEntity) -> bool| s.entities.iter().any(test);
    part(s.current.is_some(), "one runs");
    part(s.current.is_some() && s.ran_ns > 0, "a charge");
    part(s.next.is_some(), "a next buddy");
    part(s.last.is_some(), "a last buddy");
    part(s.skip.is_some(), "one that yielded");
    part(any(|e| e.policy == Policy::Idle), "SCHED_IDLE");
    part(any(|e| e.policy == Policy::Batch), "SCHED_BATCH");
    part(any(|e| e.nice != 0), "weights");
    part(any(|e| e.slice_ns > 0), "own slices");
    part(any(|e| e.lag != 0), "lag");
    part(any(|e| e.relative), "a relative deadline");
    part(s.current.is_some_and(|c| s.entities[c].protected_until > s.entities[c].vruntime), "protection");
    part(s.is_new, "a new task");
    part(s.sync, "a synchronous wakeup");
    all
}

pub fn answer(a: QueueAnswer) -> String {
    let buddy =
        |next: Option<usize>| next.map_or("no buddy".to_owned(), |n| format!("{n} is the next buddy"));
    match a {
        QueueAnswer::Picked(Some(i)) => format!("runs {i}"),
        QueueAnswer::Picked(None) => "runs none".to_owned(),
        QueueAnswer::Placed { vruntime, deadline } => {
            format!("vruntime {vruntime} ns, deadline {deadline} ns")
        }
        QueueAnswer::Judged { preempts, next } => {
            format!("{}, {}", if preempts { "preempts" } else { "waits" }, buddy(next))
        }
    }
}
