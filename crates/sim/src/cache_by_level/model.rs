//! Runs D003's procedure on simulated caches.
//!
//! A run reads twice the working set on the source (its flush), then both CPUs dirty the set, the source first; the
//! time of both counts. The interrupts that start these parts are left out, because they cancel in the difference to
//! staying.
//!
//! Blocks are between a 32nd of the smallest cache and an 8192nd of the largest, so that a search over 64 MB takes only
//! seconds.

use schedlab_base::{CpuId, Error, Result};
use schedlab_board::cache_by_level::{FoundIn, Hierarchy};
use schedlab_machine::Machine;
use schedlab_machine::migration::{
    Distances, Ground, Matrix, Overrides, PairResult, Pattern, SMALLEST, Search, measure, touch_2005,
};

/// The largest block, bytes.
const LARGEST_BLOCK: u64 = 16 << 10;
/// The largest working set, bytes: a search over it takes memory and time.
const LARGEST_SET: u64 = 1 << 30;
/// After this many touches (three steps) each stream of D003's pattern has had its turn.
const TURN: u64 = 12;

/// A machine's caches, on which a move can be timed.
#[derive(Debug)]
pub struct Model {
    caches: Hierarchy,
    pattern: Pattern,
    long: u64,
    /// The visits of the working set of `visits_of` bytes: block and lines, in order.
    visits: Vec<(u32, u32)>,
    visits_of: u64,
}

impl Model {
    /// Empty caches. The kernel's longs, which [`Pattern::Y2005`] increments, have 8 bytes.
    ///
    /// # Errors
    /// For a machine without `[[cache]]`.
    pub fn new(machine: &Machine, pattern: Pattern) -> Result<Model> {
        let sizes = || machine.caches.iter().map(|c| c.size_kb * 1024);
        let (smallest, largest) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
        let wanted = (smallest / 32).max(largest / 8192).clamp(1, LARGEST_BLOCK);
        let caches = Hierarchy::new(machine, 1 << wanted.ilog2())?;
        Ok(Model { caches, pattern, long: 8, visits: Vec::new(), visits_of: 0 })
    }
    /// The same under a kernel whose longs have `bytes` bytes: 4 on 32-bit machines.
    #[must_use]
    pub fn with_long(mut self, bytes: u64) -> Model {
        self.long = bytes.max(1);
        self.visits_of = 0;
        self
    }

    /// Number of lines of a block that lie within `size` bytes.
    fn lines_within(&self, size: u64, block: u64) -> u32 {
        let lines = size.div_ceil(self.caches.line());
        let before = block * u64::from(self.caches.block_lines());
        lines.saturating_sub(before).min(u64::from(self.caches.block_lines())) as u32
    }
    fn blocks(&self, size: u64) -> u64 {
        size.div_ceil(self.caches.line() * u64::from(self.caches.block_lines()))
    }
    /// Dirties the set and returns the time, in 1024ths of a ns.
    fn dirty(&mut self, cpu: CpuId) -> u64 {
        let mut total = 0;
        for i in 0..self.visits.len() {
            let (block, lines) = self.visits[i];
            let touched = self.caches.touch(cpu, block, lines);
            let prices = self.caches.prices();
            let per_lines = u64::from(touched.found) * prices.per_kb(touched.from)
                + u64::from(touched.fetched) * prices.per_kb(FoundIn::Memory);
            total += per_lines * self.caches.line();
        }
        total
    }
    /// Reads twice the size of the set (`read_cache`).
    fn flush(&mut self, cpu: CpuId, size: u64) {
        for block in 0..self.blocks(2 * size) {
            self.caches.touch(cpu, block as u32, self.lines_within(2 * size, block));
        }
    }
    /// Computes the order of a set's blocks, unless it is known.
    fn lay_out(&mut self, size: u64) {
        if self.visits_of == size {
            return;
        }
        self.visits_of = size;
        let mut visits = std::mem::take(&mut self.visits);
        visits.clear();
        match self.pattern {
            Pattern::Shuffled => {
                let n = self.blocks(size);
                let step = golden_step(n);
                visits.extend((0..n).map(|i| {
                    let block = i * step % n;
                    (block as u32, self.lines_within(size, block))
                }));
            }
            Pattern::Y2005 => {
                let (line, in_block) = (self.caches.line(), u64::from(self.caches.block_lines()));
                let mut windows = Windows::default();
                touch_2005(size / self.long, |at| {
                    windows.touch(at * self.long / line, in_block, &mut visits)
                });
                visits.extend(windows.open.iter().map(|w| (w.block, w.lines)));
            }
        }
        self.visits = visits;
    }
}

impl Ground for Model {
    fn go_over(&mut self, size: u64, source: CpuId, target: CpuId) -> Result<u64> {
        self.caches.grow(self.blocks(2 * size) as usize);
        self.lay_out(size);
        self.flush(source, size);
        let time = self.dirty(source) + self.dirty(target);
        self.flush(target, size);
        Ok(time / 1024)
    }
}

/// A step that visits each of `n` blocks once, each far from the one before: near the golden section, coprime to `n`.
fn golden_step(n: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let from = (n * 618 / 1000).max(1);
    (from..).find(|step| gcd(*step, n) == 1).unwrap_or(1)
}

/// The block in which a stream of the pattern currently is.
#[derive(Clone, Copy, Debug)]
struct StreamBlock {
    block: u32,
    /// The last line touched.
    line: u64,
    /// Number of different lines touched.
    lines: u32,
    /// The number of the last touch.
    touch: u64,
}

/// The current blocks of all streams. A stream's touches of a block become one visit when it leaves the block.
#[derive(Default)]
struct Windows {
    open: Vec<StreamBlock>,
    touches: u64,
}

impl Windows {
    fn touch(&mut self, line: u64, lines_in_block: u64, visits: &mut Vec<(u32, u32)>) {
        self.touches += 1;
        let (touch, block) = (self.touches, (line / lines_in_block) as u32);
        if let Some(window) = self.open.iter_mut().find(|w| w.block == block) {
            window.lines += u32::from(window.line != line && u64::from(window.lines) < lines_in_block);
            (window.line, window.touch) = (line, touch);
            return;
        }
        self.open.retain(|w| {
            let left = w.touch + TURN < touch;
            if left {
                visits.push((w.block, w.lines));
            }
            !left
        });
        self.open.push(StreamBlock { block, line, lines: 1, touch });
    }
}

/// The results of the procedure on a machine.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The cache size that sets the range of the search, bytes.
    pub max_cache_size: u64,
    /// Cutoffs by distance.
    pub matrix: Matrix,
    /// The costs of each measured distance.
    pub curves: Vec<(usize, PairResult)>,
}

/// The results of D003's procedure on a machine, by distance, with sets from `largest` bytes down (`None`: from twice
/// the largest cache). Given cutoffs are not measured.
///
/// # Errors
/// For a machine without `[[cache]]` if a cutoff must be measured, and for a size out of range.
pub fn survey(
    machine: &Machine,
    distances: &Distances,
    pattern: Pattern,
    overrides: &Overrides,
    largest: Option<u64>,
) -> Result<Survey> {
    if let Some(size) = largest.filter(|size| !(SMALLEST..=LARGEST_SET).contains(size)) {
        let text = format!("a working set of {size} bytes: {SMALLEST} to {LARGEST_SET} can be simulated");
        return Err(Error::input(text));
    }
    let max_cache_size = max_cache_size(machine);
    let search = largest.map_or_else(|| Search::of_cache(Some(max_cache_size)), |largest| Search { largest });
    let (mut model, mut curves) = (None, Vec::new());
    let matrix = Matrix::fill(distances, overrides, |distance, pair| {
        let model = match &mut model {
            Some(model) => model,
            None => model.insert(Model::new(machine, pattern)?),
        };
        let found = measure(model, search, pair, &mut |_| ())?;
        let cutoff_ns = found.cutoff_ns(overrides);
        curves.push((distance, found));
        Ok::<u64, Error>(cutoff_ns)
    })?;
    Ok(Survey { max_cache_size, matrix, curves })
}

/// The cache size that sets the range of the search, bytes (`max_cache_size`): the architecture's, else the largest
/// cache's.
fn max_cache_size(machine: &Machine) -> u64 {
    let largest = || machine.caches.iter().map(|c| c.size_kb * 1024).max().unwrap_or(0);
    machine.topology.arch.max_cache_size().unwrap_or_else(largest)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
