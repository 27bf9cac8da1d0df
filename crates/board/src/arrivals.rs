//! The machine's own tasks: arrivals with exponential gaps and run times, keyed by (seed, cpu, source, arrival).

use crate::thread::Thread;
use schedlab_base::{CpuId, CpuSet, Ns, Stream};
use schedlab_kernel::Attr;
use schedlab_machine::{Background, Machine};
use schedlab_workload::{Env, Op, Program};

/// The working set of such a task, KB.
const FOOTPRINT_KB: u32 = 4;

/// One of the machine's own tasks.
pub struct OwnTask {
    pub name: String,
    /// The CPU on which it begins.
    pub home: CpuId,
    pub allowed: Option<CpuSet>,
    pub attr: Attr,
    pub program: Arrivals,
}

impl OwnTask {
    /// The task on its board. Its timers may fire `slack_ns` later than asked.
    pub fn into_thread(self, slack_ns: u64) -> Thread {
        let thread = Thread::new(self.name, Box::new(self.program), FOOTPRINT_KB, slack_ns);
        Thread { background: true, ran_on: self.home, ..thread }
    }
}

/// The machine's own tasks: one for each source, or one on each CPU. Each source has its own part of `draws`.
pub fn of_machine(machine: &Machine, draws: Stream) -> Vec<OwnTask> {
    let n = machine.topology.nr_cpus();
    let mut tasks = Vec::new();
    for (s, source) in machine.background.iter().enumerate() {
        let stream = draws.purpose("background").number(s as u64);
        let only = stream.below(0, n as u64) as usize;
        let homes = if source.per_cpu { 0..n } else { only..only + 1 };
        tasks.extend(homes.map(|home| OwnTask {
            name: if source.per_cpu { format!("{}/{home}", source.name) } else { source.name.clone() },
            home: CpuId::from(home),
            allowed: source.per_cpu.then(|| std::iter::once(CpuId::from(home)).collect()),
            attr: Attr::nice(source.nice),
            program: Arrivals::new(source, stream.number(home as u64)),
        }));
    }
    tasks
}

/// Sleeps until the next arrival, runs, sleeps.
pub struct Arrivals {
    stream: Stream,
    every: Ns,
    run: Ns,
    arrival: u64,
    /// Due time of the arrival being served, ns.
    due: u64,
    running: bool,
    /// The task first sleeps until the first arrival, by a clock that is this many ns ahead.
    asleep: Option<u64>,
}

impl Arrivals {
    /// The source's arrivals on one CPU (or on the whole machine).
    pub fn new(source: &Background, stream: Stream) -> Arrivals {
        let first = stream.purpose("gap").exponential(0, source.every.0);
        Arrivals {
            stream,
            every: source.every,
            run: source.run,
            arrival: 0,
            due: first,
            running: false,
            asleep: None,
        }
    }
    /// As [`Arrivals::new`], for a task that is made `ahead_ns` before the run begins: it first sleeps until the first
    /// arrival.
    #[must_use]
    pub fn asleep(mut self, ahead_ns: u64) -> Arrivals {
        self.asleep = Some(ahead_ns);
        self
    }
    /// When the first arrival is due, ns.
    pub fn first(&self) -> u64 {
        self.due
    }
}

impl Program for Arrivals {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        if let Some(ahead_ns) = self.asleep.take() {
            return Op::SleepTo { at: Ns(self.due + ahead_ns) };
        }
        self.running = !self.running;
        if self.running {
            return Op::Run {
                work: Ns(self.stream.purpose("run").exponential(self.arrival, self.run.0).max(1)),
            };
        }
        self.arrival += 1;
        self.due += self.stream.purpose("gap").exponential(self.arrival, self.every.0).max(1);
        Op::SleepTo { at: Ns(self.due) }
    }
}
