//! The order of a domain's groups while the tasks that are there from the start are placed.
//!
//! They are placed one after another at one instant, and each changes only the CPU that it is put on. So the first
//! search reads all groups, and each later one only the group that got a task since. On a machine of a thousand CPUs
//! with ten thousand tasks, ten million groups need not be read.

use schedlab_base::CpuId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A place is a group's position in the ring; the local group has place 0 and is not ordered.
#[derive(Default)]
pub struct FirstPlaces {
    /// The place of each CPU's group; empty before the first search.
    place_of: Vec<u32>,
    /// The present rank of each place; the least is the idlest.
    ranks: Vec<u64>,
    /// Places by rank, least first; of equal ranks the first of the ring. An entry without the present rank is stale.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    /// CPUs that got a task since the last search.
    changed: Vec<CpuId>,
}

impl FirstPlaces {
    /// Whether a search has read all groups.
    pub fn is_read(&self) -> bool {
        !self.place_of.is_empty()
    }
    /// The groups of a ring by their CPUs, before they are ranked; `None` if two of them share a CPU.
    pub fn of<'g>(ring: impl Iterator<Item = &'g [CpuId]>, nr_cpus: usize) -> Option<FirstPlaces> {
        let mut places = FirstPlaces { place_of: vec![u32::MAX; nr_cpus], ..FirstPlaces::default() };
        for (place, cpus) in ring.enumerate() {
            for cpu in cpus {
                if std::mem::replace(&mut places.place_of[cpu.index()], place as u32) != u32::MAX {
                    return None;
                }
            }
            places.ranks.push(u64::MAX);
        }
        Some(places)
    }
    /// A group's rank.
    pub fn rank(&mut self, place: usize, rank: u64) {
        self.ranks[place] = rank;
        if place > 0 {
            self.order.push(Reverse((rank, place as u32)));
        }
    }
    /// `cpu` got a task.
    pub fn changed(&mut self, cpu: CpuId) {
        self.changed.push(cpu);
    }
    /// The place of a group that got a task since the last search, if one is left.
    pub fn next_changed(&mut self) -> Option<usize> {
        let cpu = self.changed.pop()?;
        self.place_of.get(cpu.index()).map(|place| *place as usize)
    }
    /// The idlest place but the local one.
    pub fn idlest(&mut self) -> Option<usize> {
        while let Some(Reverse((rank, place))) = self.order.peek() {
            if self.ranks[*place as usize] == *rank {
                return Some(*place as usize);
            }
            self.order.pop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: [&[CpuId]; 3] = [&[CpuId(0)], &[CpuId(2), CpuId(3)], &[CpuId(1)]];

    #[test]
    fn the_first_of_the_least_is_the_idlest_by_its_present_rank() {
        let mut places = FirstPlaces::of(RING.into_iter(), 4).expect("no CPU is in two groups");
        assert!(places.is_read() && places.idlest().is_none());
        [1, 5, 5].into_iter().enumerate().for_each(|(place, rank)| places.rank(place, rank));
        assert_eq!(places.idlest(), Some(1), "the local group is not ordered");
        places.changed(CpuId(3));
        assert_eq!((places.next_changed(), places.next_changed()), (Some(1), None));
        places.rank(1, 7);
        assert_eq!(places.idlest(), Some(2));
        places.rank(2, 8);
        assert_eq!(places.idlest(), Some(1));
        places.rank(1, 5);
        assert_eq!(places.idlest(), Some(1));
    }

    #[test]
    fn groups_that_share_a_cpu_have_no_places() {
        assert!(FirstPlaces::of([&[CpuId(0), CpuId(1)][..], &[CpuId(1)]].into_iter(), 2).is_none());
    }
}
