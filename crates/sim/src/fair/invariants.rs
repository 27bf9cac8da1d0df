//! Invariants of a fair queue, checked by tests: order, counts, weights, and that min_vruntime never falls.

use super::entity::EntityId;
use super::rules::FairRules;
use crate::system::System;
use schedlab_base::CpuId;

/// Checks the queues of `cpu`; the error names the broken invariant.
pub(super) fn walk<R: FairRules>(sys: &mut System<'_>, cpu: CpuId) -> Result<u32, String> {
    let mut on_queues = 0;
    for (id, q) in sys.fair.queues.ids().zip(&sys.fair.queues).filter(|(_, q)| q.cpu == cpu) {
        let curr = q.curr.filter(|c| sys.fair.entities[*c].on_rq);
        let queued = R::queued(sys, q)?;
        if let Some((e, v)) = queued.iter().find(|(e, v)| sys.fair.entities[*e].vruntime != *v) {
            return Err(format!("{e:?} is queued at {v} but has another vruntime"));
        }
        let nr = queued.len() as u32 + u32::from(curr.is_some());
        let weight: u64 =
            queued.iter().map(|(e, _)| *e).chain(curr).map(|e| sys.fair.entities[e].fine_weight).sum();
        if (nr, weight) != (q.nr_running, q.load_fine) {
            let (n, w) = (q.nr_running, q.load_fine);
            return Err(format!("{nr} entities of weight {weight} are there, {n} of {w} are counted"));
        }
        let of = |e: EntityId| match (sys.fair.entities[e].my_q, sys.fair.entities[e].delayed) {
            (Some(below), _) => (sys.fair.queues[below].h_nr_queued, sys.fair.queues[below].h_nr_running),
            (None, delayed) => (1, u32::from(!delayed)),
        };
        let sums = queued.iter().map(|(e, _)| *e).chain(curr).map(of);
        let tasks = sums.fold((0, 0), |(n, r), (queued, runnable)| (n + queued, r + runnable));
        if tasks != (q.h_nr_queued, q.h_nr_running) {
            let counted = (q.h_nr_queued, q.h_nr_running);
            return Err(format!(
                "{tasks:?} tasks are queued and runnable below {id:?}, {counted:?} are counted"
            ));
        }
        let thrown_out = sys.ends_counts(id) && q.owner.is_some_and(|owner| sys.fair.entities[owner].on_rq);
        if thrown_out {
            return Err(format!("{id:?} is throttled, but its group's entity is queued"));
        }
        on_queues += q.h_nr_queued * u32::from(q.owner.is_none());
        if q.min_vruntime < sys.fair.floors[id] {
            return Err("min_vruntime fell".into());
        }
        sys.fair.floors[id] = q.min_vruntime;
    }
    Ok(on_queues)
}
