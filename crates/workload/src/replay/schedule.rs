//! A schedule as data and as text.
//!
//! The text begins with a line `schedlab-schedule 1 LENGTH`. Each task has a line of attributes, followed by the lines
//! of its steps. Times are ns; tasks are numbered from 0 in the order of the file:
//!
//! ```text
//! schedlab-schedule 1 20000000
//! task start=0 nice=0 rt=0 background=0 tid=812 group=- name=message thread
//! r52000 w1 a
//! task start=0 nice=0 rt=0 background=0 tid=813 group=- name=worker
//! a r1200 w0 s30000
//! ```
//!
//! Steps: `rN` compute for N ns, `wT` wake task T, `a` await a wakeup, `sN` sleep for N ns, `fT` start task T, `gT`
//! give task T a token without a wakeup, `n` need a token.

use schedlab_base::{Error, Ns, Result, Spot};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;

/// The beginning of a schedule's text.
pub const MAGIC: &str = "schedlab-schedule 1 ";
/// Number of steps per line.
const ON_A_LINE: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Run(Ns),
    /// Wake a task, or end its next sleep at once.
    Wake(usize),
    /// Sleep until a task wakes this one.
    Await,
    /// Give a task a token. The recording does not show it, because that task was awake.
    Give(usize),
    /// Take a token; sleep until there is one.
    Need,
    Sleep(Ns),
    /// Start a task ([`Start::By`] this one).
    Start(usize),
}

/// The beginning of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    At(Ns),
    /// When the task with this number starts it.
    By(usize),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    pub name: String,
    /// Its thread id in the recording.
    pub tid: u32,
    pub nice: i8,
    /// Real-time priority, 1 to 99 (replayed as SCHED_FIFO); 0 for a fair task.
    pub rt_priority: u8,
    /// Belongs to the machine, not to the workload.
    pub background: bool,
    pub group: Option<String>,
    pub start: Start,
    pub steps: Vec<Step>,
}

/// Costs of waking and sleeping on the replaying machine, ns. They are taken off the bursts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Prices {
    /// Cost of a wakeup for the waker.
    pub wake_ns: u64,
    /// Cost of a sleep, however it ends.
    pub sleep_ns: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    pub length: Ns,
    pub parts: Vec<Part>,
}

impl Schedule {
    /// CPU time of its tasks, without the machine's own tasks.
    pub fn work(&self) -> Ns {
        let steps = self.parts.iter().filter(|p| !p.background).flat_map(|p| &p.steps);
        Ns(steps.map(|s| if let Step::Run(ns) = s { ns.0 } else { 0 }).sum())
    }
    /// Number of wakeups by its tasks, and of their sleeps, without the machine's own tasks.
    pub fn counts(&self) -> (u64, u64) {
        let steps = || self.parts.iter().filter(|p| !p.background).flat_map(|p| &p.steps);
        let wakes = steps().filter(|s| matches!(s, Step::Wake(_))).count();
        let sleeps = steps().filter(|s| matches!(s, Step::Await | Step::Sleep(_))).count();
        (wakes as u64, sleeps as u64)
    }

    /// The same with these prices taken off its bursts, as a replay would pay them.
    #[must_use]
    pub fn paid(mut self, prices: Prices) -> Schedule {
        for part in &mut self.parts {
            let mut debt_ns = 0;
            for step in &mut part.steps {
                match step {
                    Step::Wake(_) => debt_ns += prices.wake_ns,
                    Step::Await | Step::Sleep(_) => debt_ns += prices.sleep_ns,
                    Step::Run(burst) => {
                        let paid = debt_ns.min(burst.0);
                        debt_ns -= paid;
                        burst.0 -= paid;
                    }
                    Step::Give(_) | Step::Need | Step::Start(_) => {}
                }
            }
        }
        self
    }

    pub fn text(&self) -> String {
        let mut out = format!("{MAGIC}{}\n", self.length.0);
        for part in &self.parts {
            let start = match part.start {
                Start::At(at) => at.0.to_string(),
                Start::By(task) => format!("by:{task}"),
            };
            let _ = writeln!(
                out,
                "task start={start} nice={} rt={} background={} tid={} group={} name={}",
                part.nice,
                part.rt_priority,
                u8::from(part.background),
                part.tid,
                part.group.as_deref().unwrap_or("-"),
                part.name.replace(char::is_control, "?"),
            );
            for line in part.steps.chunks(ON_A_LINE) {
                let words: Vec<String> = line.iter().map(|s| word(*s)).collect();
                let _ = writeln!(out, "{}", words.join(" "));
            }
        }
        out
    }

    /// Reads a schedule's text.
    ///
    /// # Errors
    /// When the text is wrong. The error has the line.
    pub fn read(file: &str, text: &str) -> Result<Schedule> {
        let mut lines = text.lines().enumerate();
        let wrong = |line: usize, what: String| {
            Error::input(what).at(Spot { file: Path::new(file).to_owned(), line_column: Some((line + 1, 1)) })
        };
        let length = lines.next().and_then(|(_, l)| l.strip_prefix(MAGIC)).and_then(|n| n.parse().ok());
        let Some(length) = length else {
            return Err(wrong(0, format!("no schedule: it begins with '{MAGIC}LENGTH', LENGTH in ns")));
        };
        let mut schedule = Schedule { length: Ns(length), parts: Vec::new() };
        for (at, line) in lines {
            if let Some(rest) = line.strip_prefix("task ") {
                schedule.parts.push(part(rest).map_err(|what| wrong(at, what))?);
                continue;
            }
            let Some(part) = schedule.parts.last_mut() else {
                return Err(wrong(at, "steps before the first task".to_owned()));
            };
            for word in line.split_ascii_whitespace() {
                part.steps.push(step(word).ok_or_else(|| wrong(at, format!("'{word}' is not a step")))?);
            }
        }
        schedule.checked(file)
    }

    /// Checks that every named task exists and that each is started once.
    fn checked(self, file: &str) -> Result<Schedule> {
        let n = self.parts.len();
        let mut started = vec![0; n];
        for (at, part) in self.parts.iter().enumerate() {
            for step in &part.steps {
                let named = match *step {
                    Step::Wake(task) | Step::Give(task) | Step::Start(task) => task,
                    Step::Run(_) | Step::Await | Step::Need | Step::Sleep(_) => continue,
                };
                let by_this = self.parts.get(named).is_some_and(|p| p.start == Start::By(at));
                let starts = matches!(step, Step::Start(_));
                if named >= n || (starts && !by_this) {
                    let what = if starts { "starts" } else { "wakes" };
                    let text =
                        format!("task {at} ('{}') {what} task {named}, which is not for it", part.name);
                    return Err(Error::input(text).at(Spot::file(Path::new(file))));
                }
                started[named] += u32::from(starts);
            }
        }
        let unborn = |(at, part): (usize, &Part)| matches!(part.start, Start::By(_)) && started[at] != 1;
        match self.parts.iter().enumerate().find(|p| unborn(*p)) {
            None => Ok(self),
            Some((at, part)) => {
                let text = format!("task {at} ('{}') is not started exactly once", part.name);
                Err(Error::input(text).at(Spot::file(Path::new(file))))
            }
        }
    }
}

fn word(step: Step) -> String {
    match step {
        Step::Run(ns) => format!("r{}", ns.0),
        Step::Wake(task) => format!("w{task}"),
        Step::Await => "a".to_owned(),
        Step::Give(task) => format!("g{task}"),
        Step::Need => "n".to_owned(),
        Step::Sleep(ns) => format!("s{}", ns.0),
        Step::Start(task) => format!("f{task}"),
    }
}

fn step(word: &str) -> Option<Step> {
    let mut chars = word.chars();
    let (kind, number) = (chars.next()?, chars.as_str());
    Some(match kind {
        'r' => Step::Run(Ns(number.parse().ok()?)),
        'w' => Step::Wake(number.parse().ok()?),
        'a' if number.is_empty() => Step::Await,
        'g' => Step::Give(number.parse().ok()?),
        'n' if number.is_empty() => Step::Need,
        's' => Step::Sleep(Ns(number.parse().ok()?)),
        'f' => Step::Start(number.parse().ok()?),
        _ => return None,
    })
}

/// Reads a task's line after its first word.
fn part(text: &str) -> std::result::Result<Part, String> {
    let (pairs, name) = text.split_once("name=").ok_or("a task without name=")?;
    let of = |key: &str| {
        let value = pairs.split_ascii_whitespace().find_map(|p| p.strip_prefix(key)?.strip_prefix('='));
        value.ok_or_else(|| format!("a task without {key}="))
    };
    fn number<T: std::str::FromStr>(key: &str, text: &str) -> std::result::Result<T, String> {
        text.parse().map_err(|_| format!("{key}={text} is not a number that fits"))
    }
    let start = of("start")?;
    let start = match start.strip_prefix("by:") {
        Some(task) => Start::By(number("start", task)?),
        None => Start::At(Ns(number("start", start)?)),
    };
    let nice: i8 = number("nice", of("nice")?)?;
    let rt_priority: u8 = number("rt", of("rt")?)?;
    if !(-20..=19).contains(&nice) || rt_priority > 99 {
        return Err(format!("nice={nice} rt={rt_priority}: nice is -20 to 19, rt 0 to 99"));
    }
    Ok(Part {
        name: name.to_owned(),
        tid: number("tid", of("tid")?)?,
        nice,
        rt_priority,
        background: of("background")? == "1",
        group: Some(of("group")?).filter(|g| *g != "-").map(str::to_owned),
        start,
        steps: Vec::new(),
    })
}
