//! Invariants that hold at every instant. The sums are checked at the end of every run, even in release; the walk over
//! all queues after every event is for tests.

use crate::cpu::Cpu;
use crate::frame::Step;
use crate::system::System;
use crate::task::TaskState;
use crate::timer::Fires;
use schedlab_base::{CpuId, Error, Result, TaskId};
use schedlab_board::engine::NEVER;
use schedlab_board::ensure;
use schedlab_board::thread::UserOp;
use schedlab_board::walk::Wrong;

/// Checks that charged CPU time equals elapsed time minus idle time: the tasks' sum is the CPUs' busy time, except for
/// time that was charged to no task or is yet to be charged.
///
/// # Errors
/// When it does not: an error of the simulator.
pub fn accounts_agree(sys: &System<'_>) -> Result<()> {
    let tasks: u64 = sys.fair.entities.iter().filter(|e| e.task.is_some()).map(|e| e.sum_exec).sum();
    let charged = |c: &Cpu| c.busy_ns as i64 - c.uncharged_ns - sys.since_charged(c.curr);
    let busy: i64 = sys.cpus.iter().map(charged).sum();
    if tasks as i64 == busy {
        return Ok(());
    }
    Err(Error::internal(format!("tasks were charged {tasks} ns but the CPUs were busy {busy} ns")))
}

/// Checks every class's queues; that every task is on at most one queue, and counted there; and channels.
///
/// # Errors
/// The first invariant that does not hold, with CPU and time.
pub fn walk(sys: &mut System<'_>) -> Result<()> {
    let fail =
        |cpu: CpuId, now: u64, what: String| Err(Error::internal(format!("{cpu} at {now} ns: {what}")));
    for cpu in sys.cpus.ids() {
        if let Err(what) = sys.walk_classes(cpu) {
            return fail(cpu, sys.now, what);
        }
    }
    let on_rq = sys.tasks.iter().filter(|t| t.on_rq).count() as u32;
    let delayed: u32 = sys.cpus.ids().map(|cpu| sys.nr_delayed(cpu)).sum();
    let throttled = sys.throttled_tasks() + sys.tasks_without_quota();
    let counted: u32 = sys.rqs.all_running() + throttled - delayed;
    let carried = sys.cpus.iter().filter(|c| c.carried.is_some()).count() as u32;
    let runnable = sys.tasks.iter().filter(|t| t.state == TaskState::Runnable).count() as u32;
    if on_rq != counted || runnable != on_rq + carried {
        let text =
            format!("{on_rq} tasks on runqueues, {counted} counted, {runnable} runnable, {carried} carried");
        return fail(CpuId(0), sys.now, text);
    }
    tasks(sys)
        .and_then(|()| cpus(sys))
        .and_then(|()| channels(sys))
        .or_else(|what| fail(CpuId(0), sys.now, what))?;
    let parked = sys.parked.iter().flat_map(|p| p.to_wake.iter().copied());
    let waits = |task: TaskId, word| {
        sys.tasks[task].waits_on == Some(word) && sys.tasks[task].state == TaskState::Sleeping
    };
    sys.board.walk(parked, waits).or_else(|what| fail(CpuId(0), sys.now, what))?;
    for own in &mut sys.board.nested {
        own.guest.check().map_err(|e| e.context("in a virtual machine"))?;
    }
    for own in &mut sys.board.peers {
        own.check().map_err(|e| e.context("behind a link"))?;
    }
    Ok(())
}

/// Checks that a task's state fits its place, and that what it waits for knows of it.
fn tasks(sys: &System<'_>) -> Wrong {
    for (id, t) in sys.tasks.ids().map(|id| (id, &sys.tasks[id])) {
        let (state, cpu, c) = (t.state, t.cpu, &sys.cpus[t.cpu]);
        ensure!(!t.on_rq || state == TaskState::Runnable, "{id:?} is on the queue of {cpu} while {state:?}");
        let left = matches!(c.task.step, Step::Switch { prev } if prev == Some(id));
        let has = c.curr == Some(id) || left;
        ensure!(t.on_cpu == has, "{id:?} is on a CPU: {}, and has {cpu}: {has}", t.on_cpu);
        if let Some(word) = t.waits_on {
            let queued = sys.board.user.waiters[word as usize].contains(&id);
            ensure!(queued, "{id:?} waits for word {word}, whose queue has not got it");
        }
        if let Some((on, number)) = t.timer {
            let fires = sys.cpus[on].timers.pending(number);
            ensure!(fires == Some(Fires::Wakes(id)), "{id:?} sleeps on timer {number} of {on}: {fires:?}");
        }
        let (parked, listed) = (&sys.parked[id], sys.parked[id].to_wake.len());
        ensure!(parked.is_left() || listed == 0, "{id:?} has left no call and {listed} tasks to wake");
        let in_call = !parked.is_left() || state == TaskState::Runnable;
        ensure!(in_call, "{id:?} has left a call in the middle while {state:?}");
        ensure!(t.queued_at <= sys.now.max(1), "{id:?} waits since {}, after {}", t.queued_at, sys.now);
    }
    Ok(())
}

/// Checks that each CPU's task, lists and flags fit each other.
fn cpus(sys: &System<'_>) -> Wrong {
    for (cpu, c) in sys.cpus.ids().map(|cpu| (cpu, &sys.cpus[cpu])) {
        if let Some(curr) = c.curr {
            let on = sys.tasks[curr].cpu;
            ensure!(on == cpu, "{cpu} has {curr:?}, which is on {on}");
        }
        let halted = matches!(c.task.step, Step::Halted { .. });
        ensure!(!halted || c.curr.is_none(), "{cpu} is halted and has {:?}", c.curr);
        let active = !halted || c.task.ends != NEVER;
        let noted = sys.board.active[cpu];
        ensure!(active == noted, "{cpu} is active: {active}, and noted: {noted}, at {:?}", c.task.step);
        let idle = c.curr.is_none() && sys.rqs.nr_running(cpu) == 0 && c.wake_list.is_empty();
        ensure!(
            idle == sys.rqs.is_idle(cpu),
            "{cpu} is idle: {idle}, with {} tasks",
            sys.rqs.nr_running(cpu)
        );
        for task in &c.wake_list {
            let t = &sys.tasks[*task];
            let waits = t.state == TaskState::Waking && t.cpu == cpu;
            ensure!(waits, "{task:?} is on the wake list of {cpu} while {:?} on {}", t.state, t.cpu);
        }
        for task in &c.list {
            let (on, times) = (sys.tasks[*task].cpu, c.list.iter().filter(|t| *t == task).count());
            ensure!(on == cpu, "{task:?} is on the list of {cpu}, and on {on}");
            ensure!(times == 1, "{task:?} is on the list of {cpu} {times} times");
        }
        let (first, due) = (c.timers.first(), c.timers.due());
        ensure!(first == due, "the first timer of {cpu} is due at {first}, and {due} is noted");
        ensure!(c.since <= sys.now, "{cpu} has {:?} since {}, after {}", c.curr, c.since, sys.now);
    }
    for (n, llc) in sys.llc.iter().enumerate() {
        let (busy, all, scan) = (llc.nr_busy, llc.weight, llc.nr_idle_scan);
        ensure!(busy <= all && scan <= all, "cache {n} counts {busy} busy CPUs of {all}, scans {scan}");
    }
    Ok(())
}

/// Checks every channel: a task that sleeps in a call waits at its end of the channel.
/// A reader sleeps while there are bytes only if another task is awake that will take them or wake it.
fn channels(sys: &System<'_>) -> Wrong {
    if sys.board.channels.buffers.is_empty() {
        return Ok(());
    }
    let called = called_up(sys);
    let asleep = |id: TaskId| sys.tasks[id].state == TaskState::Sleeping && !called.contains(&id);
    for (port, buffer) in sys.board.channels.buffers.iter().enumerate() {
        let reads = |id: &TaskId| match sys.board.threads[*id].user {
            UserOp::Transfer(t) => !t.sends && t.port.index() == port,
            _ => false,
        };
        let readers: Vec<TaskId> = (0..sys.tasks.len()).map(TaskId::from).filter(reads).collect();
        if !buffer.is_empty() && !readers.is_empty() && readers.iter().all(|id| asleep(*id)) {
            return Err(format!("{readers:?} sleep at end {port} beside what they want to read"));
        }
    }
    if let Some((task, end)) = sys.board.channels.slept_on() {
        return Err(format!("{task:?} waits on a set whose end {} has something to read", end.0));
    }
    let mut queued: Vec<TaskId> = sys.board.channels.sleepers.iter().flatten().copied().collect();
    queued.sort_unstable();
    let sleeps = |id: &TaskId| asleep(*id) && matches!(sys.board.threads[*id].user, UserOp::Transfer(_));
    let sleeping: Vec<TaskId> = (0..sys.tasks.len()).map(TaskId::from).filter(sleeps).collect();
    if queued == sleeping {
        return Ok(());
    }
    Err(format!("{sleeping:?} sleep in calls on channels, {queued:?} wait at their ends"))
}

/// Tasks that a pending or current wakeup has not woken yet.
fn called_up(sys: &System<'_>) -> Vec<TaskId> {
    let listed = sys.board.seats.iter().flat_map(|s| s.to_wake.iter().flatten().copied());
    let begun = sys.cpus.iter().flat_map(|c| {
        let frames = [c.task.step, c.hard.step].into_iter().zip(&c.waking);
        frames.filter(|(step, w)| *step == Step::Wakeup && w.is_pending()).map(|(_, w)| w.task())
    });
    let parked = sys.parked.iter().flat_map(|p| p.to_wake.iter().copied());
    listed.chain(parked).chain(begun).collect()
}
