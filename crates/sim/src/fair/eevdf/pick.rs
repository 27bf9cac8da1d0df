//! The pick: the earliest deadline among the eligible entities (`pick_eevdf`).
//!
//! An entity alone on its queue is always eligible, so the kernel's shortcut for it needs no rule here.

use super::average::Average;
use super::timeline::{Node, Timeline};
use crate::fair::entity::EntityId;

/// The running entity, if it is still on the queue.
#[derive(Clone, Copy, Debug)]
pub struct Current {
    pub entity: EntityId,
    /// Virtual runtime.
    pub vruntime: i64,
    pub deadline: i64,
    /// Whether its slice is protected, and protection counts.
    pub protected: bool,
}

/// The entity to run; `None` for an empty queue. `average` includes the current entity; `next` is a buddy to be
/// considered, with its vruntime.
pub fn pick(
    timeline: &Timeline,
    average: Average,
    current: Option<Current>,
    next: Option<(EntityId, i64)>,
) -> Option<EntityId> {
    if let Some((buddy, _)) = next.filter(|(_, v)| average.eligible(*v)) {
        return Some(buddy);
    }
    let current = current.filter(|c| average.eligible(c.vruntime));
    if let Some(c) = current.filter(|c| c.protected) {
        return Some(c.entity);
    }
    let best = timeline.earliest_eligible(average.time());
    let stays = |c: &Current, best: &Node| c.deadline < best.deadline;
    match (current, best) {
        (Some(c), Some(b)) if stays(&c, b) => Some(c.entity),
        (_, Some(b)) => Some(b.entity),
        (c, None) => c.map(|c| c.entity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::entity::Entity;
    use crate::fair::runqueue::CfsRqId;
    use schedlab_base::{TaskId, Version};
    use schedlab_kernel::History;

    fn queue(entities: &[(u32, i64, i64)]) -> Timeline {
        let (mut t, history) = (Timeline::default(), History::of(Version::new(6, 6)));
        for (id, vruntime, deadline) in entities {
            let mut e = Entity::of_task(TaskId(*id), 1024, CfsRqId(0), &history);
            (e.vruntime, e.deadline, e.slice_ns) = (*vruntime, *deadline, 10);
            t.insert(Node::of(EntityId(*id), &e));
        }
        t
    }

    fn current(vruntime: i64, deadline: i64, protected: bool) -> Option<Current> {
        Some(Current { entity: EntityId(9), vruntime, deadline, protected })
    }

    fn picked(t: &Timeline, c: Option<Current>, next: Option<(EntityId, i64)>) -> u32 {
        let average = c.iter().fold(t.average(), |a, c| a.with(c.vruntime, 1024));
        pick(t, average, c, next).expect("an entity is eligible").0
    }

    #[test]
    fn earliest_deadline_among_the_eligible() {
        // V = 10: entity 1 has the earliest deadline, but its vruntime is ahead of V.
        let t = queue(&[(1, 20, 25), (2, 10, 40), (3, 0, 50)]);
        assert_eq!(picked(&t, None, None), 2);
        assert_eq!(pick(&queue(&[]), Average::default(), None, None), None);
    }

    #[test]
    fn the_running_entity_competes_while_eligible() {
        let t = queue(&[(1, 10, 40), (2, 10, 50)]);
        assert_eq!(picked(&t, current(10, 39, false), None), 9, "an earlier deadline stays");
        assert_eq!(picked(&t, current(10, 40, false), None), 1, "an equal one gives way");
        assert_eq!(picked(&t, current(11, 39, false), None), 1, "ineligible");
        assert_eq!(picked(&queue(&[]), current(11, 39, false), None), 9, "alone");
    }

    #[test]
    fn protection_holds_against_earlier_deadlines_but_not_beyond_its_share() {
        let t = queue(&[(1, 10, 40), (2, 10, 50)]);
        assert_eq!(picked(&t, current(10, 60, true), None), 9);
        assert_eq!(picked(&t, current(11, 60, true), None), 1);
    }

    #[test]
    fn an_eligible_buddy_comes_first() {
        let t = queue(&[(1, 10, 40), (2, 10, 50)]);
        assert_eq!(picked(&t, current(10, 30, true), Some((EntityId(2), 10))), 2);
        assert_eq!(picked(&t, current(10, 30, true), Some((EntityId(2), 11))), 9, "not eligible");
    }
}
