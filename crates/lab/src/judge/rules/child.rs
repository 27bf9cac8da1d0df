//! A process that holds one image on one machine, and answers for functions.

use super::fleet::{self, Fleet};
use super::queue::{self, Queue};
use super::subject::{Subject, shrink};
use super::tree::Tree;
use super::{Asks, Function, functions, functions_of, machines};
use crate::ask::code::CodeImage;
use crate::make::exec::image_process::{ImageProcess, next_job, reply};
use schedlab_base::random::Stream;
use schedlab_base::{Error, Result, Version};
use schedlab_compare::agreement::decisions::{Cause, DecisionRow};
use schedlab_kernel::{Feature, Kernel as Rules};
use schedlab_machine::Machine;
use schedlab_sim::fair::oracle::fleet::timeless;
use schedlab_sim::fair::oracle::tree::has;
use schedlab_transplant::{Debug, Kernel as Code};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The first argument of such a process.
pub const COMMAND: &str = "__rules";
/// Differences of a function that are shrunk; more are only counted.
const MOST_SHRUNK: u64 = 300;
/// Causes of a row that are kept, over all its machines.
const MOST_CAUSES: usize = 12;
/// Sets of features, in turn; the first one is the tree's own.
const SETS: u64 = 16;
/// Features that affect the functions. Those that a tree lacks are skipped.
const SWITCHED: [&str; 22] = [
    "NEXT_BUDDY",
    "LAST_BUDDY",
    "PICK_BUDDY",
    "RUN_TO_PARITY",
    "PREEMPT_SHORT",
    "WAKEUP_PREEMPTION",
    "PLACE_LAG",
    "PLACE_DEADLINE_INITIAL",
    "PLACE_REL_DEADLINE",
    "GENTLE_FAIR_SLEEPERS",
    "START_DEBIT",
    "DELAY_ZERO",
    "SIS_UTIL",
    "WA_IDLE",
    "WA_WEIGHT",
    "WA_BIAS",
    "LB_MIN",
    "CACHE_HOT_BUDDY",
    "UTIL_EST",
    "SIS_CURRENT",
    "SIS_NODE",
    "ATTACH_AGE_LOAD",
];
/// Features that would make an answer depend on things outside a state: a dice, a timer.
const OFF: [&str; 2] = ["NI_RANDOM", "HRTICK"];

/// The job of a process.
#[derive(Serialize, Deserialize)]
struct Job {
    object: PathBuf,
    machine: String,
    version: Version,
    functions: Vec<String>,
    draws: u64,
    seed: u64,
}

/// The rows of an image, made in separate processes, one for each machine. The machines share a function's draws.
/// `None`: `stop` ended it.
///
/// # Errors
/// When the kernel's code does what no kernel may, and when a tree can't be asked.
pub fn decide(
    image: &CodeImage,
    names: &[String],
    (draws, seed): (u64, u64),
    stop: &AtomicBool,
) -> Result<Option<Vec<DecisionRow>>> {
    let asked = functions_of(names, image.version)?;
    let mut machines: Vec<&str> = asked.iter().flat_map(|f| f.asks.machines()).copied().collect();
    machines.sort_unstable();
    machines.dedup();
    let mut found = Vec::new();
    for machine in machines {
        let on = asked.iter().filter(|f| f.asks.machines().contains(&machine));
        let functions = on.map(|f| f.name.to_owned()).collect();
        let (object, machine) = (image.object.clone(), machine.to_owned());
        let job = Job { object, machine, version: image.version, functions, draws, seed };
        let Some(said) = ImageProcess::start(COMMAND)?.answer(&job, stop)? else { return Ok(None) };
        let rows: Vec<DecisionRow> =
            serde_json::from_slice(&said).map_err(|e| Error::internal(e.to_string()))?;
        found.extend(rows);
    }
    let row = |f: &&Function| {
        let rows = found.iter().filter(|row| row.function == f.name);
        let row = rows.cloned().reduce(together);
        let mut row = row.ok_or_else(|| Error::internal("a process left a function out"))?;
        row.causes.truncate(MOST_CAUSES);
        Ok(row)
    };
    asked.iter().map(row).collect::<Result<_>>().map(Some)
}

/// Two rows of a function as one. Both have all their causes.
fn together(mut a: DecisionRow, b: DecisionRow) -> DecisionRow {
    (a.draws, a.same) = (a.draws + b.draws, a.same + b.same);
    for cause in b.causes {
        match a.causes.iter_mut().find(|own| own.needs == cause.needs) {
            Some(own) => own.count += cause.count,
            None => a.causes.push(cause),
        }
    }
    by_count(&mut a.causes);
    a
}

/// The most frequent first.
fn by_count(causes: &mut [Cause]) {
    causes.sort_by_key(|c| std::cmp::Reverse(c.count));
}

/// Answers the job on standard input.
///
/// # Errors
/// As [`decide`].
pub fn child() -> Result<()> {
    schedlab_native::die_with_parent();
    let Some(job) = next_job::<Job>()? else { return Ok(()) };
    let machine = machines::machine(&job.machine)?;
    let mut debug = Debug { guard: false, loaded: &mut || {} };
    let code = Code::boot(&job.object, &machine, job.seed, 1_000_000_000, &mut debug)?;
    let mut both = Both::of(code, &machine, job.version)?;
    let rows = functions(&job.functions)?.into_iter().map(|f| both.row_of(f, &job));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    reply(&serde_json::to_vec(&rows).map_err(|e| Error::internal(e.to_string()))?)
}

/// Both sides, with the same features.
struct Both<'a> {
    code: Code,
    rules: Rules,
    machine: &'a Machine,
    /// The tree's own features, as it was booted.
    defaults: Vec<(String, bool)>,
    /// The features that are switched now.
    switched: Vec<(String, bool)>,
}

impl<'a> Both<'a> {
    fn of(mut code: Code, machine: &'a Machine, version: Version) -> Result<Both<'a>> {
        let mut rules = Rules::of(version);
        let mut defaults = code.features();
        for (name, on) in &mut defaults {
            if OFF.contains(&name.as_str()) {
                *on = false;
                code.set_feature(name, false)?;
            }
            if let Ok(feature) = Feature::parse(name) {
                rules.features.switch(feature, *on);
            }
        }
        Ok(Both { code, rules, machine, defaults, switched: Vec::new() })
    }

    /// Switches the features of a set on both sides, and those of the last set back.
    fn switch(&mut self, stream: Stream, set: u64) -> Result<()> {
        let known =
            |name: &&(String, bool)| SWITCHED.contains(&name.0.as_str()) && Feature::parse(&name.0).is_ok();
        let drawn = |at: usize| set > 0 && stream.number(set).below(at as u64, 4) == 0;
        let all: Vec<(String, bool)> = self.defaults.iter().filter(known).cloned().collect();
        self.switched.clear();
        for (at, (name, on)) in all.into_iter().enumerate() {
            let now = on ^ drawn(at);
            self.code.set_feature(&name, now)?;
            self.rules.features.switch(Feature::parse(&name)?, now);
            if now != on {
                self.switched.push((name, now));
            }
        }
        Ok(())
    }

    fn row_of(&mut self, function: &Function, job: &Job) -> Result<DecisionRow> {
        let machine = self.machine;
        match function.asks {
            Asks::Queue(question) => {
                let facts = queue::draw::Facts::of(&self.rules, machine);
                self.row(function, job, |rules| Queue { machine, rules, facts: facts.clone(), question })
            }
            Asks::Tree(question) => {
                let facts = queue::draw::Facts::of(&self.rules, machine);
                self.row(function, job, |rules| Tree {
                    machine,
                    rules,
                    facts: facts.clone(),
                    has: has(&rules),
                    question,
                })
            }
            Asks::Fleet(question) => {
                let facts = fleet::facts::Facts::of(&self.rules, machine);
                let timeless = timeless(&machine.under(job.version))?;
                self.row(function, job, |rules| Fleet { machine: &timeless, rules, facts: &facts, question })
            }
        }
    }

    fn row<S: Subject>(
        &mut self,
        function: &Function,
        job: &Job,
        subject: impl Fn(Rules) -> S,
    ) -> Result<DecisionRow> {
        let stream = Stream::new(job.seed).purpose(function.name);
        let machines = function.asks.machines();
        // Each n-th draw belongs to this machine.
        let own = machines.iter().position(|m| *m == job.machine).unwrap_or(0) as u64;
        let draws: Vec<u64> = (own..job.draws).step_by(machines.len()).collect();
        let mut row = DecisionRow {
            function: function.name.to_owned(),
            kernel: job.version.to_string(),
            draws: draws.len() as u64,
            same: 0,
            causes: Vec::new(),
        };
        let (mut causes, mut differences) = (BTreeMap::<String, Cause>::new(), 0);
        let (mut set, mut of) = (None, subject(self.rules));
        for i in draws {
            // Half of the draws have the tree's own features.
            let next = (2 * i).saturating_sub(job.draws) / job.draws.div_ceil(SETS);
            let next = if 2 * i < job.draws { 0 } else { next + 1 };
            if set != Some(next) {
                self.switch(stream, next)?;
                (set, of) = (Some(next), subject(self.rules));
            }
            let state = of.draw(stream.number(i));
            if !differs(&of, &mut self.code, &state)? {
                row.same += 1;
                continue;
            }
            differences += 1;
            if differences <= MOST_SHRUNK {
                let cause = self.cause(&of, state)?;
                causes.entry(cause.needs.clone()).or_insert(cause).count += 1;
            }
        }
        row.causes = causes.into_values().collect();
        by_count(&mut row.causes);
        Ok(row)
    }

    fn cause<S: Subject>(&mut self, of: &S, state: S::State) -> Result<Cause> {
        let mut failed = None;
        let code = &mut self.code;
        let small = shrink(of, state, &mut |s| {
            differs(of, code, s).unwrap_or_else(|e| {
                failed = Some(e);
                false
            })
        });
        failed.map_or(Ok(()), Err)?;
        let by_code = of.by_code(code, &small)?;
        let (by_rules, why) = of.by_rules(&small);
        let features =
            || self.switched.iter().map(|(name, on)| format!("{}{name}", if *on { "" } else { "NO_" }));
        let mut needs = of.needs(&small);
        needs.extend(Some(why.clone()).filter(|why| !why.is_empty()));
        needs.extend(features());
        let mut state = of.state_in_words(&small);
        if !self.switched.is_empty() {
            state.push(features().collect::<Vec<_>>().join(", "));
        }
        Ok(Cause {
            needs: needs.join(", "),
            count: 0,
            state,
            by_code: of.answer_in_words(&by_code),
            by_rules: of.answer_in_words(&by_rules),
            why,
        })
    }
}

fn differs<S: Subject>(of: &S, code: &mut Code, s: &S::State) -> Result<bool> {
    Ok(of.by_code(code, s)? != of.by_rules(s).0)
}
