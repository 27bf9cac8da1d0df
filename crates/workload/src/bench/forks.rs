//! Storms of forks: parents that start a task, wait for its end, and start the next, like a shell script or `make`.
//!
//! A child works briefly and ends; its parent waits for it. So nearly all time is spent on making tasks, choosing their
//! first CPU (`SD_BALANCE_FORK`, the slow path of `select_task_rq_fair`), and waking parents. Live children are real
//! processes or threads; simulated ones are tasks. All children are declared before the run, so their number is a
//! parameter and the run ends by itself. With `exec` a child begins with exec(2), like a script's command: a CPU is
//! chosen once more (`SD_BALANCE_EXEC`). The image stays the parent's; loading another is part of `work`. Threads have
//! no exec, because the kernel refuses new threads during one (`in_exec`).
//!
//! Records the time of each fork, from the call until the parent has waited for the child, and the total time.

use super::gate::{Gate, Pass};
use super::params::{at_most, in_mode, mode};
use crate::build::Builder;
use crate::op::{Env, Op, Program, SeriesId, WordId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Error, Ns, Result, TaskId};
use std::sync::atomic::Ordering::SeqCst;

pub const FORKS: Benchmark = Benchmark {
    name: "forks",
    about: "parents that start a task, wait for its end and start the next; time of all together",
    params: PARAMS,
    headline: &["forks.elapsed.mean", "forks.latency.p50", "forks.latency.p99"],
    own: &["forks.elapsed.mean", "forks.latency.p99"],
    load_param: "parents",
    brief: &[("forks", "100")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: None,
    build,
};

const SECOND: u64 = super::params::SECOND;

const PARAMS: &[Param] = &[
    Param::count("parents", None, 1, (1, 50_000), "tasks that start others"),
    Param::count("forks", None, 1_000, (1, 50_000), "tasks that each starts, one after the other"),
    Param::time("work", None, "us", 100_000, (0, 60 * SECOND), "CPU time of a started task"),
    Param::flag("exec", None, "a started task begins with exec(2)"),
    at_most(600 * SECOND),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let (parents, forks) = (params.count("parents")?, params.count("forks")?);
    let (work, execs) = (params.time("work")?, params.get("exec")? == 1);
    if execs && params.get("mode")? != 0 {
        return Err(Error::input(
            "forks with exec are processes: a process has one image for all its threads",
        )
        .help("leave out 'mode', or 'exec'"));
    }
    let elapsed = b.series("forks.elapsed", "ns", "lower");
    let latency = b.series("forks.latency", "ns", "lower");
    let gate = Gate::new(parents, b);
    let first = b.next_task().index() + parents;
    let words: Vec<WordId> = (0..parents).map(|_| b.word()).collect();
    for (n, word) in words.iter().enumerate() {
        let parent = Parent {
            pass: gate.pass(),
            children: (first + n * forks, forks),
            started: 0,
            word: *word,
            since: None,
            elapsed,
            latency,
        };
        b.task(format!("parent/{n}"), Box::new(parent))?;
    }
    for (n, word) in words.iter().enumerate() {
        for turn in 0..forks {
            let child = Child { work, execs, word: *word, done: turn as u32 + 1, stage: 0 };
            let task = b.task(format!("child/{}", n * forks + turn), Box::new(child))?;
            b.edit(task).spawned_by = Some(TaskId::from(first - parents + n));
        }
    }
    in_mode(params, b)?;
    b.ends_within(params.time("runtime")?);
    Ok(())
}

struct Parent {
    pass: Pass,
    /// Number of the first child, and number of children.
    children: (usize, usize),
    started: usize,
    /// This word counts finished children.
    word: WordId,
    /// Start time of the awaited child.
    since: Option<Ns>,
    elapsed: SeriesId,
    latency: SeriesId,
}

impl Program for Parent {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Some(op) = self.pass.enter(env) {
            return op;
        }
        if let Some(since) = self.since {
            let done = env.word(self.word).load(SeqCst);
            if (done as usize) < self.started {
                return Op::Wait { word: self.word, value: done, until: Ns::MAX };
            }
            let took = env.now().since(since);
            env.record(self.latency, took.0);
        }
        let (first, all) = self.children;
        if self.started == all {
            if let Some(took) = self.pass.leave(env) {
                env.record(self.elapsed, took.0);
            }
            return Op::Exit;
        }
        self.since = Some(env.now());
        self.started += 1;
        Op::Spawn { task: TaskId::from(first + self.started - 1) }
    }
}

struct Child {
    work: Ns,
    /// Whether it begins with exec(2).
    execs: bool,
    word: WordId,
    /// The value that it writes to the word: the number of its parent's finished children, including itself.
    done: u32,
    stage: u8,
}

impl Program for Child {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if std::mem::take(&mut self.execs) {
            return Op::Exec;
        }
        self.stage += 1;
        match self.stage {
            1 => Op::Run { work: self.work },
            2 => {
                env.word(self.word).store(self.done, SeqCst);
                Op::Wake { word: self.word, count: 1 }
            }
            _ => Op::Exit,
        }
    }
}

#[cfg(test)]
#[path = "forks_tests.rs"]
mod tests;
