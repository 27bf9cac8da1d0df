//! Exports a schedule as an rt-app file.
//!
//! rt-app has microseconds and no counted wakeups: `resume` ends the sleep of a task in `suspend`, and is lost if the
//! task is not there yet. So the file has the schedule's bursts, sleeps and wakers, but not always its order.

use super::schedule::{Schedule, Start, Step};
use schedlab_base::Ns;
use std::fmt::Write as _;

pub fn rtapp(schedule: &Schedule) -> String {
    let names: Vec<String> =
        schedule.parts.iter().enumerate().map(|(at, p)| format!("{}-{at}", plain(&p.name))).collect();
    let starts = starts(schedule);
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
        if starts[at].0 >= 1_000 {
            keys.push(format!("\"delay\": {}", starts[at].0 / 1_000));
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

/// When each task begins, because in rt-app no task can start another: a started task begins after all bursts and
/// sleeps of its starter before that point.
fn starts(schedule: &Schedule) -> Vec<Ns> {
    let mut after = vec![Ns::ZERO; schedule.parts.len()];
    for part in &schedule.parts {
        let mut done = Ns::ZERO;
        for step in &part.steps {
            match *step {
                Step::Run(ns) | Step::Sleep(ns) => done = done.plus(ns),
                Step::Start(child) => after[child] = done,
                _ => {}
            }
        }
    }
    let start = |mut at: usize| {
        let mut sum = Ns::ZERO;
        // No chain of starters is longer than the number of tasks.
        for _ in 0..schedule.parts.len() {
            match schedule.parts[at].start {
                Start::At(ns) => return sum.plus(ns),
                Start::By(maker) => (sum, at) = (sum.plus(after[at]), maker),
            }
        }
        sum
    };
    (0..schedule.parts.len()).map(start).collect()
}

/// A name without characters that JSON must escape.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Part;

    #[test]
    fn a_task_that_another_makes_begins_when_that_one_gets_there() {
        let part = |start, steps: &[Step]| Part {
            name: "t".into(),
            tid: 0,
            nice: 0,
            rt_priority: 0,
            background: false,
            group: None,
            start,
            steps: steps.to_vec(),
        };
        let (run, sleep) = (Step::Run(Ns::us(30)), Step::Sleep(Ns::us(50)));
        let parts = vec![
            part(Start::At(Ns::us(5)), &[run, sleep, Step::Start(1), run]),
            part(Start::By(0), &[run, Step::Start(2)]),
            part(Start::By(1), &[run]),
        ];
        let schedule = Schedule { length: Ns::ms(1), parts };
        assert_eq!(starts(&schedule), [Ns::us(5), Ns::us(85), Ns::us(115)]);
        assert!(rtapp(&schedule).contains("\"delay\": 115"));
    }
}
