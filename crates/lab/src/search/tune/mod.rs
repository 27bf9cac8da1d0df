//! Which of many settings is best for a workload.
//!
//! The settings race ([`schedlab_compare::stats::race`]): each round drops the worse two thirds and doubles the runs of
//! the rest. Then the two best of the race and both together are confirmed by fresh seeds against the default, as rows
//! of one ordinary comparison. Only that comparison names a winner, so its error rate holds however many raced. With
//! two metrics a setting wins that is better in one and worse in none.
//!
//! All of them are variants of one experiment: the text that is given, with a `[[variant]]` for each behind it. It is
//! kept with the runs, so that `schedlab run` makes the same ones.

mod space;
mod write;

pub use space::{AXES, Ground, with, words};
pub use write::{Form, profile};

use crate::ask::experiment::{self, Experiment, Part, write::variant as as_text};
use crate::make::budget::Budget;
use crate::make::request::{Lab, RunRequest};
use schedlab_base::{Backend, Error, Result};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, ComparisonRow};
use schedlab_compare::stats::describe::mean;
use schedlab_compare::stats::race::{FINALISTS, order, rounds, score};
use schedlab_compare::stats::{Better, Verdict};
use schedlab_compare::tuned::{LeftOut, Raced, Tuned};
use schedlab_kernel::Variant;
use std::time::{Duration, Instant};

/// Runs of a setting and of the default at the first look of the confirmation.
pub const CONFIRM: u64 = 12;
/// Further runs of the confirmation, in per cent of the first look's, where rows are undecided.
const FURTHER: u64 = 300;

/// What is searched.
pub struct Tune<'a> {
    pub lab: Lab<'a>,
    /// Where and how runs are made.
    pub request: RunRequest,
    /// The experiment; its baseline is the default.
    pub experiment: Experiment,
    /// Changes of the default, each a word or several with commas.
    pub words: Vec<String>,
    /// One or two metrics. Their directions must be known.
    pub metrics: Vec<String>,
    /// Runs of each setting in the first round.
    pub first: u64,
    /// After so long the race ends, and those that lead are confirmed.
    pub limit: Option<Duration>,
}

impl Tune<'_> {
    /// Searches.
    ///
    /// # Errors
    /// When there is nothing to try, a metric has no direction or is never measured, a run fails, or on an
    /// interruption.
    pub fn search(&self) -> Result<Tuned> {
        let base = self.default()?;
        let (settings, left_out) = self.settings(&base);
        if settings.is_empty() {
            let why =
                left_out.first().map(|one| format!(": {}: {}", one.setting, one.why)).unwrap_or_default();
            return Err(Error::machine(format!("no setting can be tried here{why}"))
                .help("name others with --try, or take another backend"));
        }
        let whole = self.with_variants(&settings)?;
        let begun = Instant::now();
        let seed = self.request.wanted.seed.unwrap_or(self.experiment.seed);
        let mut left: Vec<&str> = settings.iter().map(|v| v.name.as_str()).collect();
        let (mut race, mut made, mut cut_short) = (Vec::new(), 0, false);
        let all = rounds(left.len(), self.first);
        for (at, round) in all.iter().enumerate() {
            let seen = self.look(&whole, &left, (round.runs, seed), None)?;
            made += round.runs.saturating_sub(if at == 0 { 0 } else { all[at - 1].runs })
                * (left.len() as u64 + 1);
            let scored: Vec<Vec<Scored>> =
                left.iter().map(|name| self.scores(&seen, &base.name, name)).collect::<Result<_>>()?;
            cut_short = self.limit.is_some_and(|limit| begun.elapsed() > limit) && at + 1 < all.len();
            let keep =
                if cut_short { FINALISTS } else { all.get(at + 1).map_or(FINALISTS, |next| next.settings) };
            let scores: Vec<Vec<Option<f64>>> =
                scored.iter().map(|of| of.iter().map(|one| one.score).collect()).collect();
            let places = order(&scores);
            let raced = |place: &usize| Raced {
                setting: left[*place].to_owned(),
                runs: round.runs,
                change_pct: scored[*place].iter().map(|one| one.change_pct()).collect(),
            };
            let stay = places.len().min(keep);
            let gone: Vec<Raced> = places[stay..].iter().map(raced).collect();
            race.splice(0..0, gone);
            if cut_short || at + 1 == all.len() {
                race.splice(0..0, places[..stay].iter().map(raced));
            }
            left = places[..stay].iter().map(|place| left[*place]).collect();
            if cut_short {
                break;
            }
        }
        let finalists = finalists(&base, &left);
        let whole = self.with_variants(&finalists)?;
        let names: Vec<&str> = finalists.iter().map(|v| v.name.as_str()).collect();
        let fresh = seed + all.last().map_or(0, |round| round.runs);
        let seen = self.look(&whole, &names, (CONFIRM, fresh), Some(Budget::Part(FURTHER)))?;
        made +=
            seen.cells.iter().filter(|cell| self.is_judged(cell)).map(|cell| cell.runs as u64).sum::<u64>();
        let rows = seen.comparisons.iter().filter(|row| row.backend == self.request.backend);
        let confirmed: Vec<ComparisonRow> = rows.cloned().collect();
        Ok(Tuned {
            default: base.name,
            metrics: self.metrics.clone(),
            winner: winner(&names, &confirmed),
            race,
            confirmed,
            cut_short,
            left_out,
            runs: made,
            warnings: seen.warnings.into_iter().map(|w| w.warning).collect(),
            settings: settings.len(),
        })
    }

    /// The experiment's baseline.
    fn default(&self) -> Result<Variant> {
        let experiment = &self.experiment;
        let found = experiment.variants.iter().find(|v| v.name == experiment.baseline);
        found.cloned().ok_or_else(|| Error::input("the experiment has no baseline to change"))
    }

    /// The settings that can be tried, and why others can't.
    fn settings(&self, base: &Variant) -> (Vec<Variant>, Vec<LeftOut>) {
        let (mut settings, mut left_out): (Vec<Variant>, _) = (Vec::new(), Vec::new());
        for word in &self.words {
            let made = space::with(base, word).and_then(|variant| {
                if self.request.backend == Backend::Host {
                    schedlab_native::settings::Plan::of(&variant)?;
                }
                // What the experiment's reader refuses of it alone, it would refuse of all.
                self.with_variants(std::slice::from_ref(&variant))?;
                Ok(variant)
            });
            match made {
                Ok(variant) if settings.iter().any(|v| v.name == variant.name) => {}
                Ok(variant) => settings.push(variant),
                Err(e) => left_out.push(LeftOut { setting: word.clone(), why: e.message().to_owned() }),
            }
        }
        (settings, left_out)
    }

    /// The experiment with these variants, too.
    fn with_variants(&self, variants: &[Variant]) -> Result<Experiment> {
        let is_new = |v: &&Variant| !self.experiment.variants.iter().any(|known| known.name == v.name);
        let more: String = variants.iter().filter(is_new).map(|v| format!("\n{}", as_text(v))).collect();
        let text = format!("{}{more}", self.experiment.text);
        experiment::parse(&self.experiment.file, &text, crate::ask::here::cpus())
    }

    /// Runs of the default and some settings, compared.
    fn look(
        &self,
        whole: &Experiment,
        settings: &[&str],
        (runs, seed): (u64, u64),
        budget: Option<Budget>,
    ) -> Result<Comparison> {
        let variants = std::iter::once(whole.baseline.as_str()).chain(settings.iter().copied());
        let part = Part {
            variants: variants.map(str::to_owned).collect(),
            metrics: self.metrics.clone(),
            ..self.request.part.clone()
        };
        let mut request = RunRequest { part, budget, of_schedulers: true, ..self.request.clone() };
        request.wanted.runs = Some(runs);
        request.wanted.seed = Some(seed);
        Ok(self.lab.compared(&request, whole.clone())?.comparison)
    }

    fn is_judged(&self, cell: &Cell) -> bool {
        cell.backend == self.request.backend
    }

    /// A setting's scores by metric, over all loads of the experiment.
    fn scores(&self, seen: &Comparison, base: &str, setting: &str) -> Result<Vec<Scored>> {
        let of = |name: &str| -> Vec<&Cell> {
            seen.cells.iter().filter(|cell| self.is_judged(cell) && cell.variant == name).collect()
        };
        let (defaults, own) = (of(base), of(setting));
        self.metrics.iter().map(|metric| Scored::of(&defaults, &own, metric)).collect()
    }
}

/// A score and its metric's direction.
#[derive(Clone, Copy)]
struct Scored {
    /// `None`: the setting lacks the figure in some load or run.
    score: Option<f64>,
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
        let scores: Option<Vec<f64>> = with_it.map(|cell| of_load(cell)).collect();
        Ok(Scored { score: scores.map(|all| mean(&all)), better })
    }
    /// The change of the metric itself, in percent.
    fn change_pct(self) -> Option<f64> {
        let sign = if self.better == Better::Higher { -1.0 } else { 1.0 };
        self.score.map(|score| 100.0 * libm::expm1(sign * score))
    }
}

/// Those that are confirmed: the best, the second, and both together if they can be combined; else the third.
fn finalists(base: &Variant, left: &[&str]) -> Vec<Variant> {
    let made = |words: &str| space::with(base, words).ok();
    let mut all: Vec<Variant> = left.iter().take(FINALISTS).filter_map(|words| made(words)).collect();
    if let [first, second, ..] = left {
        // Two values of one setting are not two settings.
        let knob = |words: &str| {
            words.split(['=', ',']).next().unwrap_or_default().trim_start_matches("NO_").to_owned()
        };
        if knob(first) != knob(second) {
            all.truncate(2);
            all.extend(made(&format!("{first},{second}")));
        }
    }
    all
}

/// The first of the finalists with the largest gain that is better beyond chance in some row and worse in none.
fn winner(names: &[&str], rows: &[ComparisonRow]) -> Option<String> {
    let of = |name: &str, verdict: Verdict| {
        rows.iter().filter(|row| row.variant == name && row.verdict == verdict).collect::<Vec<_>>()
    };
    let gain = |name: &str| -> f64 {
        of(name, Verdict::Better).iter().filter_map(|row| row.change_pct).map(f64::abs).sum()
    };
    let wins = |name: &&&str| !of(name, Verdict::Better).is_empty() && of(name, Verdict::Worse).is_empty();
    names.iter().filter(wins).max_by(|a, b| gain(a).total_cmp(&gain(b))).map(|name| (*name).to_owned())
}
