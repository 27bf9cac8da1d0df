//! The hunted change, and the runs by which a specimen is judged.

use super::faults::Fault;
use super::score::Class;
use super::space::Space;
use super::specimen::{Dice, Specimen};
use super::write;
use crate::ask::cell::Cell;
use crate::ask::code::CodeImage;
use crate::ask::scx;
use crate::make::exec::{Backends, Executor};
use schedlab_base::{Error, Ns, Result, Stream};
use schedlab_kernel::Variant;
use schedlab_workload::Spec;
use std::sync::atomic::AtomicBool;

/// Pairs of runs by which a specimen is judged.
pub(super) const SEEDS: u64 = 3;
/// Pairs of runs by which the best of a class are judged again, with other seeds. The best of thousands by three pairs
/// is partly lucky.
const FINAL_SEEDS: u64 = 9;

/// The hunted change and how it is judged.
#[derive(Clone, Debug)]
pub struct Judge {
    /// The kernel that the variant is compared with.
    pub baseline: Variant,
    /// The variant, without a fault.
    pub variant: Variant,
    /// A wait that a task must not have under a sched_ext scheduler; `None`: the variant is not one.
    pub limit: Option<Ns>,
    /// A seeded fault.
    pub fault: Option<&'static Fault>,
    pub space: Space,
    /// Simulated length of each run.
    pub runtime: Ns,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// The images of baseline and variant, if the kernel's own code runs the specimens; `None`: our rules do.
    pub images: Option<[CodeImage; 2]>,
}

impl Judge {
    /// A judge of a variant.
    ///
    /// # Errors
    /// For an unknown machine or kernel.
    pub fn new(
        baseline: Variant,
        variant: Variant,
        fault: Option<&'static Fault>,
        machines: &[String],
        runtime: Ns,
    ) -> Result<Judge> {
        let space = Space::of(machines, [&baseline, &variant])?;
        let (seeds, limit, images) = ((1..=SEEDS).collect(), None, None);
        Ok(Judge { baseline, variant, limit, fault, space, runtime, seeds, images })
    }
    /// A judge by the kernel's own code, with the images of baseline and variant. These are built last, so that a wrong
    /// word is reported at once.
    ///
    /// # Errors
    /// For an unknown machine, and an image that can't be had.
    pub fn by_code(
        [baseline, variant]: [Variant; 2],
        images: &dyn Fn(&[&Variant]) -> Result<Vec<CodeImage>>,
        fault: Option<&'static Fault>,
        machines: &[String],
        runtime: Ns,
    ) -> Result<Judge> {
        let machines = Space::machines(machines)?;
        let images = <[CodeImage; 2]>::try_from(images(&[&baseline, &variant])?)
            .map_err(|_| Error::internal("two variants without two images"))?;
        let groups = Space::groups(images.each_ref().map(|image| image.version));
        let (space, seeds, images) =
            (Space { machines, groups, wide: None }, (1..=SEEDS).collect(), Some(images));
        Ok(Judge { baseline, variant, limit: None, fault, space, runtime, seeds, images })
    }
    /// The same of a sched_ext scheduler, under which no task may wait longer than this. Runs are long enough to show
    /// it.
    #[must_use]
    pub fn with_limit(self, limit: Ns) -> Judge {
        Judge { limit: Some(limit), runtime: self.runtime.max(Ns(3 * limit.0)), ..self }
    }
    /// Runs a small workload on each machine, so that a scheduler that can't be had is reported before the search.
    ///
    /// # Errors
    /// What the scheduler lacks, or the kernel.
    pub fn check(&self, stop: &AtomicBool) -> Result<()> {
        for machine in 0..self.space.machines.len() {
            let mut small =
                Specimen::draw(Dice(Stream::new(1)), &Space { groups: false, ..self.space.clone() });
            small.machine = machine;
            small.kinds.truncate(1);
            let small = small.mended(&self.space);
            let text = write::rtapp(&small, &self.space);
            let spec = Spec::RtApp { file: "hunt.json".to_owned(), text, runtime: Some(self.runtime) };
            let [_, cell] = self.cells(&small, &spec)?;
            match Backends::default().run(&cell, self.seeds[0], stop) {
                Err(e) if !scx::has_not_lasted(&e) => return Err(e.context(cell.title())),
                _ => {}
            }
        }
        Ok(())
    }
    /// The classes of losses that are looked for.
    pub(super) fn classes(&self) -> &'static [Class] {
        if self.limit.is_some() { &Class::ALL } else { &Class::ALL[Class::OF_CHANGES..] }
    }
    /// The cells of a specimen: baseline and variant.
    ///
    /// # Errors
    /// For a kernel or a machine that can't run it.
    pub(super) fn cells(&self, specimen: &Specimen, spec: &Spec) -> Result<[Cell; 2]> {
        let machine = &self.space.machines[specimen.machine].1;
        let load = || "hunt".to_owned();
        let (baseline, variant) = (self.baseline.clone(), self.variant(specimen));
        let Some([of_baseline, of_variant]) = self.images.clone() else {
            let of = |variant| Cell::simulated(machine, variant, spec.clone(), load());
            return Ok([of(baseline)?, of(variant)?]);
        };
        let of = |image, variant| Cell::of_code(machine, image, variant, spec.clone(), load());
        Ok([of(of_baseline, baseline)?, of(of_variant, variant)?])
    }
    /// The judge of the best, by seeds that the search did not use.
    pub(super) fn of_finals(&self) -> Judge {
        let seeds = (SEEDS + 1..=SEEDS + FINAL_SEEDS).collect();
        Judge { seeds, ..self.clone() }
    }
    /// The variant under which a specimen's tasks run.
    pub(super) fn variant(&self, specimen: &Specimen) -> Variant {
        self.fault.map_or_else(|| self.variant.clone(), |f| f.in_variant(&self.variant, specimen))
    }
}

/// Judges all, by at most `jobs` threads; in order, so that the same one of several errors is reported.
pub(super) fn judged<T: Sync, U: Send>(
    jobs: usize,
    all: &[T],
    judge: impl Fn(&T) -> Result<U> + Sync,
) -> Result<Vec<U>> {
    schedlab_base::parallel::map(jobs, all, judge).into_iter().collect()
}
