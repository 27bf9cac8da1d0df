//! The reader of experiment files: one function for each part, each error with its place.

use super::around::Around;
use super::keys;
use super::lists::{number, strings};
use super::loads::Workload;
use super::machines::Machines;
use super::model::{Experiment, Load};
use super::published;
use super::slurm::SlurmOptions;
use super::variants::{self, Family};
use schedlab_base::{Error, Result, printable};
use schedlab_compare::comparison::looks_warning::without_looks;
use schedlab_compare::comparison::{DEFAULT_MIN_EFFECT_PCT, DEFAULT_RUNS};
use schedlab_compare::metrics::KnownMetrics;
use schedlab_kernel::Level;
use schedlab_kernel::Variant;
use schedlab_machine::Machine;
use schedlab_machine::reader::{Source, Table};
use schedlab_workload::Spec;
use std::path::Path;

/// The most runs in one experiment; more are taken for a mistake.
pub const MAX_RUNS: u64 = 1_000_000;

/// Reads an experiment's text; `host_cpus` is the value of `{cpus}` in its loads on the live kernel.
///
/// # Errors
/// Any fault in it, with file, line and column.
pub fn parse(file: &Path, text: &str, host_cpus: u64) -> Result<Experiment> {
    read(Source { file, text }, |_| {}, host_cpus)
}

/// Reads a text. `over` puts what a caller gives in the place of what the text has, or lacks.
pub(super) fn read(
    source: Source<'_>,
    over: impl FnOnce(&mut Draft<'_>),
    host_cpus: u64,
) -> Result<Experiment> {
    let document = source.parse()?;
    let top = Table::open(source, "the experiment", document.span(), document.get_ref());
    keys::TOP.check(&top, "key in the experiment", &[])?;
    let mut draft = Draft::read(&top, source);
    over(&mut draft);
    draft.checked(&top, host_cpus)
}

/// The parts of an experiment that a caller may give. One that the text lacks is an error, until it is given.
pub(super) struct Draft<'t> {
    file: &'t Path,
    /// Where relative paths begin.
    pub(super) folder: &'t Path,
    pub(super) name: Result<String>,
    pub(super) about: Result<String>,
    pub(super) runs: Result<u64>,
    pub(super) machines: Result<(Machines<'t>, Vec<usize>)>,
    pub(super) families: Result<Vec<Family<'t>>>,
    /// `None`: as the text says.
    pub(super) baseline: Option<String>,
    pub(super) text: String,
}

impl<'t> Draft<'t> {
    fn read(top: &Table<'t>, source: Source<'t>) -> Draft<'t> {
        let Source { file, text } = source;
        let folder = file.parent().unwrap_or(Path::new("."));
        let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned());
        let stem = stem.filter(|s| !s.contains(printable::acts));
        let own = top.label("name");
        Draft {
            file,
            folder,
            name: own.and_then(|own| top.required("name", own.map(str::to_owned).or(stem))),
            about: top.string("about").map(|about| about.unwrap_or_default().to_owned()),
            runs: bounded(top, "runs", DEFAULT_RUNS, 1, MAX_RUNS),
            machines: Machines::read(top, folder),
            families: variants::read(top, top, false),
            baseline: None,
            // A copy beside a run may be read again. Its looks are the earlier command's, so they don't apply.
            text: without_looks(text).to_owned(),
        }
    }

    /// The whole experiment. The first error is reported, in an order that suits a reader.
    fn checked(self, top: &Table<'_>, host_cpus: u64) -> Result<Experiment> {
        let (name, runs) = (self.name?, self.runs?);
        let seed = bounded(top, "seed", 1, 0, u64::MAX >> 1)?;
        let (workloads, around) = (workloads(top, self.folder)?, Around::read(top, self.folder)?);
        let work = (workloads.as_slice(), &around);
        let families = self.families?;
        let variants: Vec<Variant> = families.iter().flat_map(|f| f.variants.clone()).collect();
        let (machines, mut loads) = simulated_loads(self.machines?, top, work)?;
        let mut host_loads = host_loads(top, work, host_cpus)?;
        let runs_in_all = (loads.len().max(host_loads.len()) * variants.len()) as u64 * runs;
        if runs_in_all > MAX_RUNS {
            return Err(top
                .error(format!("{runs_in_all} runs: more than {MAX_RUNS}"))
                .help("fewer loads, variants or runs"));
        }
        let metrics = metric_names(top, &workloads, &loads, &host_loads)?;
        let baseline = self.baseline.map_or_else(|| baseline(top, &families), Ok)?;
        let of_loads = loads.iter().chain(&host_loads).flat_map(|l| &l.metrics);
        let shown: Vec<String> = metrics.iter().chain(of_loads).cloned().collect();
        check_narrowed(top, &mut loads, &families, Some(&baseline))?;
        check_narrowed(top, &mut host_loads, &families, None)?;
        variants::check_loads(&families, (&loads, &machines), &host_loads)?;
        let whole = Experiment {
            baseline,
            min_effect_pct: min_effect(top)?,
            background: top.boolean("background")?.unwrap_or(true),
            published: published::figures(top, &variants, &shown)?,
            posted: published::posted(top)?,
            series: published::series(top)?,
            about: self.about?,
            file: self.file.to_owned(),
            text: self.text,
            name,
            runs,
            seed,
            machines,
            loads,
            host_loads,
            variants,
            metrics,
            real: false,
            left_out: None,
            slurm: slurm(top)?,
            vm: None,
            code: None,
        };
        with_real(whole, top, work, self.folder)
    }
}

/// The experiment with its parts for real kernels, `[vm]` and `[code]`.
fn with_real(
    whole: Experiment,
    top: &Table<'_>,
    work: (&[Workload], &Around<'_>),
    folder: &Path,
) -> Result<Experiment> {
    let own_part = |key: &'static str, section: &keys::Section| -> Result<Option<Box<Experiment>>> {
        let Some(table) = top.table(key, &section.names())? else { return Ok(None) };
        Ok(Some(Box::new(part(&table, top, work, folder, &whole)?)))
    };
    let (vm, mut code) = (own_part("vm", &keys::VM)?, own_part("code", &keys::CODE)?);
    if let (Some(code), Some(vm)) = (&mut code, &vm)
        && !states(top, "code", "variant")?
    {
        code.variants = of_guests(top, vm)?;
        code.baseline.clone_from(&vm.baseline);
    }
    if let Some(code) = &mut code {
        // Its variants have the names of those that they stand for, and are compared with the same figures.
        let has = |name: &str| code.variants.iter().any(|v| v.name == name);
        code.published = whole.published.iter().filter(|p| has(&p.variant)).cloned().collect();
    }
    let named = |l: &Load| (l.spec.name().to_owned(), l.name.clone());
    let of_parts = vm.iter().chain(&code).flat_map(|part| &part.loads);
    let all = whole.loads.iter().chain(&whole.host_loads).chain(of_parts);
    work.1.check(&all.map(named).collect::<Vec<_>>())?;
    Ok(Experiment { vm, code, ..whole })
}

/// The variants of `[vm]` for `[code]`, which may have its own changes for them.
fn of_guests(top: &Table<'_>, vm: &Experiment) -> Result<Vec<Variant>> {
    let parts = (top.open_table("vm")?, top.open_table("code")?);
    let (Some(guests), Some(own)) = parts else { return Ok(vm.variants.clone()) };
    if own.get("at").is_none() || guests.get("variant").is_none() {
        return Ok(vm.variants.clone());
    }
    let families = variants::read(&guests, &own, true)?;
    Ok(families.iter().flat_map(|f| f.variants.clone()).collect())
}

/// Whether a part states a key of its own.
fn states(top: &Table<'_>, part: &str, key: &str) -> Result<bool> {
    Ok(top.open_table(part)?.is_some_and(|own| own.get(key).is_some()))
}

/// `[vm]` or `[code]`: the experiment with real kernels. Missing keys are taken from the experiment.
fn part(
    own: &Table<'_>,
    top: &Table<'_>,
    work: (&[Workload], &Around<'_>),
    folder: &Path,
    whole: &Experiment,
) -> Result<Experiment> {
    let of = |keys: &[&str]| if keys.iter().any(|k| own.get(k).is_some()) { own } else { top };
    let real = own.get("variant").is_some();
    let mut families = variants::read(of(&["variant"]), of(&["at"]), real)?;
    if let Some(word) = own.label("level")? {
        let level = Level::parse(word).map_err(|e| own.place("level", e))?;
        let all = families.iter_mut().flat_map(|f| &mut f.variants);
        all.filter(|v| v.level.is_free()).for_each(|v| v.level = level);
    }
    let machines = Machines::read(of(&["machines", "machine"]), folder)?;
    let (machines, mut loads) = simulated_loads(machines, of(&["load"]), work)?;
    let metrics = metric_names(of(&["metrics"]), work.0, &loads, &[])?;
    let named = if real { own } else { of(&["baseline"]) };
    let baseline = baseline(named, &families)?;
    check_narrowed(of(&["load"]), &mut loads, &families, Some(&baseline))?;
    variants::check_loads(&families, (&loads, &machines), &[])?;
    Ok(Experiment {
        runs: bounded(own, "runs", whole.runs, 1, MAX_RUNS)?,
        seed: bounded(own, "seed", whole.seed, 0, u64::MAX >> 1)?,
        variants: families.iter().flat_map(|f| f.variants.clone()).collect(),
        left_out: own.string("left_out")?.map(str::to_owned),
        published: Vec::new(),
        host_loads: Vec::new(),
        machines,
        loads,
        baseline,
        metrics,
        real,
        ..whole.clone()
    })
}

/// `[slurm]`. Numbers and booleans may be without quotes.
fn slurm(top: &Table<'_>) -> Result<SlurmOptions> {
    let mut options = SlurmOptions::default();
    let Some(table) = top.table("slurm", &keys::SLURM.names())? else { return Ok(options) };
    for key in keys::SLURM.names() {
        let Some(value) = table.get(key) else { continue };
        let value = value.get_ref();
        let text = value.as_str().map(str::to_owned);
        let text = text.or_else(|| value.as_bool().map(|b| b.to_string()));
        let text = text.or_else(|| value.as_integer().map(|i| i.as_str().to_owned()));
        let text = text.ok_or_else(|| table.error_at(key, format!("{key} is a string or a number")))?;
        options.set(key, &text).map_err(|e| table.place(key, e))?;
    }
    Ok(options)
}

fn bounded(t: &Table<'_>, key: &str, default: u64, lo: u64, hi: u64) -> Result<u64> {
    let value = t.number::<u64>(key)?.unwrap_or(default);
    if (lo..=hi).contains(&value) {
        Ok(value)
    } else {
        Err(t.error_at(key, format!("{key} is {lo} to {hi}")))
    }
}

fn min_effect(t: &Table<'_>) -> Result<f64> {
    let Some(value) = t.get("min_effect_pct") else { return Ok(DEFAULT_MIN_EFFECT_PCT) };
    number(value)
        .filter(|n| (0.0..=100.0).contains(n))
        .ok_or_else(|| t.error_at("min_effect_pct", "min_effect_pct is a number from 0 to 100"))
}

/// `[workload]` or several `[[workload]]`.
fn workloads(top: &Table<'_>, folder: &Path) -> Result<Vec<Workload>> {
    let Some(value) = top.get("workload") else {
        return Err(top
            .error("the experiment has no [workload]")
            .help("[workload] with name = \"schbench\", rtapp = \"FILE\" or command = { run = \"...\" }"));
    };
    if let Some(name) = value.get_ref().as_str() {
        let text = "workload is a table, with a line for each parameter";
        return Err(top
            .error_at("workload", text)
            .help(format!("[workload] and below it name = \"{name}\"")));
    }
    let tables = if value.get_ref().is_array() {
        top.open_tables("workload")?
    } else {
        top.open_table("workload")?.into_iter().collect()
    };
    tables.iter().map(|t| Workload::read(t, folder)).collect()
}

/// The workload of a file that has exactly one and no loads, for a machine of `cpus` CPUs.
pub(crate) fn only_workload(top: &Table<'_>, folder: &Path, cpus: u64) -> Result<Spec> {
    let wrong = |text: &str| top.error_at("workload", text);
    let all = workloads(top, folder)?;
    let [workload] = all.as_slice() else { return Err(wrong("there is one [workload] here")) };
    let mut loads = workload.loads(None, cpus).map_err(|e| top.place("workload", e))?;
    let (Some((_, spec)), true) = (loads.pop(), loads.is_empty()) else {
        return Err(wrong("a workload here has one value for each parameter, no sweep"));
    };
    Ok(spec)
}

/// The workload a load belongs to: the one it names, or the only one.
fn workload_of<'w>(load: &Table<'_>, workloads: &'w [Workload]) -> Result<&'w Workload> {
    let names = || workloads.iter().map(Workload::name);
    match (load.string("workload")?, workloads) {
        (None, [only]) => Ok(only),
        (None, _) => {
            let names: Vec<&str> = names().collect();
            Err(load
                .error("the load does not say of which workload")
                .help(format!("workload = {}", names.join(" or "))))
        }
        (Some(name), _) => workloads
            .iter()
            .find(|w| w.name() == name)
            .ok_or_else(|| load.place("workload", Error::unknown("workload", name, names()))),
    }
}

/// The `[[load]]` tables of `within`, each with its workload and only the keys it may have.
fn load_tables<'t, 'w>(
    within: &Table<'t>,
    workloads: &'w [Workload],
) -> Result<Vec<(Table<'t>, &'w Workload)>> {
    let mut all = Vec::new();
    for table in within.open_tables("load")? {
        table.label("name")?;
        let workload = workload_of(&table, workloads)?;
        let what = format!("{} parameter", workload.name());
        keys::LOAD.check(&table, &what, &workload.param_names())?;
        all.push((table, workload));
    }
    Ok(all)
}

/// The loads of `top` on their own machines, or on those that all share.
fn simulated_loads(
    (mut machines, shared): (Machines<'_>, Vec<usize>),
    top: &Table<'_>,
    (workloads, around): (&[Workload], &Around<'_>),
) -> Result<(Vec<Machine>, Vec<Load>)> {
    let tables = load_tables(top, workloads)?;
    let mut wanted: Vec<(Option<&Table<'_>>, &Workload, Vec<usize>)> = Vec::new();
    for (table, workload) in &tables {
        let mut on = Vec::new();
        for (name, value) in strings(table, "machine")? {
            on.extend(machines.named(name).map_err(|e| table.error_on(value, e))?);
        }
        if table.get("machine").is_none() {
            on.clone_from(&shared);
        }
        wanted.push((Some(table), workload, on));
    }
    if tables.is_empty() {
        wanted.extend(workloads.iter().map(|w| (None, w, shared.clone())));
    }
    let mut loads = Vec::new();
    for (table, workload, on) in wanted {
        for at in on {
            let cpus = machines.at(at).topology.nr_cpus() as u64;
            let made = workload.loads(table, cpus)?;
            let lists = Lists::read(table)?;
            for (name, spec) in made {
                let Lists { variants, metrics, own, baseline } = lists.clone();
                let spec = around.around(&name, spec, cpus).map_err(|e| top.place("workload", e))?;
                loads.push(Load { name, machine: at, spec, variants, baseline, metrics, own });
            }
        }
    }
    unique(top, &loads)?;
    Ok((machines.into_all(), loads))
}

fn host_loads(
    top: &Table<'_>,
    (workloads, around): (&[Workload], &Around<'_>),
    cpus: u64,
) -> Result<Vec<Load>> {
    let host = top.table("host", &keys::HOST.names())?;
    let tables = load_tables(host.as_ref().unwrap_or(top), workloads)?;
    let wanted: Vec<(Option<&Table<'_>>, &Workload)> = if tables.is_empty() {
        workloads.iter().map(|w| (None, w)).collect()
    } else {
        tables.iter().map(|(t, w)| (Some(t), *w)).collect()
    };
    let mut loads: Vec<Load> = Vec::new();
    for (table, workload) in wanted {
        let lists = Lists::read(table)?;
        for (name, spec) in workload.loads(table, cpus)? {
            let spec = around.around(&name, spec, cpus).map_err(|e| top.place("workload", e))?;
            // The same load on several machines is one load here.
            if !loads.iter().any(|l| l.name == name && l.spec == spec) {
                let Lists { variants, metrics, own, baseline } = lists.clone();
                loads.push(Load { name, machine: 0, spec, variants, baseline, metrics, own });
            }
        }
    }
    unique(top, &loads)?;
    Ok(loads)
}

/// The variants and metrics to which a load is restricted, those that are its own result, and its baseline.
#[derive(Clone)]
struct Lists {
    variants: Vec<String>,
    baseline: Option<String>,
    metrics: Vec<String>,
    own: Vec<String>,
}

impl Lists {
    fn read(table: Option<&Table<'_>>) -> Result<Lists> {
        let list = |key: &str| -> Result<Vec<String>> {
            let all = table.map_or(Ok(Vec::new()), |t| strings(t, key))?;
            Ok(all.into_iter().map(|(s, _)| s.to_owned()).collect())
        };
        let baseline = table.map_or(Ok(None), |t| t.string("baseline"))?.map(str::to_owned);
        Ok(Lists { variants: list("variants")?, baseline, metrics: list("metrics")?, own: list("own")? })
    }
}

/// Checks that a load's variants are variants of the experiment, or families of them, and that the baseline,
/// if there is one, is among them.
fn check_narrowed(
    top: &Table<'_>,
    loads: &mut [Load],
    families: &[Family<'_>],
    baseline: Option<&str>,
) -> Result<()> {
    for load in loads.iter_mut().filter(|l| !l.variants.is_empty()) {
        let mut meant = Vec::new();
        for name in &load.variants {
            let all = variants::named(families, name);
            if all.is_empty() {
                let known = families.iter().map(|f| f.name.as_str());
                let error = Error::unknown("variant", name, known).context(format!("load '{}'", load.name));
                return Err(top.place("load", error));
            }
            meant.extend(all.iter().map(|v| v.name.clone()));
        }
        load.variants = meant;
        let baseline = load.baseline.as_deref().or(baseline);
        if let Some(baseline) = baseline.filter(|b| !load.runs_under(b)) {
            let text = format!("load '{}' leaves out the baseline '{baseline}'", load.name);
            return Err(top.error_at("load", text));
        }
    }
    let known = || families.iter().flat_map(|f| f.variants.iter().map(|v| v.name.as_str()));
    let strange = |l: &&Load| l.baseline.as_deref().is_some_and(|name| known().all(|v| v != name));
    match loads.iter().find(strange) {
        Some(load) => {
            let name = load.baseline.as_deref().unwrap_or_default();
            let error = Error::unknown("variant", name, known());
            Err(top.place("load", error.context(format!("baseline of load '{}'", load.name))))
        }
        None => Ok(()),
    }
}

/// Refuses two loads that look the same in a table.
fn unique(top: &Table<'_>, loads: &[Load]) -> Result<()> {
    let same =
        |a: &Load, b: &Load| a.name == b.name && a.machine == b.machine && a.spec.name() == b.spec.name();
    let twice = loads.iter().enumerate().find(|(i, a)| loads[..*i].iter().any(|b| same(a, b)));
    twice.map_or(Ok(()), |(_, l)| {
        let text = format!("two loads have the name '{}'", l.name);
        Err(top.error_at("load", text).help("name = \"...\" in each [[load]] tells them apart"))
    })
}

/// The baseline; for a swept variant its first value.
fn baseline(top: &Table<'_>, families: &[Family<'_>]) -> Result<String> {
    let first = families.first().map_or("", |f| f.name.as_str());
    let name = top.string("baseline")?.unwrap_or(first);
    match variants::named(families, name).first() {
        Some(variant) => Ok(variant.name.clone()),
        None => {
            Err(top
                .place("baseline", Error::unknown("variant", name, families.iter().map(|f| f.name.as_str()))))
        }
    }
}

fn metric_names(
    top: &Table<'_>,
    workloads: &[Workload],
    loads: &[Load],
    host_loads: &[Load],
) -> Result<Vec<String>> {
    let known = KnownMetrics::of(loads.iter().chain(host_loads).map(|l| &l.spec))?;
    let mut all = Vec::new();
    for (name, value) in strings(top, "metrics")? {
        known.check(name).map_err(|e| top.error_on(value, e))?;
        all.push(name.to_owned());
    }
    for load in loads.iter().chain(host_loads) {
        for name in load.metrics.iter().chain(&load.own) {
            known.check(name).map_err(|e| top.place("load", e.context(format!("load '{}'", load.name))))?;
        }
    }
    if all.is_empty() {
        all = workloads.iter().flat_map(Workload::headline).collect();
        // Two commands may show the same counters first.
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|m| seen.insert(m.clone()));
    }
    Ok(all)
}
