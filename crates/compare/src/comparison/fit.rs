//! How far a cell is from the figures published for it.
//!
//! Latencies in one table span three orders of magnitude, so distances are ratios: twice as long and half as long are
//! equally wrong, and every metric counts the same. Figures that were not measured are left out and counted. A fit to
//! fewer figures never counts as better than a fit to more.

use super::{BaselineFit, Cell, CellStat, Comparison};
use schedlab_record::Published;
use std::cmp::Ordering;

/// The fit of a cell; `None` if no published figure for it was measured.
pub(super) fn fit(cell: &Cell, published: &[Published]) -> Option<BaselineFit> {
    let wanted = || published.iter().filter(|p| p.is_for(&cell.variant, &cell.load, &p.metric));
    let logs: Vec<f64> = wanted().filter_map(|p| log_ratio(cell, p)).collect();
    if logs.is_empty() {
        return None;
    }
    let mean = logs.iter().map(|l| l.abs()).sum::<f64>() / logs.len() as f64;
    Some(BaselineFit {
        backend: cell.backend.clone(),
        machine: cell.machine.clone(),
        workload: cell.workload.clone(),
        load: cell.load.clone(),
        variant: cell.variant.clone(),
        factor: libm::exp(mean),
        metrics: logs.len(),
        missing: wanted().count() - logs.len(),
    })
}

/// Logarithm of the ratio of our figure to the published one; `None` if ours was not measured, has another unit, or is
/// 0.
fn log_ratio(cell: &Cell, p: &Published) -> Option<f64> {
    let ours = cell.metrics.get(&p.metric).and_then(CellStat::measured).filter(|m| m.unit == p.unit)?;
    (ours.mean > 0.0 && p.value > 0.0).then(|| libm::log(ours.mean / p.value))
}

impl Comparison {
    /// The fit of a cell's load, if its baseline has published figures.
    pub fn fit(&self, cell: &Cell) -> Option<&BaselineFit> {
        self.fits.iter().find(|f| {
            (&f.backend, &f.machine, &f.workload, &f.load)
                == (&cell.backend, &cell.machine, &cell.workload, &cell.load)
        })
    }
    pub fn best_fit(&self) -> Option<&BaselineFit> {
        self.fits.iter().min_by(|a, b| a.order(b))
    }
}

impl BaselineFit {
    /// Orders the better fit first: fewer missing figures, then the smaller factor.
    pub fn order(&self, o: &BaselineFit) -> Ordering {
        self.missing.cmp(&o.missing).then(self.factor.total_cmp(&o.factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Measured;
    use schedlab_base::Backend;
    use schedlab_record::Better;

    fn cell(values: &[(&str, f64)]) -> Cell {
        let measured = |mean| Measured {
            unit: "ns".into(),
            better: Better::Lower,
            mean,
            std_pct: None,
            values: vec![mean],
            missing_runs: 0,
        };
        Cell {
            backend: Backend::Sim.into(),
            mode: None,
            level: None,
            free_ns: 0,
            machine: "smp-4".into(),
            kernel: "v4.5".into(),
            workload: "schbench".into(),
            load: "1x2".into(),
            params: serde_json::json!({}),
            variant: "v4.5".into(),
            runs: 1,
            seeds: vec![1],
            folders: Vec::new(),
            watched: None,
            computer: None,
            metrics: values.iter().map(|(m, v)| ((*m).into(), CellStat::Measured(measured(*v)))).collect(),
        }
    }

    fn published(metric: &str, value: f64) -> Published {
        Published {
            variant: "v4.5".into(),
            metric: metric.into(),
            load: None,
            value,
            unit: "ns".into(),
            source: String::new(),
        }
    }

    #[test]
    fn twice_and_half_are_equally_wrong() {
        let figures = [published("a", 100.0), published("b", 100.0)];
        let factor = |a, b| fit(&cell(&[("a", a), ("b", b)]), &figures).unwrap().factor;
        assert!((factor(200.0, 50.0) - 2.0).abs() < 1e-12);
        assert!((factor(200.0, 100.0) - 2f64.sqrt()).abs() < 1e-12);
        assert!((factor(100.0, 100.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn missing_figures_are_counted_and_never_help() {
        let mut figures = vec![published("a", 100.0), published("b", 100.0), published("c", 0.0)];
        let f = fit(&cell(&[("a", 300.0), ("c", 5.0)]), &figures).unwrap();
        assert!((f.factor - 3.0).abs() < 1e-12 && (f.metrics, f.missing) == (1, 2), "{f:?}");
        figures.iter_mut().for_each(|p| p.variant = "other".into());
        assert_eq!(fit(&cell(&[("a", 300.0)]), &figures), None);
        figures.iter_mut().for_each(|p| (p.variant, p.load) = ("v4.5".into(), Some("6x24".into())));
        assert_eq!(fit(&cell(&[("a", 300.0)]), &figures), None, "published for another load");
    }
}
