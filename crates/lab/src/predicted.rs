//! Predicted changes: what a change does to a real kernel, beside what its simulation said.
//!
//! That a simulator agrees with a kernel is less than that it predicts a change. For each load and each row of the
//! one list of metrics ([`crate::validate::metrics`]), the change of the mean over the real runs is compared with
//! that over the simulated runs. A row counts if one of both moved by [`MOVED_PCT`] or more, and if the real change
//! is known: its 95 % interval reaches no farther than [`TOLERANCE_PCT`] of it, or than [`KNOWN_POINTS`] to either
//! side. A row agrees when both changes have one sign and their sizes differ by no more than [`TOLERANCE_PCT`] of
//! the real one, or when the simulated change lies within the interval of the real one. Rows whose real change is
//! not known are counted apart.

use crate::stats::describe::mean;
use crate::stats::special::t_quantile;
use crate::validate::metrics::{How, LIST, Row};
use crate::validate::numbers_of;
use schedlab_base::Backend;
use schedlab_record::Record;
use serde::Serialize;

/// The smallest change that counts, per cent.
pub const MOVED_PCT: f64 = 5.0;
/// How far the size of a predicted change may be off, per cent of the real change.
pub const TOLERANCE_PCT: f64 = 35.0;

/// How far the interval of a small change may reach, points.
pub const KNOWN_POINTS: f64 = 5.0;

/// Predictions of a change.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Predictions {
    /// The rows that count.
    pub rows: Vec<Predicted>,
    /// Rows that moved, but by how much the real runs do not tell.
    pub unknown: usize,
}

/// A metric of a load, changed by a variant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Predicted {
    /// The machine of the real runs.
    pub machine: String,
    /// Workload and load.
    pub load: String,
    /// The metric.
    pub metric: String,
    /// Change of the real mean, per cent.
    pub real_pct: f64,
    /// Its 95 % interval.
    pub real_ci95_pct: [f64; 2],
    /// Change of the simulated mean, per cent.
    pub simulated_pct: f64,
    /// Whether the signs are equal.
    pub same_sign: bool,
    /// Whether the prediction is right.
    pub agrees: bool,
}

/// The predictions, in the order of the records and of the list.
pub fn predicted(records: &[Record], base: &str, variant: &str) -> Predictions {
    let mut all = Predictions::default();
    let mut seen: Vec<(&str, &str, &str)> = Vec::new();
    for record in records.iter().filter(|r| r.backend == Backend::Vm) {
        let place = (record.machine.name.as_str(), record.workload.as_str(), record.load.as_str());
        if seen.contains(&place) {
            continue;
        }
        seen.push(place);
        let of = |backend: Backend, name: &str| -> Vec<Record> {
            let is = |r: &&Record| {
                let machine = backend == Backend::Sim || r.machine.name == place.0;
                let here = r.machine.topology.nr_cpus() == record.machine.topology.nr_cpus();
                r.backend == backend
                    && machine
                    && here
                    && is_place(r, record)
                    && r.variant.name == name
                    && (r.workload.as_str(), r.load.as_str()) == (place.1, place.2)
            };
            records.iter().filter(is).cloned().collect()
        };
        let real = [of(Backend::Vm, base), of(Backend::Vm, variant)];
        let simulated = [of(Backend::Sim, base), of(Backend::Sim, variant)];
        let rows = LIST.iter().filter(|r| !matches!(r.how, How::Distribution(..)));
        for (row, is_known) in rows.filter_map(|row| one(row, place, &real, &simulated)) {
            if is_known {
                all.rows.push(row);
            } else {
                all.unknown += 1;
            }
        }
    }
    all
}

/// Whether two runs are of one machine: a guest and its twin have one topology.
fn is_place(a: &Record, b: &Record) -> bool {
    a.machine.topology == b.machine.topology
}

/// A row that moved, and whether its real change is known.
fn one(
    row: &Row,
    place: (&str, &str, &str),
    real: &[Vec<Record>; 2],
    simulated: &[Vec<Record>; 2],
) -> Option<(Predicted, bool)> {
    let values = |side: &[Vec<Record>; 2]| -> Option<[Vec<f64>; 2]> {
        Some([numbers_of(row.how, &side[0]).ok()?, numbers_of(row.how, &side[1]).ok()?])
    };
    let (real, simulated) = (values(real)?, values(simulated)?);
    let enough = [&real, &simulated].iter().all(|v| mean(&v[0]) >= row.enough || mean(&v[1]) >= row.enough);
    let (real_pct, half) = (change_pct(&real)?, half_pct(&real)?);
    let simulated_pct = change_pct(&simulated)?;
    let moved = real_pct.abs() >= MOVED_PCT || simulated_pct.abs() >= MOVED_PCT;
    let is_known = half <= KNOWN_POINTS || half <= TOLERANCE_PCT / 100.0 * real_pct.abs();
    // The differences that have no meaning in a comparison of both sides have none here.
    let slack = |v: &[Vec<f64>; 2]| (mean(&v[1]) - mean(&v[0])).abs() <= row.slack;
    if !enough || !moved || (slack(&real) && slack(&simulated)) {
        return None;
    }
    let same_sign = (real_pct >= 0.0) == (simulated_pct >= 0.0);
    let within = (simulated_pct - real_pct).abs() <= TOLERANCE_PCT / 100.0 * real_pct.abs();
    let agrees = (same_sign && within) || (simulated_pct - real_pct).abs() <= half;
    let predicted = Predicted {
        machine: place.0.to_owned(),
        load: format!("{} {}", place.1, place.2),
        metric: row.name.to_owned(),
        real_pct,
        real_ci95_pct: [real_pct - half, real_pct + half],
        simulated_pct,
        same_sign,
        agrees,
    };
    Some((predicted, is_known))
}

/// Change from the first mean to the second, per cent of the first.
fn change_pct(v: &[Vec<f64>; 2]) -> Option<f64> {
    let base = mean(&v[0]);
    (base != 0.0).then(|| 100.0 * (mean(&v[1]) - base) / base)
}

/// Half the 95 % interval of the change: of the differences of runs with equal seeds, per cent of the first mean.
fn half_pct(v: &[Vec<f64>; 2]) -> Option<f64> {
    let n = v[0].len().min(v[1].len());
    let base = mean(&v[0]);
    if n < 2 || base == 0.0 {
        return None;
    }
    let differences: Vec<f64> = v[0].iter().zip(&v[1]).map(|(a, b)| b - a).collect();
    let std = crate::stats::describe::std(&differences)?;
    Some((100.0 * t_quantile(0.975, (n - 1) as f64) * std / (n as f64).sqrt() / base).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_of_the_mean_and_its_interval_of_the_pairs() {
        let v = [vec![10.0, 20.0, 30.0], vec![11.0, 22.0, 33.0]];
        assert!((change_pct(&v).unwrap() - 10.0).abs() < 1e-9);
        // Differences 1, 2, 3: standard deviation 1, t of two degrees of freedom 4.303.
        assert!((half_pct(&v).unwrap() - 100.0 * 4.302_652_7 / 3f64.sqrt() / 20.0).abs() < 1e-3);
        assert_eq!(half_pct(&[vec![1.0], vec![2.0]]), None);
        assert_eq!(change_pct(&[vec![0.0], vec![2.0]]), None);
    }
}
