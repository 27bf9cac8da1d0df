//! Invariants of a fair queue, checked by tests: order, counts, weights, and that min_vruntime never falls.

use super::rules::Rules;
use crate::system::System;
use schedlab_base::CpuId;

/// Checks the queues of `cpu`; returns an error that names the broken invariant.
pub(super) fn walk<R: Rules>(sys: &mut System<'_>, cpu: CpuId) -> Result<u32, String> {
    let mut on_queues = 0;
    for (id, q) in sys.queues.ids().zip(&sys.queues).filter(|(_, q)| q.cpu == cpu) {
        let curr = q.curr.filter(|c| sys.entities[*c].on_rq);
        let queued = R::queued(sys, q)?;
        if let Some((e, v)) = queued.iter().find(|(e, v)| sys.entities[*e].vruntime != *v) {
            return Err(format!("{e:?} is queued at {v} but has another vruntime"));
        }
        let nr = queued.len() as u32 + u32::from(curr.is_some());
        let weight: u64 = queued.iter().map(|(e, _)| *e).chain(curr).map(|e| sys.entities[e].weight).sum();
        if (nr, weight) != (q.nr_running, q.load_weight) {
            let (n, w) = (q.nr_running, q.load_weight);
            return Err(format!("{nr} entities of weight {weight} are there, {n} of {w} are counted"));
        }
        on_queues += q.h_nr_queued * u32::from(q.owner.is_none());
        if q.min_vruntime < sys.floors[id] {
            return Err("min_vruntime fell".into());
        }
        sys.floors[id] = q.min_vruntime;
    }
    Ok(on_queues)
}
