//! The longest waits of two runs side by side: the part of each cause in both tails, and the difference.
//!
//! A run's tail is all its waits beyond its own p99, as in [`explain`]: with the other run's bound, a run that is ten
//! times faster would have no tail. Shares are of the run's own tail. Times are nanoseconds; they are comparable if
//! both runs measured for the same time.

use super::text::{beyond_of, delay};
use super::{Explanation, TAIL, explain};
use crate::words::{with_notes, wrap};
use schedlab_base::Ns;
use schedlab_record::{Record, Value};
use serde::Serialize;

/// The tails of two runs by cause.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Versus {
    pub a: VersusSide,
    pub b: VersusSide,
    /// Causes that occurred in either run, largest difference in time first.
    pub causes: Vec<CauseOfTwo>,
    pub notes: Vec<String>,
}

/// One run's tail.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VersusSide {
    pub run: String,
    /// Statistics of all waits: name and value in ns, and their number.
    pub delays: Vec<(String, Value)>,
    /// Waits longer than this are split; all kept waits if `None`.
    pub cut_ns: Option<u64>,
    /// Number of waits beyond the cut, kept or not.
    pub beyond: u64,
    /// The sum of their lengths, as in [`Explanation::beyond_time_ns`].
    pub beyond_time_ns: u64,
    /// Number of waits that are split.
    pub waits: u64,
    /// The sum of their lengths.
    pub time_ns: u64,
}

/// A cause's part of both tails.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CauseOfTwo {
    pub cause: &'static str,
    /// The cause in a sentence.
    pub about: &'static str,
    /// Its part in the first run.
    pub a: VersusPart,
    /// Its part in the second run.
    pub b: VersusPart,
    /// Time in the second run minus time in the first.
    pub difference_ns: i64,
}

/// A cause's part of one tail; all 0 if it did not occur.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct VersusPart {
    /// Number of waits with this cause.
    pub waits: u64,
    /// The sum of their lengths.
    pub time_ns: u64,
    /// Their time in percent of the run's tail.
    pub time_pct: f64,
}

/// Sets the tails of two runs side by side.
pub fn versus(a: &Record, b: &Record) -> Versus {
    let (one, other) = (explain(a, 0), explain(b, 0));
    let mut causes: Vec<CauseOfTwo> = Vec::new();
    for share in one.tail.causes.iter().chain(&other.tail.causes) {
        if causes.iter().any(|c| c.cause == share.cause) {
            continue;
        }
        let (a, b) = (part(&one, share.cause), part(&other, share.cause));
        let difference_ns = b.time_ns as i64 - a.time_ns as i64;
        causes.push(CauseOfTwo { cause: share.cause, about: share.about, a, b, difference_ns });
    }
    causes.sort_by_key(|c| std::cmp::Reverse(c.difference_ns.unsigned_abs()));
    let notes = notes(a, b, &one, &other);
    Versus { a: side(one), b: side(other), causes, notes }
}

fn part(e: &Explanation, cause: &str) -> VersusPart {
    let share = e.tail.causes.iter().find(|s| s.cause == cause);
    share.map_or_else(VersusPart::default, |s| VersusPart {
        waits: s.waits,
        time_ns: s.time_ns,
        time_pct: 100.0 * s.time_ns as f64 / e.tail.time_ns.max(1) as f64,
    })
}

fn side(e: Explanation) -> VersusSide {
    let (cut_ns, waits, time_ns) = (e.tail.cut_ns, e.tail.waits, e.tail.time_ns);
    let Explanation { run, delays, beyond, beyond_time_ns, .. } = e;
    VersusSide { run, delays, cut_ns, beyond, beyond_time_ns, waits, time_ns }
}

fn notes(a: &Record, b: &Record, one: &Explanation, other: &Explanation) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if a.found.duration != b.found.duration {
        let text =
            format!("A measured {}, B {}: compare shares, not times", a.found.duration, b.found.duration);
        notes.push(text);
    }
    if (&a.workload, &a.spec) != (&b.workload, &b.spec) {
        notes.push("the two runs are of different workloads".to_owned());
    }
    for (name, e) in [("A", one), ("B", other)] {
        for note in &e.notes {
            notes.push(format!("{name}: {note}"));
        }
    }
    notes
}

/// The comparison as text, at most 78 columns wide.
pub fn versus_text(v: &Versus) -> String {
    let mut out = Vec::new();
    for (name, side) in [("A", &v.a), ("B", &v.b)] {
        wrap(&mut out, &format!("{name}  "), 3, &side.run);
        let delays: Vec<String> = side.delays.iter().map(|(name, v)| delay(name, v)).collect();
        wrap(&mut out, "   ", 5, &format!("wakeup to running: {}", delays.join(", ")));
        let mut tail =
            beyond_of(side.beyond, side.cut_ns, side.beyond_time_ns, side.waits < side.beyond, TAIL);
        if side.waits < side.beyond {
            tail += &format!("; split are the {} longest, {}", side.waits, Ns(side.time_ns));
        }
        wrap(&mut out, "   ", 5, &tail);
    }
    if !v.causes.is_empty() {
        out.push(String::new());
        out.push(format!("{:<16}{:^24}{:^24}{:>14}", "", "A", "B", "B less A").trim_end().to_owned());
        let head = format!("{:>6}{:>10}{:>8}", "waits", "time", "share");
        out.push(format!("{:<16}{head}{head}{:>14}", "cause", "time"));
    }
    v.causes.iter().for_each(|c| out.push(line(c)));
    if !v.causes.is_empty() {
        out.push(String::new());
        let front = |name: &str| format!("{name:<16}");
        v.causes.iter().for_each(|c| wrap(&mut out, &front(c.cause), 16, c.about));
    }
    with_notes(out, &v.notes)
}

fn line(c: &CauseOfTwo) -> String {
    let part = |p: &VersusPart| match p.waits {
        0 => format!("{:>6}{:>10}{:>8}", 0, "-", "-"),
        n => format!("{n:>6}{:>10}{:>7.1}%", Ns(p.time_ns).to_string(), p.time_pct),
    };
    let sign = if c.difference_ns < 0 { '-' } else { '+' };
    let difference = format!("{sign}{}", Ns(c.difference_ns.unsigned_abs()));
    format!("{:<16}{}{}{difference:>14}", c.cause, part(&c.a), part(&c.b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::tests::{idle, record, wait};
    use schedlab_base::wrap::WIDTH;

    #[test]
    fn causes_of_either_run_stand_side_by_side() {
        let (a, mut b) = (record(), record());
        b.variant.name = "first-idle".into();
        b.found.waits.truncate(18);
        b.found.waits.extend([idle(20_000_000), idle(15_000_000)]);
        let v = versus(&a, &b);
        let causes: Vec<(&str, u64, u64)> =
            v.causes.iter().map(|c| (c.cause, c.a.waits, c.b.waits)).collect();
        assert_eq!(causes, [("idle_exit", 1, 2), ("stacked", 19, 18)]);
        assert_eq!(v.causes[0].difference_ns, 35_000_000 - 800_000);
        assert!(v.causes[1].difference_ns < 0);
        for shares in [|c: &CauseOfTwo| c.a.time_pct, |c: &CauseOfTwo| c.b.time_pct] {
            assert!((v.causes.iter().map(shares).sum::<f64>() - 100.0).abs() < 1e-9);
        }
        let text = versus_text(&v);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("+34.20ms") && text.contains("first-idle"), "{text}");
    }

    #[test]
    fn a_cause_of_only_one_run_is_0_in_the_other() {
        let (mut a, b) = (record(), record());
        a.found.waits = vec![wait(9_000_000)];
        let v = versus(&a, &b);
        let idle = v.causes.iter().find(|c| c.cause == "idle_exit").unwrap();
        assert_eq!((idle.a, idle.difference_ns), (VersusPart::default(), 800_000));
        assert!(versus_text(&v).contains("idle_exit            0         -       -"), "{}", versus_text(&v));
    }

    #[test]
    fn runs_of_different_lengths_say_so() {
        let (a, mut b) = (record(), record());
        b.found.duration = schedlab_base::Ns::secs(9);
        assert!(versus(&a, &b).notes[0].contains("compare shares"), "{:?}", versus(&a, &b).notes);
        assert!(versus(&a, &a).notes.is_empty());
    }
}
