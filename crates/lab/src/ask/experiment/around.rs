//! The surroundings of an experiment's workloads: neighbouring benchmarks, task groups, virtual machines, machines
//! behind a link. Each may be limited to some loads.

use super::keys;
use super::loads::{self, Workload};
use schedlab_base::{CpuSet, Error, Ns, Result, Version};
use schedlab_kernel::{preempt, tunable};
use schedlab_machine::reader::Table;
use schedlab_workload::bench::{MODE, PROCESSES, THREADS};
use schedlab_workload::{Beside, GroupSpec, NestedSpec, Params, RemoteSpec, Spec, group, spec, together};
use std::collections::BTreeMap;
use std::path::Path;

/// The usual delay of a link: a switch and two cards in one room.
const DELAY: Ns = Ns::us(50);

/// The `[[beside]]`, `[[group]]`, `[[nested]]` and `[[remote]]` of an experiment.
pub struct Around<'t> {
    beside: Vec<For<'t, Neighbour>>,
    groups: Vec<For<'t, GroupSpec>>,
    nested: Vec<For<'t, NestedSpec>>,
    remotes: Vec<For<'t, RemoteSpec>>,
}

/// A neighbour of a workload.
enum Neighbour {
    /// A benchmark with its parameters.
    Bench(Workload),
    /// An rt-app text, by its name.
    RtApp(String, String),
}

/// A value that may be limited to some loads.
struct For<'t, T> {
    /// The loads, by name or as "WORKLOAD NAME"; all if empty. The table knows their places.
    loads: Vec<String>,
    table: Table<'t>,
    value: T,
}

impl<'t, T> For<'t, T> {
    /// A table's value, by `read`.
    fn read(table: Table<'t>, read: impl FnOnce(&Table<'t>) -> Result<T>) -> Result<For<'t, T>> {
        Ok(For { loads: for_loads(&table)?, value: read(&table)?, table })
    }
    fn is_for(&self, workload: &str, load: &str) -> bool {
        let named = |name: &String| name == load || *name == format!("{workload} {load}");
        self.loads.is_empty() || self.loads.iter().any(named)
    }
    /// Refuses a name that no load has.
    fn check(&self, loads: &[(String, String)]) -> Result<()> {
        for name in &self.loads {
            let known =
                loads.iter().any(|(workload, load)| name == load || *name == format!("{workload} {load}"));
            if !known {
                let all: Vec<String> = loads.iter().map(|(w, l)| format!("{w} {l}")).collect();
                return Err(self
                    .table
                    .place("loads", Error::unknown("load", name, all.iter().map(String::as_str))));
            }
        }
        Ok(())
    }
}

/// The values that are for this load.
fn chosen<'a, T: Clone>(all: &'a [For<'_, T>], (workload, load): (&'a str, &'a str)) -> Vec<T> {
    all.iter().filter(|of| of.is_for(workload, load)).map(|of| of.value.clone()).collect()
}

impl<'t> Around<'t> {
    ///
    /// # Errors
    /// For unknown keys, benchmarks and paths, and shares or limits out of range.
    pub fn read(top: &Table<'t>, folder: &Path) -> Result<Around<'t>> {
        let mut beside = Vec::new();
        for table in top.open_tables("beside")? {
            let value = other(&table, folder)?;
            beside.push(For { loads: for_loads(&table)?, value, table });
        }
        let all = |header, keys: &keys::Section| top.tables(header, &keys.names());
        Ok(Around {
            beside,
            groups: all("group", &keys::GROUP)?
                .into_iter()
                .map(|t| For::read(t, group))
                .collect::<Result<_>>()?,
            nested: all("nested", &keys::NESTED)?
                .into_iter()
                .map(|t| For::read(t, virtual_machine))
                .collect::<Result<_>>()?,
            remotes: all("remote", &keys::REMOTE)?
                .into_iter()
                .map(|t| For::read(t, behind_a_link))
                .collect::<Result<_>>()?,
        })
    }

    /// Refuses `loads` of these tables that name none of the experiment's, which are given as workload and name.
    ///
    /// # Errors
    /// The first such name, with its place.
    pub fn check(&self, loads: &[(String, String)]) -> Result<()> {
        self.beside.iter().try_for_each(|of| of.check(loads))?;
        self.groups.iter().try_for_each(|of| of.check(loads))?;
        self.nested.iter().try_for_each(|of| of.check(loads))?;
        self.remotes.iter().try_for_each(|of| of.check(loads))
    }

    /// `spec` with the surroundings of the load `load`, on a machine with `cpus` CPUs.
    ///
    /// # Errors
    /// When they don't go together.
    pub fn around(&self, load: &str, spec: Spec, cpus: u64) -> Result<Spec> {
        let of = spec.name().to_owned();
        let mut beside = Vec::new();
        for For { table, value, .. } in self.beside.iter().filter(|b| b.is_for(&of, load)) {
            beside.push(value.beside(table, &spec, cpus)?);
        }
        let load = (of.as_str(), load);
        let with = |beside: &[Beside], rest: (_, _, _)| {
            spec.clone().together(beside.to_vec(), rest.0, (rest.1, rest.2))
        };
        let all = |groups, nested, remotes| with(&beside, (groups, nested, remotes));
        let (nested, remotes) = (chosen(&self.nested, load), chosen(&self.remotes, load));
        let groups = chosen(&self.groups, load);
        all(groups, nested.clone(), remotes.clone()).map_err(|e| {
            // The first table that does not fit those before it has the fault.
            let alone = |n: &usize| with(&beside[..*n], (vec![], vec![], vec![])).is_err();
            if let Some(n) = (1..=beside.len()).find(alone) {
                return place(&self.beside, load, (n - 1, "mode"), e);
            }
            let fails = |n: (usize, usize, usize)| {
                let groups = chosen(&self.groups, load);
                all(groups[..n.2].to_vec(), nested[..n.0].to_vec(), remotes[..n.1].to_vec()).is_err()
            };
            let (of_nested, of_remotes) = (nested.len(), remotes.len());
            if let Some(n) = (1..=of_nested).find(|n| fails((*n, 0, 0))) {
                return place(&self.nested, load, (n - 1, "tasks"), e);
            }
            if let Some(n) = (1..=of_remotes).find(|n| fails((of_nested, *n, 0))) {
                return place(&self.remotes, load, (n - 1, "tasks"), e);
            }
            match (1..=self.groups.len())
                .find(|n| *n <= chosen(&self.groups, load).len() && fails((of_nested, of_remotes, *n)))
            {
                Some(n) => place(&self.groups, load, (n - 1, "tasks"), e),
                None => e,
            }
        })
    }
}

/// Reads a `[[beside]]`.
fn other(table: &Table<'_>, folder: &Path) -> Result<Neighbour> {
    table.label("called")?;
    if let Some((name, text)) = loads::rtapp_beside(table, folder)? {
        let own = ["rtapp", "rtapp_text", "called", "loads"];
        if let Some(key) = table.keys().find(|key| !own.contains(key)) {
            let text =
                format!("an rt-app text beside a workload has no '{key}': its length is the workload's");
            return Err(table.error_at(key, text).help("called = \"...\" names its tasks"));
        }
        return Ok(Neighbour::RtApp(name, text));
    }
    let name = table.required("name", table.string("name")?)?;
    let bench = spec::find(name).map_err(|e| table.place("name", e))?;
    let params: Vec<&str> = bench.params.iter().map(|p| p.name).collect();
    keys::BESIDE.check(table, &format!("{} parameter", bench.name), &params)?;
    Ok(Neighbour::Bench(Workload::of_bench(table, bench)?))
}

impl Neighbour {
    /// Its part of the workload `base` on a machine with `cpus` CPUs.
    fn beside(&self, table: &Table<'_>, base: &Spec, cpus: u64) -> Result<Beside> {
        let called = table.string("called")?.map(str::to_owned);
        let workload = match self {
            Neighbour::RtApp(name, text) => {
                let (name, rtapp) = (name.clone(), Some(text.clone()));
                return Ok(Beside { name, params: Params::default(), rtapp, called });
            }
            Neighbour::Bench(workload) => workload,
        };
        let mut made = workload.loads(None, cpus)?;
        let (Some((_, Spec::Bench { name, mut params })), true) = (made.pop(), made.is_empty()) else {
            return Err(table.error_at("name", "what runs beside a workload is not swept"));
        };
        // Tasks of one run are all processes or all threads, like the workload's, unless the table sets it.
        let unsaid = table.get(MODE).is_none();
        if let Some(mode) = params.0.get_mut(MODE).filter(|_| unsaid && !matches!(base, Spec::Command(_))) {
            *mode = if base.build(0)?.processes { PROCESSES } else { THREADS };
        }
        Ok(Beside { name, params, rtapp: None, called })
    }
}

/// Gives an error the place of a key in the `n`th table for this load.
fn place<T>(
    all: &[For<'_, T>],
    (workload, load): (&str, &str),
    (n, key): (usize, &str),
    error: Error,
) -> Error {
    match all.iter().filter(|of| of.is_for(workload, load)).nth(n) {
        Some(of) => of.table.place(key, error),
        None => error,
    }
}

/// The loads that a table is for.
fn for_loads(table: &Table<'_>) -> Result<Vec<String>> {
    let loads = names(table, "loads")?;
    if loads.is_empty() && table.get("loads").is_some() {
        return Err(table.error_at("loads", "loads = [] names no load").help("leave it out for all loads"));
    }
    Ok(loads)
}

/// A list of names.
fn names(table: &Table<'_>, key: &'static str) -> Result<Vec<String>> {
    Ok(super::lists::strings(table, key)?.into_iter().map(|(name, _)| name.to_owned()).collect())
}

/// A machine behind a link.
fn behind_a_link(table: &Table<'_>) -> Result<RemoteSpec> {
    Ok(RemoteSpec {
        name: table.required("name", table.string("name")?)?.to_owned(),
        kernel: table.required("kernel", table.string("kernel")?)?.to_owned(),
        delay: table.time("delay")?.unwrap_or(DELAY),
        queues: table.number("queues")?.unwrap_or(1),
        tasks: names(table, "tasks")?,
    })
}

fn group(table: &Table<'_>) -> Result<GroupSpec> {
    let path = table.required("path", table.string("path")?)?;
    group::find_or_declare(&mut vec![schedlab_workload::GroupDecl::root()], path)
        .map_err(|e| table.place("path", e))?;
    let (own, weight) = (table.number("shares")?, table.number("weight")?);
    let key = if own.is_some() { "shares" } else { "weight" };
    let shares = together::shares(own, weight).map_err(|e| table.place(key, e))?;
    let idle = table.boolean("idle")?.unwrap_or(false);
    if idle && (own.is_some() || weight.is_some()) {
        let text = format!("an idle group has no {key}: it gives way to all others");
        return Err(table.place(key, Error::input(text)));
    }
    let quota = table.time("quota")?;
    let period = table.time("period")?.unwrap_or(group::DEFAULT_PERIOD);
    let burst = table.time("burst")?.unwrap_or_default();
    group::check_limit(quota, period, burst).map_err(|(key, e)| table.place(key, e))?;
    let tasks = names(table, "tasks")?;
    let cpus = match table.string("cpus")? {
        None => None,
        Some(list) => match CpuSet::parse(list) {
            Ok(cpus) if !cpus.is_empty() => Some(cpus),
            Ok(_) => {
                return Err(table.place("cpus", Error::input("no CPU is left").help("write it like \"0-3\"")));
            }
            Err(e) => return Err(table.place("cpus", e)),
        },
    };
    Ok(GroupSpec { path: path.to_owned(), shares, quota, period, burst, idle, cpus, tasks })
}

fn virtual_machine(table: &Table<'_>) -> Result<NestedSpec> {
    let periodic_tick = match table.string("tick")? {
        None | Some("nohz") => false,
        Some("periodic") => true,
        Some(other) => return Err(table.place("tick", Error::unknown("tick", other, ["periodic", "nohz"]))),
    };
    let kernel = table.required("kernel", table.string("kernel")?)?.to_owned();
    let (mut features, mut tunables) = (names(table, "features")?, tunables(table)?);
    preempt::rename(Version::parse(&kernel).ok(), &mut features, &mut tunables)
        .map_err(|e| table.place("kernel", e))?;
    Ok(NestedSpec {
        name: table.required("name", table.string("name")?)?.to_owned(),
        vcpus: table.required("vcpus", table.number("vcpus")?)?,
        kernel,
        features,
        tunables,
        periodic_tick,
        halt_poll: table.time("halt_poll")?.unwrap_or_default(),
        tasks: table.required("tasks", table.get("tasks").map(|_| names(table, "tasks")))??,
    })
}

/// Tunables of a virtual machine's kernel: whole numbers or words by name.
fn tunables(table: &Table<'_>) -> Result<BTreeMap<String, u64>> {
    let Some(inner) = table.table("tunables", &tunable::names())? else { return Ok(BTreeMap::new()) };
    let one = |name: &str| {
        let text = match inner.get(name).and_then(|value| value.get_ref().as_str()) {
            Some(word) => word.to_owned(),
            None => inner.required(name, inner.number::<u64>(name)?)?.to_string(),
        };
        let value = tunable::read(name, &text).map_err(|e| inner.place(name, e))?;
        Ok((name.to_owned(), value))
    };
    inner.keys().map(one).collect()
}
