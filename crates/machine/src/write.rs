//! The text of a machine file, for [`Machine::load`].
//!
//! Costs equal to the table's are left out. A file has counts of units if they give the same CPUs, else lists, else a
//! row per CPU. If the kernel's CPU numbers have gaps, they are not kept.

use crate::background::{exact, row_text};
use crate::shape::{Numbering, Shape};
use crate::uneven::Uneven;
use crate::{Costs, Cpu, IdleGovernor, Machine, Sharing, Topology};
use schedlab_base::{Error, Ns, Result};
use std::fmt::Write;

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Machine {
    /// The text of a file named `name`, below the lines of `comment`.
    ///
    /// # Errors
    /// For parts that a file can't express: costs by kernel, turns, `unfit`.
    pub fn text(&self, name: &str, comment: &str) -> Result<String> {
        if !self.kernels.is_empty() || self.turns.is_some() || self.unfit.is_some() {
            let what = format!("{}: costs by kernel, turns and [unfit] are not written", self.name);
            return Err(Error::input(what).help("write a file that is 'like' the preset"));
        }
        let mut text: String = comment.lines().map(|line| format!("# {line}\n")).collect();
        let source = quoted(&self.note("topology").source);
        // Writing to a string can't fail.
        let _ = writeln!(text, "name = {}\nabout = {}\nsource = {source}", quoted(name), quoted(&self.about));
        if !self.idle_governor.is_menu() {
            let known = IdleGovernor::NAMES.iter().find(|(_, g)| *g == self.idle_governor);
            let _ = writeln!(text, "idle_governor = {}", quoted(known.map_or("menu", |(name, _)| name)));
        }
        text.push_str(&topology(&self.topology));
        self.cache_text(&mut text);
        self.migration_text(&mut text);
        self.cost_text(&mut text);
        self.idle_text(&mut text);
        self.background.iter().for_each(|row| text.push_str(&row_text(row)));
        Ok(text)
    }

    fn cache_text(&self, text: &mut String) {
        for cache in &self.caches {
            let shared =
                Sharing::NAMES.iter().find(|(_, s)| *s == cache.shared).map_or("core", |(name, _)| name);
            let source = quoted(&self.note(&format!("cache.L{}", cache.level)).source);
            let _ = write!(
                text,
                "\n[[cache]]\nlevel = {}\nsize_kb = {}\nline = {}\nshared = \"{shared}\"\nhit_ns_per_kb = {}\nsource = {source}\n",
                cache.level, cache.size_kb, cache.line, cache.hit_ns_per_kb
            );
        }
    }

    fn migration_text(&self, text: &mut String) {
        if let Some(given) = &self.migration {
            let _ = write!(
                text,
                "\n[migration]\ncost_us = {:?}\nfactor_pct = {}\n",
                given.cost_us, given.factor_pct
            );
        }
    }

    /// The costs of its own: other values than the table's, or costs with a note.
    fn cost_text(&self, text: &mut String) {
        let own = |row: &&crate::costs::CostRow| {
            self.costs.get(row.name) != Some(row.default)
                || self.provenance.iter().any(|n| n.name == row.name)
        };
        let rows: Vec<_> = Costs::TABLE.iter().filter(own).collect();
        if rows.is_empty() {
            return;
        }
        text.push_str("\n[costs]\n");
        for row in rows {
            let value = self.costs.get(row.name).unwrap_or(row.default);
            let note = self.note(row.name);
            let (low, high) = note.range.unwrap_or(row.range);
            let (low, high) = (low.min(value), high.max(value));
            let source = quoted(&note.source);
            let _ = writeln!(
                text,
                "{} = {{ value = {value}, range = [{low}, {high}], source = {source} }}",
                row.name
            );
        }
    }

    /// Idle states. In a file the longest exit must rise from state to state and be at least the typical one. A guest's
    /// kernel knows neither, and gets the longest measured one.
    fn idle_text(&self, text: &mut String) {
        let mut worst = Ns::ZERO;
        for state in &self.idle_states {
            let note = self.note(&format!("idle.{}", state.name));
            let range = note.range.map(|(low, high)| (low.min(state.typical.0), high.max(state.typical.0)));
            worst = worst.max(state.exit).max(state.typical).max(Ns(range.map_or(0, |(_, high)| high)));
            let _ = write!(
                text,
                "\n[[idle_state]]\nname = {}\nexit = \"{}\"\ntypical = \"{}\"\n",
                quoted(&state.name),
                exact(worst),
                exact(state.typical),
            );
            if let Some((low, high)) = range {
                let _ = writeln!(text, "range = [\"{}\", \"{}\"]", exact(Ns(low)), exact(Ns(high)));
            }
            let source = quoted(&note.source);
            let _ = write!(text, "residency = \"{}\"\nsource = {source}\n", exact(state.residency));
        }
    }
}

/// `[topology]`: counts if all divide evenly, else lists of cache sizes, else a row per CPU.
fn topology(topology: &Topology) -> String {
    let made = counts(topology).or_else(|| lists(topology)).unwrap_or_else(|| rows(topology));
    let several = topology.node_distance.len() > 1;
    let distances =
        if several { format!("distances = {:?}\n", topology.node_distance) } else { String::new() };
    let memoryless = match topology.memoryless.is_empty() {
        true => String::new(),
        false => format!("memoryless = {:?}\n", topology.memoryless),
    };
    format!("{made}{distances}{memoryless}reclaim_distance = {}\n", topology.reclaim_distance)
}

/// A row per CPU; threads of a core are in CPU order.
fn rows(topology: &Topology) -> String {
    let mut text =
        "\n[topology]\n# a row for each CPU: package, node, llc, cluster, core\nunits = [\n".to_owned();
    for c in &topology.cpus {
        let _ = writeln!(text, "    [{}, {}, {}, {}, {}],", c.package, c.node, c.llc, c.cluster, c.core);
    }
    text.push_str("]\n");
    if !topology.capacity.is_empty() {
        let _ = writeln!(text, "capacity = {:?}", topology.capacity);
    }
    text
}

/// The lists, if the machine is uneven.
fn lists(topology: &Topology) -> Option<String> {
    let known = Numbering::NAMES.iter();
    let (word, own) = known
        .filter(|(_, numbering)| *numbering != Numbering::Alternating)
        .find_map(|(word, numbering)| Some((*word, Uneven::of(topology, *numbering)?)))?;
    let mut text = format!(
        "\n[topology]\npackages = {}\nnodes = {:?}\ncores = {:?}\nthreads_per_core = {:?}\nnumbering = \"{word}\"\n",
        own.packages, own.nodes, own.cores, own.threads
    );
    if !own.has_one_kind_a_cache() {
        let _ = writeln!(text, "llcs = {:?}", own.llcs);
    }
    if own.clusters.iter().any(|c| *c > 0) {
        let _ = writeln!(text, "clusters = {:?}", own.clusters);
    }
    if !topology.capacity.is_empty() {
        let _ = writeln!(text, "capacity = {:?}", own.capacity);
    }
    Some(text)
}

/// The counts, if the machine is regular.
fn counts(topology: &Topology) -> Option<String> {
    let count = |unit: fn(&Cpu) -> u32| topology.cpus.iter().map(|cpu| unit(cpu) + 1).max().unwrap_or(1);
    let (cores, threads) = (count(|c| c.core), count(|c| c.thread));
    let clusters = count(|c| c.cluster);
    let shapes = Numbering::NAMES.iter().map(|(word, numbering)| {
        let shape = Shape {
            packages: count(|c| c.package),
            nodes: count(|c| c.node),
            llcs: count(|c| c.llc),
            clusters: if clusters == cores { 0 } else { clusters },
            cores,
            threads_per_core: threads,
            numbering: *numbering,
            remote_distance: 20,
        };
        (*word, shape)
    });
    let alike = topology.capacity.is_empty();
    let regular =
        |(_, shape): &(&str, Shape)| alike && shape.topology().is_ok_and(|made| made.cpus == topology.cpus);
    let (word, shape) = shapes.into_iter().find(regular)?;
    let mut text = format!(
        "\n[topology]\npackages = {}\nnodes = {}\nllcs = {}\n",
        shape.packages, shape.nodes, shape.llcs
    );
    if shape.clusters > 0 {
        let _ = writeln!(text, "clusters = {}", shape.clusters);
    }
    let _ = writeln!(text, "cores = {cores}\nthreads_per_core = {threads}\nnumbering = \"{word}\"");
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::Overrides;
    use crate::{CacheLevel, CostNote, IdleState, file};
    use std::path::Path;

    fn again(machine: &Machine) -> Machine {
        let text = machine.text(&machine.name, "a comment\nof two lines").unwrap();
        assert!(text.starts_with("# a comment\n# of two lines\n"));
        file::parse(Path::new("written.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    #[test]
    fn presets_are_read_back_as_they_were() {
        let shape = Shape { packages: 2, nodes: 2, llcs: 4, ..Shape::flat(8, 2) };
        let turns = Shape { numbering: Numbering::Alternating, ..shape };
        let machine = Machine { topology: turns.topology().unwrap(), ..Machine::load("smp-2").unwrap() };
        assert_eq!(again(&machine).topology, machine.topology);
        for name in ["smp-4", "smt-8", "fb-2x24-smt", "epyc-2x64-smt", "nodes-2x4", "desktop-8-smt"] {
            let machine = Machine::load(name).unwrap();
            let back = again(&machine);
            assert_eq!(back.topology, machine.topology, "{name}");
            assert_eq!(back.costs, machine.costs, "{name}");
            assert_eq!(back.background, machine.background, "{name}");
            assert_eq!(back.idle_governor, machine.idle_governor, "{name}");
            let typical = |m: &Machine| {
                m.idle_states.iter().map(|s| (s.name.clone(), s.typical, s.residency)).collect::<Vec<_>>()
            };
            assert_eq!(typical(&back), typical(&machine), "{name}");
        }
    }

    #[test]
    fn caches_cutoffs_ranges_and_sources_are_written() {
        let mut machine = Machine::load("smp-2").unwrap();
        let l2 = CacheLevel { level: 2, size_kb: 1024, line: 64, shared: Sharing::Core, hit_ns_per_kb: 50 };
        let l3 = CacheLevel { level: 3, size_kb: 32768, line: 64, shared: Sharing::Llc, hit_ns_per_kb: 130 };
        machine.caches = vec![l2, l3];
        machine.migration = Some(Overrides { cost_us: vec![0, 250], factor_pct: 100 });
        machine.costs.change("refill_near_ns_per_kb", 77).unwrap();
        let note =
            |name: &str, range, source: &str| CostNote { name: name.into(), range, source: source.into() };
        machine
            .provenance
            .insert(0, note("refill_near_ns_per_kb", Some((70, 99)), "measured here: a \"test\""));
        machine.provenance.insert(0, note("cache.L2", None, "measured here: hits"));
        let back = again(&machine);
        assert_eq!((back.caches, back.migration), (machine.caches.clone(), machine.migration.clone()));
        let note = back.provenance.iter().find(|n| n.name == "refill_near_ns_per_kb").unwrap();
        assert_eq!((note.range, note.source.as_str()), (Some((70, 99)), "measured here: a \"test\""));
        assert!(back.provenance.iter().any(|n| n.source == "measured here: hits"));
    }

    #[test]
    fn halts_without_an_exit_time_of_the_driver_can_be_written() {
        let mut machine = Machine::load("smp-2").unwrap();
        let state = |name: &str, typical: u64, residency: u64| IdleState {
            name: name.into(),
            exit: Ns(1_000),
            typical: Ns(typical),
            residency: Ns(residency),
        };
        machine.idle_states = vec![state("halt 25us", 40_000, 0), state("halt 3ms", 21_000, 3_000_000)];
        machine.idle_governor = IdleGovernor::Halt;
        let back = again(&machine);
        let typical: Vec<_> = back.idle_states.iter().map(|s| (s.typical, s.residency)).collect();
        assert_eq!(typical, [(Ns(40_000), Ns(0)), (Ns(21_000), Ns(3_000_000))]);
    }

    #[test]
    fn caches_and_nodes_of_unlike_size_are_written_as_lists() {
        let sizes = Uneven {
            packages: 2,
            numbering: Numbering::Adjacent,
            remote_distance: 25,
            ..Uneven::caches(vec![2, 4, 1], vec![2, 1, 1], vec![2, 1])
        };
        let kinds = Uneven {
            llcs: vec![2, 1],
            nodes: vec![2],
            packages: 1,
            clusters: vec![0, 2, 0],
            capacity: vec![1024, 300, 700],
            ..sizes.clone()
        };
        for own in [sizes, kinds] {
            let machine = Machine { topology: own.topology().unwrap(), ..Machine::load("smp-2").unwrap() };
            assert_eq!(again(&machine).topology, machine.topology);
        }
        let mut machine = Machine::load("nodes-2x4").unwrap();
        machine.topology.memoryless = vec![1];
        assert_eq!(again(&machine).topology, machine.topology);
    }

    #[test]
    fn a_topology_in_no_known_order_has_a_row_for_each_cpu() {
        let mut machine = Machine::load("smp-4").unwrap();
        // The second thread of the first core has a number in the middle of the other cores' numbers.
        let cpus = &mut machine.topology.cpus;
        (cpus[2].core, cpus[2].cluster, cpus[2].thread) = (0, 0, 1);
        (cpus[3].core, cpus[3].cluster) = (2, 2);
        assert!(machine.text("odd", "").unwrap().contains("units = ["));
        assert_eq!(again(&machine).topology, machine.topology);
        // Nodes that alternate between packages (SNC), and capacities in core order.
        let shape = Shape { packages: 2, nodes: 4, llcs: 4, ..Shape::flat(8, 1) };
        machine.topology = shape.topology().unwrap();
        machine.topology.cpus.iter_mut().for_each(|c| c.node = [0, 2, 1, 3][c.node as usize]);
        machine.topology.capacity = vec![1024, 512, 1024, 700, 600, 512, 1024, 300];
        assert_eq!(again(&machine).topology, machine.topology);
        let icount = Machine::load("icount-2").unwrap();
        assert!(icount.text("x", "").is_err());
    }

    #[test]
    fn rows_that_do_not_fit_are_refused_with_their_place() {
        let refused = |topology: &str| {
            let text = format!("name = 'm'\nabout = 'a'\n[topology]\n{topology}\n");
            file::parse(Path::new("m.toml"), &text).unwrap_err().to_string()
        };
        assert!(refused("units = [[0, 0, 0, 0]]").contains("the row of cpu0 in units has 4 numbers"));
        assert!(refused("units = [[0, 0, 0, 0, 1]]").contains("units has a core 1 and no core 0"));
        assert!(refused("units = [[0, 4000000000, 0, 0, 0]]").contains("units has a node 4000000000"));
        assert!(refused("units = [[0, 0, 0, 0, 0]]\ncores = 2").contains("cores does not go with units"));
        assert!(refused("units = [[0, 0, 0, 0, 0]]\ncapacity = [1, 2]").contains("capacities of 2 CPUs"));
        assert!(refused("units = []").contains("0 CPUs"));
        let split = "units = [[0, 0, 0, 0, 0], [0, 0, 1, 0, 0]]";
        assert!(refused(split).contains("share a cluster but not a LLC"), "{}", refused(split));
    }
}
