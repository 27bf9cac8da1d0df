//! What the kernel's code costs, charged while it runs: instructions, and cache lines of other CPUs (`shim/image/cost.c`).

use crate::abi::RawCosts;
use crate::blocks::{Blocks, Place};
use crate::load::{Image, checked};
use schedlab_base::{Error, Result};
use schedlab_machine::Costs;
use schedlab_record::{Counts, FunctionCount};
use std::ffi::c_void;

/// What the code of an image costs that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prices {
    pub instruction_ps: u32,
    /// A cache line that another CPU of the same last-level cache has.
    pub line_near_ps: u32,
    /// One that a CPU elsewhere has.
    pub line_far_ps: u32,
    /// Instructions that are executed while lines come.
    pub lookahead: u32,
}

/// The tables of an image that counts.
pub(crate) struct Counted {
    instructions: &'static [u16],
    times: *mut u32,
    functions: Vec<Place>,
}

impl Prices {
    /// Those of a machine.
    pub fn of(costs: &Costs) -> Prices {
        let ps = |ns: u64| (ns * 1000).min(u32::MAX.into()) as u32;
        Prices {
            instruction_ps: costs.instruction_ps.min(u32::MAX.into()) as u32,
            line_near_ps: ps(costs.line_near_ns),
            line_far_ps: ps(costs.line_far_ns),
            lookahead: costs.lookahead_instructions.min(u32::MAX.into()) as u32,
        }
    }
}

impl Image {
    /// Charges what the code costs from here on: [`Image::take_charge_ns`]. After the boot.
    ///
    /// # Errors
    /// When the image reports nothing, or is not booted.
    pub(crate) fn count(&mut self, blocks: Blocks, prices: &Prices) -> Result<()> {
        if self.cpus == 0 {
            return Err(Error::internal("an image counts once it is booted"));
        }
        // The image keeps the pointer as long as the process lives.
        let kept: &'static [u16] = blocks.instructions.leak();
        let times = vec![0; kept.len()].leak().as_mut_ptr();
        self.counted = Some(Counted { instructions: kept, times, functions: blocks.functions });
        let raw = RawCosts {
            instructions: kept.as_ptr(),
            times,
            text: (self.base + blocks.from as usize) as *const c_void,
            instruction_ps: prices.instruction_ps,
            line_near_ps: prices.line_near_ps,
            line_far_ps: prices.line_far_ps,
            lookahead: prices.lookahead,
        };
        // SAFETY: the table has an entry for each byte of the image's functions, and is never freed.
        checked(unsafe { (self.verbs.img_count)(&raw const raw) })
            .map(drop)
            .map_err(|_| Error::internal("the image was built without counts"))
    }
    /// What each function of `kernel/sched` has executed since it was asked last; empty where nothing is counted.
    pub fn take_counts(&mut self) -> Counts {
        let Some(Counted { instructions, times, functions }) = &self.counted else { return Counts::new() };
        // SAFETY: the image writes the table within its verbs alone, and it is never freed.
        let times = unsafe { std::slice::from_raw_parts_mut(*times, instructions.len()) };
        let mut all = Counts::new();
        for Place { name, blocks } in functions {
            let count: &mut FunctionCount = all.entry(name.clone()).or_default();
            count.calls += blocks.first().map_or(0, |at| u64::from(times[*at as usize]));
            for at in blocks.iter().map(|at| *at as usize) {
                count.instructions += u64::from(times[at]) * u64::from(instructions[at]);
            }
        }
        times.fill(0);
        all.retain(|_, count| count.instructions > 0);
        all
    }
    /// What the code has cost since it was taken last; less than a ns is left for the next time.
    #[inline]
    pub fn take_charge_ns(&mut self) -> u64 {
        // SAFETY: `img_charged_ps` is an aligned u64 of the image, which lives as long as the process; one thread uses it.
        unsafe {
            let ns = *self.charged_ps / 1000;
            *self.charged_ps -= ns * 1000;
            ns
        }
    }

    /// CPUs are woven from here on: verbs may leave in the middle. `exact`: at each basic block, not only where a line is
    /// lost. After [`Image::count`].
    pub fn weave(&mut self, exact: bool) {
        // SAFETY: the image is booted and counts.
        unsafe { (self.verbs.img_weave)(exact.into()) };
        self.leaves = true;
    }
    /// The verb that the entered CPU has left continues.
    pub fn proceed(&mut self) {
        // SAFETY: a CPU is entered.
        unsafe { (self.verbs.img_continue)() };
    }
    /// Verbs may leave once they have cost so much.
    #[inline]
    pub fn set_horizon_ns(&mut self, ns: u64) {
        // SAFETY: as in `take_charge_ns`.
        unsafe { *self.horizon_ps = ns.saturating_mul(1000) }
    }
    /// Calls verbs that are not left in the middle.
    pub fn whole<T>(&mut self, act: impl FnOnce(&mut Image) -> T) -> T {
        let leaves = std::mem::replace(&mut self.leaves, false);
        let done = act(self);
        self.leaves = leaves;
        done
    }
}
