//! The comparison of two answers. Where they differ, a kernel's rounding may be the reason: it divides by a weight with
//! a multiplication, which is less exact than our division.

use super::draw::Facts;
use crate::rules::subject::Verdict;
use schedlab_world::decision::{AskedEntity, AskedQueue, QueueAnswer};

/// Part of a distance by which the kernel's division by a weight may be off: one in so many.
const ROUNDS_ONE_IN: i64 = 200_000;
/// And so many ns for each division, of which an answer takes several.
const ROUNDS_NS: i64 = 8;

/// Compares the answers about a state. `ours` answers by our rules, and is asked about states nearby.
pub fn judge(
    s: &AskedQueue,
    facts: &Facts,
    code: QueueAnswer,
    rules: QueueAnswer,
    ours: &mut dyn FnMut(&AskedQueue) -> QueueAnswer,
) -> Verdict {
    if code == rules {
        return Verdict::Same;
    }
    let tolerance = tolerance(s, facts);
    let near = match (code, rules) {
        (
            QueueAnswer::Placed { vruntime, deadline },
            QueueAnswer::Placed { vruntime: our_vruntime, deadline: our_deadline },
        ) => (vruntime - our_vruntime).abs() <= tolerance && (deadline - our_deadline).abs() <= tolerance,
        _ => nearby(s, tolerance).iter().any(|s| ours(s) == code),
    };
    if near { Verdict::Rounded } else { Verdict::Differs }
}

/// The ns that rounding may make in this state.
fn tolerance(s: &AskedQueue, facts: &Facts) -> i64 {
    let of = |e: &AskedEntity| {
        let charged = facts.virtual_ns(s.ran_ns, e);
        let sliced = facts.virtual_ns(facts.slice_ns(e).max(10_000_000), e);
        charged.max(sliced).max(e.lag.abs())
    };
    let longest = s.entities.iter().map(of).max().unwrap_or(0);
    ROUNDS_NS + longest / ROUNDS_ONE_IN
}

/// States whose current entity, or the one that is judged, is a little elsewhere.
fn nearby(s: &AskedQueue, tolerance: i64) -> Vec<AskedQueue> {
    let steps = [1, 2, tolerance / 4, tolerance].into_iter().flat_map(|step| [step, -step]);
    let moved = |by: i64| {
        let of = |at: usize| {
            let mut near = s.clone();
            near.entities[at].vruntime += by;
            near
        };
        s.current.into_iter().chain([s.about]).map(of).collect::<Vec<_>>()
    };
    steps.flat_map(moved).collect()
}
