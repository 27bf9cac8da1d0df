//! A trial from its words to its result.

use super::reached::reached;
use super::source::{Chosen, choose};
use super::{Trial, budget, costs, machines, moved};
use crate::ask::levels::level_on;
use crate::ask::{builds, here};
use crate::make::request::{Compared, Lab, RunRequest};
use schedlab_base::{Backend, Result};
use schedlab_compare::predicted::predicted;
use schedlab_compare::trial::{Brought, Feature, Reached, Tried};
use schedlab_kernels::diff::{ChangedLines, Patch, named};
use schedlab_kernels::{Setting, cache};
use schedlab_machine::Machine;
use schedlab_record::Store;
use std::collections::BTreeSet;

/// A trial as it is asked for.
pub struct Asked<'a> {
    /// Words that name the patches, applied in order.
    pub patches: &'a [String],
    /// The base kernel's source; `None`: the series at hand that the patches fit best.
    pub source: Option<&'a str>,
    /// A fragment of configuration for both kernels.
    pub config: Option<&'a str>,
    /// Features of the patches to switch; empty: all.
    pub features: &'a [String],
    /// Empty: the usual ones of the backend.
    pub machines: &'a [String],
    /// Backend, part, number of runs and the like. Without a level and a budget it gets those of trials.
    pub request: RunRequest,
}

/// A trial whose runs were made.
pub struct Ran {
    pub compared: Compared,
    trial: Trial,
    request: RunRequest,
    /// The word of the base kernel's source.
    source: String,
    changed: Vec<ChangedLines>,
}

impl Asked<'_> {
    /// Builds both kernels, and makes and compares their runs. After an interruption what was made is compared.
    ///
    /// # Errors
    /// Patches that fit no source, an unknown machine, and those of [`Lab::compared_so_far`].
    pub fn run(self, lab: &Lab<'_>) -> Result<Ran> {
        let mut request = self.request;
        let backend = request.backend;
        let chosen = choose(self.patches, self.source, &cache::folder(None)?)?;
        if let Some(why) = &chosen.why {
            lab.listener.note(why);
        }
        let Chosen { word: source, patches, changed, .. } = chosen;
        let trial = Trial::of(&source, self.patches, patches, self.config, self.features)?;
        for name in self.machines {
            Machine::load(name).map_err(|e| e.context("--machine"))?;
        }
        let usual = || machines(backend).iter().map(|name| (*name).to_owned()).collect();
        let machines = if self.machines.is_empty() { usual() } else { self.machines.to_vec() };
        let experiment = trial.experiment(&machines, here::cpus())?;
        if backend == Backend::Code {
            let on: Vec<&Machine> = experiment.machines.iter().collect();
            request.level.get_or_insert_with(|| level_on("try", &on));
        } else {
            // An image that is in the cache needs no tools; one that is to be built says what it lacks before any work.
            builds::ready(true)?;
        }
        if request.budget.is_none() && request.wanted.runs.is_none() {
            request.budget = budget(&machines)?;
        }
        let compared = lab.compared_so_far(&request, experiment)?;
        Ok(Ran { compared, trial, request, source, changed })
    }
}

impl Ran {
    /// The result. On backend code some runs are made again, to see which lines of the patches they reach.
    ///
    /// # Errors
    /// When the store can't be read, and where an interruption can't be noticed.
    pub fn tried(self, lab: &Lab<'_>) -> Result<Tried> {
        let (trial, plan, records) = (&self.trial, &self.compared.plan, &self.compared.records);
        let [base, patched] = trial.functions(plan, &Store::create(&self.request.out)?)?;
        Ok(Tried {
            reached: self.reached(lab)?,
            source: self.source_in_words(),
            patches: trial.patches.iter().map(|p: &Patch| (p.name.clone(), p.subject.clone())).collect(),
            base: trial.base.name.clone(),
            patched: trial.patched.name.clone(),
            features: trial.features.iter().map(|f| Feature { name: f.name.clone(), on: f.on }).collect(),
            counters: trial.counters.clone(),
            options: trial.options(plan).into_iter().map(brought).collect(),
            costs: costs(records, trial),
            functions: moved(&base, &patched),
            predicted: predicted(records, &trial.base.name, &trial.patched.name),
            comparison: self.compared.comparison,
            unfinished: self.compared.unfinished,
        })
    }

    /// What the patches name: features, and functions that they change or that are near their lines.
    pub fn named(&self) -> BTreeSet<String> {
        named(&self.trial.patches)
    }
    /// How often the patches' lines were reached, or why that was not counted: the page is as true without.
    fn reached(&self, lab: &Lab<'_>) -> Result<std::result::Result<Vec<Reached>, String>> {
        let plan = &self.compared.plan;
        let by_code = plan.cells.iter().any(|cell| cell.backend == Backend::Code);
        if by_code && self.compared.unfinished.is_some() {
            return Ok(Err("that takes further runs, which come when all others are made".to_owned()));
        }
        let (jobs, stop) = (self.request.jobs() as usize, lab.listener.stop_flag()?);
        let found = reached(&self.trial, plan, &self.changed, (jobs, stop));
        Ok(found.map_err(|e| e.to_string().replace("\n  help: ", "; ")))
    }

    fn source_in_words(&self) -> String {
        let cell = self.compared.comparison.cells.iter().find(|c| c.backend == self.request.backend);
        let source = cell.map_or(&self.source, |c| &c.kernel);
        match self.request.level {
            Some(level) => format!("{source} at level {}", level.word()),
            None => source.clone(),
        }
    }
}

fn brought(setting: Setting) -> Brought {
    let words = setting.words();
    let Setting { name, value, by, new } = setting;
    Brought { name, value, by: by.name(), new, words }
}
