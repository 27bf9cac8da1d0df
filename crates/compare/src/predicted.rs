//! Predicted changes: the effect of a change on a real kernel, and its effect in simulation.
//!
//! Agreeing with a kernel is easy; predicting the effect of a change on it is the test. For each load and each row of
//! [`of_changes`], the change of the mean over the real runs is compared with that over the simulated runs. A row
//! counts if either moved by [`MOVED_PCT`] or more, and if the real change is known: its 95 % interval reaches at most
//! [`TOLERANCE_PCT`] of it, or [`KNOWN_POINTS`], to either side. A row agrees when both changes have the same sign and
//! their sizes differ by at most [`TOLERANCE_PCT`] of the real one, or when the simulated change is within the real
//! interval. Rows whose real change is unknown are counted separately. A real change has no sign if its interval
//! includes 0.

use crate::agreement::numbers_of;
use crate::agreement::rows::{MetricRow, of_changes};
use crate::stats::describe::mean;
use crate::stats::special::t_quantile;
use schedlab_base::Backend;
use schedlab_record::Record;
use serde::{Deserialize, Serialize};

/// The smallest change that counts, percent.
pub const MOVED_PCT: f64 = 5.0;
/// How far the size of a predicted change may be off, percent of the real change.
pub const TOLERANCE_PCT: f64 = 35.0;

/// How far the interval of a small change may reach, percentage points.
pub const KNOWN_POINTS: f64 = 5.0;

/// Predictions of the effects of a change.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Predictions {
    /// The rows that count.
    pub rows: Vec<Predicted>,
    /// Number of rows that moved, but whose real change is unknown.
    pub unknown: usize,
}

/// The effect of a variant on a metric of a load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Predicted {
    /// The machine of the real runs.
    pub machine: String,
    /// Workload and load.
    pub load: String,
    pub metric: String,
    /// Change of the real mean, percent.
    pub real_pct: f64,
    /// Its 95 % interval.
    pub real_ci95_pct: [f64; 2],
    /// Change of the simulated mean, percent.
    pub simulated_pct: f64,
    /// Whether the signs are equal; `None` if the real interval includes 0.
    pub same_sign: Option<bool>,
    pub agrees: bool,
}

/// A load on a machine, with its runs under base and variant.
#[derive(Debug)]
pub struct LoadOnMachine {
    /// The machine of the real runs.
    pub machine: String,
    /// Workload and load.
    pub load: String,
    /// The real runs: under the base, under the variant.
    real: [Vec<Record>; 2],
    /// The simulated runs, in the same order: by our rules, or by the kernel's own code.
    simulated: [Vec<Record>; 2],
}

/// The change of a row's mean in real or simulated runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MeanMove {
    /// The means, in the row's unit: under the base, under the variant.
    pub means: [f64; 2],
    /// The change, percent of the first.
    pub pct: f64,
    /// Half the 95 % interval of the change, percentage points; `None` for fewer than two pairs of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<f64>,
}

impl LoadOnMachine {
    /// The loads and machines of the real runs, in their order.
    pub fn all(records: &[Record], base: &str, variant: &str) -> Vec<LoadOnMachine> {
        let mut all: Vec<LoadOnMachine> = Vec::new();
        let mut seen: Vec<(&str, &str, &str)> = Vec::new();
        for record in records.iter().filter(|r| r.backend == Backend::Vm) {
            let place = (record.machine.name.as_str(), record.workload.as_str(), record.load.as_str());
            if seen.contains(&place) {
                continue;
            }
            seen.push(place);
            // A guest and its simulation may name their machines differently, but share a topology.
            let of = |real: bool, name: &str| -> Vec<Record> {
                let is = |r: &&Record| {
                    let is_of_side = if real { r.backend == Backend::Vm } else { r.backend.is_simulated() };
                    is_of_side
                        && (!real || r.machine.name == place.0)
                        && r.variant.name == name
                        && (r.workload.as_str(), r.load.as_str()) == (place.1, place.2)
                        && r.machine.topology == record.machine.topology
                };
                records.iter().filter(is).cloned().collect()
            };
            all.push(LoadOnMachine {
                machine: place.0.to_owned(),
                load: format!("{} {}", place.1, place.2),
                real: [of(true, base), of(true, variant)],
                simulated: [of(false, base), of(false, variant)],
            });
        }
        all
    }
    /// The change of the row in the real kernel.
    ///
    /// # Errors
    /// Says in words why there is none: the metric was not measured, or is 0 under the base.
    pub fn real(&self, row: &MetricRow) -> Result<MeanMove, String> {
        MeanMove::of(row, &self.real)
    }
    /// The change of the row in the simulation.
    pub fn simulated(&self, row: &MetricRow) -> Result<MeanMove, String> {
        MeanMove::of(row, &self.simulated)
    }
    /// The number of real runs under base or variant, whichever is smaller.
    pub fn runs(&self) -> usize {
        self.real[0].len().min(self.real[1].len())
    }
}

impl MeanMove {
    fn of(row: &MetricRow, side: &[Vec<Record>; 2]) -> Result<MeanMove, String> {
        MeanMove::of_values(&[numbers_of(row.how, &side[0])?, numbers_of(row.how, &side[1])?])
    }
    /// The change from the first values, one of each run, to the second, whose runs have the same seeds.
    pub(crate) fn of_values(values: &[Vec<f64>; 2]) -> Result<MeanMove, String> {
        if values.iter().any(Vec::is_empty) {
            return Err("no run was made".to_owned());
        }
        let pct = change_pct(values).ok_or("it is 0 before the change")?;
        Ok(MeanMove { means: [mean(&values[0]), mean(&values[1])], pct, half: half_pct(values) })
    }
    /// The 95 % interval of the change, percent. No metric of the list is negative, so no change is below -100 %.
    pub(crate) fn interval(&self) -> Option<[f64; 2]> {
        let half = self.half?;
        Some([(self.pct - half).max(-100.0), self.pct + half])
    }
    /// Whether one of the means is at least `least`.
    pub(crate) fn reaches(&self, least: f64) -> bool {
        self.means.iter().any(|m| *m >= least)
    }
    /// Whether the means differ too little to compare both sides.
    fn is_slack(&self, row: &MetricRow) -> bool {
        (self.means[1] - self.means[0]).abs() <= row.slack
    }
}

pub fn predicted(records: &[Record], base: &str, variant: &str) -> Predictions {
    let mut all = Predictions::default();
    for place in LoadOnMachine::all(records, base, variant) {
        for (row, is_known) in of_changes().filter_map(|row| predict_row(row, &place)) {
            if is_known {
                all.rows.push(row);
            } else {
                all.unknown += 1;
            }
        }
    }
    all
}

/// A row that moved, and whether its real change is known.
fn predict_row(row: &MetricRow, place: &LoadOnMachine) -> Option<(Predicted, bool)> {
    let (real, simulated) = (place.real(row).ok()?, place.simulated(row).ok()?);
    let (real_pct, half, simulated_pct) = (real.pct, real.half?, simulated.pct);
    let enough = real.reaches(row.enough) && simulated.reaches(row.enough);
    let moved = real_pct.abs() >= MOVED_PCT || simulated_pct.abs() >= MOVED_PCT;
    let is_known = half <= KNOWN_POINTS || half <= TOLERANCE_PCT / 100.0 * real_pct.abs();
    if !enough || !moved || (real.is_slack(row) && simulated.is_slack(row)) {
        return None;
    }
    let same_sign = real_pct * simulated_pct > 0.0;
    let within = (simulated_pct - real_pct).abs() <= TOLERANCE_PCT / 100.0 * real_pct.abs();
    let agrees = (same_sign && within) || (simulated_pct - real_pct).abs() <= half;
    let predicted = Predicted {
        machine: place.machine.clone(),
        load: place.load.clone(),
        metric: row.name.to_owned(),
        real_pct,
        real_ci95_pct: real.interval()?,
        simulated_pct,
        same_sign: (real_pct.abs() > half).then_some(same_sign),
        agrees,
    };
    Some((predicted, is_known))
}

/// Change from the first mean to the second, percent of the first.
fn change_pct(v: &[Vec<f64>; 2]) -> Option<f64> {
    let base = mean(&v[0]);
    (base != 0.0).then(|| 100.0 * (mean(&v[1]) - base) / base)
}

/// Half the 95 % interval of the change, percent of the first mean. The change is a ratio of means, so each run is
/// compared with that of equal seed multiplied by the ratio: if the base is doubled, its spread counts twice (delta
/// method).
fn half_pct(v: &[Vec<f64>; 2]) -> Option<f64> {
    let n = v[0].len().min(v[1].len());
    let base = mean(&v[0]);
    if n < 2 || base == 0.0 {
        return None;
    }
    let ratio = mean(&v[1]) / base;
    let residues: Vec<f64> = v[0].iter().zip(&v[1]).map(|(a, b)| b - ratio * a).collect();
    let std = crate::stats::describe::std(&residues)?;
    Some((100.0 * t_quantile(0.975, (n - 1) as f64) * std / (n as f64).sqrt() / base).abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::switched;

    /// Runs of a backend and a variant with these numbers of migrations.
    fn runs(backend: Backend, variant: &str, migrations: [u64; 4]) -> impl Iterator<Item = Record> {
        switched(backend, variant, "migrations", migrations)
    }
    /// Predictions for a real kernel whose migrations change from about 100 to `real`, and a simulated one with 110 to
    /// `simulated`.
    fn predictions(real: [u64; 4], simulated: u64) -> Predictions {
        let records: Vec<Record> = runs(Backend::Vm, "off", [99, 100, 101, 100])
            .chain(runs(Backend::Vm, "on", real))
            .chain(runs(Backend::Sim, "off", [110; 4]))
            .chain(runs(Backend::Sim, "on", [simulated; 4]))
            .collect();
        predicted(&records, "off", "on")
    }

    #[test]
    fn a_prediction_agrees_by_sign_and_size() {
        let half_more = [149, 150, 151, 150];
        let one = |simulated| predictions(half_more, simulated).rows.pop().unwrap();
        let right = one(160);
        assert_eq!((right.metric.as_str(), right.agrees, right.same_sign), ("migrations", true, Some(true)));
        assert!((right.real_pct - 50.0).abs() < 0.1, "{right:?}");
        assert!(!one(121).agrees && one(121).same_sign == Some(true), "a fifth of the size");
        assert!(!one(300).agrees, "far too much");
        assert!(!one(60).agrees && one(60).same_sign == Some(false));
        assert!(
            !one(110).agrees && one(110).same_sign == Some(false),
            "no change predicted where there is one"
        );
        let fewer = predictions([50, 51, 49, 50], 110).rows.pop().unwrap();
        assert!(!fewer.agrees && fewer.same_sign == Some(false), "nor where there are fewer");
        let still = predictions([103, 98, 102, 99], 160).rows.pop().unwrap();
        assert!(still.same_sign.is_none() && !still.agrees, "the real change may be nothing: {still:?}");
    }

    #[test]
    fn only_moved_rows_count_and_unknown_ones_separately() {
        assert_eq!(predictions([101, 100, 99, 100], 111), Predictions::default());
        let noisy = predictions([60, 250, 90, 200], 160);
        assert!(noisy.rows.is_empty() && noisy.unknown == 1, "{noisy:?}");
    }

    #[test]
    fn an_interval_ends_at_minus_100_percent() {
        let fallen = MeanMove { means: [10.0, 1.0], pct: -90.0, half: Some(25.0) };
        assert_eq!(fallen.interval(), Some([-100.0, -65.0]));
        let risen = MeanMove { means: [1.0, 10.0], pct: 900.0, half: Some(25.0) };
        assert_eq!(risen.interval(), Some([875.0, 925.0]));
        assert_eq!(MeanMove { half: None, ..risen }.interval(), None);
    }

    #[test]
    fn the_mean_gives_the_change_and_the_pairs_its_interval() {
        let v = [vec![10.0, 20.0, 30.0], vec![11.0, 22.0, 33.0]];
        assert!((change_pct(&v).unwrap() - 10.0).abs() < 1e-9);
        assert!(half_pct(&v).unwrap() < 1e-9, "each run is a tenth more than its pair");
        // Twice the base, less 1, 0 and -1: standard deviation 1, t with two degrees of freedom 4.303.
        let twice = [vec![10.0, 20.0, 30.0], vec![19.0, 40.0, 61.0]];
        assert!((half_pct(&twice).unwrap() - 100.0 * 4.302_652_7 / 3f64.sqrt() / 20.0).abs() < 1e-3);
        assert_eq!(half_pct(&[vec![1.0], vec![2.0]]), None);
        assert_eq!(change_pct(&[vec![0.0], vec![2.0]]), None);
    }
}
