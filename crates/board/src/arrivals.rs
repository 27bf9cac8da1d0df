//! The machine's own tasks: arrivals with exponential gaps and run times, keyed by (seed, cpu, source, arrival).

use schedlab_base::{Ns, Stream};
use schedlab_machine::Background;
use schedlab_workload::{Env, Op, Program};

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
