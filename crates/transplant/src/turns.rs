//! A run on CPUs that share one processor's time, as those of a deterministic guest do. The rule whose turn it is:
//! [`schedlab_world::ring`]; the order of things is that of `sim/src/turns/drive.rs`.
//!
//! Only the CPU that has the turn gets on with work of the processor: kernel paths, and going over memory. All clocks
//! run for every CPU, and a current task is charged whether or not its CPU has the turn. Interrupts are taken in the
//! CPU's next turn. Loops that read a clock give the turn away each time round, and end in the first round that finds
//! the time passed.

use crate::board::Board;
use crate::cpu::Activity;
use crate::run::{Clock, Ended, Outside};
use crate::task::UserOp;
use schedlab_base::{CpuId, Result, Stream};
use schedlab_machine::Turns;
use schedlab_world::engine::NEVER;
use schedlab_world::ring::{Next, Ring};

/// State of a board whose CPUs take turns.
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
    /// Before the first turn.
    pub fn new(spec: Turns, cpus: usize) -> Sharing {
        let (since, round_left) = (vec![0; cpus], vec![spec.spin_ns; cpus]);
        Sharing { spec, holder: None, gives_way: false, since, round_left }
    }
}

impl Board<'_> {
    fn user_op(&self, cpu: CpuId) -> Option<UserOp> {
        let c = &self.cpus[cpu];
        c.current.program().filter(|_| c.in_user()).map(|t| self.tasks[t].user)
    }

    /// Whether `cpu` goes over memory, and needs its turn to continue with that.
    pub fn works_without_turn(&self, cpu: CpuId) -> bool {
        let Some(sharing) = &self.turns else { return false };
        sharing.holder != Some(cpu) && matches!(self.user_op(cpu), Some(UserOp::Touch { .. }))
    }

    /// Whether `cpu` waits for a clock in user mode and no interrupt is due.
    fn waits_for_clock(&self, cpu: CpuId) -> bool {
        let loops = |op| matches!(op, UserOp::Run { .. } | UserOp::Spin { .. } | UserOp::SpinLock { .. });
        self.cpus[cpu].irq_due() > self.now && self.user_op(cpu).is_some_and(loops)
    }

    fn is_halted(&self, cpu: CpuId) -> bool {
        matches!(self.cpus[cpu].activity, Activity::Halted { .. })
    }

    fn is_awake(&self, cpu: CpuId) -> bool {
        !self.is_halted(cpu) || self.cpus[cpu].irq_due() <= self.now
    }

    /// The time to which `cpu`'s timer hardware is set.
    fn hardware_timer(&self, cpu: CpuId) -> u64 {
        let at = self.cpus[cpu].timer_at;
        if at <= self.now { NEVER } else { at }
    }

    /// `cpu`'s turn begins: its path continues from here.
    fn take_turn(&mut self, cpu: CpuId) {
        let op = self.user_op(cpu);
        let now = self.now;
        let Some(sharing) = &mut self.turns else { return };
        sharing.holder = Some(cpu);
        let without = now - sharing.since[cpu.index()];
        let c = &mut self.cpus[cpu];
        match op {
            Some(UserOp::Touch { .. }) => c.user_since = now,
            // These loops wait for a clock, and clocks have gone on.
            Some(_) => return,
            None => {}
        }
        if c.ends != NEVER {
            c.ends += without;
        }
    }

    fn leave_turn(&mut self, cpu: CpuId) {
        if matches!(self.user_op(cpu), Some(UserOp::Touch { .. })) {
            self.account_user(cpu);
        }
        let now = self.now;
        if let Some(sharing) = &mut self.turns {
            sharing.since[cpu.index()] = now;
            sharing.holder = None;
        }
    }

    fn keep_round(&mut self, cpu: CpuId, left_ns: u64) {
        if let Some(sharing) = &mut self.turns {
            sharing.round_left[cpu.index()] = left_ns;
        }
    }
}

/// Lets CPUs act in turns until the end.
pub fn drive(board: &mut Board<'_>, seed: u64, clock: &Clock<'_>, outside: &mut Outside) -> Result<Ended> {
    let mut ended = Ended::at(clock.end);
    let Some(spec) = board.turns.as_ref().map(|s| s.spec) else { return Ok(ended) };
    let n = board.nr_cpus();
    let first_alarm = Stream::new(seed).purpose("alarm").below(0, spec.alarm_ns.max(1)) + 1;
    let mut ring = Ring::new(n, spec.alarm_ns, first_alarm);
    for cpu in board.cpus.ids() {
        ring.reset(cpu, board.hardware_timer(cpu));
    }
    board.touched.clear();
    while board.now < clock.end {
        if outside.next() <= board.now {
            outside.act(board, &mut ended)?;
        }
        leap(board, &ring, clock.end.min(outside.next()));
        match ring.next(board.now, |cpu| board.is_awake(cpu)) {
            Next::Leap(to) => board.now = to.min(outside.next()).min(clock.end),
            Next::Turn { cpu, until } => {
                board.take_turn(cpu);
                let continues = turn(board, &mut ring, (cpu, until), clock, (outside, &mut ended))?;
                board.leave_turn(cpu);
                if !continues {
                    return Ok(ended);
                }
            }
        }
    }
    Ok(ended)
}

/// One turn of `cpu`, up to the given time at the latest; `false` when the run is over.
fn turn(
    board: &mut Board<'_>,
    ring: &mut Ring,
    (cpu, until): (CpuId, u64),
    clock: &Clock<'_>,
    (outside, ended): (&mut Outside, &mut Ended),
) -> Result<bool> {
    let spin_ns = board.turns.as_ref().map_or(0, |s| s.spec.spin_ns);
    loop {
        let waits = board.waits_for_clock(cpu);
        let round = board.turns.as_ref().map_or(0, |s| s.round_left[cpu.index()]);
        let next = if waits { board.now + round } else { board.next_event(cpu).max(board.now) };
        let stop = until.min(clock.end).min(outside.next());
        if next > stop {
            if waits {
                board.keep_round(cpu, next - stop);
            }
            board.now = stop;
            if outside.next() > stop || stop >= clock.end {
                return Ok(true);
            }
            outside.act(board, ended)?;
            if stop >= until {
                return Ok(true);
            }
            continue;
        }
        if waits {
            board.keep_round(cpu, spin_ns);
            if board.cpus[cpu].ends > next {
                board.now = next;
                return Ok(true);
            }
        }
        board.steps += 1;
        board.step(cpu, next);
        if clock.is_over(board, next, ended)? {
            return Ok(false);
        }
        if turn_ends(board, ring, cpu) {
            return Ok(true);
        }
    }
}

/// Whether `cpu`'s step has ended its turn: it has halted, waits for another CPU, or has set the earliest timer of all.
fn turn_ends(board: &mut Board<'_>, ring: &mut Ring, cpu: CpuId) -> bool {
    while let Some(touched) = board.touched.pop() {
        if touched != cpu {
            ring.reset(touched, board.hardware_timer(touched));
        }
    }
    let first = ring.set(cpu, board.hardware_timer(cpu));
    let gives_way = board.turns.as_mut().is_some_and(|s| std::mem::take(&mut s.gives_way));
    first || gives_way || board.is_halted(cpu)
}

/// While all awake CPUs wait for a clock, rounds are alike. One leap replaces all the rounds that fit before anything
/// can happen, and leaves every CPU in the state after the last of them.
fn leap(board: &mut Board<'_>, ring: &Ring, end: u64) {
    let Some(sharing) = &board.turns else { return };
    let spin_ns = sharing.spec.spin_ns;
    let Some(calm_until) = ring.calm_until(spin_ns) else { return };
    let (mut ends, mut waiting) = (end, 0);
    for cpu in board.cpus.ids().filter(|c| board.is_awake(*c)) {
        if sharing.round_left[cpu.index()] != spin_ns || !board.waits_for_clock(cpu) {
            return;
        }
        ends = ends.min(board.cpus[cpu].ends);
        waiting += 1;
    }
    let round = waiting * spin_ns;
    if round == 0 {
        return;
    }
    // The last round must begin before `calm_until` and be over before anything ends.
    let calm = (calm_until + round).saturating_sub(board.now) / round;
    let free = ends.saturating_sub(board.now + 1) / round;
    board.now += calm.min(free) * round;
}
