//! Two sides of one kernel: its own code at level `free`, and our rules, on machines where no step takes time. Both run
//! the same programs, so their events are equal unless a rule of ours, or the engine, deviates from the kernel.
//!
//! CPUs that act at one instant act in an order that no kernel specifies. A difference caused by that order does not
//! count. It is recognised by more runs of the code with other orders: one of them agrees with our rules for longer
//! than the first run did. NI_RANDOM is off on both sides, and so are other draws of the kernel ([`NO_DICE`]), since
//! each side has its own dice. Threads of a core do not slow each other down.

use super::space::Space;
use super::specimen::Specimen;
use crate::ask::cell::Cell;
use crate::ask::code::CodeImage;
use crate::ask::{builds, guests};
use crate::make::exec::RunOptions;
use crate::make::exec::prepared::{Prepared, names};
use crate::make::exec::sim;
use crate::stored::code_events::CodeEvents;
use schedlab_base::{Error, Ns, Result, Version};
use schedlab_board::NO_DICE;
use schedlab_kernel::{Feature, Variant};
use schedlab_sim::{Setup, simulate};
use schedlab_trace::Event;
use schedlab_trace::Keep;
use schedlab_trace::parting::{self, Parting};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The seed of both runs, which also orders CPUs that act at one instant.
pub const SEED: u64 = NO_DICE | 1;
/// Seeds of more runs of the code, with other orders.
const ORDERS: std::ops::Range<u64> = (NO_DICE | 2)..(NO_DICE | 6);
/// Most CPUs of a machine whose runs have the full length.
const USUAL_CPUS: u32 = 16;
/// Both sides are first run for one of this many parts of their length.
const BEGINNING: u64 = 16;
/// Events that are shown before the instant of a difference.
const SHOWN: usize = 6;

/// A kernel's code and our rules for it.
#[derive(Clone, Debug)]
pub struct Sides {
    /// The kernel whose code runs.
    pub code: Variant,
    /// The same kernel by our rules.
    pub rules: Variant,
    image: CodeImage,
    /// Machines without costs.
    pub space: Space,
    /// Simulated length of each run on machines of usual size.
    pub runtime: Ns,
}

/// The outcome of a workload on both sides.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Equal to the end.
    Same,
    /// Equal until CPUs acted at one instant, whose order decides.
    Ordered,
    /// Different from an instant on.
    Parted(Box<Parted>),
}

/// The place where both sides differ first, with the events around it: the code's and ours.
#[derive(Clone, PartialEq, Debug)]
pub struct Parted {
    pub parting: Parting,
    pub events: [Vec<Event>; 2],
    /// The names of the tasks, by number.
    pub names: Vec<String>,
}

impl Sides {
    /// The sides of a kernel, with its image. The image is built last, so that a wrong word is reported at once.
    ///
    /// # Errors
    /// For a variant that our rules do not know and an unknown machine, and when the image can't be had.
    pub fn of(
        mut code: Variant,
        image: &dyn Fn(&Variant) -> Result<CodeImage>,
        machines: &[String],
        runtime: Ns,
    ) -> Result<Sides> {
        if !code.level.is_free() {
            return Err(Error::input(
                "first differences are looked for at level free, where code takes no time",
            )
            .help("leave out --level"));
        }
        let ours = |code: &Variant, series| guests::simulated_as(code, "our rules".to_owned(), series);
        if let Some(series) = builds::known_series(&code.kernel) {
            ours(&code, series)?;
        }
        let mut machines = Space::machines(machines)?;
        for (_, machine) in &mut machines {
            if machine.turns.is_some() {
                let text = format!("{}: its CPUs take turns, which take time", machine.name);
                return Err(
                    Error::input(text).help("first differences need a machine without turns, as smp-8")
                );
            }
            let mut free = machine.without_costs()?;
            // Otherwise each side would round work to a nanosecond wherever it accounts it, at different places.
            free.set_cost("smt_speed_pct", 100)?;
            *machine = Arc::new(free);
        }
        let image = image(&code)?;
        let mut rules = ours(&code, Version::new(image.version.major, image.version.minor).to_string())?;
        if rules.resolve()?.features.has(Feature::NiRandom) {
            for variant in [&mut code, &mut rules] {
                variant.features.push(format!("NO_{}", Feature::NiRandom.name()));
            }
        }
        let (groups, wide) = (Space::groups([image.version; 2]), Space::words(image.version));
        let space = Space { machines, groups, wide };
        Ok(Sides { code, rules, image, space, runtime })
    }

    /// The length of a run on a machine with `cpus` CPUs: a third on large ones, where a run takes long.
    pub fn runtime_on(&self, cpus: u32) -> Ns {
        if cpus > USUAL_CPUS { Ns(self.runtime.0 / 3) } else { self.runtime }
    }

    /// The outcome of a specimen on both sides; `None`: `stop` ended a run.
    ///
    /// # Errors
    /// When a run fails.
    pub fn run(&self, specimen: &Specimen, stop: &AtomicBool) -> Result<Option<Outcome>> {
        let text = super::write::rtapp(specimen, &self.space);
        let (machine, cpus) = (&self.space.machines[specimen.machine].1, self.space.cpus(specimen.machine));
        let spec = specimen.spec(text, self.runtime_on(cpus))?;
        let load = || "hunt".to_owned();
        let of = |variant: &Variant| specimen.in_variant(variant, cpus);
        let rules = Cell::simulated(machine, of(&self.rules), spec.clone(), load())?;
        let code = Cell::of_code(machine, self.image.clone(), of(&self.code), spec, load())?;
        // Most runs that part do so early: the whole of them is made only if the beginning is equal.
        let beginning = Ns(self.runtime_on(cpus).0 / BEGINNING);
        let Some(mut both) = Both::run(&rules, &code, Some(beginning), stop)? else { return Ok(None) };
        if both.parting().is_none() {
            let Some(whole) = Both::run(&rules, &code, None, stop)? else { return Ok(None) };
            both = whole;
        }
        let Some(parting) = both.parting() else { return Ok(Some(Outcome::Same)) };
        let Both { theirs, ours, names } = both;
        // What comes after that instant changes nothing any more.
        let until = Some(parting.at.plus(Ns(1)));
        for seed in ORDERS {
            let Some(other) = by_code(&code, seed, until, stop)? else { return Ok(None) };
            let later = parting::parting([&other, &ours], names.len());
            if later.is_none_or(|later| later.at > parting.at) {
                return Ok(Some(Outcome::Ordered));
            }
        }
        let events = [&theirs, &ours].map(|events| parting::around(events, parting.at, SHOWN));
        Ok(Some(Outcome::Parted(Box::new(Parted { parting, events, names }))))
    }
}

/// The events of a workload on both sides, and the names of its tasks.
struct Both {
    theirs: Vec<Event>,
    ours: Vec<Event>,
    names: Vec<String>,
}

impl Both {
    /// Runs both sides up to that time. `None`: `stop` ended a run.
    fn run(rules: &Cell, code: &Cell, until: Option<Ns>, stop: &AtomicBool) -> Result<Option<Both>> {
        let Some((ours, names)) = by_rules(rules, until, stop)? else { return Ok(None) };
        let theirs = by_code(code, SEED, until, stop)?;
        Ok(theirs.map(|theirs| Both { theirs, ours, names }))
    }
    fn parting(&self) -> Option<Parting> {
        parting::parting([&self.theirs, &self.ours], self.names.len())
    }
}

/// The events of a simulated run up to that time, and the names of its tasks.
fn by_rules(cell: &Cell, until: Option<Ns>, stop: &AtomicBool) -> Result<Option<(Vec<Event>, Vec<String>)>> {
    let mut prepared = Prepared::of(cell, SEED, &cell.machine)?;
    let workload = &mut prepared.workload;
    if let Some(until) = until {
        workload.duration = workload.duration.min(until.since(workload.warmup));
    }
    let names = names(cell, prepared.machine, &prepared.workload).into_iter().map(|name| name.name).collect();
    let setup = Setup { background: false, ..sim::setup(prepared, cell, SEED, stop)? };
    let mut kept = Keep::default();
    let report = simulate(setup, &mut kept)?;
    Ok((!report.stopped).then_some((kept.events, names)))
}

/// The events of a run of the kernel's code, up to that time.
fn by_code(cell: &Cell, seed: u64, until: Option<Ns>, stop: &AtomicBool) -> Result<Option<Vec<Event>>> {
    let options = RunOptions { until, events_alone: true, ..RunOptions::default() };
    let Some(events) = CodeEvents::made(cell, seed, options, stop)? else { return Ok(None) };
    let mut kept = Keep::default();
    Ok(events.feed(&mut kept, stop)?.map(|_| kept.events))
}
