//! Machines of an experiment: those named in `machines`, and each `[[machine]]`, which is another machine
//! with some numbers changed. Each number may be a sweep ("spr,probe_hit_ns=40").

use super::expand::combinations;
use super::keys;
use super::lists::strings;
use super::sweep::{Item, values};
use schedlab_base::{Error, Result};
use schedlab_machine::background::Named;
use schedlab_machine::reader::{Table, Value};
use schedlab_machine::{CostNote, Costs, Machine};
use std::path::Path;

const CPUS: &str = "cpus";
const BACKGROUND: &str = "background";
/// Prefixes of machines for any number of CPUs.
const SIZES: [&str; 2] = ["smp-", "smt-"];

/// The machines of an experiment, each loaded once.
pub struct Machines<'f> {
    folder: &'f Path,
    /// The machines by the names that refer to them.
    all: Vec<(String, Machine)>,
    /// Names of `[[machine]]`, with the machines they stand for.
    families: Vec<(String, Vec<usize>)>,
}

/// A number of a machine and the values it takes.
struct Dial<'t> {
    name: &'t str,
    values: Vec<Item<'t>>,
}

impl<'f> Machines<'f> {
    /// Reads the experiment's machines, and the indices of those on which every load runs. Files are relative
    /// to `folder`.
    pub fn read(top: &Table<'_>, folder: &'f Path) -> Result<(Machines<'f>, Vec<usize>)> {
        let mut machines = Machines { folder, all: Vec::new(), families: Vec::new() };
        let mut shared = Vec::new();
        let key = if names_machines(top) { "machine" } else { "machines" };
        if key == "machine" && top.get("machines").is_some() {
            return Err(top
                .error_at("machine", "both machine and machines say where loads run")
                .help("keep one"));
        }
        let tables =
            if key == "machine" { Vec::new() } else { top.tables("machine", &keys::MACHINE.names())? };
        for table in tables {
            let name = table.required("name", table.label("name")?)?;
            if machines.families.iter().any(|(n, _)| n == name) {
                return Err(table.error_at("name", format!("two machines have the name '{name}'")));
            }
            let first = machines.all.len();
            for machine in machines.changed(&table, name)? {
                machines.all.push((machine.name.clone(), machine));
            }
            machines.families.push((name.to_owned(), (first..machines.all.len()).collect()));
        }
        for (name, value) in strings(top, key)? {
            shared.extend(machines.named(name).map_err(|e| top.error_on(value, e))?);
        }
        if top.get(key).is_none() {
            shared = (0..machines.all.len()).collect();
        }
        Ok((machines, shared))
    }

    /// Machines by name, on which every load runs. Files are relative to `folder`.
    pub fn of(names: &[String], folder: &'f Path) -> Result<(Machines<'f>, Vec<usize>)> {
        let mut machines = Machines { folder, all: Vec::new(), families: Vec::new() };
        let shared = names.iter().map(|name| machines.named(name)).collect::<Result<Vec<_>>>()?.concat();
        Ok((machines, shared))
    }

    /// The machines of a name: a `[[machine]]`'s, or else a preset, a size or a file.
    pub fn named(&mut self, name: &str) -> Result<Vec<usize>> {
        if let Some((_, all)) = self.families.iter().find(|(n, _)| n == name) {
            return Ok(all.clone());
        }
        if let Some(at) = self.all.iter().position(|(n, _)| n == name) {
            return Ok(vec![at]);
        }
        let loaded = self.load(name)?;
        self.all.push((name.to_owned(), loaded));
        Ok(vec![self.all.len() - 1])
    }

    /// The machine of an index.
    pub fn at(&self, index: usize) -> &Machine {
        &self.all[index].1
    }
    pub fn into_all(self) -> Vec<Machine> {
        self.all.into_iter().map(|(_, m)| m).collect()
    }

    fn load(&self, name: &str) -> Result<Machine> {
        let path = self.folder.join(name);
        let is_file = name.contains('/') || name.ends_with(".toml");
        Machine::load(if is_file { path.to_str().unwrap_or(name) } else { name })
    }

    /// The machines of a `[[machine]]`.
    fn changed(&self, table: &Table<'_>, name: &str) -> Result<Vec<Machine>> {
        let base = table.string("base")?.ok_or_else(|| {
            let help = "base = \"smp-8\" or another of 'schedlab machine'; one that nothing is changed about needs only \
                        machine = \"smp-8\" at the top";
            table.error(format!("[[machine]] '{name}' has no base")).help(help)
        })?;
        let plain = self.load(base).map_err(|e| table.place("base", e))?;
        let background = background(table)?;
        let costs: Vec<&str> = Costs::TABLE.iter().map(|row| row.name).collect();
        let costs = table.table("costs", &costs)?;
        let mut dials = Vec::new();
        if let Some(value) = table.get(CPUS) {
            dials.push(Dial { name: CPUS, values: values(table, CPUS, value)? });
        }
        if let Some(costs) = &costs {
            for key in costs.keys() {
                let value = costs.required(key, costs.get(key))?;
                dials.push(Dial { name: key, values: values(costs, key, value)? });
            }
        }
        let choices: Vec<Vec<usize>> = dials.iter().map(|d| (0..d.values.len()).collect()).collect();
        let mut all = Vec::new();
        for choice in combinations(&choices).map_err(|e| table.place("name", e))? {
            let mut machine = Machine { name: name.to_owned(), ..plain.clone() };
            for (dial, at) in dials.iter().zip(choice) {
                let (text, value) = &dial.values[at];
                turn(&mut machine, base, dial.name, text).map_err(|e| table.error_on(value, e))?;
                if dial.values.len() > 1 {
                    machine.name = format!("{},{}={text}", machine.name, dial.name);
                }
            }
            // Rows may be in proportion to the CPUs, so these must be known.
            if let Some(named) = &background {
                named.apply(&mut machine, self.folder).map_err(|e| table.place(BACKGROUND, e))?;
            }
            all.push(machine);
        }
        Ok(all)
    }
}

/// The background that a `[[machine]]` names.
fn background(table: &Table<'_>) -> Result<Option<Named>> {
    let named = Named::read(table, BACKGROUND)?;
    if named.is_none() && table.get(BACKGROUND).is_some() {
        let what = "background is a file, the name of a shipped one, or \"none\"";
        return Err(table.error_at(BACKGROUND, what).help("rows of one's own stand in a file"));
    }
    Ok(named)
}

/// Whether `machine` is a name or a list of names and not a `[[machine]]`.
fn names_machines(top: &Table<'_>) -> bool {
    let is_name = |v: &Value<'_>| v.get_ref().as_str().is_some();
    top.get("machine").is_some_and(|v| {
        is_name(v) || v.get_ref().as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_name))
    })
}

/// Sets one number of a machine. `cpus` must come first, since it makes another machine.
fn turn(machine: &mut Machine, base: &str, key: &str, text: &str) -> Result<()> {
    let number: u64 =
        text.parse().map_err(|_| Error::input(format!("{key} is a whole number, not '{text}'")))?;
    if key != CPUS {
        machine.set_cost(key, number)?;
        let note = CostNote { name: key.to_owned(), range: None, source: "set by the experiment".to_owned() };
        machine.provenance.insert(0, note);
        return Ok(());
    }
    let size = SIZES.iter().find(|size| base.starts_with(**size)).ok_or_else(|| {
        Error::input(format!("'{base}' has the CPUs that its file says"))
            .help("cpus is for machines whose base is smp-N or smt-N")
    })?;
    let sized = Machine::load(&format!("{size}{number}"))?;
    *machine = Machine { name: machine.name.clone(), ..sized };
    Ok(())
}
