//! Prices that depend on a distance or on the state of a CPU, ns.

use schedlab_machine::{Costs, Distance};

/// Cost of queueing a task, with its trace event, ns.
#[inline]
pub fn enqueue_ns(costs: &Costs) -> u64 {
    costs.enqueue_ns + costs.trace_event_ns
}
/// The same on a busy or an idle CPU, ns: a busy one adds the preemption check.
#[inline]
pub fn enqueue_on_ns(costs: &Costs, busy: bool) -> u64 {
    enqueue_ns(costs) + if busy { costs.preempt_check_ns } else { 0 }
}
/// Cost of taking another CPU's runqueue lock, ns.
#[inline]
pub fn rq_lock_ns(costs: &Costs, distance: Distance) -> u64 {
    match distance {
        Distance::Own => 0,
        Distance::Smt | Distance::Llc => costs.rq_lock_near_ns,
        Distance::Node | Distance::Remote => costs.rq_lock_far_ns,
    }
}
#[inline]
pub fn ipi_ns(costs: &Costs, distance: Distance) -> u64 {
    match distance {
        Distance::Remote => costs.ipi_far_ns,
        _ => costs.ipi_near_ns,
    }
}
