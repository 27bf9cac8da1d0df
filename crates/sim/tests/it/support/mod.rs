//! Common parts of the simulator's tests: scripted programs, small machines, and a checker of event streams.

pub mod checker;
pub mod sweep;

use schedlab_base::{CpuSet, Ns, Result, TaskId};
use schedlab_kernel::{Attr, Kernel, tunable, variant::Toggle};
use schedlab_machine::{CacheLevel, Machine, Sharing};
use schedlab_sim::{Setup, SimReport, simulate};
use schedlab_trace::{Event, EventKind, Keep, PlaceReason, Sink};
use schedlab_workload::{Builder, Built, Env, Op, Program, TaskDecl};

/// A program that is a closure.
struct Closure<F>(F);

impl<F: FnMut(&mut dyn Env) -> Op + Send> Program for Closure<F> {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        (self.0)(env)
    }
}

/// A program that is a closure.
pub fn program(next: impl FnMut(&mut dyn Env) -> Op + Send + 'static) -> Box<dyn Program> {
    Box::new(Closure(next))
}

/// Performs the operations in turn, then leaves.
pub fn once(ops: Vec<Op>) -> Box<dyn Program> {
    let mut rest = ops.into_iter();
    program(move |_| rest.next().unwrap_or(Op::Exit))
}

/// Performs the operations in turn, for ever.
pub fn forever(ops: Vec<Op>) -> Box<dyn Program> {
    let mut at = 0;
    program(move |_| {
        at += 1;
        ops[(at - 1) % ops.len()]
    })
}

/// Computes for ever.
pub fn hog() -> Box<dyn Program> {
    forever(vec![Op::Run { work: Ns::secs(3600) }])
}

/// A computation.
pub fn run_us(us: u64) -> Op {
    Op::Run { work: Ns::us(us) }
}
pub fn sleep_us(us: u64) -> Op {
    Op::Sleep { length: Ns::us(us) }
}

/// CPUs in the kernel's list notation.
pub fn cpus(list: &str) -> CpuSet {
    CpuSet::parse(list).expect("a CPU list")
}

/// A workload under construction.
pub struct Load {
    /// The builder, for words and series.
    pub builder: Builder,
}

impl Load {
    /// An empty workload that lasts `ms` milliseconds.
    pub fn lasting_ms(ms: u64) -> Load {
        let mut builder = Builder::new(1);
        builder.lasts(Ns::ms(ms), Ns::ZERO);
        Load { builder }
    }
    /// Adds a task; `on` in list notation pins it.
    pub fn task(&mut self, name: &str, on: Option<&str>, program: Box<dyn Program>) -> TaskId {
        let id = self.builder.task(name, program).expect("few tasks");
        self.builder.edit(id).affinity = on.map(cpus);
        id
    }
    /// Sets a task's attributes.
    pub fn attr(&mut self, task: TaskId, attr: Attr) -> TaskId {
        self.builder.edit(task).attr = attr;
        task
    }
    /// Adds two tasks: one nearly always runs on CPU 0 and may run anywhere, the other waits for CPU 0 and may not
    /// leave it. So `rd->overload` is set, and a pass that looks at CPU 0 moves nothing. As not all are pinned, it does
    /// not search again.
    pub fn crowd_zero(&mut self) {
        let runs = self.task("runs", None, hog());
        self.attr(runs, Attr { nice: -20, ..Attr::default() });
        let waits = self.task("waits", Some("0"), hog());
        self.attr(waits, Attr { nice: 19, ..Attr::default() });
    }
    /// The finished workload.
    pub fn built(self) -> Built {
        self.builder.finish().expect("a task starts by itself")
    }
}

pub fn machine(name: &str) -> Machine {
    Machine::load(name).expect("a machine")
}

/// The machine with caches: 64 KB a core and 256 KB for each last-level cache's CPUs.
pub fn with_caches(machine: &Machine) -> Machine {
    let level = |level, size_kb, shared, hit_ns_per_kb| CacheLevel {
        level,
        size_kb,
        line: 64,
        shared,
        hit_ns_per_kb,
    };
    let caches = vec![level(2, 64, Sharing::Core, 50), level(3, 256, Sharing::Llc, 150)];
    Machine { caches, ..machine.clone() }
}

/// A profile with toggles and tunables ("v4.5 NO_GENTLE_FAIR_SLEEPERS hz=100").
pub fn kernel(text: &str) -> Kernel {
    let mut words = text.split_whitespace();
    let mut kernel = Kernel::profile(words.next().unwrap_or_default()).expect("a profile");
    for word in words {
        if let Some((name, value)) = word.split_once('=') {
            kernel.tunables.set(name, tunable::read(name, value).expect("a tunable")).expect("a value");
            continue;
        }
        let toggle = Toggle::parse(word).expect("a feature");
        kernel.features.switch(toggle.feature, toggle.on);
    }
    kernel
}

/// Runs a workload without background tasks, with every invariant checked.
pub fn simulated(
    machine: &Machine,
    kernel: Kernel,
    seed: u64,
    load: Built,
    sink: &mut dyn Sink,
) -> Result<SimReport> {
    simulate(
        Setup {
            machine,
            kernel,
            changes: Vec::new(),
            workload: load,
            seed,
            background: false,
            check: true,
            stop: None,
            clock: None,
        },
        sink,
    )
}

/// A finished run with all its events and samples.
pub struct Run {
    pub report: SimReport,
    pub seen: Keep,
}

/// Runs a workload and keeps its events and samples; the stream is checked on the way.
pub fn run_seeded(machine: &Machine, kernel: Kernel, seed: u64, load: Load) -> Run {
    run_built(machine, kernel, seed, load.built())
}

/// As [`run_seeded`], with a workload that is already built.
pub fn run_built(machine: &Machine, kernel: Kernel, seed: u64, built: Built) -> Run {
    checked(machine, built, |built, sink| simulated(machine, kernel, seed, built, sink))
}

/// A run, whoever makes it, with its events checked.
pub fn checked(
    machine: &Machine,
    built: Built,
    simulate: impl FnOnce(Built, &mut dyn Sink) -> Result<SimReport>,
) -> Run {
    let mut checker = checker::Checker::new(machine).measure_from(built.warmup);
    // A task that may change its CPUs later is not restricted to its first ones. Neither is a child, which first has
    // its parent's.
    let stays = |task: &TaskDecl| built.masks.is_empty() && task.spawned_by.is_none();
    for (id, task) in built.tasks.iter().enumerate().filter(|(_, task)| stays(task)) {
        task.affinity.iter().for_each(|allowed| checker.restrict(TaskId::from(id), allowed.clone()));
    }
    checker.limit(&built);
    let mut sink = (checker, Keep::default());
    let report = simulate(built, &mut Both(&mut sink)).expect("the run ends well");
    sink.0.verdict(&report).expect("the events make sense");
    Run { report, seen: sink.1 }
}

/// As [`run_seeded`] with seed 1 and a kernel by its text.
pub fn run(machine: &Machine, kernel_text: &str, load: Load) -> Run {
    run_seeded(machine, kernel(kernel_text), 1, load)
}

struct Both<'a>(&'a mut (checker::Checker, Keep));

impl Sink for Both<'_> {
    fn event(&mut self, event: &Event) {
        self.0.0.event(event);
        self.0.1.event(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.0.1.sample(at, task, series, value);
    }
}

impl Run {
    /// CPU time of a task, ns.
    pub fn cpu_ns(&self, task: TaskId) -> u64 {
        self.report.tasks[task.index()].cpu_time_ns
    }
    /// A counter of the report.
    pub fn counter(&self, name: &str) -> u64 {
        *self.report.found.counters.get(name).unwrap_or_else(|| panic!("no counter {name}"))
    }
    /// Values recorded for a series, in order.
    pub fn values(&self, series: u16) -> Vec<u64> {
        self.seen.samples.iter().filter(|s| s.2 == series).map(|s| s.3).collect()
    }
    /// The results of `of` over the events, in order.
    pub fn events<T>(&self, of: impl FnMut(&Event) -> Option<T>) -> Vec<T> {
        self.seen.events.iter().filter_map(of).collect()
    }
    /// Stays of a task on a CPU: from, to (ns). A stay that the run's end cuts off is left out.
    pub fn stays(&self, task: TaskId) -> Vec<(u64, u64)> {
        let (mut since, mut stays) = (None, Vec::new());
        for e in &self.seen.events {
            let EventKind::Switch { prev, next, .. } = e.kind else { continue };
            if prev == Some(task) {
                stays.extend(since.take().map(|from| (from, e.at.0)));
            }
            if next == Some(task) {
                since = Some(e.at.0);
            }
        }
        stays
    }
    /// Placements of a task: when, where, why.
    pub fn placements(&self, task: TaskId) -> Vec<(u64, u32, PlaceReason)> {
        self.events(|e| match e.kind {
            EventKind::Placed { task: t, target, reason, .. } if t == task => {
                Some((e.at.0, target.0, reason))
            }
            _ => None,
        })
    }
    /// From enqueue at wakeup to running, ns, per wakeup of a task.
    pub fn wakeup_delays(&self, task: TaskId) -> Vec<u64> {
        let (mut queued, mut delays) = (None, Vec::new());
        for e in &self.seen.events {
            match e.kind {
                EventKind::Enqueued { task: t, .. } if t == task => queued = Some(e.at.0),
                EventKind::Switch { next: Some(t), .. } if t == task => {
                    delays.extend(queued.take().map(|from| e.at.0 - from));
                }
                _ => {}
            }
        }
        delays
    }
}
