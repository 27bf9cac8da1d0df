//! A process that holds one image and answers for all functions.

use super::draw::{self, Facts};
use super::judge::{Verdict, judge};
use super::{Function, code, functions, shrink, words};
use crate::code::CodeImage;
use crate::exec::code::ended;
use schedlab_base::random::Stream;
use schedlab_base::{Error, Result, Version};
use schedlab_compare::agreement::decisions::{Cause, DecisionRow};
use schedlab_kernel::{Feature, Kernel as Rules};
use schedlab_machine::Machine;
use schedlab_sim::fair::oracle::{self, State};
use schedlab_transplant::{Debug, Kernel as Code};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The first argument of such a process.
pub const COMMAND: &str = "__rules";
/// The machine of all states: its CPUs decide how long slices are.
const MACHINE: &str = "smp-2";
/// Differences of a function that are made small; further ones are only counted.
const MOST_SHRUNK: u64 = 300;
/// Causes that are kept.
const MOST_CAUSES: usize = 12;
/// Sets of features, in turn: the first one is the tree's own.
const SETS: u64 = 16;
/// Features that the functions ask for. Those that a tree lacks are left alone.
const SWITCHED: [&str; 12] = [
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
];

/// What a process is asked for.
#[derive(Serialize, Deserialize)]
struct Job {
    object: PathBuf,
    version: Version,
    functions: Vec<String>,
    draws: u64,
    seed: u64,
}

/// The rows of an image, made in a process of its own.
///
/// # Errors
/// What the kernel's code does that no kernel may, and a tree that can't be asked.
pub fn decide(image: &CodeImage, names: &[String], draws: u64, seed: u64) -> Result<Vec<DecisionRow>> {
    let job =
        Job { object: image.object.clone(), version: image.version, functions: names.to_vec(), draws, seed };
    let failed = |what: &str, e: &dyn std::fmt::Display| Error::machine(format!("the process {what}: {e}"));
    let own = std::env::current_exe().map_err(|e| failed("can't be found", &e))?;
    let mut child = Command::new(own)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed("can't be started", &e))?;
    let text = serde_json::to_vec(&job).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A process that ended before it read has a reason, which it says.
        let _ = stdin.write_all(&text);
    }
    let done = child.wait_with_output().map_err(|e| failed("can't be waited for", &e))?;
    if !done.status.success() {
        return Err(ended(done.status, String::from_utf8_lossy(&done.stderr).trim()));
    }
    serde_json::from_slice(&done.stdout).map_err(|e| failed("gave no answer", &e))
}

/// Answers what is asked for on standard input.
///
/// # Errors
/// As [`decide`].
pub fn child() -> Result<()> {
    schedlab_native::die_with_parent();
    let (stdin, stdout) = (std::path::Path::new("-"), std::path::Path::new("-"));
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(|e| Error::io(stdin, "read", &e))?;
    let job: Job =
        serde_json::from_slice(&text).map_err(|e| Error::internal(format!("not a question: {e}")))?;
    let machine = Machine::load(MACHINE)?;
    let mut debug = Debug { guard: false, loaded: &mut || {} };
    let code = Code::boot(&job.object, &machine, job.seed, 1_000_000_000, &mut debug)?;
    let mut both = Both::of(code, machine, job.version)?;
    let rows = functions(&job.functions)?.into_iter().map(|f| both.row(f, &job));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let text = serde_json::to_vec(&rows).map_err(|e| Error::internal(e.to_string()))?;
    std::io::stdout().write_all(&text).map_err(|e| Error::io(stdout, "write", &e))
}

/// Both sides, with the same features.
struct Both {
    code: Code,
    rules: Rules,
    machine: Machine,
    facts: Facts,
    /// The tree's own features, as it was booted.
    defaults: Vec<(String, bool)>,
    /// Those that are switched now.
    switched: Vec<(String, bool)>,
}

impl Both {
    fn of(mut code: Code, machine: Machine, version: Version) -> Result<Both> {
        let mut rules = Rules::of(version);
        let defaults = code.features();
        for (name, on) in &defaults {
            if let Ok(feature) = Feature::parse(name) {
                rules.features.switch(feature, *on);
            }
        }
        let facts = Facts::of(&rules, &machine);
        Ok(Both { code, rules, machine, facts, defaults, switched: Vec::new() })
    }

    /// Switches the features of a set on both sides, and those of the last one back.
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

    fn row(&mut self, function: &Function, job: &Job) -> Result<DecisionRow> {
        let stream = Stream::new(job.seed).purpose(function.name);
        let mut row = DecisionRow {
            function: function.name.to_owned(),
            kernel: job.version.to_string(),
            draws: job.draws,
            same: 0,
            rounded: 0,
            causes: Vec::new(),
        };
        let (mut causes, mut differences) = (BTreeMap::<String, Cause>::new(), 0);
        for i in 0..job.draws {
            // Half of the draws have the tree's own features.
            if i == 0 || 2 * i >= job.draws && i % (job.draws.div_ceil(2 * SETS)) == 0 {
                self.switch(stream, if 2 * i < job.draws { 0 } else { i })?;
            }
            let state = draw::state(stream.number(i), &self.facts, function.question);
            match self.judged(&state, function)? {
                Verdict::Same => row.same += 1,
                Verdict::Rounded => row.rounded += 1,
                Verdict::Differs => {
                    differences += 1;
                    if differences <= MOST_SHRUNK {
                        let cause = self.cause(state, function)?;
                        causes.entry(cause.needs.clone()).or_insert(cause).count += 1;
                    }
                }
            }
        }
        row.causes = causes.into_values().collect();
        row.causes.sort_by_key(|c| std::cmp::Reverse(c.count));
        row.causes.truncate(MOST_CAUSES);
        Ok(row)
    }

    fn judged(&mut self, s: &State, function: &Function) -> Result<Verdict> {
        let Both { code, rules, machine, facts, .. } = self;
        let by_code = code::answer(code, facts, s, function.question)?;
        let mut ours = |s: &State| oracle::answer(machine, rules, s, function.question);
        let by_rules = ours(s);
        Ok(judge(s, facts, by_code, by_rules, &mut ours))
    }

    fn cause(&mut self, state: State, function: &Function) -> Result<Cause> {
        let mut failed = None;
        let small = shrink::shrink(state, function.question, &mut |s| match self.judged(s, function) {
            Ok(verdict) => verdict == Verdict::Differs,
            Err(e) => {
                failed = Some(e);
                false
            }
        });
        failed.map_or(Ok(()), Err)?;
        let by_code = code::answer(&mut self.code, &self.facts, &small, function.question)?;
        let by_rules = oracle::answer(&self.machine, &self.rules, &small, function.question);
        Ok(Cause {
            needs: words::needs(&small, &self.switched),
            count: 0,
            state: words::state(&small, self.facts.deadlines, &self.switched),
            by_code: words::answer(by_code),
            by_rules: words::answer(by_rules),
        })
    }
}
