//! A set of CPUs as a bitmap, with the kernel's list notation ("0-3,8,10-11").

use crate::CpuId;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A set of logical CPUs. Iterates in ascending CPU number, as `for_each_cpu` does.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CpuSet {
    bits: Vec<u64>,
}

/// The largest CPU number a set may hold; Perfetto and the event key share this bound.
pub const MAX_CPUS: u32 = 4096;

impl CpuSet {
    pub fn new() -> Self {
        Self::default()
    }
    /// CPUs `0..n`.
    pub fn first(n: usize) -> Self {
        (0..n).map(CpuId::from).collect()
    }
    pub fn insert(&mut self, cpu: CpuId) {
        let word = cpu.index() / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (cpu.index() % 64);
    }
    /// Adds those of the 32 CPUs from `32 * word` on whose bit is set.
    pub fn insert_all(&mut self, word: usize, bits: u32) {
        let (at, shift) = (word / 2, word % 2 * 32);
        if bits != 0 {
            self.bits.resize(self.bits.len().max(at + 1), 0);
            self.bits[at] |= u64::from(bits) << shift;
        }
    }
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(w) = self.bits.get_mut(cpu.index() / 64) {
            *w &= !(1 << (cpu.index() % 64));
        }
        while self.bits.last() == Some(&0) {
            self.bits.pop();
        }
    }
    /// Empties the set and keeps its memory.
    pub fn clear(&mut self) {
        self.bits.clear();
    }
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.bits.get(cpu.index() / 64).is_some_and(|w| w >> (cpu.index() % 64) & 1 == 1)
    }
    /// Number of CPUs in the set (`cpumask_weight`).
    pub fn len(&self) -> usize {
        self.bits.iter().map(|w| w.count_ones() as usize).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|w| *w == 0)
    }
    /// The lowest CPU (`cpumask_first`).
    pub fn lowest(&self) -> Option<CpuId> {
        self.iter().next()
    }
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.bits.iter().enumerate().flat_map(|(i, &word)| {
            std::iter::successors(Some(word), |w| Some(w & w.wrapping_sub(1)))
                .take_while(|w| *w != 0)
                .map(move |w| CpuId::from(i * 64 + w.trailing_zeros() as usize))
        })
    }
    /// The intersection.
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        let mut bits: Vec<u64> = self.bits.iter().zip(&other.bits).map(|(a, b)| a & b).collect();
        while bits.last() == Some(&0) {
            bits.pop();
        }
        CpuSet { bits }
    }
    /// The union.
    pub fn or(&self, other: &CpuSet) -> CpuSet {
        self.iter().chain(other.iter()).collect()
    }
    #[inline]
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.bits.iter().zip(&other.bits).any(|(a, b)| a & b != 0)
    }
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.bits.iter().enumerate().all(|(i, w)| w & !other.bits.get(i).copied().unwrap_or(0) == 0)
    }

    /// Reads the kernel's list notation.
    ///
    /// # Errors
    /// When the text is not such a list, a range runs backwards, or a CPU's number is 4096 or more.
    pub fn parse(text: &str) -> Result<CpuSet> {
        let bad = |part: &str| {
            Error::input(format!("'{part}' is not a CPU or a range of CPUs"))
                .help("write CPU lists as 0-3,8,10-11")
        };
        let mut set = CpuSet::new();
        for part in text.trim().split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (a, b) = part.split_once('-').unwrap_or((part, part));
            let (a, b): (u32, u32) =
                (a.trim().parse().map_err(|_| bad(part))?, b.trim().parse().map_err(|_| bad(part))?);
            if a > b || b >= MAX_CPUS {
                return Err(bad(part));
            }
            (a..=b).for_each(|c| set.insert(CpuId(c)));
        }
        Ok(set)
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<T: IntoIterator<Item = CpuId>>(iter: T) -> Self {
        let mut set = CpuSet::new();
        iter.into_iter().for_each(|c| set.insert(c));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for CpuId(c) in self.iter() {
            match runs.last_mut() {
                Some((_, end)) if *end + 1 == c => *end = c,
                _ => runs.push((c, c)),
            }
        }
        let parts: Vec<String> =
            runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
        f.pad(&parts.join(","))
    }
}

impl Serialize for CpuSet {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<CpuSet, D::Error> {
        let text = String::deserialize(d)?;
        CpuSet::parse(&text).map_err(|e| serde::de::Error::custom(e.message()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_notation_round_trips() {
        for text in ["0-3,8,10-11", "63-64", "0", "", "127,4095"] {
            assert_eq!(CpuSet::parse(text).unwrap().to_string(), text);
        }
        assert!(
            CpuSet::parse("3-1").is_err() && CpuSet::parse("x").is_err() && CpuSet::parse("4096").is_err()
        );
    }

    #[test]
    fn words_of_32_cpus_are_added_at_once() {
        let mut set = CpuSet::parse("5").unwrap();
        set.insert_all(3, 1 << 31 | 1);
        set.insert_all(9, 0);
        set.insert_all(0, 3);
        assert_eq!(set, CpuSet::parse("0-1,5,96,127").unwrap());
    }

    #[test]
    fn equal_sets_are_equal_whatever_their_history() {
        let mut a = CpuSet::parse("1,200").unwrap();
        a.remove(CpuId(200));
        assert_eq!(a, CpuSet::parse("1").unwrap());
        assert!(a.is_subset(&CpuSet::first(2)) && !CpuSet::first(2).is_subset(&a));
        assert!(a.intersects(&CpuSet::first(2)) && !a.intersects(&CpuSet::first(1)));
    }
}
