//! Makes a workload begin like a live run. A controller, which is not part of the workload, makes the tasks one by one;
//! each prepares itself and sleeps; the controller wakes all when the measured time begins.
//!
//! In the live engine, tasks also begin with a wakeup, one by one, on the CPUs chosen by successive forks. A simulation
//! that is compared with such a run must begin the same way: in a short run these first wakeups are a large share, and
//! tasks that appear at one instant without a load are placed elsewhere. Only runs without a warm-up measure their
//! beginning.

use crate::build::{Built, DEFAULT_FOOTPRINT_KB, TaskDecl};
use crate::op::{Env, Op, Outcome, Program, SeriesId, SlotId, WordId};
use crate::place::Place;
use schedlab_base::{CpuId, CpuSet, Ns, TaskId, Version};
use schedlab_kernel::Attr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// CPU time of the live engine's beginning, per task. It matters because the lag between tasks depends on how long they
/// ran before the start, and lag decides preemption in the first milliseconds.
#[derive(Clone, Copy)]
struct Takes {
    /// Making the task, without the system call, ns.
    making: Ns,
    /// The task's own preparation, ns.
    preparing: Ns,
    /// Extra preparation by the first task, which makes shared objects, ns.
    first: Ns,
    /// Call, switches and interrupts during this time, ns.
    more: Ns,
    /// The same per CPU, ns.
    cpu: Ns,
    /// The minimum of `more` and `cpu` together, ns.
    least: Ns,
    /// The most by which the time of all tasks together differs between guests, in either direction, ns.
    spread: Ns,
}

/// The guest whose live runs are compared with the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// The controller's first CPU: the one on which the run found it.
    pub on: CpuId,
    pub cpus: usize,
    pub version: Version,
    /// Lines of CPUs and domains in `/proc/schedstat`.
    pub lines: usize,
    /// This guest's position in the spread between guests: 0 to 1000.
    pub luck: u64,
}

/// Sources of these figures: instructions counted in guests of one CPU with 12 tasks, kernels 6.1.192 / 7.3.4. A thread
/// is made every 83 / 82 us, 41 / 44 of which are the call, and is ready after 207 / 216 us on average. A process is
/// made every 333 / 371 us and is ready after 2.40 / 2.46 ms, since it has its own pages; the first one is ready after
/// 2.83 / 2.76 ms. Switches and interrupts were measured in guests of 4, 8 and 16 CPUs with 2 to 24 processes: 2.81,
/// 2.83 and 2.86 ms a process under 6.1.192, and 2.92, 2.97 and 3.06 ms under 7.3.4, including the process's own part.
/// All processes of a run together took up to 0.05 ms more or less than that, under 7.3.4 up to 0.45 ms.
const THREAD: Takes = Takes {
    making: Ns::us(40),
    preparing: Ns::us(210),
    first: Ns::us(25),
    more: Ns::us(60),
    cpu: Ns::ZERO,
    least: Ns::ZERO,
    spread: Ns::us(50),
};
const PROCESS: Takes = Takes {
    making: Ns::us(310),
    preparing: Ns::us(2_430),
    first: Ns::us(370),
    more: Ns::us(57),
    cpu: Ns::us(4),
    least: Ns::us(60),
    spread: Ns::us(50),
};
const PROCESS_7: Takes = Takes {
    making: Ns::us(330),
    preparing: Ns::us(2_510),
    first: Ns::us(300),
    more: Ns::us(40),
    cpu: Ns::us(11),
    least: Ns::us(100),
    spread: Ns::us(450),
};
/// The figures of 7.3.4 apply from this version on; no kernel between 6.1.192 and 7.3.4 was measured.
const SINCE_7: Version = Version::new(6, 6);

/// Number of the controller's sleeps before it makes the first task. They let its own load decay, as in the live
/// engine. The last sleep ends at a tick: the live engine arranges this; here 256 ms are a whole number of ticks at the
/// HZ of guests' kernels (250; also 1000).
const RESTS: u64 = 16;
/// Length of each of these sleeps.
const REST: Ns = Ns::ms(16);
/// Time until the last task is ready, without the time per task.
const READY: Ns = Ns::us(120);
/// Time to read schedstat, which the controller does before it opens the gate, without the time per line. In guests of
/// 8 to 64 lines, the time from its wakeup to the first task's was 0.15 to 0.81 ms under 6.1.192, and 0.2 to 1.34 ms
/// under 7.3.4.
const OPENS: Ns = Ns::us(55);
/// The time per line, in 6.1.192 and in 7.3.4.
const LINE: [Ns; 2] = [Ns(11_750), Ns(20_000)];

impl Guest {
    fn takes(self, processes: bool, tasks: usize) -> Takes {
        let takes = match processes {
            true if self.version >= SINCE_7 => PROCESS_7,
            true => PROCESS,
            false => THREAD,
        };
        let each = takes.spread.0 * self.luck / (500 * tasks.max(1) as u64);
        let least = takes.preparing.since(Ns(takes.spread.0 / tasks.max(1) as u64));
        Takes { preparing: least.plus(Ns(each)), ..takes }
    }
    /// The controller's time from its wakeup until it opens the gate.
    fn opening(self) -> Ns {
        let line = LINE[usize::from(self.version >= SINCE_7)];
        OPENS.plus(Ns(line.0 * self.lines as u64))
    }
    /// The time at which the gate opens for `tasks` tasks. By then each has prepared itself and sleeps, even if all
    /// share one CPU's time.
    fn begins_after(self, takes: &Takes, tasks: usize) -> Ns {
        let on_the_way = (takes.more.0 + takes.cpu.0 * self.cpus as u64).max(takes.least.0);
        let each = takes.making.plus(takes.preparing).0 + on_the_way;
        let ready = Ns(REST.0 * RESTS).plus(READY).plus(takes.first).plus(Ns(each * tasks as u64));
        ready.plus(self.opening())
    }
}

/// Adds such a beginning to a workload, as its warm-up. Programs see the time since all tasks were ready, as live
/// programs do. A workload with a warm-up does not change.
#[must_use]
pub fn gathered(mut built: Built, guest: Guest) -> Built {
    if built.warmup != Ns::ZERO {
        return built;
    }
    let (open, never) = (WordId(built.words as u32), WordId(built.words as u32 + 1));
    built.words += 2;
    let (controller, everywhere) = (TaskId::from(built.tasks.len()), built.masks.len() as u32);
    built.masks.push((0..guest.cpus).map(CpuId::from).collect());
    let roots: Vec<TaskId> = (0..)
        .map(TaskId)
        .zip(&built.tasks)
        .filter(|(_, t)| t.spawned_by.is_none())
        .map(|(id, _)| id)
        .collect();
    let takes = guest.takes(built.processes, roots.len());
    let opens = guest.begins_after(&takes, roots.len());
    // The live engine's time begins before it reads schedstat.
    let begins = opens.since(guest.opening());
    built.warmup = opens;
    let mut is_first = true;
    for task in &mut built.tasks {
        let root = task.spawned_by.is_none();
        if root {
            (task.waits_at_end, task.spawned_by) = (true, Some(controller));
        }
        let program = std::mem::replace(&mut task.program, Box::new(Gone));
        let first = if root && std::mem::take(&mut is_first) { takes.first } else { Ns::ZERO };
        let at = if root { At::Beginning(takes.preparing.plus(first)) } else { At::Work };
        task.program = Box::new(Gathered { program, gate: open, begins, opens, at, first: true });
    }
    let (making, opening) = (takes.making, guest.opening());
    let controls =
        Controller { roots, making, open, opens, opening, never, everywhere, rested: 0, done: None };
    built.tasks.push(TaskDecl {
        place: Place::Host,
        part: 0,
        name: "controller".to_owned(),
        program: Box::new(controls),
        attr: Attr::default(),
        affinity: Some(CpuSet::from_iter([guest.on])),
        spawned_by: None,
        footprint_kb: DEFAULT_FOOTPRINT_KB,
        timer_slack: Some(Ns::ZERO),
        background: true,
        waits_at_end: false,
        group: crate::group::ROOT_GROUP,
    });
    built
}

/// Replaces a program while it is moved.
struct Gone;

impl Program for Gone {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        Op::Exit
    }
}

/// Makes the tasks, opens the gate, and sleeps until the end.
struct Controller {
    roots: Vec<TaskId>,
    making: Ns,
    open: WordId,
    opens: Ns,
    opening: Ns,
    never: WordId,
    everywhere: u32,
    rested: u64,
    /// Number of steps since it may run on every CPU.
    done: Option<usize>,
}

impl Program for Controller {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let steps = 2 * self.roots.len();
        if self.rested < RESTS {
            self.rested += 1;
            return Op::SleepTo { at: Ns(REST.0 * self.rested) };
        }
        let done = self.done.map_or(0, |done| done + 1);
        self.done = Some(done);
        match done {
            0 => Op::SetAffinity { mask: self.everywhere },
            n if n <= steps && n % 2 == 1 => Op::Execute { length: self.making },
            n if n <= steps => Op::Spawn { task: self.roots[n / 2 - 1] },
            n if n == steps + 1 => Op::SleepTo { at: Ns(self.opens.0 - self.opening.0) },
            n if n == steps + 2 => Op::Execute { length: self.opening },
            n if n == steps + 3 => {
                env.word(self.open).store(1, SeqCst);
                Op::Wake { word: self.open, count: self.roots.len() as u32 }
            }
            _ => Op::Wait { word: self.never, value: 0, until: Ns::MAX },
        }
    }
}

/// A task's progress.
enum At {
    /// Must still prepare itself, for this long.
    Beginning(Ns),
    Gate,
    Work,
}

/// A task's program. A task that exists from the start first waits at the gate.
struct Gathered {
    program: Box<dyn Program>,
    gate: WordId,
    begins: Ns,
    opens: Ns,
    at: At,
    first: bool,
}

impl Program for Gathered {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        match self.at {
            At::Beginning(preparing) => {
                self.at = At::Gate;
                return Op::Execute { length: preparing };
            }
            At::Gate if env.word(self.gate).load(SeqCst) == 0 => {
                return Op::Wait { word: self.gate, value: 0, until: Ns::MAX };
            }
            At::Gate => self.at = At::Work,
            At::Work => {}
        }
        let Gathered { begins, opens, .. } = *self;
        let first = std::mem::replace(&mut self.first, false);
        let later = |at: Ns| if at == Ns::MAX { at } else { at.plus(begins) };
        match self.program.next(&mut Later { env, begins, opens, first }) {
            Op::SpinTo { at } => Op::SpinTo { at: later(at) },
            Op::SleepTo { at } => Op::SleepTo { at: later(at) },
            Op::Wait { word, value, until } => Op::Wait { word, value, until: later(until) },
            op => op,
        }
    }
}

/// The program's environment, with a clock that begins when all tasks are ready.
struct Later<'a> {
    env: &'a mut dyn Env,
    begins: Ns,
    /// The start of the measured time, a little later.
    opens: Ns,
    /// Whether the program has not asked for an operation yet.
    first: bool,
}

impl Env for Later<'_> {
    fn now(&mut self) -> Ns {
        self.env.now().since(self.begins)
    }
    fn outcome(&self) -> Outcome {
        if self.first { Outcome::Done } else { self.env.outcome() }
    }
    fn cpu(&mut self) -> CpuId {
        self.env.cpu()
    }
    fn word(&self, id: WordId) -> &AtomicU32 {
        self.env.word(id)
    }
    fn slot(&self, id: SlotId) -> &AtomicU64 {
        self.env.slot(id)
    }
    fn record(&mut self, series: SeriesId, value: u64) {
        self.env.record(series, value);
    }
    fn interval(&mut self, start: Ns, length: Ns, values: &[(SeriesId, u64)]) {
        // An interval that began with the clock is the first measured one, and not part of a warm-up.
        self.env.interval(start.plus(self.begins).max(self.opens), length, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use crate::rig;

    const OLD: Guest = Guest { on: CpuId(0), cpus: 2, version: Version::new(6, 1), lines: 4, luck: 500 };

    struct Clocked(SeriesId, u32);

    impl Program for Clocked {
        fn next(&mut self, env: &mut dyn Env) -> Op {
            assert!(self.1 > 0 || env.outcome() == Outcome::Done);
            let now = env.now();
            env.record(self.0, now.0);
            self.1 += 1;
            if self.1 == 3 { Op::Exit } else { Op::SleepTo { at: Ns::ms(u64::from(self.1)) } }
        }
    }

    #[test]
    fn programs_begin_when_the_gate_opens_and_see_time_from_when_it_could() {
        let mut b = Builder::new(1);
        b.lasts(Ns::ms(600), Ns::ZERO);
        let clock = b.series("clock", "ns", "neither");
        for i in 0..3 {
            b.task(format!("t{i}"), Box::new(Clocked(clock, 0))).unwrap();
        }
        let built = gathered(b.finish().unwrap(), OLD);
        let opens = built.warmup;
        assert_eq!(
            (opens, built.duration, built.tasks.len()),
            (OLD.begins_after(&THREAD, 3), Ns::ms(600), 4)
        );
        assert!(built.tasks[3].background && built.tasks.iter().filter(|t| t.waits_at_end).count() == 3);
        assert!(built.tasks[..3].iter().all(|t| t.spawned_by == Some(TaskId(3))));
        let costs = rig::Costs { op: Ns(100), wakeup: Ns(1_000), slack: Ns::ZERO };
        let log = rig::run(built, costs);
        assert_eq!((log.samples.len(), log.left.len()), (9, 3));
        for s in &log.samples {
            assert_eq!(
                s.at,
                Ns(s.value).plus(opens.since(OLD.opening())),
                "time counts from the moment when all tasks are ready"
            );
        }
        let waited = |s: &&rig::Sample| (OLD.opening().0..OLD.opening().0 + 100_000).contains(&s.value);
        assert_eq!(log.samples.iter().filter(waited).count(), 3, "they begin when it opens");
    }

    #[test]
    fn processes_take_longer_to_be_there_than_threads() {
        let opens = |processes: bool| {
            let mut b = Builder::new(1);
            b.lasts(Ns::ms(600), Ns::ZERO);
            for i in 0..8 {
                b.task(format!("t{i}"), Box::new(Gone)).unwrap();
            }
            if processes {
                b.as_processes();
            }
            let built = gathered(b.finish().unwrap(), OLD);
            let opens = built.warmup;
            let log = rig::run(built, rig::Costs { op: Ns(100), wakeup: Ns(1_000), slack: Ns::ZERO });
            let early = log.steps.iter().filter(|s| s.at < opens && matches!(s.op, Op::Wait { .. })).count();
            assert_eq!(early, 8, "all sleep before the gate opens");
            opens
        };
        assert!(opens(true) > opens(false).plus(Ns::ms(8 * 2)));
    }

    #[test]
    fn the_controller_reads_schedstat_before_it_opens_the_gate() {
        let new = Guest { version: Version::new(7, 3), ..OLD };
        let many = |g: Guest| Guest { lines: 64, ..g };
        assert_eq!(many(OLD).opening().since(OLD.opening()), Ns::us(705));
        assert_eq!(many(new).opening().since(new.opening()), Ns::us(1_200));
        let mut b = Builder::new(1);
        b.lasts(Ns::ms(600), Ns::ZERO);
        b.task("t", Box::new(Gone)).unwrap();
        let built = gathered(b.finish().unwrap(), many(OLD));
        let opens = built.warmup;
        let log = rig::run(built, rig::Costs { op: Ns(100), wakeup: Ns(1_000), slack: Ns::ZERO });
        let opening = log
            .steps
            .iter()
            .find(|s| matches!(s.op, Op::Execute { length } if length == many(OLD).opening()));
        let at = opening.map(|s| s.at.since(opens.since(many(OLD).opening())));
        assert!(at.is_some_and(|late| late < Ns::us(2)), "{at:?}");
    }

    #[test]
    fn workloads_with_a_warm_up_do_not_change() {
        let mut b = Builder::new(1);
        b.lasts(Ns::ms(10), Ns::ms(5));
        b.task("t", Box::new(Gone)).unwrap();
        let built = gathered(b.finish().unwrap(), OLD);
        assert_eq!((built.warmup, built.tasks.len(), built.words), (Ns::ms(5), 1, 0));
    }
}
