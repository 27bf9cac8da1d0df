//! Winner tree over slots, each with one armed time in ns.
//!
//! A key is `time << 13 | rank`. The rank is the slot's place in a seeded permutation, so ties between CPUs are broken
//! in an explicit, arbitrary order that depends on the seed. Times fit 51 bits of ns (26 days of simulated time). There
//! is room for 4096 CPUs, the most a machine has, and for the slot of events from outside them.
//!
//! A node holds the least key of its four children, and its place is a quarter of theirs. A turn walks from a leaf to
//! the root as its slot is taken, and back only as far as the slot's new key is the least: mostly one level. No branch
//! predictor foresees which of four keys is the least, so that is selected and not branched for. A slot that would need
//! one more level for itself is kept beside the tree: 1,024 CPUs and the slot of events from outside have five levels,
//! not six.

use super::NEVER;
use schedlab_base::Stream;
use std::hint::select_unpredictable;

const RANK_BITS: u32 = 13;
const SLOTS: usize = 1 << RANK_BITS;
const IDLE_KEY: u64 = u64::MAX;
/// Places of the largest tree: leaves from 4^7 on, inner nodes below.
const PLACES: usize = 2 << 14;

/// The earliest of many armed times.
#[derive(Debug, Clone)]
pub struct WinnerTree {
    /// By place: the root is 1, the children of n are 4n to 4n + 3, slot s is `leaves` + s. Place 0 is 0: no key is
    /// less, and a walk ends there. The length is constant, so that a place needs no check of bounds.
    keys: Box<[u64; PLACES]>,
    leaves: usize,
    /// The key of slot `leaves`, the only one that may have no leaf.
    aside: u64,
    rank_of: Box<[u16; SLOTS]>,
    slot_of: Box<[u16; SLOTS]>,
}

#[inline]
fn lesser(a: u64, b: u64) -> u64 {
    select_unpredictable(a < b, a, b)
}

/// The leaves for this many slots: a power of four, at least as large but for one.
fn leaves(slots: usize) -> usize {
    let mut leaves = 4;
    while leaves + 1 < slots {
        leaves *= 4;
    }
    leaves
}

impl WinnerTree {
    /// A tree of `slots` slots (1 to 8192), none armed; `seed` decides how ties fall.
    pub fn new(slots: usize, seed: Stream) -> WinnerTree {
        assert!(slots <= SLOTS, "{slots} slots do not fit the key");
        let mut slot_of = Box::new(std::array::from_fn(|slot| slot as u16));
        for i in (1..slots).rev() {
            slot_of.swap(i, seed.below(i as u64, i as u64 + 1) as usize);
        }
        let mut rank_of = Box::new([0; SLOTS]);
        for (rank, slot) in slot_of[..slots].iter().enumerate() {
            rank_of[*slot as usize] = rank as u16;
        }
        let mut keys = Box::new([IDLE_KEY; PLACES]);
        keys[0] = 0;
        WinnerTree { keys, leaves: leaves(slots), aside: IDLE_KEY, rank_of, slot_of }
    }

    /// The key of `slot` at time `at`: the least key acts first.
    #[inline]
    pub fn key(&self, slot: usize, at: u64) -> u64 {
        debug_assert!(at == NEVER || at <= NEVER >> RANK_BITS, "slot {slot} is armed for {at} ns");
        if at == NEVER { IDLE_KEY } else { at << RANK_BITS | u64::from(self.rank_of[slot % SLOTS]) }
    }

    #[inline]
    pub fn time(key: u64) -> u64 {
        if key == IDLE_KEY { NEVER } else { key >> RANK_BITS }
    }

    /// The leaf of a slot.
    #[inline]
    fn place(&self, slot: usize) -> usize {
        self.leaves.wrapping_add(slot) % PLACES
    }
    #[inline]
    fn at(&mut self, place: usize) -> &mut u64 {
        &mut self.keys[place % PLACES]
    }

    /// The parent of a place, and the least key of its children.
    #[inline]
    fn parent(&self, place: usize) -> (usize, u64) {
        let first = (place % PLACES) & !3;
        let [a, b, c, d] = [first, first | 1, first | 2, first | 3].map(|at| self.keys[at]);
        (first / 4, lesser(lesser(a, b), lesser(c, d)))
    }

    /// Arms `slot` for `at`; [`NEVER`] disarms it.
    #[inline]
    pub fn arm(&mut self, slot: usize, at: u64) {
        let mut key = self.key(slot, at);
        if slot >= self.leaves {
            self.aside = key;
            return;
        }
        let mut place = self.place(slot);
        while std::mem::replace(self.at(place), key) != key && place > 1 {
            (place, key) = self.parent(place);
        }
    }

    /// Disarms `slot` and returns the least key of all others; the slot may act alone until then.
    /// [`put`](WinnerTree::put) arms it again.
    #[inline]
    pub fn take(&mut self, slot: usize) -> u64 {
        if slot >= self.leaves {
            self.aside = IDLE_KEY;
            return self.least();
        }
        let (mut place, mut least) = (self.place(slot), IDLE_KEY);
        *self.at(place) = least;
        while place > 1 {
            (place, least) = self.parent(place);
            *self.at(place) = least;
        }
        lesser(least, self.aside)
    }

    /// Arms a slot that is disarmed. Its key can only lower the keys above it, up to the first lower one.
    #[inline]
    pub fn put(&mut self, slot: usize, at: u64) {
        let key = self.key(slot, at);
        if slot >= self.leaves {
            self.aside = key;
            return;
        }
        let mut place = self.place(slot);
        while key < self.keys[place] {
            self.keys[place] = key;
            place /= 4;
        }
    }

    /// The least key of all slots.
    #[inline]
    pub fn least(&self) -> u64 {
        lesser(self.keys[1], self.aside)
    }

    /// The slot and the time of a key; `None` for the key of no slot.
    #[inline]
    pub fn turn_of(&self, key: u64) -> Option<(usize, u64)> {
        let rank = key as usize % SLOTS;
        (key != IDLE_KEY).then(|| (usize::from(self.slot_of[rank]), key >> RANK_BITS))
    }

    /// The earliest slot and its time, if any is armed.
    #[inline]
    pub fn first(&self) -> Option<(usize, u64)> {
        self.turn_of(self.least())
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
