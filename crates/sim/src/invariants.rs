//! What must hold at every instant. The sums are checked at the end of every run, also in release; the walk over all
//! queues after every event is for tests.

use crate::cpu::Cpu;
use crate::fair::eevdf::timeline::Node;
use crate::fair::{CfsRq, EntityId};
use crate::frame::Step;
use crate::system::System;
use crate::task::{State, UserOp};
use schedlab_base::{CpuId, Error, Result, TaskId};

/// CPU time handed out equals elapsed time minus idle: the tasks' sum is what the CPUs were busy, but for what nobody was
/// charged, or is yet to be.
///
/// # Errors
/// When it does not: the simulator is wrong.
pub fn accounts_agree(sys: &System<'_>) -> Result<()> {
    let tasks: u64 = sys.entities.iter().filter(|e| e.task.is_some()).map(|e| e.sum_exec).sum();
    let charged = |c: &Cpu| c.busy_ns as i64 - c.uncharged_ns - sys.since_charged(c.curr);
    let busy: i64 = sys.cpus.iter().map(charged).sum();
    if tasks as i64 == busy {
        return Ok(());
    }
    Err(Error::internal(format!("tasks were charged {tasks} ns but the CPUs were busy {busy} ns")))
}

/// Every queue: order, counts, weights; every task on at most one queue; min_vruntime.
///
/// # Errors
/// The first invariant that does not hold, with CPU and time.
pub fn walk(sys: &mut System<'_>) -> Result<()> {
    let fail =
        |cpu: CpuId, now: u64, what: String| Err(Error::internal(format!("{cpu} at {now} ns: {what}")));
    let mut on_queues = 0u32;
    for (i, q) in sys.queues.ids().zip(&sys.queues) {
        let curr = q.curr.filter(|c| sys.entities[*c].on_rq);
        let queued: Vec<_> = match sys.eevdf() {
            true => match timeline(sys, q) {
                Ok(queued) => queued,
                Err(what) => return fail(q.cpu, sys.now, what),
            },
            false => q.queued().collect(),
        };
        if !sys.eevdf() && !queued.is_sorted_by_key(|(_, v)| *v) {
            return fail(q.cpu, sys.now, "the queue is out of order".into());
        }
        if let Some((e, v)) = queued.iter().find(|(e, v)| sys.entities[*e].vruntime != *v) {
            return fail(q.cpu, sys.now, format!("{e:?} is queued at {v} but has another vruntime"));
        }
        let nr = queued.len() as u32 + u32::from(curr.is_some());
        let weight: u64 = queued.iter().map(|(e, _)| *e).chain(curr).map(|e| sys.entities[e].weight).sum();
        if (nr, weight) != (q.nr_running, q.load_weight) {
            let (n, w) = (q.nr_running, q.load_weight);
            return fail(
                q.cpu,
                sys.now,
                format!("{nr} entities of weight {weight} are there, {n} of {w} are counted"),
            );
        }
        if q.owner.is_none() && q.h_nr_running != sys.nr_running[q.cpu] {
            return fail(q.cpu, sys.now, "nr_running of runqueue and root cfs_rq differ".into());
        }
        on_queues += q.h_nr_running * u32::from(q.owner.is_none());
        if q.min_vruntime < sys.floors[i] {
            return fail(q.cpu, sys.now, "min_vruntime fell".into());
        }
        sys.floors[i] = q.min_vruntime;
    }
    let on_rq = sys.tasks.iter().filter(|t| t.on_rq).count() as u32;
    let carried = sys.cpus.iter().filter(|c| c.carried.is_some()).count() as u32;
    let runnable = sys.tasks.iter().filter(|t| t.state == State::Runnable).count() as u32;
    if on_rq != on_queues || runnable != on_rq + carried {
        let text = format!(
            "{on_rq} tasks on runqueues, {on_queues} counted, {runnable} runnable, {carried} carried"
        );
        return fail(CpuId(0), sys.now, text);
    }
    channels(sys).or_else(|what| fail(CpuId(0), sys.now, what))
}

/// EEVDF: the order, the sums, and lag; who is delayed sleeps. Gives who is queued, with virtual runtimes.
fn timeline(sys: &System<'_>, q: &CfsRq) -> std::result::Result<Vec<(EntityId, i64)>, String> {
    let nodes: Vec<_> = q.timeline.queued().collect();
    if !nodes.is_sorted_by_key(|n| n.deadline) || !q.timeline.sums_agree() {
        return Err("the timeline is out of order, or its sums are".into());
    }
    let running = q.curr.map(|c| &sys.entities[c]).filter(|e| e.on_rq);
    // On its way out it is still there, for as long as `schedule()` takes until its pick.
    let leaves = sys.cpus[q.cpu].task.step == Step::Pick;
    if let Some(delayed) = running.filter(|e| e.delayed && !leaves) {
        return Err(format!("{:?} runs although it is delayed", delayed.task));
    }
    for node in &nodes {
        let e = &sys.entities[node.entity];
        if **node != Node::of(node.entity, e) {
            return Err(format!("{:?} is queued as {node:?} but is {e:?}", node.entity));
        }
        let awake = e.task.is_some_and(|t| sys.tasks[t].on_rq);
        if e.task.is_some() && awake == e.delayed {
            return Err(format!("{:?}: awake {awake}, delayed {}", e.task, e.delayed));
        }
    }
    let delayed = nodes.iter().filter(|n| sys.entities[n.entity].delayed).count() as u32
        + u32::from(running.is_some_and(|e| e.delayed));
    if q.nr_running - delayed != q.h_nr_running {
        return Err(format!("{} queued, {delayed} delayed, {} runnable", q.nr_running, q.h_nr_running));
    }
    Ok(nodes.iter().map(|n| (n.entity, n.vruntime)).collect())
}

/// Every channel: bytes neither come from nowhere nor vanish; whoever sleeps in a call waits at its end, and nobody
/// sleeps beside what it wants to read unless somebody is awake who will take it or pass the word on.
fn channels(sys: &System<'_>) -> std::result::Result<(), String> {
    if sys.channels.buffers.is_empty() {
        return Ok(());
    }
    let called = called_up(sys);
    let asleep = |id: TaskId| sys.tasks[id].state == State::Sleeping && !called.contains(&id);
    for (port, buffer) in sys.channels.buffers.iter().enumerate() {
        buffer.check().map_err(|what| format!("end {port}: {what}"))?;
        let reads = |id: &TaskId| match sys.tasks[*id].user {
            UserOp::Transfer(t) => !t.sends && t.port.index() == port,
            _ => false,
        };
        let readers: Vec<TaskId> = (0..sys.tasks.len()).map(TaskId::from).filter(reads).collect();
        if !buffer.is_empty() && !readers.is_empty() && readers.iter().all(|id| asleep(*id)) {
            return Err(format!("{readers:?} sleep at end {port} beside what they want to read"));
        }
    }
    let mut queued: Vec<TaskId> = sys.channels.sleepers.iter().flatten().copied().collect();
    queued.sort_unstable();
    let sleeps = |id: &TaskId| asleep(*id) && matches!(sys.tasks[*id].user, UserOp::Transfer(_));
    let sleeping: Vec<TaskId> = (0..sys.tasks.len()).map(TaskId::from).filter(sleeps).collect();
    if queued == sleeping {
        return Ok(());
    }
    Err(format!("{sleeping:?} sleep in calls on channels, {queued:?} wait at their ends"))
}

/// Tasks that somebody is about to wake.
fn called_up(sys: &System<'_>) -> Vec<TaskId> {
    let listed = sys.cpus.iter().flat_map(|c| c.to_wake.iter().flatten().copied());
    let begun = sys.cpus.iter().flat_map(|c| {
        let frames = [c.task.step, c.hard.step].into_iter().zip(&c.waking);
        frames.filter(|(step, _)| *step == Step::Wakeup).map(|(_, w)| w.task())
    });
    listed.chain(begun).collect()
}
