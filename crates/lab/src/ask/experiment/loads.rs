//! Workloads and loads of an experiment: parameters with their sweeps, resolved for a number of CPUs.

use super::command;
use super::expand::combinations;
use super::keys;
use super::sweep::texts;
use schedlab_base::nearest::nearest;
use schedlab_base::{Error, Ns, Result, input};
use schedlab_compare::tools::{Template, headline};
use schedlab_machine::reader::Table;
use schedlab_workload::expression::expand;
use schedlab_workload::replay::Prices;
use schedlab_workload::rtapp::RUNTIME;
use schedlab_workload::{BENCHMARKS, Benchmark, Params, Spec, spec};
use std::path::Path;

/// The name of a load that sets nothing.
const UNNAMED: &str = "default";
/// The only parameter of a command: the value of `{load}`.
const LOAD: &str = "load";

/// One parameter with its values as text; several values are a sweep.
#[derive(Clone, Debug)]
pub struct Setting {
    name: &'static str,
    values: Vec<String>,
}

/// The name of a workload whose rt-app text is in the experiment or the case itself.
const INLINE: &str = "rt-app";

pub enum Workload {
    /// A benchmark and the parameters that all loads share.
    Bench(&'static Benchmark, Vec<Setting>),
    /// An rt-app description, whose only parameter is its runtime, or a recorded schedule, which has none.
    RtApp(Spec),
    /// A command, whose only parameter is its load.
    Command(Box<Template>),
}

impl Workload {
    /// Reads a `[workload]`; files are relative to `folder`.
    pub fn read(table: &Table<'_>, folder: &Path) -> Result<Workload> {
        if let Some(inner) = table.table("command", command::KEYS)? {
            if let Some(key) = ["rtapp", "rtapp_text"].into_iter().find(|key| table.get(key).is_some()) {
                return Err(table.error_at(key, "[workload] is a command or an rt-app file, not both"));
            }
            keys::WORKLOAD.check(table, "key of a command's [workload]", &[])?;
            return Ok(Workload::Command(Box::new(command::read(&inner, table.label("name")?)?)));
        }
        let names: Vec<&str> = BENCHMARKS.iter().map(|b| b.name).collect();
        if let Some(text) = table.string("rtapp_text")? {
            return inline(table, text, table.label("name")?.unwrap_or(INLINE));
        }
        if let Some(file) = table.string("schedule")? {
            return schedule(table, folder, file);
        }
        match (table.string("name")?, table.string("rtapp")?) {
            (Some(name), None) => {
                let bench = spec::find(name).map_err(|e| table.place("name", e))?;
                let params: Vec<&str> = bench.params.iter().map(|p| p.name).collect();
                keys::WORKLOAD.check(table, &format!("{} parameter", bench.name), &params)?;
                Ok(Workload::Bench(bench, settings(table, bench)?))
            }
            (None, Some(file)) => {
                let runtime = rtapp_runtime(table, &["rtapp"])?;
                let text = rtapp_text(table, folder, file, runtime)?;
                Ok(Workload::RtApp(Spec::RtApp { file: file.to_owned(), text, runtime }))
            }
            _ => {
                // A misspelt key is the likely reason why none of the three is there.
                let own = keys::WORKLOAD.names();
                let slip =
                    table.keys().find(|k| !own.contains(k) && nearest(k, own.iter().copied()).is_some());
                if let Some(key) = slip {
                    return Err(table.place(key, Error::unknown("key in [workload]", key, own)));
                }
                let text = "[workload] has a name (of a benchmark), rtapp (a file) or command (a table)";
                Err(table.error(text).help(format!("name = one of {}", names.join(", "))))
            }
        }
    }
    /// A benchmark with the parameters that a table gives.
    pub fn of_bench(table: &Table<'_>, bench: &'static Benchmark) -> Result<Workload> {
        Ok(Workload::Bench(bench, settings(table, bench)?))
    }
    /// The name loads refer to it by.
    pub fn name(&self) -> &str {
        match self {
            Workload::Bench(bench, _) => bench.name,
            Workload::RtApp(spec) => spec.name(),
            Workload::Command(template) => &template.spec.name,
        }
    }
    /// Keys that its loads may have in addition to [`keys::LOAD`].
    pub fn param_names(&self) -> Vec<&'static str> {
        match self {
            Workload::Bench(bench, _) => bench.params.iter().map(|p| p.name).collect(),
            Workload::RtApp(_) => Vec::new(),
            Workload::Command(_) => vec![LOAD],
        }
    }
    /// Metrics its tables show when the experiment names none.
    pub fn headline(&self) -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        match self {
            Workload::Bench(bench, _) => owned(bench.headline),
            Workload::RtApp(_) => owned(&["wakeup_delay.p50", "wakeup_delay.p99", "wakeup_delay.p99.9"]),
            Workload::Command(template) => headline(&template.spec),
        }
    }
    /// The loads that `table` stands for (one for each combination of swept values) on a machine with `cpus` CPUs:
    /// name and resolved workload. Without a table: the workload as it is.
    pub fn loads(&self, table: Option<&Table<'_>>, cpus: u64) -> Result<Vec<(String, Spec)>> {
        let given = table.map_or(Ok(None), |t| t.label("name"))?;
        let (bench, shared) = match self {
            Workload::RtApp(spec) => return Ok(vec![(given.unwrap_or(UNNAMED).to_owned(), spec.clone())]),
            Workload::Command(template) => return commands(template, table, given, cpus),
            Workload::Bench(bench, shared) => (bench, shared),
        };
        let own = table.map_or(Ok(Vec::new()), |t| settings(t, bench))?;
        let mut all: Vec<&Setting> = shared.iter().collect();
        for s in &own {
            all.retain(|old| old.name != s.name);
            all.push(s);
        }
        // An unnamed load gets its name from its own parameters and the swept ones.
        let is_own = |name: &str| own.iter().any(|s| s.name == name);
        let lists: Vec<Vec<String>> = all.iter().map(|s| s.values.clone()).collect();
        let swept: Vec<usize> = (0..all.len()).filter(|i| all[*i].values.len() > 1).collect();
        let at = |name: &str, e: Error| match table {
            Some(t) if t.get(name).is_some() => t.place(name, e),
            _ => e,
        };
        let load = |values: Vec<String>| -> Result<(String, Spec)> {
            let mut params = Params::default();
            for (setting, text) in all.iter().zip(&values) {
                let value = || bench.param(setting.name)?.parse(&expand(text, cpus)?);
                params.0.insert(setting.name.to_owned(), value().map_err(|e| at(setting.name, e))?);
            }
            let word = |i: usize| format!("{}={}", all[i].name, values[i]);
            let full = match given {
                Some(name) => {
                    let swept = swept.iter().map(|i| word(*i));
                    [expand(name, cpus)?].into_iter().chain(swept).collect::<Vec<_>>().join(",")
                }
                None => {
                    let own = (0..all.len()).filter(|i| swept.contains(i) || is_own(all[*i].name));
                    let words = expand(&own.map(word).collect::<Vec<_>>().join(","), cpus)?;
                    if words.is_empty() { UNNAMED.to_owned() } else { words }
                }
            };
            let spec = Spec::bench(bench.name, &params)?;
            spec.build(0)?;
            Ok((full, spec))
        };
        // Errors of a value point at the value; errors of their combination point at the load.
        let placed = |e: Error| match table {
            Some(t) => match all.iter().rev().find(|s| e.message().contains(s.name)) {
                Some(s) if t.get(s.name).is_some() => t.place(s.name, e),
                _ => t.place("name", e),
            },
            None => e,
        };
        let all = combinations(&lists).and_then(|all| all.into_iter().map(load).collect::<Result<_>>());
        all.map_err(placed)
    }
}

/// A recorded schedule, which has no parameters.
fn schedule(table: &Table<'_>, folder: &Path, file: &str) -> Result<Workload> {
    if let Some(key) = table.keys().find(|k| *k != "schedule") {
        return Err(table.error_at(key, format!("a schedule has no parameter '{key}'")));
    }
    let path = folder.join(file);
    let text = input::text_up_to(&path, spec::MAX_FILE_MB).map_err(|e| table.place("schedule", e))?;
    // Checked under the full path, for errors, as rt-app files are.
    Spec::replay(&path.display().to_string(), text.clone(), Prices::default())?;
    Ok(Workload::RtApp(Spec::Replay { file: file.to_owned(), text, prices: Prices::default() }))
}

/// The workload of an rt-app text that the table itself holds.
fn inline(table: &Table<'_>, text: &str, name: &str) -> Result<Workload> {
    let runtime = rtapp_runtime(table, &["rtapp_text", "name"])?;
    if name.contains('/') {
        // The end of a path would be its name.
        return Err(table.error_at("name", "the name of an rt-app text has no '/'"));
    }
    let spec = Spec::RtApp { file: name.to_owned(), text: text.to_owned(), runtime };
    // The reader names the place within the text, and the table its own place.
    spec.build(0).map_err(|e| e.context("rtapp_text"))?;
    Ok(Workload::RtApp(spec))
}

/// The text of an rt-app file in the experiment's folder, checked.
fn rtapp_text(table: &Table<'_>, folder: &Path, file: &str, runtime: Option<Ns>) -> Result<String> {
    let path = folder.join(file);
    let text = input::text_up_to(&path, spec::MAX_FILE_MB).map_err(|e| table.place("rtapp", e))?;
    // Checked under the full path, for errors. Stored under the name in the experiment, since it is part of the cell's
    // hash, which must not depend on the experiment's folder.
    Spec::RtApp { file: path.display().to_string(), text: text.clone(), runtime }.build(0)?;
    Ok(text)
}

/// Any runtime: a neighbour of a workload has the workload's.
const RUNS: Ns = Ns::secs(1);

/// The rt-app text of a `[[beside]]`, with its name.
pub fn rtapp_beside(table: &Table<'_>, folder: &Path) -> Result<Option<(String, String)>> {
    if table.get("rtapp_text").is_some() && table.get("rtapp").is_some() {
        return Err(table.error_at("rtapp", "[[beside]] has rtapp or rtapp_text, not both"));
    }
    if let Some(text) = table.string("rtapp_text")? {
        let spec = Spec::RtApp { file: INLINE.to_owned(), text: text.to_owned(), runtime: Some(RUNS) };
        spec.build(0).map_err(|e| e.context("rtapp_text"))?;
        return Ok(Some((INLINE.to_owned(), text.to_owned())));
    }
    let Some(file) = table.string("rtapp")? else { return Ok(None) };
    Ok(Some((file.to_owned(), rtapp_text(table, folder, file, Some(RUNS))?)))
}

/// The runtime of an rt-app workload, whose table has no other keys than this and `own`.
fn rtapp_runtime(table: &Table<'_>, own: &[&str]) -> Result<Option<Ns>> {
    if let Some(key) = table.keys().find(|k| *k != RUNTIME.name && !own.contains(k)) {
        let error = table.error_at(key, format!("an rt-app workload has no parameter '{key}'"));
        return Err(error.help(format!("its only one is {}", RUNTIME.name)));
    }
    runtime(table)
}

/// The runtime that a table gives an rt-app file.
fn runtime(table: &Table<'_>) -> Result<Option<Ns>> {
    let Some(value) = table.get(RUNTIME.name) else { return Ok(None) };
    match &texts(table, RUNTIME.name, value)?[..] {
        [time] => RUNTIME.parse(time).map(|ns| Some(Ns(ns))).map_err(|e| table.place(RUNTIME.name, e)),
        _ => Err(table.error_at(RUNTIME.name, "an rt-app workload has one runtime, which is not swept")),
    }
}

/// A command under the loads of a table: its key `load`, or else the name it is `called`.
fn commands(
    template: &Template,
    table: Option<&Table<'_>>,
    called: Option<&str>,
    cpus: u64,
) -> Result<Vec<(String, Spec)>> {
    let given = table.and_then(|t| t.get(LOAD).map(|v| (t, v)));
    let Some((table, value)) = given else {
        // The name of a tool's load need not be a number; the load of any other command can be any word.
        let is_load = called.is_some() && template.takes_load();
        let name = expand(called.unwrap_or(UNNAMED), cpus)?;
        let load =
            Some(&*name).filter(|n| is_load && (template.spec.tool.is_none() || n.parse::<u64>().is_ok()));
        let spec = template.resolve(load, cpus).map_err(|e| match table {
            Some(t) => t.place("name", e),
            None => e,
        })?;
        return Ok(vec![(name, Spec::Command(Box::new(spec)))]);
    };
    let loads = texts(table, LOAD, value)?;
    let swept = loads.len() > 1;
    let one = |load: &String| {
        let load = expand(load, cpus)?;
        let spec = template.resolve(Some(&load), cpus)?;
        let name = called.map(|name| expand(name, cpus)).transpose()?;
        let name = match name {
            Some(name) if swept => format!("{name},{LOAD}={load}"),
            Some(name) => name,
            None => format!("{LOAD}={load}"),
        };
        Ok((name, Spec::Command(Box::new(spec))))
    };
    loads.iter().map(one).collect::<Result<_>>().map_err(|e| table.place(LOAD, e))
}

/// The parameters of a benchmark that a table sets.
fn settings(table: &Table<'_>, bench: &Benchmark) -> Result<Vec<Setting>> {
    let own = |p: &'static str| table.get(p).map(|v| (p, v));
    bench
        .params
        .iter()
        .filter_map(|p| own(p.name))
        .map(|(name, value)| Ok(Setting { name, values: texts(table, name, value)? }))
        .collect()
}
