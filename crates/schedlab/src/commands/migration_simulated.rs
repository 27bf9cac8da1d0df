//! `schedlab migration-cost --machine`: what D003's procedure would find on a machine's simulated caches.

use crate::output;
use schedlab_base::{Error, Result, Version};
use schedlab_machine::Machine;
use schedlab_machine::migration::{Distances, Found, Matrix, Overrides, Search, measure};
use schedlab_native::probe::migration::Ask;
use schedlab_report::migration::{doublings, size};
use schedlab_sim::memory::Model;
use serde_json::json;

/// A machine's matrix, with the curve of each measured distance.
pub struct Simulated {
    machine: Machine,
    distances: Distances,
    max_cache_size: u64,
    /// The matrix.
    pub matrix: Matrix,
    curves: Vec<(usize, Found)>,
}

impl Simulated {
    /// Runs the procedure on `machine` under the domains of `kernel`. The machine's own cutoffs count where none are
    /// given.
    ///
    /// # Errors
    /// For a machine without caches.
    pub fn measure(machine: Machine, kernel: Version, ask: &Ask) -> Result<Simulated> {
        let given = ask.overrides != Overrides::default();
        let own = machine.migration.clone().filter(|_| !given);
        let overrides = own.unwrap_or_else(|| ask.overrides.clone());
        let mut model = Model::new(&machine, ask.pattern).map_err(|e| {
            if machine.caches.is_empty() && e.remedy().is_none() {
                return e
                    .help("state [[cache]] in its file, or let 'schedlab machine probe --write' write them");
            }
            e
        })?;
        let max_cache_size = model.max_cache_size();
        let search =
            ask.largest.map_or_else(|| Search::of_cache(Some(max_cache_size)), |largest| Search { largest });
        let distances = Distances::new(&machine.topology, kernel);
        let mut curves = Vec::new();
        let matrix = Matrix::fill(&distances, &overrides, |distance, pair| {
            let found = measure(&mut model, search, pair, &mut |_| ())?;
            let cutoff_ns = found.cutoff_ns(&overrides);
            curves.push((distance, found));
            Ok::<u64, Error>(cutoff_ns)
        })?;
        Ok(Simulated { machine, distances, max_cache_size, matrix, curves })
    }
    /// Prints matrix and curves.
    ///
    /// # Errors
    /// When standard output can't be written.
    pub fn print(&self) -> Result<()> {
        let cpus = self.machine.topology.nr_cpus();
        output::result(|out| {
            writeln!(out, "{}, simulated: {}", self.machine.name, self.machine.about)?;
            write!(out, "{}", self.matrix.print(&self.distances, cpus, self.max_cache_size, None))?;
            for (distance, found) in &self.curves {
                let name = self.distances.classes[*distance].name;
                writeln!(out, "\ndistance {distance} ({name}): cost of one move, us (half of a cutoff)")?;
                let sizes = doublings(found.curve.iter().rev().map(|point| point.size));
                for point in found.curve.iter().rev().filter(|point| sizes.contains(&point.size)) {
                    writeln!(out, "{:<12} {:.1}", size(point.size), point.cost_ns() as f64 / 1000.0)?;
                }
                let dearest = found.dearest().map_or_else(
                    || "no move costs more than staying".to_owned(),
                    |p| format!("{:.1} at {}", p.cost_ns() as f64 / 1000.0, size(p.size)),
                );
                writeln!(out, "{:<12} {dearest}", "dearest")?;
            }
            Ok(())
        })
    }
    /// Prints it as JSON.
    ///
    /// # Errors
    /// When standard output can't be written.
    pub fn json(&self) -> Result<()> {
        let curve = |(distance, found): &(usize, Found)| {
            let points: Vec<_> =
                found.curve.iter().map(|p| json!({ "size": p.size, "cost_ns": p.cost_ns() })).collect();
            json!({ "distance": distance, "points": points })
        };
        let names: Vec<_> = self.distances.classes.iter().map(|class| class.name).collect();
        let curves: Vec<_> = self.curves.iter().map(curve).collect();
        let all = json!({ "machine": self.machine.name, "distance_names": names, "matrix": self.matrix, "curves": curves });
        output::json_as("schedlab/migration-cost-simulated/1", &all)
    }
    /// The cutoffs of all pairs, in the order of the CPUs.
    pub fn ms(&self) -> (Vec<u32>, Vec<Vec<Option<f64>>>) {
        let cpus: Vec<u32> = (0..self.machine.topology.nr_cpus() as u32).collect();
        let ms = |a: u32, b: u32| {
            let distance = self.distances.of(schedlab_base::CpuId(a), schedlab_base::CpuId(b))?;
            Some(self.matrix.cutoff_ns(distance)? as f64 / 1e6)
        };
        let rows = cpus.iter().map(|a| cpus.iter().map(|b| ms(*a, *b)).collect()).collect();
        (cpus, rows)
    }
}
