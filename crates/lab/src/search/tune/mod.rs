//! Which of many settings is best for a workload.
//!
//! The settings race ([`schedlab_compare::stats::race`]): each round drops the worse two thirds and doubles the runs of
//! the rest. Then the pairs of the best four race, and the best setting and the best pair with its members are
//! confirmed by fresh seeds against the default, as rows of one ordinary comparison. Only that comparison names a
//! winner, so its error rate holds however many raced. With two metrics a setting wins that is better in one and worse
//! in none.
//!
//! Where a recording stands for the workload, its replay races first: what leaves there never runs under the workload.
//!
//! All of them are variants of one experiment: the text that is given, with a `[[variant]]` for each behind it. It is
//! kept with the runs, so that `schedlab run` makes the same ones.

mod cpus;
mod finals;
mod race;
mod scores;
mod space;
mod write;

pub use cpus::Cpus;
pub use space::{AXES, Ground, with, words};
pub use write::{Form, profile};

use crate::ask::experiment::{self, Experiment, Part, write::variant as as_text};
use crate::make::budget::Budget;
use crate::make::request::{Lab, RunRequest};
use schedlab_base::{Backend, Error, Result};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, ComparisonRow};
use schedlab_compare::stats::race::rounds;
use schedlab_compare::tuned::{LeftOut, Pruned, Raced, Tuned};
use schedlab_kernel::Variant;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Runs of a setting and of the default at the first look of the confirmation.
pub const CONFIRM: u64 = 12;
/// Further runs of the confirmation, in per cent of the first look's, where rows are undecided.
const FURTHER: u64 = 300;
/// A replay's race ends when so many are left, since the replay is not the workload.
const REPLAYED: usize = 9;

/// What is searched.
pub struct Tune<'a> {
    pub lab: Lab<'a>,
    /// Where and how runs are made.
    pub request: RunRequest,
    /// The experiment; its baseline is the default.
    pub experiment: Experiment,
    /// Changes of the default, each a word or several with commas.
    pub words: Vec<String>,
    /// The CPUs that words of sets mean; `None`: they differ.
    pub cpus: Option<Cpus>,
    /// One or two metrics. Their directions must be known.
    pub metrics: Vec<String>,
    /// Runs of each setting in the first round.
    pub first: u64,
    /// After so long the race ends, and those that lead are confirmed.
    pub limit: Option<Duration>,
    /// The replay in which the settings race first.
    pub replay: Option<Box<Tune<'a>>>,
}

/// What a search has seen so far.
struct Course {
    begun: Instant,
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
        self.check_text()?;
        let base = self.default()?;
        let (mut settings, left_out) = self.settings(&base);
        let mut course =
            Course { begun: Instant::now(), race: Vec::new(), left_out, runs: 0, cut_short: false };
        if settings.is_empty() {
            let first = course.left_out.first();
            let why = first.map(|one| format!(": {}: {}", one.setting, one.why)).unwrap_or_default();
            return Err(Error::machine(format!("no setting can be tried here{why}"))
                .help("name others with --try, or take another backend"));
        }
        let count = settings.len();
        let pruned = self.replay.as_ref().map(|replay| replay.pruned(&mut settings, &mut course));
        let pruned = pruned.transpose()?;
        let seed = self.seed();
        let all = rounds(settings.len(), self.first);
        let left = self.race(&settings, &all, (all.len(), finals::PAIRED), &mut course)?;
        let runs = all.last().map_or(self.first, |round| round.runs);
        let finalists = self.finalists(&base, &left, runs, &mut course)?;
        let whole = self.with_variants(&finalists.all())?;
        let mut names = finalists.names();
        let further = Some(Budget::Part(FURTHER));
        let seen = self.look_at(&whole, &mut names, (CONFIRM, seed + runs), (further, &mut course))?;
        // Few settings do not race, so here is the first look at the metrics.
        self.scores(&seen, &base.name, names.first().copied().unwrap_or_default())?;
        let cells = seen.cells.iter().filter(|cell| self.is_judged(cell));
        course.runs += cells.map(|cell| cell.runs as u64).sum::<u64>();
        let rows = seen.comparisons.iter().filter(|row| row.backend == self.request.backend);
        let confirmed: Vec<ComparisonRow> = rows.cloned().collect();
        Ok(Tuned {
            default: base.name,
            metrics: self.metrics.clone(),
            winner: finalists.winner(&confirmed),
            race: course.race,
            confirmed,
            cut_short: course.cut_short,
            left_out: course.left_out,
            runs: course.runs,
            warnings: seen.warnings.into_iter().map(|w| w.warning).collect(),
            settings: count,
            pruned,
        })
    }

    /// As a replay: races until few settings are left, and leaves those and what can't be replayed.
    fn pruned(&self, settings: &mut Vec<Variant>, course: &mut Course) -> Result<Pruned> {
        self.check_text()?;
        let base = self.default()?;
        let made = |setting: &Variant| self.made(&base, &setting.name).ok();
        let own: Vec<Variant> = settings.iter().filter_map(made).collect();
        let all = rounds(own.len(), self.first);
        let take = all.iter().take_while(|round| round.settings > REPLAYED).count();
        let before = course.race.len();
        let left: Vec<String> =
            self.race(&own, &all, (take, REPLAYED), course)?.into_iter().map(str::to_owned).collect();
        // What was left out here runs under the workload, if it can.
        course.left_out.retain(|out| !own.iter().any(|setting| setting.name == out.setting));
        let of_replay = course.race.len() - before;
        let dropped: Vec<Raced> =
            course.race.drain(..of_replay).filter(|one| !left.contains(&one.setting)).collect();
        settings.retain(|setting| !dropped.iter().any(|one| one.setting == setting.name));
        Ok(Pruned { backend: self.request.backend, metrics: self.metrics.clone(), dropped })
    }

    fn seed(&self) -> u64 {
        self.request.wanted.seed.unwrap_or(self.experiment.seed)
    }

    /// Whether variants can be added to the experiment's text.
    fn check_text(&self) -> Result<()> {
        let more = format!("{}\n[[variant]]\n", self.experiment.text);
        match toml::from_str::<toml::Table>(&more) {
            Ok(_) => Ok(()),
            Err(_) => {
                let file = self.experiment.file.display();
                let text =
                    format!("{file}: its variants are in a list (variant = [...]), and none can be added");
                Err(Error::input(text).help("write each as a table of its own, under [[variant]]"))
            }
        }
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
        let variant = space::with(base, words, self.cpus.as_ref())?;
        if self.experiment.variants.iter().any(|known| known.name == variant.name && *known != variant) {
            return Err(Error::input("the experiment has another variant of this name"));
        }
        if self.request.backend == Backend::Host {
            schedlab_native::settings::Plan::of(&variant)?;
        }
        self.with_variants(std::slice::from_ref(&variant))?;
        Ok(variant)
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
        match self.look(whole, settings, runs, budget) {
            Ok(seen) => Ok(seen),
            Err(failed) => {
                let failed = self.without_failing(whole, settings, (runs, course), failed)?;
                if settings.is_empty() {
                    return Err(failed);
                }
                self.look(whole, settings, runs, budget)
            }
        }
    }

    /// Makes the runs of some settings, and leaves those under which one fails out.
    fn sift(
        &self,
        whole: &Experiment,
        settings: &mut Vec<&str>,
        runs: (u64, u64),
        course: &mut Course,
    ) -> Result<()> {
        match self.look(whole, settings, runs, None) {
            Ok(_) => Ok(()),
            Err(failed) => self.without_failing(whole, settings, (runs, course), failed).map(drop),
        }
    }

    /// Looks for the settings under which a run fails, and leaves them out. Under the default it has to run; runs that
    /// were made are found again. Returns the failure.
    fn without_failing(
        &self,
        whole: &Experiment,
        settings: &mut Vec<&str>,
        (runs, course): ((u64, u64), &mut Course),
        failed: Error,
    ) -> Result<Error> {
        if self.lab.listener.stop_flag()?.load(Ordering::Relaxed) {
            return Err(failed);
        }
        self.look(whole, &[], runs, None)?;
        let before = settings.len();
        settings.retain(|name| match self.look(whole, &[name], runs, None) {
            Ok(_) => true,
            Err(e) => {
                course.left_out.push(LeftOut { setting: (*name).to_owned(), why: e.message().to_owned() });
                false
            }
        });
        if settings.len() == before { Err(failed) } else { Ok(failed) }
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
}
