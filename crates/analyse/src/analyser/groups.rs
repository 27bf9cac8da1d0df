//! Groups of tasks in the analyser: the preemptions by each group, and its stays on each CPU.
//!
//! Groups are numbered in the order of their first task; beyond [`MAX_GROUPS`] they are not distinguished. All counters
//! are allocated beforehand, so that an event only increments a number.

use super::{MAX_GROUPS, TaskName};
use schedlab_base::{CpuId, Ns};
use schedlab_kernel::policy::group_of;
use schedlab_record::accounts::Stays;
use std::collections::BTreeMap;

pub(super) const NO_GROUP: u8 = u8::MAX;

pub(super) struct Groups {
    names: Vec<String>,
    known: BTreeMap<String, u8>,
    /// Number and time (ns) of stays: a row of CPUs for each group.
    stays: Vec<(u64, u64)>,
    nr_cpus: usize,
    /// Stays that ended because a task of the group preempted another task.
    preempted: Vec<u64>,
}

impl Groups {
    pub fn on(nr_cpus: usize) -> Groups {
        let (names, known) = (Vec::new(), BTreeMap::new());
        Groups { names, known, stays: Vec::new(), nr_cpus, preempted: Vec::new() }
    }
    /// The group of a task; a new one if needed.
    pub fn of(&mut self, task: &TaskName) -> u8 {
        let group = group_of(&task.name);
        if let Some(known) = self.known.get(group) {
            return *known;
        }
        let number = if self.names.len() == MAX_GROUPS { NO_GROUP } else { self.names.len() as u8 };
        self.known.insert(group.to_owned(), number);
        if number != NO_GROUP {
            self.names.push(group.to_owned());
            self.preempted.push(0);
            self.stays.resize(self.names.len() * self.nr_cpus, (0, 0));
        }
        number
    }
    pub fn widen(&mut self, nr_cpus: usize) {
        let mut wide = vec![(0, 0); self.names.len() * nr_cpus];
        for (row, from) in wide.chunks_exact_mut(nr_cpus).zip(self.stays.chunks_exact(self.nr_cpus.max(1))) {
            row[..self.nr_cpus].copy_from_slice(&from[..self.nr_cpus]);
        }
        (self.stays, self.nr_cpus) = (wide, nr_cpus);
    }
    /// Counts a stay on `cpu` that has ended.
    #[inline]
    pub fn stayed(&mut self, group: u8, cpu: CpuId, ns: u64) {
        if cpu.index() >= self.nr_cpus {
            return;
        }
        if let Some((count, time)) = self.stays.get_mut(usize::from(group) * self.nr_cpus + cpu.index()) {
            *count += 1;
            *time += ns;
        }
    }
    /// Counts a preemption caused by a task of the group.
    #[inline]
    pub fn preempted(&mut self, group: u8) {
        if let Some(count) = self.preempted.get_mut(usize::from(group)) {
            *count += 1;
        }
    }
    /// The groups' names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// The number of preemptions by each group, by metric name.
    pub fn preemptions(&self) -> Vec<(String, u64)> {
        let named = |(name, n): (&String, &u64)| (format!("slice.preempted_by.{name}"), *n);
        self.names.iter().zip(&self.preempted).map(named).collect()
    }
    /// The stays of each group and CPU that has any.
    pub fn into_stays(self) -> Vec<Stays> {
        let nr_cpus = self.nr_cpus.max(1);
        let one = |(at, (count, ns)): (usize, (u64, u64))| Stays {
            group: self.names[at / nr_cpus].clone(),
            cpu: CpuId::from(at % nr_cpus),
            count,
            time: Ns(ns),
        };
        self.stays.iter().copied().enumerate().filter(|(_, (count, _))| *count > 0).map(one).collect()
    }
}
