//! A run on CPUs that take turns.
//!
//! Only the CPU that has the turn makes progress with work of the processor: kernel code, and going over memory. All
//! clocks run for every CPU. A current task is charged whether or not its CPU has the turn, as the guest's kernel
//! charges it. Timers keep their times; their interrupts, like those from other CPUs, are taken in the CPU's next turn.
//! A signal between CPUs takes no time to arrive.
//!
//! Computing for a stated time and waiting for the clock are loops that read a clock and give the turn away in each
//! round (`pause`). Such a loop ends in the first round that finds the time passed. Computing for a stated time is
//! measured in charged CPU time, which includes the turns of others. Times are ns. [`crate::ring`] has the rule of who
//! has the turn.

use crate::board::Kernel;
use crate::engine::NEVER;
use crate::ring::{Next, Ring};
use crate::thread::UserOp;
use crate::user::UserMode;
use schedlab_base::{CpuId, Result, Stream};
use schedlab_machine::Turns;

/// State of a machine whose CPUs take turns.
pub struct Sharing {
    pub spec: Turns,
    /// The CPU that has the turn.
    pub holder: Option<CpuId>,
    /// The CPU that has the turn waits for another one: the turn ends.
    pub gives_way: bool,
    /// Since when each CPU has been without the turn.
    since: Vec<u64>,
    /// Time left of each CPU's round of waiting in user mode.
    round_left: Vec<u64>,
}

impl Sharing {
    /// The state before the first turn.
    pub fn new(spec: Turns, cpus: usize) -> Sharing {
        let (since, round_left) = (vec![0; cpus], vec![spec.spin_ns; cpus]);
        Sharing { spec, holder: None, gives_way: false, since, round_left }
    }
}

/// A kernel whose CPUs can be led in turns.
pub trait TakesTurns<'s>: Kernel<'s> {
    fn set_now(&mut self, now: u64);
    /// The CPU waits for an interrupt. One that polls is not halted.
    fn is_halted(&self, cpu: CpuId) -> bool;
    /// When its next interrupt is due.
    fn irq_due(&self, cpu: CpuId) -> u64;
    /// When the user mode or the path that it is in ends.
    fn ends(&self, cpu: CpuId) -> u64;
    /// Delays that end by `by_ns`.
    fn put_off(&mut self, cpu: CpuId, by_ns: u64);
    /// The time to which its timer hardware is set. `None` while it is about to be set.
    fn hardware_timer(&self, cpu: CpuId) -> Option<u64>;
    /// Lets the CPU act; nothing else acts before `horizon`.
    fn step_in_turn(&mut self, cpu: CpuId, at: u64, horizon: u64);

    /// Whether `cpu` waits for a clock in user mode and no interrupt is due.
    fn waits_for_clock(&self, cpu: CpuId) -> bool {
        let loops = |op| matches!(op, UserOp::Run { .. } | UserOp::Spin { .. } | UserOp::SpinLock { .. });
        self.irq_due(cpu) > self.now() && self.user_op(cpu).is_some_and(loops)
    }

    fn is_awake(&self, cpu: CpuId) -> bool {
        !self.is_halted(cpu) || self.irq_due(cpu) <= self.now()
    }

    /// `cpu`'s turn begins: its interrupted path continues from here.
    fn take_turn(&mut self, cpu: CpuId) {
        let (op, now) = (self.user_op(cpu), self.now());
        let board = self.board_mut();
        let Some(sharing) = &mut board.turns else { return };
        debug_assert!(sharing.holder.is_none(), "{cpu} gets the turn of {:?}", sharing.holder);
        debug_assert!(sharing.since[cpu.index()] <= now, "{cpu} has lost the turn after {now}");
        sharing.holder = Some(cpu);
        let without_ns = now - sharing.since[cpu.index()];
        match op {
            Some(UserOp::Touch { .. }) => board.seats[cpu].user_since = now,
            // These loops wait for a clock, and clocks have not stopped.
            Some(_) => return,
            None => {}
        }
        if self.ends(cpu) != NEVER {
            self.put_off(cpu, without_ns);
        }
    }

    fn leave_turn(&mut self, cpu: CpuId) {
        if matches!(self.user_op(cpu), Some(UserOp::Touch { .. })) {
            self.account_user(cpu);
        }
        let now = self.now();
        if let Some(sharing) = &mut self.board_mut().turns {
            debug_assert!(sharing.holder == Some(cpu), "{cpu} leaves the turn of {:?}", sharing.holder);
            sharing.since[cpu.index()] = now;
            sharing.holder = None;
        }
    }

    fn keep_round(&mut self, cpu: CpuId, left_ns: u64) {
        if let Some(sharing) = &mut self.board_mut().turns {
            sharing.round_left[cpu.index()] = left_ns;
        }
    }
    fn round_left_ns(&self, cpu: CpuId) -> u64 {
        self.board().turns.as_ref().map_or(0, |s| s.round_left[cpu.index()])
    }
}

/// The rest of a run's course: its end, and the events from outside.
pub trait Course<K> {
    /// The end of the run by the clock.
    fn end(&self) -> u64;
    /// The time of the next event from outside.
    fn next(&self) -> u64;
    /// Handles that event.
    ///
    /// # Errors
    /// A change that the kernel refuses.
    fn act(&mut self, kernel: &mut K) -> Result<()>;
    /// Whether the run is over after a step at `at`.
    ///
    /// # Errors
    /// A fault that ends the run.
    fn is_over(&mut self, kernel: &mut K, at: u64) -> Result<bool>;
}

/// Lets CPUs act in turns until the end. With `leaps`, rounds in which nothing can happen are passed over.
///
/// # Errors
/// A fault that ends the run.
pub fn drive<'s, K, C>(kernel: &mut K, course: &mut C, draws: &Stream, leaps: bool) -> Result<()>
where
    K: TakesTurns<'s>,
    C: Course<K>,
{
    Rounds::begin(kernel, draws).map_or(Ok(()), |mut rounds| rounds.drive(kernel, course, leaps))
}

/// Whose turn is next. A run may be driven part by part: at the end of a part the turn under way ends, as it does when
/// a timer expires.
pub struct Rounds {
    ring: Ring,
    spin_ns: u64,
}

impl Rounds {
    /// Before the first turn; `None` on a machine whose CPUs do not take turns.
    pub fn begin<'s>(kernel: &mut impl TakesTurns<'s>, draws: &Stream) -> Option<Rounds> {
        let spec = kernel.board().turns.as_ref().map(|s| s.spec)?;
        let n = kernel.board().nr_cpus();
        let first_alarm = draws.purpose("alarm").below(0, spec.alarm_ns.max(1)) + 1;
        let mut ring = Ring::new(n, spec.alarm_ns, first_alarm);
        for cpu in (0..n).map(CpuId::from) {
            ring.reset(cpu, kernel.hardware_timer(cpu).unwrap_or(NEVER));
        }
        while kernel.pop_touched().is_some() {}
        Some(Rounds { ring, spin_ns: spec.spin_ns })
    }

    /// Lets CPUs act until the end of the course.
    ///
    /// # Errors
    /// A fault that ends the run.
    pub fn drive<'s, K, C>(&mut self, kernel: &mut K, course: &mut C, leaps: bool) -> Result<()>
    where
        K: TakesTurns<'s>,
        C: Course<K>,
    {
        while kernel.now() < course.end() {
            if course.next() <= kernel.now() {
                course.act(kernel)?;
            }
            if leaps {
                leap(kernel, &self.ring, self.spin_ns, course.end().min(course.next()));
            }
            match self.ring.next(kernel.now(), |cpu| kernel.is_awake(cpu)) {
                Next::Leap(to) => {
                    let to = to.min(course.next()).min(course.end());
                    debug_assert!(to >= kernel.now(), "time leaps back from {} to {to}", kernel.now());
                    kernel.set_now(to);
                }
                Next::Turn { cpu, until } => {
                    kernel.take_turn(cpu);
                    let continues = turn(kernel, &mut self.ring, (cpu, until), self.spin_ns, course)?;
                    kernel.leave_turn(cpu);
                    if !continues {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// One turn of `cpu`, up to the given time at the latest; `false` when the run is over.
fn turn<'s, K: TakesTurns<'s>>(
    kernel: &mut K,
    ring: &mut Ring,
    (cpu, until): (CpuId, u64),
    spin_ns: u64,
    course: &mut impl Course<K>,
) -> Result<bool> {
    loop {
        let waits = kernel.waits_for_clock(cpu);
        let now = kernel.now();
        let next = if waits { now + kernel.round_left_ns(cpu) } else { kernel.next_event(cpu).max(now) };
        let stop = until.min(course.end()).min(course.next());
        if next > stop {
            if waits {
                kernel.keep_round(cpu, next - stop);
            }
            kernel.set_now(stop);
            if course.next() > stop || stop >= course.end() {
                return Ok(true);
            }
            course.act(kernel)?;
            if stop >= until {
                return Ok(true);
            }
            continue;
        }
        if waits {
            kernel.keep_round(cpu, spin_ns);
            if kernel.ends(cpu) > next {
                kernel.set_now(next);
                return Ok(true);
            }
        }
        kernel.step_in_turn(cpu, next, stop);
        if course.is_over(kernel, next)? {
            return Ok(false);
        }
        if turn_ends(kernel, ring, cpu) {
            return Ok(true);
        }
    }
}

/// Whether `cpu`'s step has ended its turn: it has halted, waits for another CPU, or has set the earliest timer of all.
fn turn_ends<'s>(kernel: &mut impl TakesTurns<'s>, ring: &mut Ring, cpu: CpuId) -> bool {
    while let Some(touched) = kernel.pop_touched() {
        if touched != cpu
            && let Some(at) = kernel.hardware_timer(touched)
        {
            ring.reset(touched, at);
        }
    }
    let first = kernel.hardware_timer(cpu).is_some_and(|at| ring.set(cpu, at));
    let gives_way = kernel.board_mut().turns.as_mut().is_some_and(|s| std::mem::take(&mut s.gives_way));
    first || gives_way || kernel.is_halted(cpu)
}

/// While all awake CPUs wait for a clock, rounds are alike. One leap replaces all the rounds that fit before anything
/// can happen, and leaves every CPU in the state after the last of them.
fn leap<'s>(kernel: &mut impl TakesTurns<'s>, ring: &Ring, spin_ns: u64, end: u64) {
    let Some(calm_until) = ring.calm_until(spin_ns) else { return };
    let (mut ends, mut waiting) = (end, 0);
    for cpu in (0..kernel.board().nr_cpus()).map(CpuId::from).filter(|c| kernel.is_awake(*c)) {
        if kernel.round_left_ns(cpu) != spin_ns || !kernel.waits_for_clock(cpu) {
            return;
        }
        ends = ends.min(kernel.ends(cpu));
        waiting += 1;
    }
    let round = waiting * spin_ns;
    if round == 0 {
        return;
    }
    // The last round must begin before `calm_until` and be over before anything ends.
    let now = kernel.now();
    let calm = (calm_until + round).saturating_sub(now) / round;
    let free = ends.saturating_sub(now + 1) / round;
    kernel.set_now(now + calm.min(free) * round);
}
