//! Invariants of an EEVDF queue, checked by tests.

use super::timeline::Node;
use crate::fair::{CfsRq, EntityId};
use crate::frame::Step;
use crate::system::System;

/// Checks a queue: the order, the sums, and lag; a delayed entity sleeps. Returns the queued entities with their
/// vruntimes.
pub(super) fn queued(sys: &System<'_>, q: &CfsRq) -> Result<Vec<(EntityId, i64)>, String> {
    if sys.is_flat() && sys.fair.groups.len() > 1 {
        return flat(sys, q);
    }
    let nodes: Vec<_> = q.timeline.queued().collect();
    if !nodes.is_sorted_by_key(|n| n.deadline) || !q.timeline.sums_agree() {
        return Err("the timeline is out of order, or its sums are".into());
    }
    let running = q.curr.map(|c| &sys.fair.entities[c]).filter(|e| e.on_rq);
    // A delayed entity on its way out stays current as long as `schedule()` has not picked.
    let leaves = matches!(sys.cpus[q.cpu].task.step, Step::Pick | Step::Newidle);
    if let Some(delayed) = running.filter(|e| e.delayed && !leaves) {
        return Err(format!("{:?} runs although it is delayed", delayed.task));
    }
    for node in &nodes {
        let e = &sys.fair.entities[node.entity];
        if **node != Node::of(node.entity, e) {
            return Err(format!("{:?} is queued as {node:?} but is {e:?}", node.entity));
        }
        let awake = e.task.is_some_and(|t| sys.tasks[t].on_rq);
        if e.task.is_some() && awake == e.delayed {
            return Err(format!("{:?}: awake {awake}, delayed {}", e.task, e.delayed));
        }
    }
    let delayed = nodes.iter().filter(|n| sys.fair.entities[n.entity].delayed).count() as u32
        + u32::from(running.is_some_and(|e| e.delayed));
    let below = |e: EntityId| {
        let e = &sys.fair.entities[e];
        e.my_q.map_or(u32::from(!e.delayed), |q| sys.fair.queues[q].h_nr_running)
    };
    let on_queue = nodes.iter().map(|n| n.entity).chain(q.curr.filter(|c| sys.fair.entities[*c].on_rq));
    if on_queue.map(below).sum::<u32>() != q.h_nr_running {
        return Err(format!("{} queued, {delayed} delayed, {} runnable", q.nr_running, q.h_nr_running));
    }
    Ok(nodes.iter().map(|n| (n.entity, n.vruntime)).collect())
}

/// The same if tasks of all groups compete on the root's timeline, apart from the queues that count them.
fn flat(sys: &System<'_>, q: &CfsRq) -> Result<Vec<(EntityId, i64)>, String> {
    let id =
        q.owner.map_or(sys.root(q.cpu), |owner| sys.fair.entities[owner].my_q.unwrap_or(sys.root(q.cpu)));
    let nodes: Vec<_> = q.timeline.queued().collect();
    if q.owner.is_some() && !nodes.is_empty() {
        return Err(format!("{} entities are on the timeline of {id:?}, which is no root", nodes.len()));
    }
    let of = |e: &EntityId| &sys.fair.entities[*e];
    if q.owner.is_none() {
        if !nodes.is_sorted_by_key(|n| n.deadline) || !q.timeline.sums_agree() {
            return Err("the timeline is out of order, or its sums are".into());
        }
        if let Some(node) = nodes.iter().find(|n| ***n != Node::of(n.entity, of(&n.entity))) {
            return Err(format!("{:?} is queued as {node:?} but is {:?}", node.entity, of(&node.entity)));
        }
        let runs = sys.line_curr(id);
        let here =
            |e: &EntityId| of(e).on_rq && sys.fair.queues[of(e).cfs_rq].cpu == q.cpu && of(e).task.is_some();
        let waiting = sys.fair.entities.ids().filter(|e| here(e) && runs != Some(*e)).count();
        if waiting != nodes.len() {
            return Err(format!("{waiting} tasks wait, {} are on the timeline", nodes.len()));
        }
    }
    let counted = |e: &EntityId| of(e).on_rq && of(e).cfs_rq == id && q.curr != Some(*e);
    Ok(sys.fair.entities.ids().filter(counted).map(|e| (e, of(&e).vruntime)).collect())
}
