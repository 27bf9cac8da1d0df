//! An explanation as text, at most 78 columns wide, fit for mail.

use super::{Explained, Explanation, TailCause, is_count};
use crate::conserve::chance_lines;
use crate::words::{STORY, count, longest, with_notes, wrap};
use schedlab_base::Ns;
use schedlab_record::metric::Value;
use schedlab_record::wait::{Decision, Wait, WaitCause};
use schedlab_trace::{MoveReason, PlaceReason, SwitchReason};

pub fn explain_text(e: &Explanation) -> String {
    let mut out = Vec::new();
    wrap(&mut out, "", 2, &e.run);
    let delays: Vec<String> = e.delays.iter().map(|(name, v)| delay(name, v)).collect();
    wrap(&mut out, "", 2, &format!("wakeup to running: {}", delays.join(", ")));
    tail(e, &mut out);
    longest(&mut out, ["wait", "waits"], &e.worst, story);
    with_notes(out, &e.notes)
}

pub(super) fn delay(name: &str, value: &Value) -> String {
    match value {
        Value::Number(n) if is_count(name) => count(*n as u64, "wait"),
        Value::Number(n) => format!("{name} {}", Ns(n.round() as u64)),
        Value::Missing(_) => format!("{name} missing"),
    }
}

fn tail(e: &Explanation, out: &mut Vec<String>) {
    if e.tail.causes.is_empty() {
        return;
    }
    out.push(String::new());
    wrap(out, "", 2, &format!("{}. By cause{}:", beyond(e), of_kept(e)));
    out.push(String::new());
    out.push(" waits    time  cause".to_owned());
    for share in &e.tail.causes {
        cause(share, e.tail.waits, e.tail.time_ns, out);
    }
}

/// The tail in words: how many waits, and their total time.
pub fn beyond(e: &Explanation) -> String {
    beyond_of(e.beyond, e.tail.cut_ns, e.beyond_time_ns, e.tail.waits < e.beyond, &e.stat)
}

/// The same from its parts. With `is_rough`, part of the time comes from a histogram.
pub(super) fn beyond_of(waits: u64, cut_ns: Option<u64>, time_ns: u64, is_rough: bool, stat: &str) -> String {
    let about = if is_rough { "about " } else { "" };
    match cut_ns {
        Some(cut) => {
            format!("{} beyond {stat} ({}); {about}{} in all", count(waits, "wait"), Ns(cut), Ns(time_ns))
        }
        None => format!("{}; {about}{} in all", count(waits, "wait"), Ns(time_ns)),
    }
}

/// Which waits the split covers, if not all.
pub fn of_kept(e: &Explanation) -> String {
    let Explanation { tail, .. } = e;
    if tail.waits >= e.beyond {
        return String::new();
    }
    let pct = 100.0 * tail.time_ns as f64 / e.beyond_time_ns.max(1) as f64;
    format!(", of the {} longest, which were kept: {} ({pct:.0}% of that)", tail.waits, Ns(tail.time_ns))
}

fn cause(share: &TailCause, waits: u64, time_ns: u64, out: &mut Vec<String>) {
    let pct = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let front = format!("{:>5.1}%  {:>5.1}%  ", pct(share.waits, waits), pct(share.time_ns, time_ns));
    wrap(out, &front, front.len(), &format!("{}: {}", share.cause, share.about));
    let ends: Vec<String> = share.ended_why.iter().map(|(why, n)| format!("{n} by {why}")).collect();
    let pad = " ".repeat(front.len());
    wrap(out, &pad, front.len() + 2, &format!("ended: {}", ends.join(", ")));
}

fn story(number: usize, explained: &Explained, out: &mut Vec<String>) {
    let w = &explained.wait;
    let front = format!("{number:>3}. {:>8} ", Ns(w.length_ns).to_string());
    let waker = w.waker.as_deref().unwrap_or("an interrupt");
    let at = w.woken_at.0;
    let at = format!("{}.{:06} s", at / 1_000_000_000, at % 1_000_000_000 / 1_000);
    wrap(out, &front, STORY, &format!("{}: {}", w.task, explained.cause));
    let mut line = |words: String| wrap(out, &" ".repeat(STORY), STORY + 2, &words);
    line(format!("woken at {at} by {waker} on {}", w.waker_cpu));
    line(chosen(w));
    line(there(w));
    decided(w).into_iter().for_each(&mut line);
    // A task that was still being placed, or whose CPU was leaving idle, needed no other CPU.
    let waited = !matches!(w.cause(), WaitCause::IdleExit | WaitCause::Placing);
    if let Some(chance) = explained.idle_meanwhile.as_ref().filter(|c| waited || !c.cpus.is_empty()) {
        chance_lines(chance).into_iter().for_each(&mut line);
    }
    line(ended(w));
}

fn chosen(w: &Wait) -> String {
    let probes = count(w.probes.into(), "probe");
    let why = match &w.placement {
        Some(name) => match PlaceReason::ALL.iter().find(|r| r.name() == name) {
            Some(reason) => format!("{name}: {}; {probes}", reason.about()),
            None => format!("{name}; {probes}"),
        },
        None => "why is not known".to_owned(),
    };
    format!("placed on {} ({why}), queued {} later", w.chosen_cpu, Ns(w.enqueue_ns))
}

/// What a sched_ext scheduler decided, a line each, with the time that the task spent in the queue.
fn decided(w: &Wait) -> Vec<String> {
    let queues = w.queues();
    let spent = |d: &Decision| queues.iter().find(|(of, _)| std::ptr::eq(*of, d)).map(|(_, ns)| *ns);
    let one = |(i, d): (usize, &Decision)| {
        let who = match d.by.as_str() {
            "kernel" => "the kernel itself".to_owned(),
            "other" => "its scheduler".to_owned(),
            op => op.to_owned(),
        };
        let of = d.of.map_or_else(|| "of a CPU".to_owned(), |cpu| format!("of {cpu}"));
        let did = match (d.to.as_str(), d.dsq) {
            ("kicked", _) => format!("kicked {}", d.of.map_or_else(|| "a CPU".to_owned(), |c| c.to_string())),
            ("held", _) => "inserted it nowhere: the scheduler kept it".to_owned(),
            ("local", _) => format!("put it into the local DSQ {of}"),
            (_, Some(number)) => format!("put it into DSQ {number:#x}"),
            (kind, None) => format!("put it into the {kind} DSQ"),
        };
        let skipped = w.decisions.saturating_sub(w.decided.len() as u32);
        let gap = (skipped > 0 && i + 1 == w.decided.len())
            .then(|| format!("after {} more, ", count(skipped.into(), "decision")));
        let there = spent(d).filter(|ns| *ns > 0);
        let there = there.map_or_else(String::new, |ns| format!("; there for {}", Ns(ns)));
        format!("{}{who} on {} {did}{there}", gap.unwrap_or_default(), d.on)
    };
    w.decided.iter().enumerate().map(one).collect()
}

fn there(w: &Wait) -> String {
    let others = match w.nr_running {
        0 | 1 => String::new(),
        n => format!("; {n} runnable there, itself included"),
    };
    match &w.occupant {
        Some(o) => {
            let fresh = if o.fresh { ", itself just woken" } else { "" };
            format!("found {} there, running for {}{fresh}{others}", o.task, Ns(o.ran_ns))
        }
        None => format!("found the CPU idle{others}"),
    }
}

fn ended(w: &Wait) -> String {
    let moved = w.moved.as_ref().map(|name| {
        let about = MoveReason::ALL.iter().find(|r| r.name() == name).map_or(name.as_str(), |r| r.about());
        format!("{about}; ")
    });
    let end = match &w.ended_by {
        Some(who) => {
            let about = SwitchReason::ALL.iter().find(|r| r.name() == w.ended_why);
            format!("{who} left: {}", about.map_or(w.ended_why.as_str(), |r| r.about()))
        }
        None if w.idle_exit_ns > 0 => format!("the CPU woke up from idle in {}", Ns(w.idle_exit_ns)),
        None => "the CPU had nothing else to run".to_owned(),
    };
    format!("{}ran on {} when {end}", moved.unwrap_or_default(), w.ran_on)
}
