//! Groups of a domain, and the ring in which a CPU visits them.
//!
//! A group is the span of a child domain, or one CPU at the lowest level. The ring starts at the group of the CPU
//! itself and continues by rising CPU number, wrapping (`build_sched_groups`, `build_overlap_sched_groups`). Where NUMA
//! spans overlap, groups overlap too, and each CPU has its own ring: it takes the child span of the next CPU that no
//! group covers yet. Before 4.13 it begins at the domain's lowest CPU instead: the ring's first group may then be
//! another node's, and two distant nodes may be in one group (3.0 to 4.12; read in 4.4, 4.15). Since 4.13 only those
//! CPUs of a group balance for it that bring it along themselves (`build_balance_mask`).

use super::levels::Spans;
use super::parts::{Group, GroupFlags, Level};
use schedlab_base::{CpuId, Version};
use std::collections::BTreeMap;

/// All groups so far. Each child span is one group, however many CPUs see it.
pub(super) struct Groups {
    pub all: Vec<Group>,
    /// (level of the domain, level of the child, unit of the child) to index.
    known: BTreeMap<(usize, usize, usize), u32>,
    /// Per level and CPU, the group that the CPU brings into any domain of that level. Only for levels below NUMA,
    /// where all CPUs see the same groups. Saves most look-ups on machines of thousands of CPUs.
    plain: Vec<Vec<Option<u32>>>,
    /// Per CPU, the number of the last ring that covered it.
    covered: Vec<u32>,
    ring: u32,
    /// Whether NUMA groups are built from the domain's lowest CPU on.
    from_lowest: bool,
}

/// The flags of the group that a CPU brings along: the span of its domain of some level.
pub(super) type FlagsOf<'f> = &'f dyn Fn(usize, CpuId) -> GroupFlags;

/// The child level in a group's key when there is none: the group is one CPU.
const SINGLE: usize = usize::MAX;

impl Groups {
    pub fn new(levels: usize, nr_cpus: usize, version: Version) -> Groups {
        let from_lowest = version >= Version::new(3, 0) && version < Version::new(4, 13);
        let plain = vec![vec![None; nr_cpus]; levels];
        Groups {
            all: Vec::new(),
            known: BTreeMap::new(),
            plain,
            covered: vec![0; nr_cpus],
            ring: 0,
            from_lowest,
        }
    }

    /// The ring of `cpu` in its domain of level `at`.
    pub fn ring(&mut self, levels: &[Spans], at: usize, cpu: CpuId, flags: FlagsOf<'_>) -> Vec<u32> {
        self.ring += 1;
        let cpus = levels[at].cpus_of(cpu);
        let from_lowest = self.from_lowest && matches!(levels[at].level, Level::Numa(_));
        let start = if from_lowest { 0 } else { cpus.partition_point(|c| *c < cpu) };
        let mut ring = Vec::new();
        for half in [&cpus[start..], &cpus[..start]] {
            for &next in half {
                if self.covered[next.index()] == self.ring {
                    continue;
                }
                let group = match self.plain[at][next.index()] {
                    Some(group) => group,
                    None => self.group(levels, at, (cpu, next), flags),
                };
                let members = &self.all[group as usize].cpus;
                if members.len() > 1 {
                    members.iter().for_each(|member| self.covered[member.index()] = self.ring);
                }
                ring.push(group);
            }
        }
        if from_lowest {
            let first = self.own(&ring, cpu);
            ring.rotate_left(first);
        }
        ring
    }

    /// The position of `cpu`'s own group in a ring: the last group whose first CPU it is, else the first that contains
    /// it.
    fn own(&self, ring: &[u32], cpu: CpuId) -> usize {
        let members = |group: &u32| &self.all[*group as usize].cpus;
        let led = ring.iter().rposition(|g| members(g).first() == Some(&cpu));
        led.or_else(|| ring.iter().position(|g| members(g).contains(&cpu))).unwrap_or(0)
    }

    /// The group that `next` brings into `cpu`'s domain of level `at`: its highest child span that stays inside.
    /// (Before 5.13, on meshes of three and more hops, a group could reach beyond the domain.)
    fn group(&mut self, levels: &[Spans], at: usize, (cpu, next): (CpuId, CpuId), flags: FlagsOf<'_>) -> u32 {
        let numa = matches!(levels[at].level, Level::Numa(_));
        let domain = levels[at].span_of(cpu);
        let child = (0..at).rev().find(|l| levels[*l].span_of(next).is_subset(domain));
        let key = match child {
            Some(l) => (at, l, levels[l].unit_of(next)),
            None => (at, SINGLE, next.index()),
        };
        if let Some(index) = self.known.get(&key) {
            return *index;
        }
        let cpus = child.map_or_else(|| vec![next], |l| levels[l].cpus_of(next).to_vec());
        let flags = child.map(|child| flags(child, next)).unwrap_or_default();
        let views = child.filter(|_| numa && !self.from_lowest).map(|l| &levels[l]);
        let balances =
            |view: &Spans| cpus.iter().copied().filter(|c| view.cpus_of(*c) == cpus).collect::<Vec<_>>();
        let some_balance = views.map(balances).filter(|some| some.len() < cpus.len());
        let group = Group { span: cpus.iter().copied().collect(), cpus, some_balance, flags };
        let index = self.insert(key, numa, group);
        self.known.insert(key, index);
        if !numa {
            for member in &self.all[index as usize].cpus {
                self.plain[at][member.index()] = Some(index);
            }
        }
        index
    }

    /// Adds the group, or finds the group of the same level and span from another unit. Two units bring the same span
    /// only on NUMA levels.
    fn insert(&mut self, key: (usize, usize, usize), numa: bool, group: Group) -> u32 {
        let last = if numa { (key.0, SINGLE, SINGLE) } else { (key.0, 0, 0) };
        let same_level = self.known.range((key.0, 0, 0)..=last);
        let twin = same_level.map(|(_, g)| *g).find(|g| {
            let other = &self.all[*g as usize];
            other.cpus[0] == group.cpus[0] && other.span == group.span && other.flags == group.flags
        });
        twin.unwrap_or_else(|| {
            self.all.push(group);
            (self.all.len() - 1) as u32
        })
    }
}
