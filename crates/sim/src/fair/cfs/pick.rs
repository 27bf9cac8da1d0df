//! pick_next_entity: leftmost, unless a buddy is close enough (kernels 3.4 to 6.5).

use super::preempt::{Behind, behind};
use crate::fair::entity::EntityId;
use crate::fair::slope::Slope;

/// The facts about an entity for picking.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub entity: EntityId,
    pub vruntime: i64,
    pub slope: Slope,
}

/// The candidates of a pick; absent buddies are `None`.
#[derive(Clone, Copy, Debug)]
pub struct PickFacts {
    /// Leftmost of queue and current entity.
    pub left: Candidate,
    /// The one after it, read if the leftmost yielded.
    pub second: Option<Candidate>,
    /// The entity that yielded.
    pub skip: Option<EntityId>,
    /// The buddy that was woken last.
    pub next: Option<Candidate>,
    /// The buddy that was preempted last.
    pub last: Option<Candidate>,
    /// wakeup_granularity, scaled, ns.
    pub wakeup_granularity_ns: u64,
}

/// The entity to run: `next`, else `last`, else leftmost; a buddy only within the wakeup granularity.
pub fn pick(f: PickFacts) -> EntityId {
    let near = |c: &Candidate, left: Candidate| {
        behind(c.vruntime, left.vruntime, left.slope, f.wakeup_granularity_ns) != Behind::Yes
    };
    let mut chosen = f.left;
    if f.skip == Some(f.left.entity)
        && let Some(second) = f.second.filter(|s| near(s, f.left))
    {
        chosen = second;
    }
    f.next.filter(|c| near(c, f.left)).or_else(|| f.last.filter(|c| near(c, f.left))).unwrap_or(chosen).entity
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::group::shares::FINE;

    fn at(e: u32, vruntime: i64) -> Candidate {
        Candidate { entity: EntityId(e), vruntime, slope: Slope::exact(1024 * FINE) }
    }

    fn facts() -> PickFacts {
        PickFacts {
            left: at(1, 0),
            second: Some(at(2, 10)),
            skip: None,
            next: None,
            last: None,
            wakeup_granularity_ns: 100,
        }
    }

    #[test]
    fn buddies_win_while_near() {
        assert_eq!(pick(facts()), EntityId(1));
        assert_eq!(pick(PickFacts { last: Some(at(3, 100)), ..facts() }), EntityId(3));
        assert_eq!(
            pick(PickFacts { last: Some(at(3, 101)), ..facts() }),
            EntityId(1),
            "too far to the right"
        );
        assert_eq!(pick(PickFacts { last: Some(at(3, 5)), next: Some(at(4, 9)), ..facts() }), EntityId(4));
    }

    #[test]
    fn an_entity_that_yielded_is_skipped_while_the_second_is_near() {
        assert_eq!(pick(PickFacts { skip: Some(EntityId(1)), ..facts() }), EntityId(2));
        assert_eq!(
            pick(PickFacts { skip: Some(EntityId(1)), second: Some(at(2, 101)), ..facts() }),
            EntityId(1)
        );
    }
}
