//! A specimen: a workload and its machine as plain data, small enough to be drawn, changed and shrunk.
//!
//! A specimen is a list of kinds of tasks. A kind is some tasks of one program: wait for a wakeup, compute (partly
//! under the one common lock), wake another kind, meet at a barrier, rest. It maps to an rt-app file
//! ([`super::write`]), and only the ordinary reader's workload of that file is ever simulated. Times are us.
//! [`Specimen::mended`] holds the invariants: at least one kind that nobody wakes; a kind is woken only by an earlier
//! one; a barrier has two tasks or more; at most [`MAX_KINDS`] kinds, and at most [`TASKS_PER_CPU`] tasks for each CPU.

use super::around::Around;
use super::space::Space;
use super::subject;
use schedlab_base::{CpuId, CpuSet, Stream};

/// Most kinds of tasks in a specimen.
pub const MAX_KINDS: usize = 5;
/// Most tasks for each CPU.
pub const TASKS_PER_CPU: u32 = 4;
/// Shortest and longest run of a task before it rests, us.
const RUN_US: (u32, u32) = (10, 50_000);
/// Nice values that are drawn; 0 is the most likely.
pub const NICE: &[i8] = &[0, 0, 0, 0, 0, 0, -20, -10, -5, -5, 1, 5, 5, 10, 19];

/// Draws, each by its purpose.
#[derive(Clone, Copy)]
pub struct Dice(pub Stream);

impl Dice {
    /// The draws of a part.
    pub fn of(self, part: &str) -> Dice {
        Dice(self.0.purpose(part))
    }
    /// The draws of a numbered part.
    pub fn number(self, n: u64) -> Dice {
        Dice(self.0.number(n))
    }
    /// A number below `n`; 0 if `n` is 0.
    pub fn below(self, what: &str, n: usize) -> usize {
        self.0.purpose(what).below(0, n as u64) as usize
    }
    /// One of these, each as likely as the others.
    pub fn pick<T: Copy>(self, what: &str, of: &[T]) -> T {
        of[self.below(what, of.len())]
    }
    /// True with that probability, per cent.
    pub fn chance(self, what: &str, pct: usize) -> bool {
        self.below(what, 100) < pct
    }
}

/// A task's rest between two runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rest {
    /// Nothing: it computes all the time.
    None,
    /// It sleeps this long.
    Sleep(u32),
    /// It waits for its next activation; a late one begins a new period.
    Timer(u32),
}

/// The policy of a kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Policy {
    /// SCHED_OTHER.
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO of a priority.
    Fifo(u8),
    /// SCHED_RR of a priority.
    Rr(u8),
}

impl Policy {
    /// Whether it is of a real-time class.
    pub fn is_rt(self) -> bool {
        matches!(self, Policy::Fifo(_) | Policy::Rr(_))
    }
    pub(super) fn words(self) -> Option<String> {
        match self {
            Policy::Other => None,
            Policy::Batch => Some("SCHED_BATCH".to_owned()),
            Policy::Idle => Some("SCHED_IDLE".to_owned()),
            Policy::Fifo(priority) => Some(format!("SCHED_FIFO {priority}")),
            Policy::Rr(priority) => Some(format!("SCHED_RR {priority}")),
        }
    }
}

/// The CPUs that a kind may use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cpus {
    All,
    /// The first one.
    First,
    /// The first half.
    Low,
    /// The second half.
    High,
    /// The last one.
    Last,
    /// Every second one.
    Even,
    /// The second and third quarter.
    Middle,
}

impl Cpus {
    /// All masks except all CPUs.
    pub const SOME: &[Cpus] = &[Cpus::First, Cpus::Low, Cpus::High, Cpus::Last, Cpus::Even, Cpus::Middle];

    /// The set of CPUs on a machine with `cpus` CPUs.
    pub fn set(self, cpus: u32) -> CpuSet {
        let of = |from: u32, to: u32| (from..to.max(from + 1)).map(CpuId).collect();
        match self {
            Cpus::All => of(0, cpus),
            Cpus::First => of(0, 1),
            Cpus::Low => of(0, cpus / 2),
            Cpus::High => of(cpus / 2, cpus),
            Cpus::Last => of(cpus - 1, cpus),
            Cpus::Even => (0..cpus).step_by(2).map(CpuId).collect(),
            Cpus::Middle => of(cpus / 4, cpus - cpus / 4),
        }
    }
    pub fn words(self) -> &'static str {
        match self {
            Cpus::All => "on all CPUs",
            Cpus::First => "on CPU 0",
            Cpus::Low => "on the first half of the CPUs",
            Cpus::High => "on the second half of the CPUs",
            Cpus::Last => "on the last CPU",
            Cpus::Even => "on CPUs with even numbers",
            Cpus::Middle => "on the middle half of the CPUs",
        }
    }
}

/// Attributes that tasks switch to and from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Then {
    /// Runs with the first attributes, then the same number with these.
    pub runs: u32,
    pub policy: Policy,
    pub nice: i8,
    pub cpus: Cpus,
}

/// Tasks of one program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TaskKind {
    /// Number of tasks.
    pub count: u32,
    /// Computing before each rest.
    pub run_us: u32,
    /// Computing before that, under the lock that all kinds share; 0: none.
    pub locked_us: u32,
    /// The rest; unused if another kind wakes it.
    pub rest: Rest,
    /// The kind whose tasks wake all tasks of this one after their runs.
    pub woken_by: Option<usize>,
    /// Whether its tasks wait for each other after each run.
    pub meets: bool,
    pub nice: i8,
    pub policy: Policy,
    /// Affinity.
    pub cpus: Cpus,
    /// The number of its task group; `None`: the root group.
    pub group: Option<u8>,
    /// Attributes that its tasks change to.
    pub then: Option<Then>,
    /// The kind whose tasks each fork as many tasks as this kind has, one after each of their first runs.
    pub forked_by: Option<usize>,
}

/// A workload on a machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Specimen {
    /// Index into the space's machines.
    pub machine: usize,
    pub kinds: Vec<TaskKind>,
    pub around: Around,
}

/// The name of a kind's tasks; letters, because numbers at the end distinguish a kind's tasks.
pub fn name(kind: usize) -> String {
    char::from(b'a' + kind as u8).to_string()
}

/// A time between `low` and `high`, uniform in its logarithm, in steps of 1, 2 and 5.
fn time_us(dice: Dice, what: &str, low: u32, high: u32) -> u32 {
    let decades = [1u32, 10, 100, 1_000, 10_000, 100_000];
    let steps: Vec<u32> = decades.iter().flat_map(|d| [1, 2, 5].map(|s| s * d)).collect();
    let within: Vec<u32> = steps.into_iter().filter(|t| (low..=high).contains(t)).collect();
    dice.pick(what, &within)
}

impl TaskKind {
    /// A kind for a machine of `cpus` CPUs.
    pub fn draw(dice: Dice, cpus: u32, groups: bool) -> TaskKind {
        let counts = [1, 1, 2, cpus / 4, cpus / 2, cpus / 2, cpus - 1, cpus, cpus + 1, 2 * cpus];
        let run_us = time_us(dice, "run", RUN_US.0, RUN_US.1);
        let rest = match dice.below("rest", 10) {
            0..=1 => Rest::None,
            2..=5 => Rest::Sleep(time_us(dice, "sleep", 10, 50_000)),
            _ => Rest::Timer(run_us.saturating_mul(dice.pick("part", &[2, 2, 3, 4, 8, 20])).min(200_000)),
        };
        TaskKind {
            count: dice.pick("count", &counts).max(1),
            run_us,
            locked_us: if dice.chance("lock", 15) { time_us(dice, "locked", 10, 500) } else { 0 },
            rest,
            woken_by: dice.chance("woken", 25).then(|| dice.below("by", MAX_KINDS)),
            meets: dice.chance("meets", 15),
            nice: dice.pick("nice", NICE),
            policy: match dice.below("policy", 10) {
                0 => Policy::Batch,
                1 => Policy::Idle,
                _ => Policy::Other,
            },
            cpus: dice.pick(
                "cpus",
                &[Cpus::All; 6].into_iter().chain([Cpus::First, Cpus::Low, Cpus::High]).collect::<Vec<_>>(),
            ),
            group: (groups && dice.chance("grouped", 20)).then(|| dice.below("group", 2) as u8),
            then: None,
            forked_by: None,
        }
    }
}

impl Specimen {
    /// A specimen of the space.
    pub fn draw(dice: Dice, space: &Space) -> Specimen {
        let machine = dice.below("machine", space.machines.len());
        let cpus = space.cpus(machine);
        let many = dice.pick("kinds", &[1, 1, 2, 2, 2, 3, 3, 4]);
        let kinds =
            (0..many).map(|i| TaskKind::draw(dice.of("kind").number(i), cpus, space.groups)).collect();
        let mut drawn = Specimen { machine, kinds, around: Around::default() };
        if let Some(words) = space.wide {
            subject::widen(&mut drawn, dice.of("wide"), cpus, words);
        }
        drawn.mended(space)
    }
    /// The specimen with the invariants restored.
    #[must_use]
    pub fn mended(mut self, space: &Space) -> Specimen {
        let most = TASKS_PER_CPU * space.cpus(self.machine);
        self.kinds.truncate(MAX_KINDS.min(most as usize));
        for (i, kind) in self.kinds.iter_mut().enumerate() {
            kind.woken_by = kind.woken_by.filter(|by| *by < i);
            kind.meets &= kind.count > 1;
            kind.run_us = kind.run_us.clamp(RUN_US.0, RUN_US.1);
            if kind.woken_by.is_some() {
                kind.rest = Rest::None;
            }
        }
        self.mend_forks();
        while self.tasks() > most {
            let Some(largest) = self.kinds.iter_mut().filter(|k| k.count > 1).max_by_key(|k| k.count) else {
                break;
            };
            largest.count = largest.count.div_ceil(2);
            largest.meets &= largest.count > 1;
        }
        self.around.mend(self.kinds.len());
        self
    }
    /// An earlier kind that exists from the start forks this one. This one does not meet, and its parent keeps its
    /// attributes: forks are in a phase that comes once.
    fn mend_forks(&mut self) {
        for i in 0..self.kinds.len() {
            let by = self.kinds[i].forked_by.filter(|by| *by < i && self.kinds[*by].forked_by.is_none());
            self.kinds[i].forked_by = by;
            // A meeting point may appear only once, and such a kind has its events twice.
            self.kinds[i].meets &= by.is_none() && self.kinds[i].then.is_none();
            if let Some(by) = by {
                (self.kinds[by].then, self.kinds[by].meets) = (None, false);
            }
        }
    }
    /// The tasks of a kind.
    fn tasks_of(&self, kind: &TaskKind) -> u32 {
        kind.count * kind.forked_by.map_or(1, |by| self.kinds[by].count)
    }
    /// The tasks of all kinds together.
    pub fn tasks(&self) -> u32 {
        self.kinds.iter().map(|kind| self.tasks_of(kind)).sum()
    }
    /// The specimen without a kind; kinds that it woke sleep instead.
    #[must_use]
    pub fn without(&self, gone: usize) -> Specimen {
        let mut left = self.clone();
        left.kinds.remove(gone);
        for kind in &mut left.kinds {
            match kind.woken_by {
                Some(by) if by == gone => (kind.woken_by, kind.rest) = (None, Rest::Sleep(1_000)),
                Some(by) if by > gone => kind.woken_by = Some(by - 1),
                _ => {}
            }
            kind.forked_by = kind.forked_by.filter(|by| *by != gone).map(|by| by - usize::from(by > gone));
        }
        left.around.without(gone);
        left
    }
}
