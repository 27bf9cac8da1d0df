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
use schedlab_compare::stats::race::{FINALISTS, Round, order, rounds, score};
use schedlab_compare::stats::{Better, Verdict};
use schedlab_compare::tuned::{LeftOut, Raced, Tuned};
use schedlab_kernel::Variant;
use std::sync::atomic::Ordering;
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

/// What a search has seen so far.
#[derive(Default)]
struct Course {
    race: Vec<Raced>,
    left_out: Vec<LeftOut>,
    runs: u64,
    cut_short: bool,
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
        let mut course = Course { left_out, ..Course::default() };
        if settings.is_empty() {
            let first = course.left_out.first();
            let why = first.map(|one| format!(": {}: {}", one.setting, one.why)).unwrap_or_default();
            return Err(Error::machine(format!("no setting can be tried here{why}"))
                .help("name others with --try, or take another backend"));
        }
        let seed = self.request.wanted.seed.unwrap_or(self.experiment.seed);
        let all = rounds(settings.len(), self.first);
        let left = self.race(&settings, &all, seed, &mut course)?;
        let finalists = self.finalists(&base, &left);
        let whole = self.with_variants(&finalists)?;
        let mut names: Vec<&str> = finalists.iter().map(|v| v.name.as_str()).collect();
        let fresh = seed + all.last().map_or(0, |round| round.runs);
        let further = Some(Budget::Part(FURTHER));
        let seen = self.look_at(&whole, &mut names, (CONFIRM, fresh), (further, &mut course))?;
        // Few settings do not race, so here is the first look at the metrics.
        self.scores(&seen, &base.name, names.first().copied().unwrap_or_default())?;
        let cells = seen.cells.iter().filter(|cell| self.is_judged(cell));
        course.runs += cells.map(|cell| cell.runs as u64).sum::<u64>();
        let rows = seen.comparisons.iter().filter(|row| row.backend == self.request.backend);
        let confirmed: Vec<ComparisonRow> = rows.cloned().collect();
        Ok(Tuned {
            default: base.name,
            metrics: self.metrics.clone(),
            winner: winner(&names, &confirmed),
            race: course.race,
            confirmed,
            cut_short: course.cut_short,
            left_out: course.left_out,
            runs: course.runs,
            warnings: seen.warnings.into_iter().map(|w| w.warning).collect(),
            settings: settings.len(),
        })
    }

    /// The rounds of the race; those that are left, best first.
    fn race<'v>(
        &self,
        settings: &'v [Variant],
        all: &[Round],
        seed: u64,
        course: &mut Course,
    ) -> Result<Vec<&'v str>> {
        let whole = self.with_variants(settings)?;
        let begun = Instant::now();
        let mut left: Vec<&str> = settings.iter().map(|v| v.name.as_str()).collect();
        let mut before = 0;
        for (at, round) in all.iter().enumerate() {
            let seen = self.look_at(&whole, &mut left, (round.runs, seed), (None, course))?;
            course.runs += (round.runs - before) * (left.len() as u64 + 1);
            before = round.runs;
            let scored: Vec<Vec<Scored>> =
                left.iter().map(|name| self.scores(&seen, &whole.baseline, name)).collect::<Result<_>>()?;
            let is_last = at + 1 == all.len();
            course.cut_short = !is_last && self.limit.is_some_and(|limit| begun.elapsed() > limit);
            let ends = is_last || course.cut_short;
            let keep = if ends { FINALISTS } else { all[at + 1].settings };
            let scores: Vec<Vec<Option<f64>>> =
                scored.iter().map(|of| of.iter().map(|one| one.score).collect()).collect();
            let places = order(&scores);
            let raced = |place: &usize| Raced {
                setting: left[*place].to_owned(),
                runs: round.runs,
                change_pct: scored[*place].iter().map(|one| one.change_pct()).collect(),
            };
            let stay = places.len().min(keep);
            let leave = if ends { 0 } else { stay };
            course.race.splice(0..0, places[leave..].iter().map(raced));
            left = places[..stay].iter().map(|place| left[*place]).collect();
            if ends {
                break;
            }
        }
        Ok(left)
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
            match self.made(base, word) {
                Ok(variant) if settings.iter().any(|v| v.name == variant.name) => {}
                Ok(variant) => settings.push(variant),
                Err(e) => left_out.push(LeftOut { setting: word.clone(), why: e.message().to_owned() }),
            }
        }
        (settings, left_out)
    }

    /// The variant of some words, if it can run here and the experiment's reader takes it.
    fn made(&self, base: &Variant, words: &str) -> Result<Variant> {
        let variant = space::with(base, words)?;
        if self.experiment.variants.iter().any(|known| known.name == variant.name && *known != variant) {
            return Err(Error::input("the experiment has another variant of this name"));
        }
        if self.request.backend == Backend::Host {
            schedlab_native::settings::Plan::of(&variant)?;
        }
        self.with_variants(std::slice::from_ref(&variant))?;
        Ok(variant)
    }

    /// Those that are confirmed: the best, the second, and both together if they can be combined; else the third.
    fn finalists(&self, base: &Variant, left: &[&str]) -> Vec<Variant> {
        let made = |words: &str| self.made(base, words).ok();
        let mut all: Vec<Variant> = left.iter().take(FINALISTS).filter_map(|words| made(words)).collect();
        if let [first, second, ..] = left {
            // Two values of one setting are not two settings.
            let knob = |words: &str| {
                words.split(['=', ',']).next().unwrap_or_default().trim_start_matches("NO_").to_owned()
            };
            let pair = made(&together(first, second)).filter(|_| knob(first) != knob(second));
            if let Some(pair) = pair {
                all.truncate(2);
                all.push(pair);
            }
        }
        all
    }

    /// The experiment with these variants, too.
    fn with_variants(&self, variants: &[Variant]) -> Result<Experiment> {
        let is_new = |v: &&Variant| !self.experiment.variants.iter().any(|known| known.name == v.name);
        let more: String = variants.iter().filter(is_new).map(|v| format!("\n{}", as_text(v))).collect();
        let text = format!("{}{more}", self.experiment.text);
        experiment::parse(&self.experiment.file, &text, crate::ask::here::cpus())
    }

    /// A look at the default and some settings, without those under which a run fails.
    fn look_at(
        &self,
        whole: &Experiment,
        settings: &mut Vec<&str>,
        runs: (u64, u64),
        (budget, course): (Option<Budget>, &mut Course),
    ) -> Result<Comparison> {
        let failed = match self.look(whole, settings, runs, budget) {
            Ok(seen) => return Ok(seen),
            Err(e) => e,
        };
        if self.lab.listener.stop_flag()?.load(Ordering::Relaxed) {
            return Err(failed);
        }
        // Under the default it has to run; runs that were made are found again.
        self.look(whole, &[], runs, None)?;
        let before = settings.len();
        settings.retain(|name| match self.look(whole, &[name], runs, None) {
            Ok(_) => true,
            Err(e) => {
                course.left_out.push(LeftOut { setting: (*name).to_owned(), why: e.message().to_owned() });
                false
            }
        });
        if settings.len() == before || settings.is_empty() {
            return Err(failed);
        }
        self.look(whole, settings, runs, budget)
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
        let scores: Option<Vec<f64>> = with_it.map(of_load).collect();
        Ok(Scored { score: scores.map(|all| mean(&all)), better })
    }
    /// The change of the metric itself, in percent.
    fn change_pct(self) -> Option<f64> {
        let sign = if self.better == Better::Higher { -1.0 } else { 1.0 };
        self.score.map(|score| 100.0 * libm::expm1(sign * score))
    }
}

/// Both settings as one; a scheduler's words are last.
fn together(first: &str, second: &str) -> String {
    if first.starts_with(space::SCX) { format!("{second},{first}") } else { format!("{first},{second}") }
}

/// The finalist with the largest gain of those that are better beyond chance in some row and worse in none. A pair wins
/// only over two winners: else it is one of them, and something that does nothing.
fn winner(names: &[&str], rows: &[ComparisonRow]) -> Option<String> {
    let of = |name: &str, verdict: Verdict| {
        rows.iter().filter(|row| row.variant == name && row.verdict == verdict).collect::<Vec<_>>()
    };
    let gain = |name: &str| -> f64 {
        of(name, Verdict::Better).iter().filter_map(|row| row.change_pct).map(f64::abs).sum()
    };
    let wins = |name: &&str| !of(name, Verdict::Better).is_empty() && of(name, Verdict::Worse).is_empty();
    let mut winners: Vec<&str> = names.iter().copied().filter(wins).collect();
    let [singles @ .., pair] = names else { return None };
    let is_pair = matches!(singles, [first, second] if *pair == together(first, second));
    let of_singles = winners.iter().filter(|name| singles.contains(name)).count();
    if is_pair && of_singles == 1 {
        winners.retain(|name| name != pair);
    }
    // Of equals the first: max_by takes the last.
    winners.iter().rev().max_by(|a, b| gain(a).total_cmp(&gain(b))).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of one metric with a verdict.
    fn row(variant: &str, verdict: &str, change_pct: f64) -> ComparisonRow {
        let row = serde_json::json!({
            "backend": "sim", "machine": "smp-4", "workload": "nanosleep", "load": "default", "metric": "m",
            "baseline": "v6.12", "variant": variant, "change_pct": change_pct, "ci95_pct": null, "p": 0.01,
            "verdict": verdict, "mean_change_pct": null, "rank_pct": null, "pairs": 12, "correlation": null,
            "detectable_pct": null,
        });
        serde_json::from_value(row).unwrap()
    }
    fn won(rows: &[(&str, &str, f64)]) -> Option<String> {
        let names: Vec<&str> = rows.iter().map(|row| row.0).collect();
        let rows: Vec<ComparisonRow> =
            rows.iter().map(|(name, verdict, pct)| row(name, verdict, *pct)).collect();
        winner(&names, &rows)
    }

    #[test]
    fn a_pair_wins_over_two_winners_only() {
        let of = |second, pair| won(&[("a", "better", -20.0), ("b", second, -5.0), ("a,b", "better", pair)]);
        assert_eq!(of("better", -24.0).as_deref(), Some("a,b"));
        assert_eq!(of("better", -15.0).as_deref(), Some("a"));
        assert_eq!(of("same", -20.5).as_deref(), Some("a"));
        let only = won(&[("a", "unclear", -3.0), ("b", "unclear", -3.0), ("a,b", "better", -6.0)]);
        assert_eq!(only.as_deref(), Some("a,b"), "each is too small to be seen alone");
        assert_eq!(won(&[("a", "better", -9.0), ("b", "better", -9.0)]).as_deref(), Some("a"));
        assert_eq!(won(&[("a", "same", 0.0), ("b", "worse", 4.0)]), None);
    }

    #[test]
    fn a_scheduler_s_words_are_last() {
        assert_eq!(together("scx=scx_mine -a", "slice=1ms"), "slice=1ms,scx=scx_mine -a");
        assert_eq!(together("NO_A", "policy=batch"), "NO_A,policy=batch");
    }
}
