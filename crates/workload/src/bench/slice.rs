//! The slice test of D004 (Ingo Molnar's of May 2009): slices of spinning tasks while another task wakes often.
//!
//! Only the original's output is known. Kept: N spinning processes; a parent that repeatedly sleeps about a second and
//! then reads each process's usage since the last time; the printed mean slice with its integer division. The
//! disturbing task was a program of the host (a desktop program with about 1000 wakeups a second), not part of the
//! test. Here it is part of the workload, because its behaviour decides the result. The sampler is an ordinary task, so
//! an interval lasts until it gets a CPU; hence time per interval and time per second are recorded separately. Added:
//! exact slices in addition to printed ones; policies, nice values, requested slices and CPUs of each kind of task.

use super::params::{SECOND, in_mode, mode, runtime, warmup};
use super::sample::{Sampler, Watched};
use crate::build::Builder;
use crate::op::{Env, Op, Program};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{CpuId, CpuSet, Error, Ns, Result, TaskId};
use schedlab_kernel::policy::SLICES;
use schedlab_kernel::{Attr, Policy};

pub const SLICE: Benchmark = Benchmark {
    name: "slice",
    about: "processes that spin, a frequent waker, and a sampler that reports the mean slice (D004)",
    params: PARAMS,
    headline: &["slice-test.printed.mean", "slice-test.exact.mean", "slice-test.utime_rate.mean"],
    own: &["slice-test.printed.mean", "slice-test.exact.mean"],
    load_param: "tasks",
    brief: &[("runtime", "5s")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: None,
    build,
};

const MINUTE: u64 = 60 * SECOND;
/// A spinning loop touches almost no memory.
const HOG_FOOTPRINT_KB: u32 = 4;

/// The fair policies as a parameter's words.
pub(super) const POLICIES: &[Choice] = &[Choice::word("other"), Choice::word("batch"), Choice::word("idle")];
const PLACEMENTS: &[Choice] = &[Choice::word("free"), Choice::word("pinned")];
const WAKER_CPUS: &[Choice] = &[Choice::word("free"), Choice::word("first"), Choice::word("alternating")];
const WAKERS: &[Choice] = &[Choice::word("timer"), Choice::word("sleeper")];

/// The parameter row of a requested slice; 0: the kernel's default.
const fn slice_of(name: &'static str, about: &'static str) -> Param {
    Param::time(name, None, "us", 0, (0, SLICES.end().0), about)
}

const PARAMS: &[Param] = &[
    Param::count("tasks", None, 16, (1, 10_000), "processes that spin"),
    Param::count("wakers", None, 1, (0, 10_000), "tasks that wake often"),
    Param::count("rate", None, 1_000, (0, 1_000_000), "wakeups per second of each waker; 0: no waker at all"),
    Param::time("wake_work", None, "us", 20_000, (1, MINUTE), "CPU time of a wakeup"),
    Param::choice("waker", WAKERS, "timer: every 1/rate on a grid; sleeper: sleeps 1/rate after its work"),
    Param::time("interval", None, "s", SECOND, (1_000_000, MINUTE), "the sampler's sleep"),
    Param::time(
        "pause",
        None,
        "us",
        0,
        (0, SECOND),
        "the sampler's sleep before it reads each process; 0: none",
    ),
    Param::choice("sampler", &[Choice::word("on"), Choice::word("off")], "whether there is a sampler"),
    Param::choice("hog_policy", POLICIES, "policy of the processes that spin"),
    Param::choice("waker_policy", POLICIES, "policy of the wakers"),
    Param::choice("sampler_policy", POLICIES, "policy of the sampler"),
    Param::nice("hog_nice", "nice value of the processes that spin"),
    Param::nice("waker_nice", "nice value of the wakers"),
    slice_of("hog_slice", "slice the processes that spin ask for; 0: the kernel's own"),
    slice_of("waker_slice", "slice the wakers ask for; 0: the kernel's own"),
    Param::choice("placement", PLACEMENTS, "pinned: the processes that spin are bound to CPUs in turn"),
    Param::choice(
        "waker_cpu",
        WAKER_CPUS,
        "where wakers may run; alternating: the next CPU after each wakeup",
    ),
    Param::count(
        "cpus",
        None,
        2,
        (1, 4_096),
        "how many CPUs, from 0 on, pinned and alternating tasks use in turn",
    ),
    runtime(Some('r'), 20 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let turns = Turns::of(params, b)?;
    let hogs = hogs(params, b)?;
    if params.get("rate")? > 0 {
        wakers(params, b, &turns)?;
    }
    if params.get("sampler")? == 0 {
        let watched = Watched::declare("slice-test", b);
        let sampler = Sampler::new(params.time("interval")?, params.time("pause")?, hogs, watched);
        let task = b.task("sampler", Box::new(sampler))?;
        b.edit(task).attr.policy = policy(params, "sampler_policy")?;
    }
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

pub(super) fn policy(params: &Params, name: &str) -> Result<Policy> {
    Ok([Policy::Other, Policy::Batch, Policy::Idle][params.count(name)?.min(2)])
}

/// Policy, nice value and slice of a kind of task.
fn attr(params: &Params, kind: &str) -> Result<Attr> {
    let slice = params.time(&format!("{kind}_slice"))?;
    if slice != Ns::ZERO && !SLICES.contains(&slice) {
        return Err(Error::input(format!("{kind}_slice = {slice} is out of range")).help(format!(
            "0: the kernel's own; else {} to {}",
            SLICES.start(),
            SLICES.end()
        )));
    }
    Ok(Attr {
        policy: policy(params, &format!("{kind}_policy"))?,
        nice: params.nice(&format!("{kind}_nice"))?,
        slice: slice.into(),
        ..Attr::default()
    })
}

fn only(cpu: usize) -> CpuSet {
    std::iter::once(CpuId::from(cpu)).collect()
}

/// Declares the spinning processes.
fn hogs(params: &Params, b: &mut Builder) -> Result<Vec<TaskId>> {
    let (attr, cpus) = (attr(params, "hog")?, params.count("cpus")?);
    let pinned = params.get("placement")? == 1;
    let one = |n: usize| {
        let task = b.task(format!("hog/{n}"), Box::new(Hog))?;
        let decl = b.edit(task);
        (decl.attr, decl.footprint_kb) = (attr, HOG_FOOTPRINT_KB);
        decl.affinity = pinned.then(|| only(n % cpus));
        Ok(task)
    };
    (0..params.count("tasks")?).map(one).collect()
}

/// Mask numbers of the CPUs that wakers visit in turn; empty: they stay.
struct Turns {
    masks: Vec<u32>,
    first: Option<CpuSet>,
}

impl Turns {
    fn of(params: &Params, b: &mut Builder) -> Result<Turns> {
        let kind = params.get("waker_cpu")?;
        let cpus = params.count("cpus")?;
        let masks = if kind == 2 { (0..cpus).map(|c| b.mask(only(c))).collect() } else { Vec::new() };
        Ok(Turns { masks, first: (kind > 0).then(|| only(0)) })
    }
}

fn wakers(params: &Params, b: &mut Builder, turns: &Turns) -> Result<()> {
    let period = Ns(SECOND / params.get("rate")?);
    let attr = attr(params, "waker")?;
    for n in 0..params.count("wakers")? {
        // A host's programs have no common phase: each begins at a random point of its period.
        let phase = Ns(1 + b.stream("slice.phase", n as u64).below(0, period.0));
        let waker = Waker {
            period,
            work: params.time("wake_work")?,
            by_timer: params.get("waker")? == 0,
            due: phase,
            masks: turns.masks.clone(),
            turn: 0,
            state: State::Start,
        };
        let task = b.task(format!("waker/{n}"), Box::new(waker))?;
        let decl = b.edit(task);
        (decl.attr, decl.affinity) = (attr, turns.first.clone());
    }
    Ok(())
}

/// Spins for ever.
struct Hog;

impl Program for Hog {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        // Spins by the wall clock, which needs no system call. Reading CPU time would make the kernel update the
        // running task, which might end the slice between ticks.
        Op::SpinTo { at: Ns::MAX }
    }
}

enum State {
    /// Sleeps for its phase at the very beginning.
    Start,
    Sleep,
    Work,
    /// Has worked: goes to the next CPU.
    Move,
}

/// Wakes, works a little, sleeps again.
struct Waker {
    period: Ns,
    work: Ns,
    /// Whether it wakes on a grid of its period, instead of a period after its work.
    by_timer: bool,
    /// Time of its next wakeup on the grid.
    due: Ns,
    /// Mask numbers of the CPUs that it visits in turn; empty: it stays.
    masks: Vec<u32>,
    turn: usize,
    state: State,
}

impl Waker {
    /// The next sleep. It skips missed grid points, like a timer with one pending signal.
    fn sleep(&mut self, env: &mut dyn Env) -> Op {
        if !self.by_timer {
            return Op::Sleep { length: self.period };
        }
        let late = env.now().since(self.due);
        self.due = self.due.plus(Ns(self.period.0 * (1 + late.0 / self.period.0)));
        Op::SleepTo { at: self.due }
    }
}

impl Program for Waker {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        match self.state {
            State::Start => {
                self.state = State::Work;
                Op::SleepTo { at: self.due }
            }
            State::Sleep => {
                self.state = State::Work;
                self.sleep(env)
            }
            State::Work => {
                self.state = if self.masks.is_empty() { State::Sleep } else { State::Move };
                Op::Run { work: self.work }
            }
            State::Move => {
                self.state = State::Sleep;
                self.turn = (self.turn + 1) % self.masks.len();
                Op::SetAffinity { mask: self.masks[self.turn] }
            }
        }
    }
}

#[cfg(test)]
#[path = "slice_tests.rs"]
mod tests;
