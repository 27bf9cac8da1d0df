//! A schedule as an rt-app file, for others.
//!
//! rt-app counts in microseconds and knows no numbered wakeups: `resume` ends the sleep of a task that sleeps in
//! `suspend`, and is lost when that task is not there yet. So what comes out has the schedule's bursts, sleeps and
//! wakers, but not always its order.

use super::schedule::{Schedule, Start, Step};
use std::fmt::Write as _;

/// The text of the rt-app file.
pub fn rtapp(schedule: &Schedule) -> String {
    let names: Vec<String> =
        schedule.parts.iter().enumerate().map(|(at, p)| format!("{}-{at}", plain(&p.name))).collect();
    let mut out = String::from("{\n  \"global\": { \"default_policy\": \"SCHED_OTHER\" },\n  \"tasks\": {");
    let mut first = true;
    for (at, part) in schedule.parts.iter().enumerate().filter(|(_, p)| !p.background) {
        let _ = write!(out, "{}\n    \"{}\": {{", if first { "" } else { "," }, names[at]);
        first = false;
        let mut keys: Vec<String> = vec!["\"loop\": 1".to_owned()];
        match part.rt_priority {
            0 => keys.push(format!("\"priority\": {}", part.nice)),
            rt => keys.push(format!("\"policy\": \"SCHED_FIFO\", \"priority\": {rt}")),
        }
        if let Start::At(ns) = part.start
            && ns.0 >= 1_000
        {
            keys.push(format!("\"delay\": {}", ns.0 / 1_000));
        }
        let mut left_ns = 0;
        for (number, step) in part.steps.iter().enumerate() {
            let event = match *step {
                Step::Run(ns) => {
                    left_ns += ns.0;
                    (left_ns >= 1_000).then(|| {
                        let us = left_ns / 1_000;
                        left_ns %= 1_000;
                        format!("\"run{number}\": {us}")
                    })
                }
                Step::Wake(task) => Some(format!("\"resume{number}\": \"{}\"", names[task])),
                Step::Await => Some(format!("\"suspend{number}\": \"{}\"", names[at])),
                Step::Sleep(ns) => Some(format!("\"sleep{number}\": {}", (ns.0 / 1_000).max(1))),
                Step::Give(_) | Step::Need | Step::Start(_) => None,
            };
            keys.extend(event);
        }
        let _ = write!(out, "\n      {}\n    }}", keys.join(",\n      "));
    }
    out.push_str("\n  }\n}\n");
    out
}

/// A name without what JSON would need to escape.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}
