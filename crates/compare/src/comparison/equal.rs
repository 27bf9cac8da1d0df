//! Finds equal variants: on a deterministic backend all runs of both gave the same results to the nanosecond, for all
//! seeds. Then the switch had no effect, and no statistics are needed to say so.

use super::group::CellRuns;
use super::{CountedWarning, seeds};
use schedlab_base::{Backend, Warning};
use schedlab_kernel::{Level, Variant};
use schedlab_record::Record;

/// The compared pairs of variants, with the loads in which they are equal.
#[derive(Default)]
pub(super) struct Equal {
    pairs: Vec<Pair>,
}

struct Pair {
    base: String,
    variant: String,
    backend: String,
    asked: Variant,
    /// Whether both variants ask for the same settings, so that there is no switch.
    one_variant: bool,
    /// Whether their patches differ.
    patched: bool,
    /// How the kernel's own code is charged.
    level: Option<Level>,
    /// Whether both are the same simulated kernel, although the variants may differ.
    one_kernel: bool,
    /// The loads in which all runs are equal.
    in_loads: Vec<String>,
    loads: usize,
    /// Number of seeds of each load.
    seeds: usize,
}

impl Equal {
    /// Compares a load's cells with its cell `base`.
    pub(super) fn add(&mut self, cells: &[CellRuns<'_>], base: usize) {
        let (kernel, base_variant) = (cells[base].runs[0].resolved, &cells[base].runs[0].variant);
        for (at, cell) in cells.iter().enumerate().filter(|(at, _)| *at != base) {
            let first = cell.runs[0];
            if !first.backend.is_simulated() && first.backend != Backend::Vm {
                continue;
            }
            let (from, to, backend) = (&cells[base].label, &cells[at].label, first.backend.to_string());
            let same = |p: &Pair| (&p.base, &p.variant, &p.backend) == (from, to, &backend);
            let known = self.pairs.iter().position(same).unwrap_or_else(|| {
                let (base, variant) = (from.clone(), to.clone());
                let mut asked = first.variant.clone();
                if first.backend == Backend::Code {
                    // A level has an effect there.
                    asked.level = Level::default();
                }
                let unnamed = |v: &Variant| Variant { name: String::new(), ..v.clone() };
                let one_variant = unnamed(&first.variant) == unnamed(base_variant);
                let one_kernel = first.resolved.is_some() && first.resolved == kernel;
                let patched = first.variant.patch != base_variant.patch;
                let level = first.code.as_ref().map(|code| code.level);
                let (in_loads, loads, seeds) = (Vec::new(), 0, 0);
                self.pairs.push(Pair {
                    base,
                    variant,
                    backend,
                    asked,
                    one_variant,
                    patched,
                    level,
                    one_kernel,
                    in_loads,
                    loads,
                    seeds,
                });
                self.pairs.len() - 1
            });
            let pair = &mut self.pairs[known];
            pair.loads += 1;
            if are_equal(&cells[base].runs, &cell.runs) {
                pair.seeds = pair.seeds.max(cell.runs.len());
                pair.in_loads.push(format!("{} {} on {}", first.workload, cell.load, first.machine.name));
            }
        }
    }
    /// A line for each pair that is equal in some load.
    pub(super) fn warnings(self) -> impl Iterator<Item = CountedWarning> {
        self.pairs.into_iter().filter(|p| !p.in_loads.is_empty()).map(|p| {
            let warning = Warning::new("variants.equal", p.words());
            CountedWarning { warning, runs: 0 }
        })
    }
}

impl Pair {
    fn words(&self) -> String {
        let places = match self.in_loads.len() {
            n if n == self.loads && n > 1 => format!("all {n} loads"),
            n if n > 4 => {
                format!("{} and {} more of {} loads", self.in_loads[..3].join(", "), n - 3, self.loads)
            }
            _ => self.in_loads.join(", "),
        };
        let seeds = match self.seeds {
            1 => "the one seed".to_owned(),
            n => format!("all {n} seeds"),
        };
        let by = if self.backend == Backend::Vm.name() { " (guests)" } else { "" };
        let why = match because(&self.asked) {
            why if !why.is_empty() => why,
            _ if self.one_kernel => {
                " (both are the same kernel: what the variant asks for is so already)".to_owned()
            }
            none => none,
        };
        let equal = format!(
            "{} and {} are equal to the nanosecond in {seeds} of {places}{by}",
            self.variant, self.base
        );
        match (self.one_variant, self.patched, self.level) {
            (true, ..) => equal,
            (false, true, Some(Level::Free)) => format!(
                "{equal}: the patch decides nothing otherwise here; what it costs is not seen at level free, where \
                 the kernel's code takes no time: --level woven charges it"
            ),
            (false, true, _) => format!("{equal}: the patch changes nothing here"),
            (false, false, _) => format!("{equal}: the switch did nothing here{why}"),
        }
    }
}

/// In brackets: why the variant's switches have no effect in its kernel; empty if the chronology does not say.
fn because(variant: &Variant) -> String {
    let effects = variant.without_effect().unwrap_or_default();
    let mut why: Vec<&str> = Vec::new();
    for warning in &effects {
        let text = warning.message.split_once("': ").map_or(warning.message.as_str(), |(_, rest)| rest);
        if !why.contains(&text) {
            why.push(text);
        }
    }
    if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) }
}

/// Whether two cells have the same seeds, and the same results for each.
fn are_equal(base: &[&Record], variant: &[&Record]) -> bool {
    base.len() == variant.len()
        && base.iter().zip(variant).all(|(b, v)| {
            let same = (b.found.duration, &b.found.tasks) == (v.found.duration, &v.found.tasks);
            b.seed == v.seed && same && seeds::same_results(b, v)
        })
}
