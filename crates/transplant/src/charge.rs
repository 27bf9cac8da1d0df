//! The cost of the kernel's code, charged while it runs: instructions, and cache lines of other CPUs
//! (`shim/image/cost.c`, `shim/image/lines.c`).

use crate::abi::{RawBlock, RawCosts, RawSample};
use crate::blocks::{Blocks, Place};
use crate::load::{Image, checked};
use schedlab_base::{Error, Result};
use schedlab_board::objects::Touched;
use schedlab_machine::Costs;
use schedlab_record::{Counts, FunctionCount};
use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};

/// Prices of an image that counts its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prices {
    pub instruction_ps: u32,
    /// A cache line that a hardware thread of the same core has.
    pub line_sibling_ps: u32,
    /// One that another CPU of the same last-level cache has.
    pub line_near_ps: u32,
    /// One that a CPU of the same package has.
    pub line_far_ps: u32,
    /// One that a CPU of another package has.
    pub line_remote_ps: u32,
    /// Instructions that are executed while lines come.
    pub lookahead: u32,
}

/// The tables of an image that counts.
pub(crate) struct Counted {
    blocks: &'static [RawBlock],
    /// Executions of each block.
    times: *mut u64,
    functions: Vec<Place>,
    /// The first byte of each function, in order.
    starts: Vec<(u64, String)>,
    end: u64,
    /// Samples that the image no longer keeps.
    chains: Chains,
}

/// Cost of kernel code between two samples of the call chain, ps.
const SAMPLE_PS: u64 = 100_000_000;
/// How often each chain of calls was sampled: function names with ';' between them, outermost first.
pub type Chains = BTreeMap<String, u64>;

/// The time in these functions and their callees, by samples. A part or copy of a function (`name.part.0`) belongs to
/// it.
pub(crate) fn sampled_ns(chains: &Chains, names: &[&str]) -> u64 {
    let is_named = |call: &str| names.contains(&call.split('.').next().unwrap_or(call));
    let within = chains.iter().filter(|(chain, _)| chain.split(';').any(is_named));
    within.map(|(_, times)| times * SAMPLE_PS / 1000).sum()
}

/// Waits for cache lines in no function of the image: those of the kernel's other objects, and what a verb still waits
/// for when its functions have returned.
const LINES: &str = "[lines beside functions]";
/// Other time of CPUs that are not halted: user mode, and the prices of the machine's file.
const BESIDE: &str = "[beside the image]";

/// Completes the samples of the image's code to the whole time in which CPUs were not halted.
pub(crate) fn complete(chains: &mut Chains, unhalted_ns: u64) {
    let sampled: u64 = chains.values().sum();
    let beside = (unhalted_ns * 1000 / SAMPLE_PS).saturating_sub(sampled);
    if beside > 0 {
        chains.insert(BESIDE.to_owned(), beside);
    }
}

impl Counted {
    /// The function that has an address of the object.
    fn name_at(&self, at: u64) -> Option<&str> {
        if at >= self.end {
            return None;
        }
        let behind = self.starts.partition_point(|(start, _)| *start <= at);
        Some(&self.starts.get(behind.checked_sub(1)?)?.1)
    }
    /// A sample's functions, the outermost first, of an image that was loaded at `base`.
    fn chain(&self, sample: &RawSample, base: usize) -> String {
        let calls = sample.calls.iter().take_while(|call| !call.is_null());
        let names = calls.filter_map(|call| self.name_at((*call as usize).checked_sub(base)? as u64));
        let mut names: Vec<&str> = names.filter(|name| !is_of_costs(name)).collect();
        names.reverse();
        if names.is_empty() { LINES.to_owned() } else { names.join(";") }
    }
}

/// Functions by which the image counts and leaves its stacks; no kernel has them.
fn is_of_costs(name: &str) -> bool {
    ["img_", "__tsan_", "__sanitizer_"].iter().any(|begins| name.starts_with(begins))
}

impl Prices {
    /// The prices of a machine.
    pub fn of(costs: &Costs) -> Prices {
        let ps = |ns: u64| (ns * 1000).min(u32::MAX.into()) as u32;
        Prices {
            instruction_ps: costs.instruction_ps.min(u32::MAX.into()) as u32,
            line_sibling_ps: ps(costs.line_sibling_ns),
            line_near_ps: ps(costs.line_near_ns),
            line_far_ps: ps(costs.line_far_ns),
            line_remote_ps: ps(costs.remote_line_ns()),
            lookahead: costs.lookahead_instructions.min(u32::MAX.into()) as u32,
        }
    }
}

impl Image {
    /// Charges the cost of code from here on: [`Image::take_charge_ns`]. Must be called after the boot.
    ///
    /// # Errors
    /// When the image reports nothing, or is not booted.
    pub(crate) fn count(&mut self, blocks: Blocks, prices: &Prices) -> Result<()> {
        if self.cpus == 0 {
            return Err(Error::internal("an image counts once it is booted"));
        }
        let Blocks { blocks, times, functions, starts, end } = blocks;
        // The image keeps the pointer as long as the process lives.
        let kept: &'static [RawBlock] = blocks.leak();
        let times = (self.base + times as usize) as *mut u64;
        self.counted = Some(Counted { blocks: kept, times, functions, starts, end, chains: Chains::new() });
        let raw = RawCosts {
            blocks: kept.as_ptr(),
            nr_blocks: kept.len() as u64,
            text: self.base as *const c_void,
            text_size: end,
            instruction_ps: prices.instruction_ps,
            line_sibling_ps: prices.line_sibling_ps,
            line_near_ps: prices.line_near_ps,
            line_far_ps: prices.line_far_ps,
            line_remote_ps: prices.line_remote_ps,
            lookahead: prices.lookahead,
            sample_ps: SAMPLE_PS,
        };
        // SAFETY: each block's place was read from the image's own file, and the table is never freed.
        checked(unsafe { (self.verbs.img_count)(&raw const raw) })
            .map(drop)
            .map_err(|_| Error::internal("the image was built without counts"))
    }
    /// Executions of each function of `kernel/sched` since the last call; empty where they are not counted.
    pub fn take_counts(&mut self) -> Counts {
        let Some(Counted { blocks: all_blocks, times, functions, .. }) = &self.counted else {
            return Counts::new();
        };
        // SAFETY: the image has a number for each block, which it writes within its verbs alone.
        let times = unsafe { std::slice::from_raw_parts_mut(*times, all_blocks.len()) };
        let mut all = Counts::new();
        for Place { name, blocks } in functions {
            let count: &mut FunctionCount = all.entry(name.clone()).or_default();
            count.calls += blocks.first().map_or(0, |at| times[*at as usize]);
            for at in blocks.iter().map(|at| *at as usize) {
                count.instructions += times[at] * u64::from(all_blocks[at].instructions);
            }
        }
        times.fill(0);
        all.retain(|_, count| count.instructions > 0);
        all
    }
    /// Takes the samples of calls out of the image, which would otherwise keep them all.
    pub fn gather_chains(&mut self) {
        let Some(counted) = &mut self.counted else { return };
        let mut count = 0;
        // SAFETY: the call writes the number and returns that many samples, which only verbs change.
        let samples = unsafe {
            let first = (self.verbs.img_samples)(&raw mut count);
            if count == 0 { &[] } else { std::slice::from_raw_parts(first, count as usize) }
        };
        for sample in samples {
            let chain = counted.chain(sample, self.base);
            *counted.chains.entry(chain).or_default() += 1;
        }
        // SAFETY: the image is loaded.
        unsafe { (self.verbs.img_forget_samples)() };
    }
    /// The samples of calls since the last call: one for each 100 us of the code's cost.
    pub fn take_chains(&mut self) -> Chains {
        self.gather_chains();
        self.counted.as_mut().map(|counted| std::mem::take(&mut counted.chains)).unwrap_or_default()
    }
    /// The functions that samples can be in; none where they are not taken.
    pub fn functions(&self) -> Vec<String> {
        let starts = self.counted.iter().flat_map(|counted| &counted.starts);
        starts.filter(|(_, name)| !is_of_costs(name)).map(|(_, name)| name.clone()).collect()
    }
    /// The cost of the code since the last call; a rest of less than a ns is kept for the next one.
    #[inline]
    pub fn take_charge_ns(&mut self) -> u64 {
        if self.counted.is_none() {
            return 0;
        }
        // SAFETY: the image is loaded.
        unsafe { (self.verbs.img_take_charge_ns)() }
    }

    /// An instruction of the entered CPU takes so long from here on.
    pub fn instruction_ps(&mut self, ps: u32) {
        // SAFETY: the image is booted and counts.
        unsafe { (self.verbs.img_instruction)(ps) };
    }
    /// The engine looks at the kernel by its code: that costs nothing, and no cache line moves.
    pub fn apart<T>(&mut self, look: impl FnOnce(&mut Image) -> T) -> T {
        if self.counted.is_none() {
            return look(self);
        }
        // SAFETY: the image is booted and counts.
        unsafe { (self.verbs.img_apart)(1) };
        let seen = look(self);
        // SAFETY: as above.
        unsafe { (self.verbs.img_apart)(0) };
        seen
    }

    /// A new object of so many cache lines; its address.
    pub fn object(&mut self, lines: u32) -> u64 {
        // SAFETY: the image is booted; what is there is only named, never read.
        unsafe { (self.verbs.img_object)(lines) as u64 }
    }
    /// The entered CPU touches lines of objects. Their cost is in the next [`Image::take_charge_ns`].
    #[inline]
    pub fn touch(&mut self, touched: &[Touched]) {
        // SAFETY: a CPU is entered, and the call reads as many parts as there are, of which it takes only addresses.
        unsafe { (self.verbs.img_touch)(touched.as_ptr(), touched.len() as c_uint) }
    }

    /// CPUs are woven from here on: verbs may leave in the middle. `exact`: at each basic block, not only where a line
    /// is lost. Must be called after [`Image::count`].
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
    /// All verbs that were left are finished, out of turn.
    pub fn finish(&mut self) {
        // SAFETY: a CPU is entered.
        unsafe { (self.verbs.img_finish)() };
    }
    /// Verbs may leave once they have cost this much.
    #[inline]
    pub fn set_horizon_ns(&mut self, ns: u64) {
        // SAFETY: `img_horizon_ps` is an aligned u64 of the image, which lives as long as the process; one thread
        // uses it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_function_includes_its_callees_and_copies() {
        let chains =
            [("schedule;newidle_balance;load_balance;update_sd_lb_stats.constprop.0", 3), ("schedule", 5)];
        let chains: Chains = chains.map(|(chain, times)| (chain.to_owned(), times)).into();
        assert_eq!(sampled_ns(&chains, &["newidle_balance", "sched_balance_newidle"]), 300_000);
        assert_eq!(sampled_ns(&chains, &["update_sd_lb_stats"]), 300_000);
        assert_eq!(sampled_ns(&chains, &["schedule"]), 800_000);
        assert_eq!(sampled_ns(&chains, &["update_sd"]), 0);
    }
}
