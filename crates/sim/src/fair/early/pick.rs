//! pick_next_entity of 2.6.30 (`next`, then `last`, then leftmost) and of 2.6.27 (`next` for a slice, then leftmost).

use crate::fair::cfs::pick::Candidate;
use crate::fair::cfs::preempt::{Behind, by_distance};
use crate::fair::entity::EntityId;

#[derive(Clone, Copy, Debug)]
pub struct PickFacts {
    pub left: Candidate,
    /// The buddy that was woken last.
    pub next: Option<Candidate>,
    /// The buddy that was preempted last.
    pub last: Option<Candidate>,
    /// wakeup_granularity, scaled, ns.
    pub wakeup_granularity_ns: u64,
    /// Whether the granularity is scaled by the leftmost's weight instead of the buddy's (ASYM_GRAN).
    pub asym: bool,
}

/// 2.6.30: a buddy, if it is right of the leftmost by at most the granularity.
pub fn pick(f: &PickFacts) -> EntityId {
    let near = |buddy: &Candidate| {
        let slope = if f.asym { f.left.slope } else { buddy.slope };
        let granularity = slope.virtual_ns(f.wakeup_granularity_ns);
        by_distance(buddy.vruntime, f.left.vruntime, granularity) != Behind::Yes
    };
    f.next.filter(near).or_else(|| f.last.filter(near)).unwrap_or(f.left).entity
}

/// 2.6.27, unverified: whether the buddy is picked, however far to the right it is. Buddies may follow one another for
/// a slice, counted from the last pick of the leftmost.
pub fn pair_goes_on(pair_ran_ns: u64, slice_of_next_ns: u64) -> bool {
    pair_ran_ns <= slice_of_next_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::group::shares::FINE;
    use crate::fair::slope::Slope;

    fn at(e: u32, vruntime: i64) -> Candidate {
        Candidate { entity: EntityId(e), vruntime, slope: Slope::exact(1024 * FINE) }
    }

    fn facts() -> PickFacts {
        PickFacts { left: at(1, 0), next: None, last: None, wakeup_granularity_ns: 100, asym: true }
    }

    #[test]
    fn next_then_last_then_leftmost() {
        assert_eq!(pick(&facts()), EntityId(1));
        let both = PickFacts { next: Some(at(2, 100)), last: Some(at(3, 5)), ..facts() };
        assert_eq!(pick(&both), EntityId(2));
        assert_eq!(pick(&PickFacts { next: Some(at(2, 101)), ..both }), EntityId(3), "too far to the right");
        let far = PickFacts { next: Some(at(2, 101)), last: Some(at(3, 101)), ..facts() };
        assert_eq!(pick(&far), EntityId(1));
    }

    #[test]
    fn asym_gran_chooses_the_weight_that_counts() {
        let heavy_left = Candidate { slope: Slope::exact(2048 * FINE), ..at(1, 0) };
        let f = PickFacts { left: heavy_left, last: Some(at(3, 60)), ..facts() };
        assert_eq!(pick(&f), EntityId(1), "100 ns are 50 of its own");
        assert_eq!(pick(&PickFacts { asym: false, ..f }), EntityId(3));
    }

    #[test]
    fn a_pair_has_a_slice_together() {
        assert!(pair_goes_on(8, 8) && !pair_goes_on(9, 8));
    }
}
