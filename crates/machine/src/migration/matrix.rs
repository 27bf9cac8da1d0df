//! The matrix: a cutoff for each distance, printed as in the document (D003).

use super::{Distances, Overrides};
use schedlab_base::CpuId;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Measured,
    /// Set by `migration_cost`.
    Given,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub distance: usize,
    /// The cutoff, ns (`cache_hot_time`).
    pub cutoff_ns: u64,
    pub origin: Origin,
    pub pair: Option<(u32, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// By distance, without distances that no pair has.
    pub entries: Vec<Entry>,
}

impl Matrix {
    /// Visits ordered pairs as the document does: the first pair of a distance is measured, the others reuse the
    /// result. A given cutoff needs no measurement. `cutoff` measures a pair, ns.
    ///
    /// # Errors
    /// As `cutoff`.
    pub fn fill<E>(
        distances: &Distances,
        overrides: &Overrides,
        mut cutoff: impl FnMut(usize, (CpuId, CpuId)) -> Result<u64, E>,
    ) -> Result<Matrix, E> {
        let mut matrix = Matrix::default();
        for distance in 0..distances.classes.len() {
            let Some(pair) = distances.pairs(distance).first().copied() else { continue };
            let ids = Some((pair.0.0, pair.1.0));
            let entry = match overrides.cutoff_ns(distance) {
                Some(cutoff_ns) => Entry { distance, cutoff_ns, origin: Origin::Given, pair: None },
                None => {
                    let cutoff_ns = cutoff(distance, pair)?;
                    Entry { distance, cutoff_ns, origin: Origin::Measured, pair: ids }
                }
            };
            matrix.entries.push(entry);
        }
        Ok(matrix)
    }
    pub fn cutoff_ns(&self, distance: usize) -> Option<u64> {
        self.entries.iter().find(|e| e.distance == distance).map(|e| e.cutoff_ns)
    }
    /// The document's print: ms with one truncated decimal, the distance in brackets, then all distances in ns. `mhz`:
    /// the CPU's clock, if known.
    pub fn print(&self, distances: &Distances, cpus: usize, max_cache_size: u64, mhz: Option<u64>) -> String {
        let of_distance = |a, b| distances.of(a, b).and_then(|d| self.cutoff_ns(d));
        self.print_with(distances, cpus, max_cache_size, mhz, &of_distance)
    }
    /// As [`Matrix::print`], with cutoffs of single pairs, ns.
    pub fn print_with(
        &self,
        distances: &Distances,
        cpus: usize,
        max_cache_size: u64,
        mhz: Option<u64>,
        cutoff_ns: &dyn Fn(CpuId, CpuId) -> Option<u64>,
    ) -> String {
        const RULE: &str = "---------------------\n";
        let clock = mhz.map_or_else(String::new, |mhz| format!(", cpu: {mhz} MHz"));
        let mut out =
            format!("{RULE}migration cost matrix (max_cache_size: {max_cache_size}{clock}):\n{RULE}");
        out.push_str("     ");
        (0..cpus).for_each(|cpu| out.push_str(&format!("     [{cpu:02}]")));
        out.push('\n');
        for from in (0..cpus).map(CpuId::from) {
            // Writing to a string can't fail.
            let _ = write!(out, "[{:02}]:", from.0);
            for to in (0..cpus).map(CpuId::from) {
                let cell = match distances.of(from, to) {
                    Some(distance) => {
                        let tenths = cutoff_ns(from, to).unwrap_or(0) / 100_000;
                        format!("{}.{}({distance})", tenths / 10, tenths % 10)
                    }
                    None => "-   ".into(),
                };
                let _ = write!(out, " {cell:>8}");
            }
            out.push('\n');
        }
        let last = self.entries.iter().map(|e| e.distance + 1).max().unwrap_or(0);
        let _ = write!(out, "{RULE}cacheflush times [{last}]:");
        for distance in 0..last {
            let ns = self.cutoff_ns(distance).unwrap_or(0);
            let tenths = ns / 100_000;
            let _ = write!(out, " {}.{} ({ns})", tenths / 10, tenths % 10);
        }
        out.push('\n');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;
    use schedlab_base::Version;

    fn p4() -> Distances {
        Distances::new(&Machine::load("p4-ht-2").unwrap().topology, Version::v2_6(12))
    }
    fn known(distance: usize, _: (CpuId, CpuId)) -> Result<u64, ()> {
        Ok([33_900, 448_514][distance])
    }

    #[test]
    fn the_documents_print() {
        let matrix = Matrix::fill(&p4(), &Overrides::default(), known).unwrap();
        insta::assert_snapshot!(matrix.print(&p4(), 4, 524_288, Some(2379)), @r"
        ---------------------
        migration cost matrix (max_cache_size: 524288, cpu: 2379 MHz):
        ---------------------
                  [00]     [01]     [02]     [03]
        [00]:     -      0.4(1)   0.0(0)   0.4(1)
        [01]:   0.4(1)     -      0.4(1)   0.0(0)
        [02]:   0.0(0)   0.4(1)     -      0.4(1)
        [03]:   0.4(1)   0.0(0)   0.4(1)     -   
        ---------------------
        cacheflush times [2]: 0.0 (33900) 0.4 (448514)
        ");
    }

    #[test]
    fn one_pair_of_a_distance_is_measured_and_a_given_one_is_not() {
        let mut measured = Vec::new();
        let overrides = Overrides { cost_us: vec![0, 2500], factor_pct: 50 };
        let matrix = Matrix::fill(&p4(), &overrides, |distance, pair| {
            measured.push((distance, pair));
            known(distance, pair)
        });
        assert_eq!(measured, [(0, (CpuId(0), CpuId(2)))]);
        let matrix = matrix.unwrap();
        assert_eq!(matrix.cutoff_ns(1), Some(2_500_000));
        assert_eq!(matrix.entries[1].origin, Origin::Given);
    }
}
