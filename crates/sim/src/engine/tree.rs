//! Winner tree over slots, each with one armed time in ns.
//!
//! A key is `time << 13 | rank`, rank being the slot's place in a seeded permutation: ties between CPUs are broken by
//! an explicit, seed-dependent and otherwise arbitrary order. Invariant: each inner node holds the lesser of its two
//! children. Times fit 51 bits of ns (26 days of simulated time). There is
//! room for 4096 CPUs, the most a machine has, and the slot of what is outside them.

use super::NEVER;
use schedlab_base::Stream;

const RANK_BITS: u32 = 13;
const IDLE_KEY: u64 = u64::MAX;

/// The earliest of many armed times.
#[derive(Debug, Clone)]
pub struct WinnerTree {
    /// Node 1 is the root; leaves start at `leaves`.
    nodes: Vec<u64>,
    leaves: usize,
    rank_of: Vec<u16>,
    slot_of: Vec<u16>,
}

impl WinnerTree {
    /// A tree of `slots` slots (at most 8192), none armed; `seed` decides how ties fall.
    pub fn new(slots: usize, seed: Stream) -> WinnerTree {
        assert!(slots <= 1 << RANK_BITS, "{slots} slots do not fit the key");
        let leaves = slots.next_power_of_two();
        let mut slot_of: Vec<u16> = (0..slots as u16).collect();
        for i in (1..slots).rev() {
            slot_of.swap(i, seed.below(i as u64, i as u64 + 1) as usize);
        }
        let mut rank_of = vec![0; slots];
        for (rank, slot) in slot_of.iter().enumerate() {
            rank_of[*slot as usize] = rank as u16;
        }
        WinnerTree { nodes: vec![IDLE_KEY; 2 * leaves], leaves, rank_of, slot_of }
    }

    /// Arms `slot` for `at`; [`NEVER`] disarms it.
    #[inline]
    pub fn arm(&mut self, slot: usize, at: u64) {
        let key = if at == NEVER { IDLE_KEY } else { at << RANK_BITS | u64::from(self.rank_of[slot]) };
        let mut node = self.leaves + slot;
        if self.nodes[node] == key {
            return;
        }
        self.nodes[node] = key;
        while node > 1 {
            node /= 2;
            let least = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == least {
                return;
            }
            self.nodes[node] = least;
        }
    }

    /// The earliest slot and its time, if any is armed.
    #[inline]
    pub fn first(&self) -> Option<(usize, u64)> {
        let key = self.nodes[1];
        let rank = (key & ((1 << RANK_BITS) - 1)) as usize;
        (key != IDLE_KEY).then(|| (self.slot_of[rank] as usize, key >> RANK_BITS))
    }

    /// The earliest time armed by any slot but `slot`; [`NEVER`] when there is none.
    #[inline]
    pub fn horizon(&self, slot: usize) -> u64 {
        let (mut node, mut least) = (self.leaves + slot, IDLE_KEY);
        while node > 1 {
            least = least.min(self.nodes[node ^ 1]);
            node /= 2;
        }
        if least == IDLE_KEY { NEVER } else { least >> RANK_BITS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(slots in 1usize..40, seed: u64, acts in prop::collection::vec((0usize..40, 0u64..50), 1..200)) {
            let mut tree = WinnerTree::new(slots, Stream::new(seed));
            let mut times = vec![NEVER; slots];
            for (slot, at) in acts {
                let (slot, at) = (slot % slots, if at > 40 { NEVER } else { at });
                tree.arm(slot, at);
                times[slot] = at;
                let least = *times.iter().min().unwrap_or(&NEVER);
                match tree.first() {
                    Some((s, t)) => prop_assert!(t == least && times[s] == t),
                    None => prop_assert_eq!(least, NEVER),
                }
                let others = times.iter().enumerate().filter(|(s, _)| *s != slot).map(|(_, t)| *t).min();
                prop_assert_eq!(tree.horizon(slot), others.unwrap_or(NEVER));
            }
        }
    }

    #[test]
    fn the_largest_machine_has_room() {
        let slots = schedlab_base::cpuset::MAX_CPUS as usize + 1;
        let mut tree = WinnerTree::new(slots, Stream::new(1));
        tree.arm(slots - 1, 7);
        assert_eq!(tree.first(), Some((slots - 1, 7)));
    }

    #[test]
    fn ties_fall_by_the_seed_alone() {
        let order = |seed| {
            let mut tree = WinnerTree::new(64, Stream::new(seed));
            (0..64).for_each(|s| tree.arm(s, 5));
            let mut order = Vec::new();
            while let Some((slot, _)) = tree.first() {
                order.push(slot);
                tree.arm(slot, NEVER);
            }
            order
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
