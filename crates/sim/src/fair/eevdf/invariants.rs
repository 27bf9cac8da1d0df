//! Invariants of an EEVDF queue, checked by tests.

use super::timeline::Node;
use crate::fair::{CfsRq, EntityId};
use crate::frame::Step;
use crate::system::System;

/// EEVDF: the order, the sums, and lag; a delayed entity sleeps. Returns the queued entities with their virtual
/// runtimes.
pub(super) fn queued(sys: &System<'_>, q: &CfsRq) -> Result<Vec<(EntityId, i64)>, String> {
    let nodes: Vec<_> = q.timeline.queued().collect();
    if !nodes.is_sorted_by_key(|n| n.deadline) || !q.timeline.sums_agree() {
        return Err("the timeline is out of order, or its sums are".into());
    }
    let running = q.curr.map(|c| &sys.entities[c]).filter(|e| e.on_rq);
    // A delayed entity on its way out stays current for as long as `schedule()` takes until its pick.
    let leaves = matches!(sys.cpus[q.cpu].task.step, Step::Pick | Step::Newidle);
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
    let below = |e: EntityId| {
        let e = &sys.entities[e];
        e.my_q.map_or(u32::from(!e.delayed), |q| sys.queues[q].h_nr_running)
    };
    let on_queue = nodes.iter().map(|n| n.entity).chain(q.curr.filter(|c| sys.entities[*c].on_rq));
    if on_queue.map(below).sum::<u32>() != q.h_nr_running {
        return Err(format!("{} queued, {delayed} delayed, {} runnable", q.nr_running, q.h_nr_running));
    }
    Ok(nodes.iter().map(|n| (n.entity, n.vruntime)).collect())
}
