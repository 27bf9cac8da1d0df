//! `schedlab migration-cost --machine`: the answer of D003's procedure on a machine's simulated caches.

use crate::output;
use schedlab_base::{Result, Version};
use schedlab_machine::Machine;
use schedlab_machine::migration::{Distances, PairResult};
use schedlab_native::probe::migration::Ask;
use schedlab_report::migration::{doublings, size};
use schedlab_sim::cache_by_level::{Survey, survey};
use serde_json::json;

/// A machine with the procedure's answer.
pub struct Simulated {
    machine: Machine,
    distances: Distances,
    found: Survey,
}

impl Simulated {
    /// Runs the procedure on `machine` under the domains of `kernel`.
    pub fn measure(machine: Machine, kernel: Version, ask: &Ask) -> Result<Simulated> {
        let distances = Distances::new(&machine.topology, kernel);
        let found = survey(&machine, &distances, ask.pattern, &ask.overrides, ask.largest)?;
        Ok(Simulated { machine, distances, found })
    }
    /// Prints matrix and curves.
    pub fn print(&self) -> Result<()> {
        let cpus = self.machine.topology.nr_cpus();
        output::result(|out| {
            writeln!(out, "{}, simulated: {}", self.machine.name, self.machine.about)?;
            write!(
                out,
                "{}",
                self.found.matrix.print(&self.distances, cpus, self.found.max_cache_size, None)
            )?;
            for (distance, found) in &self.found.curves {
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
    pub fn json(&self) -> Result<()> {
        let curve = |(distance, found): &(usize, PairResult)| {
            let points: Vec<_> =
                found.curve.iter().map(|p| json!({ "size": p.size, "cost_ns": p.cost_ns() })).collect();
            json!({ "distance": distance, "points": points })
        };
        let names: Vec<_> = self.distances.classes.iter().map(|class| class.name).collect();
        let curves: Vec<_> = self.found.curves.iter().map(curve).collect();
        let all = json!({ "machine": self.machine.name, "distance_names": names, "matrix": self.found.matrix, "curves": curves });
        output::json_as("schedlab/migration-cost-simulated/1", &all)
    }
    /// The cutoffs of all pairs, in the order of the CPUs.
    pub fn ms(&self) -> (Vec<u32>, Vec<Vec<Option<f64>>>) {
        let cpus: Vec<u32> = (0..self.machine.topology.nr_cpus() as u32).collect();
        let ms = |a: u32, b: u32| {
            let distance = self.distances.of(schedlab_base::CpuId(a), schedlab_base::CpuId(b))?;
            Some(self.found.matrix.cutoff_ns(distance)? as f64 / 1e6)
        };
        let rows = cpus.iter().map(|a| cpus.iter().map(|b| ms(*a, *b)).collect()).collect();
        (cpus, rows)
    }
}
