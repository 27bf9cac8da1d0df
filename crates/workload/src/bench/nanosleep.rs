//! The nanosleep storm of D001: tasks that repeatedly sleep for a microsecond and do nothing else.
//!
//! The original is a short C file, an endless loop around nanosleep(2), started by hand once per CPU; it prints
//! nothing. Kept: processes, the default timer slack (a sleep of 1 us lasts about 55 us), no work between sleeps unless
//! `run` asks for it. Processes started by hand have no common phase, so each first sleeps for a random time up to
//! `spread`; otherwise all would always wake at the same instant. Added: a result, the overrun, from the requested end
//! until the call returns. It costs one reading of the clock before each sleep and one after it.

use super::params::{SECOND, in_mode, mode, runtime, warmup};
use crate::build::Builder;
use crate::op::{Env, Op, Program, SeriesId};
use crate::param::{Benchmark, Choice, Param, ParamKind, Params};
use schedlab_base::{Ns, Result};

pub const NANOSLEEP: Benchmark = Benchmark {
    name: "nanosleep",
    about: "tasks that sleep for a microsecond, again and again; how much longer each sleep took",
    params: PARAMS,
    headline: &["nanosleep.overrun.p50", "nanosleep.overrun.p99", "nanosleep.overrun.p99.9"],
    own: &["nanosleep.overrun.p50", "nanosleep.overrun.p99"],
    load_param: "tasks",
    brief: &[("runtime", "500ms")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: None,
    build,
};

/// A millisecond, ns.
const MS: u64 = 1_000_000;

const PARAMS: &[Param] = &[
    Param::count("tasks", None, 1, (1, 100_000), "tasks that sleep; the storm has one per CPU"),
    Param::time("sleep", None, "ns", 1_000, (1, 60 * SECOND), "length of each sleep"),
    Param {
        name: "slack",
        short: None,
        kind: ParamKind::Time("ns"),
        default: None,
        range: (1, 60 * SECOND),
        about: "timer slack (prctl); without it the kernel's default, 50us",
    },
    Param::time("run", None, "ns", 0, (0, 60 * SECOND), "CPU work between two sleeps"),
    Param::time("spread", None, "us", MS, (0, SECOND), "the tasks begin within this time, at random"),
    runtime(Some('r'), 5 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let overrun = b.series("nanosleep.overrun", "ns", "lower");
    let (sleep, work) = (params.time("sleep")?, params.time("run")?);
    let spread = params.time("spread")?.0;
    for n in 0..params.count("tasks")? {
        let first = Ns(b.stream("nanosleep.start", n as u64).below(0, spread + 1));
        let state = if first > Ns::ZERO { State::Start { first } } else { State::Sleep };
        let program = Sleeper { sleep, work, overrun, wanted: Ns::ZERO, state };
        let task = b.task(format!("sleeper-{n}"), Box::new(program))?;
        b.edit(task).timer_slack = params.0.get("slack").map(|ns| Ns(*ns));
    }
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

enum State {
    /// Sleeps for `first` at the very beginning.
    Start {
        first: Ns,
    },
    Sleep,
    Slept,
}

struct Sleeper {
    sleep: Ns,
    work: Ns,
    overrun: SeriesId,
    /// The requested end of the sleep.
    wanted: Ns,
    state: State,
}

impl Program for Sleeper {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let State::Start { first } = self.state {
            self.state = State::Sleep;
            return Op::Sleep { length: first };
        }
        if let State::Slept = self.state {
            let overrun = env.now().since(self.wanted);
            env.record(self.overrun, overrun.0);
            if self.work > Ns::ZERO {
                self.state = State::Sleep;
                return Op::Run { work: self.work };
            }
        }
        self.state = State::Slept;
        self.wanted = env.now().plus(self.sleep);
        Op::Sleep { length: self.sleep }
    }
}

#[cfg(test)]
#[path = "nanosleep_tests.rs"]
mod tests;
