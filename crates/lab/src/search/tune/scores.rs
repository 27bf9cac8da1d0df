//! How much better a setting is than the default, by the runs of both.

use super::Tune;
use schedlab_base::{Error, Result};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::Cell;
use schedlab_compare::stats::Better;
use schedlab_compare::stats::describe::mean;
use schedlab_compare::stats::race::score;

impl Tune<'_> {
    /// A setting's scores by metric, over all loads of the experiment.
    pub(super) fn scores(&self, seen: &Comparison, base: &str, setting: &str) -> Result<Vec<Scored>> {
        let of = |name: &str| -> Vec<&Cell> {
            seen.cells.iter().filter(|cell| self.is_judged(cell) && cell.variant == name).collect()
        };
        let (defaults, own) = (of(base), of(setting));
        self.metrics.iter().map(|metric| Scored::of(&defaults, &own, metric)).collect()
    }
}

/// A score and its metric's direction.
#[derive(Clone, Copy)]
pub(super) struct Scored {
    /// `None`: the setting lacks the figure in some load or run.
    pub score: Option<f64>,
    better: Better,
}

impl Scored {
    /// The mean of the scores of the loads that have the metric. A cell that was left out, since its scheduler did not
    /// last, has no score.
    fn of(defaults: &[&Cell], own: &[&Cell], metric: &str) -> Result<Scored> {
        let measured = |cell: &Cell| Some((cell.metrics.get(metric)?.measured()?.better, cell.load.clone()));
        let Some((better, _)) = defaults.iter().find_map(|cell| measured(cell)) else {
            return Err(Error::input(format!("{metric} was not measured in any run"))
                .help("make runs longer, or name another --metric"));
        };
        if better == Better::Neither {
            return Err(Error::input(format!("{metric} has no better direction"))
                .help("name a metric that is better when it is lower or higher: --metric NAME"));
        }
        let values =
            |cell: &Cell| cell.metrics.get(metric).and_then(|stat| Some(stat.of_each_run()?.to_vec()));
        let of_load = |default: &&Cell| {
            let place = |cell: &Cell| [&cell.machine, &cell.workload, &cell.load].map(String::clone);
            let same = own.iter().find(|cell| place(cell) == place(default));
            score(&values(default)?, &values(same?)?, better)
        };
        let with_it = defaults.iter().filter(|cell| measured(cell).is_some());
        let scores: Option<Vec<f64>> = with_it.map(of_load).collect();
        Ok(Scored { score: scores.map(|all| mean(&all)), better })
    }
    /// The change of the metric itself, in percent.
    pub fn change_pct(self) -> Option<f64> {
        let sign = if self.better == Better::Higher { -1.0 } else { 1.0 };
        self.score.map(|score| 100.0 * libm::expm1(sign * score))
    }
}
