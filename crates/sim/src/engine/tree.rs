//! Winner tree over slots, each with one armed time in ns.
//!
//! A key is `time << 13 | rank`, rank being the slot's place in a seeded permutation: ties between CPUs are broken by
//! an explicit, seed-dependent and otherwise arbitrary order. Times fit 51 bits of ns (26 days of simulated time).
//! There is room for 4096 CPUs, the most a machine has, and for the slot of events from outside them.
//!
//! Every node holds the keys of eight children, one cache line, and a child's key is the least of its own eight. No
//! branch predictor foresees which key is the least, so comparisons select and do not branch.

use super::NEVER;
use schedlab_base::Stream;
use std::hint::select_unpredictable;

const RANK_BITS: u32 = 13;
const IDLE_KEY: u64 = u64::MAX;
/// Children of a node.
const ARITY: usize = 8;
type Node = [u64; ARITY];

/// The earliest of many armed times.
#[derive(Debug, Clone)]
pub struct WinnerTree {
    /// Level by level: first the nodes that hold slots, last the root.
    nodes: Vec<Node>,
    /// The index in `nodes` at which each level begins.
    levels: Vec<usize>,
    /// The least key of all.
    least: u64,
    rank_of: Vec<u16>,
    slot_of: Vec<u16>,
}

#[inline]
fn lesser(a: u64, b: u64) -> u64 {
    select_unpredictable(a < b, a, b)
}

/// The least of a node's keys, in three rounds.
#[inline]
fn least_of(n: &Node) -> u64 {
    let (a, b) = (lesser(n[0], n[1]), lesser(n[2], n[3]));
    let (c, d) = (lesser(n[4], n[5]), lesser(n[6], n[7]));
    lesser(lesser(a, b), lesser(c, d))
}

impl WinnerTree {
    /// A tree of `slots` slots (at most 8192), none armed; `seed` decides how ties fall.
    pub fn new(slots: usize, seed: Stream) -> WinnerTree {
        assert!(slots <= 1 << RANK_BITS, "{slots} slots do not fit the key");
        let mut slot_of: Vec<u16> = (0..slots as u16).collect();
        for i in (1..slots).rev() {
            slot_of.swap(i, seed.below(i as u64, i as u64 + 1) as usize);
        }
        let mut rank_of = vec![0; slots];
        for (rank, slot) in slot_of.iter().enumerate() {
            rank_of[*slot as usize] = rank as u16;
        }
        let (mut levels, mut nodes, mut wide) = (Vec::new(), 0, slots);
        loop {
            wide = wide.div_ceil(ARITY).max(1);
            levels.push(nodes);
            nodes += wide;
            if wide == 1 {
                break;
            }
        }
        WinnerTree { nodes: vec![[IDLE_KEY; ARITY]; nodes], levels, least: IDLE_KEY, rank_of, slot_of }
    }

    /// The key of `slot` at time `at`: the least key acts first.
    #[inline]
    pub fn key(&self, slot: usize, at: u64) -> u64 {
        if at == NEVER { IDLE_KEY } else { at << RANK_BITS | u64::from(self.rank_of[slot]) }
    }

    /// The time of a key.
    #[inline]
    pub fn time(key: u64) -> u64 {
        if key == IDLE_KEY { NEVER } else { key >> RANK_BITS }
    }

    /// Arms `slot` for `at`; [`NEVER`] disarms it.
    #[inline]
    pub fn arm(&mut self, slot: usize, at: u64) {
        let (mut place, mut key) = (slot, self.key(slot, at));
        for level in &self.levels {
            let node = &mut self.nodes[level + place / ARITY];
            if std::mem::replace(&mut node[place % ARITY], key) == key {
                return;
            }
            key = least_of(node);
            place /= ARITY;
        }
        self.least = key;
    }

    /// Disarms `slot` and returns the least key of all others; the slot may act alone until then.
    /// [`put`](WinnerTree::put) arms it again.
    #[inline]
    pub fn take(&mut self, slot: usize) -> u64 {
        let (mut place, mut least) = (slot, IDLE_KEY);
        for level in &self.levels {
            let node = &mut self.nodes[level + place / ARITY];
            node[place % ARITY] = least;
            least = least_of(node);
            place /= ARITY;
        }
        self.least = least;
        least
    }

    /// Arms a slot that is disarmed. Its key can only lower the keys above it, so no level waits for the one below.
    #[inline]
    pub fn put(&mut self, slot: usize, at: u64) {
        let (mut place, key) = (slot, self.key(slot, at));
        for level in &self.levels {
            let child = &mut self.nodes[level + place / ARITY][place % ARITY];
            *child = lesser(key, *child);
            place /= ARITY;
        }
        self.least = lesser(key, self.least);
    }

    /// The least key of all slots.
    #[inline]
    pub fn least(&self) -> u64 {
        self.least
    }

    /// The slot and the time of a key; `None` for the key of no slot.
    #[inline]
    pub fn turn_of(&self, key: u64) -> Option<(usize, u64)> {
        let rank = (key & ((1 << RANK_BITS) - 1)) as usize;
        (key != IDLE_KEY).then(|| (usize::from(self.slot_of[rank]), key >> RANK_BITS))
    }

    /// The earliest slot and its time, if any is armed.
    #[inline]
    pub fn first(&self) -> Option<(usize, u64)> {
        self.turn_of(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(
            slots in 1usize..40,
            seed: u64,
            acts in prop::collection::vec((0usize..40, 0u64..50, any::<bool>()), 1..200),
        ) {
            let mut tree = WinnerTree::new(slots, Stream::new(seed));
            let mut times = vec![NEVER; slots];
            for (slot, at, by_hand) in acts {
                let (slot, at) = (slot % slots, if at > 40 { NEVER } else { at });
                if by_hand {
                    let others = times.iter().enumerate().filter(|(s, _)| *s != slot).map(|(_, t)| *t).min();
                    prop_assert_eq!(WinnerTree::time(tree.take(slot)), others.unwrap_or(NEVER));
                    tree.put(slot, at);
                } else {
                    tree.arm(slot, at);
                }
                times[slot] = at;
                let least = *times.iter().min().unwrap_or(&NEVER);
                match tree.first() {
                    Some((s, t)) => prop_assert!(t == least && times[s] == t),
                    None => prop_assert_eq!(least, NEVER),
                }
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
