//! Variants of an experiment: kernels with their changes, each number of which may be a sweep.
//!
//! A `[[variant]]` is read into *dials*. A dial has a key, its values, and a function that applies a value to a
//! variant. Every combination of values is a separate variant, named after the swept values ("cfs,hz=250"); without
//! sweeps there is one. Loads and the baseline may use the name of such a family for all of its variants.

use super::dial::Dial;
use super::expand::combinations;
use super::lists::strings;
use super::model::Load;
use super::sweep::{Item, values};
use super::{changes, keys};
use crate::ask::{guests, patch_names, variant_checks};
use schedlab_base::{Error, Ns, Result};
use schedlab_kernel::migration::{AUTO, MigrationCost};
use schedlab_kernel::policy::EVERY_TASK;
use schedlab_kernel::{
    AttrChange, Change, Kernel, Level, Policy, Scx, Toggle, Variant, preempt, tunable, variant::RUNNING,
};
use schedlab_machine::Machine;
use schedlab_machine::migration::parse_costs;
use schedlab_machine::reader::{Table, Value};
use schedlab_sim::cache_by_level;

const ATTRS: &[&str] = &["policy", "nice", "slice"];

/// The variants of one `[[variant]]`.
pub struct Family<'t> {
    /// Its name, without swept values.
    pub name: String,
    /// Its variants: more than one if a value is swept.
    pub variants: Vec<Variant>,
    /// Its table in the file; `None`: it was given as a value.
    table: Option<Table<'t>>,
    /// The tables of its changes: the experiment's, then its own.
    at: Vec<Table<'t>>,
    /// Number of the experiment's changes.
    shared: usize,
    /// The tables of its groups.
    groups: Vec<Table<'t>>,
    /// Whether its kernel is an image.
    real: bool,
}

/// Reads all `[[variant]]` of an experiment, with the `[[at]]` that `changes` has for all of them. Kernels that are
/// images need no profile: the kernels of `real` variants, and words that can only be images.
pub fn read<'t>(top: &Table<'t>, changes: &Table<'t>, real: bool) -> Result<Vec<Family<'t>>> {
    let mut all: Vec<Family<'t>> = Vec::new();
    for table in top.open_tables("variant")? {
        keys::VARIANT.check(&table, "key in [[variant]]", &[])?;
        let family = family(changes, table, real)?;
        let taken = |v: &Variant| all.iter().flat_map(|f| &f.variants).any(|other| other.name == v.name);
        if let Some(twice) = family.variants.iter().find(|v| taken(v)) {
            let text = format!("two variants have the name '{}'", twice.name);
            let help = "name = \"...\" in each [[variant]] tells them apart";
            return Err(family.place("name", Error::input(text).help(help)));
        }
        all.push(family);
    }
    if all.is_empty() {
        return Err(top
            .error("the experiment has no [[variant]]")
            .help("[[variant]] and below it kernel = \"v6.5\""));
    }
    Ok(all)
}

/// The variants of a name: one, or all of a family.
pub fn named<'f>(families: &'f [Family<'_>], name: &str) -> Vec<&'f Variant> {
    let all = || families.iter().flat_map(|f| &f.variants);
    match all().find(|v| v.name == name) {
        Some(one) => vec![one],
        None => families.iter().filter(|f| f.name == name).flat_map(|f| &f.variants).collect(),
    }
}

/// Checks the tasks and times of variants against the loads that run under them.
pub fn check_loads(
    families: &[Family<'_>],
    (loads, machines): (&[Load], &[Machine]),
    host_loads: &[Load],
) -> Result<()> {
    let all = || families.iter().flat_map(|f| &f.variants);
    let live = || all().filter(|v| v.kernel == RUNNING).map(|v| v.name.as_str());
    for family in families {
        for variant in &family.variants {
            let name = &variant.name;
            let (loads, is_live) =
                if variant.kernel == RUNNING { (host_loads, true) } else { (loads, false) };
            let runs = |l: &&Load| if is_live { l.runs_live_under(name, live()) } else { l.runs_under(name) };
            let specs = || loads.iter().filter(runs).map(|l| &l.spec);
            variant_checks::groups(variant, specs()).map_err(|e| family.place("tasks", e))?;
            specs()
                .try_for_each(|spec| variant_checks::with_groups(variant, spec))
                .map_err(|e| family.place_group(variant, specs(), e))?;
            for change in &variant.at {
                let places = loads.iter().filter(runs).filter(|_| !is_live);
                places
                    .filter_map(|l| machines.get(l.machine))
                    .try_for_each(|machine| variant_checks::cpus(change, machine))
                    .map_err(|e| family.place_of(change, "cpus", e))?;
                specs()
                    .try_for_each(|spec| variant_checks::in_time(change, spec))
                    .map_err(|e| family.place_of(change, "time", e))?;
                let key = if change.task.is_some() { "task" } else { "group" };
                specs()
                    .try_for_each(|spec| variant_checks::change(change, variant, spec))
                    .map_err(|e| family.place_of(change, key, e))?;
            }
        }
    }
    Ok(())
}

impl<'t> Family<'t> {
    /// Variants given as values, each a separate family, checked like those of a file.
    pub fn given(variants: &[&Variant]) -> Result<Vec<Family<'t>>> {
        let mut all: Vec<Family<'t>> = Vec::new();
        for variant in variants {
            if all.iter().any(|f| f.name == variant.name) {
                return Err(Error::input(format!("two variants have the name '{}'", variant.name))
                    .help("NAME=KERNEL[:CHANGE,...] tells them apart"));
            }
            let mut family = Family {
                name: variant.name.clone(),
                variants: Vec::new(),
                table: None,
                at: Vec::new(),
                shared: 0,
                groups: Vec::new(),
                real: guests::is_real(&variant.kernel),
            };
            let later = variant.at.iter().flat_map(|change| &change.features);
            let open = !variant.patch.is_empty();
            variant
                .features
                .iter()
                .chain(later)
                .try_for_each(|text| check_feature(text, open))
                .map_err(|e| family.place("features", e))?;
            let mut one = (*variant).clone().renamed().map_err(|e| family.place("features", e))?;
            family.order(&mut one)?;
            family.variants.push(family.checked(one)?);
            all.push(family);
        }
        Ok(all)
    }

    /// The error with the place of a key, or with the variant's name if it has no place.
    fn place(&self, key: &str, error: Error) -> Error {
        match &self.table {
            Some(table) => table.place(key, error),
            None => error.context(format!("variant '{}'", self.name)),
        }
    }

    /// The error, placed at that change.
    fn place_of(&self, change: &Change, key: &str, error: Error) -> Error {
        let of = |t: &Table<'_>, key| t.string(key).ok().flatten().map(str::to_owned);
        let is_it = |t: &&Table<'_>| {
            let values = t.get("time").and_then(|v| values(t, "time", v).ok()).unwrap_or_default();
            values.iter().any(|(text, _)| Ns::parse(text, "").is_ok_and(|then| then == change.time))
                && of(t, "task") == change.task.as_ref().map(|task| task.name.clone())
                && match (&change.task, &change.group) {
                    (Some(task), _) => of(t, "group") == task.group,
                    (None, group) => of(t, "group") == group.as_ref().map(|group| group.path.clone()),
                }
        };
        match self.at.iter().rev().find(is_it) {
            // The task exists; the group that it moves to has the fault.
            Some(table) if key == "task" && error.message().contains("group '") => {
                table.place("group", error)
            }
            Some(table) => table.place(key, error),
            None => self.place("at", error),
        }
    }

    /// The error, placed at the first of the variant's groups that does not fit its loads.
    fn place_group<'s>(
        &self,
        variant: &Variant,
        specs: impl Iterator<Item = &'s schedlab_workload::Spec> + Clone,
        error: Error,
    ) -> Error {
        let fails = |n: &usize| {
            let first = Variant { groups: variant.groups[..*n].to_vec(), ..variant.clone() };
            specs.clone().any(|spec| variant_checks::with_groups(&first, spec).is_err())
        };
        match (1..=variant.groups.len()).find(fails).and_then(|n| self.groups.get(n - 1)) {
            Some(table) => table.place("tasks", error),
            None => self.place("group", error),
        }
    }

    /// Checks a variant's changes, and puts them into the order of time.
    fn order(&self, variant: &mut Variant) -> Result<()> {
        let known = !patch_names::has_own(variant);
        for (change, table) in variant.at.iter().zip(&self.at).filter(|_| known) {
            let key = ["features", "group", "task"].into_iter().find(|key| table.get(key).is_some());
            change.check().map_err(|e| table.place(key.unwrap_or("time"), e))?;
        }
        for (change, table) in variant.at.iter().zip(&self.at) {
            changes::check_change(change, table)?;
        }
        let (shared, own) = variant.at.split_at(self.shared);
        for (list, first) in [(shared, 0), (own, self.shared)] {
            if let Some(late) = list.windows(2).position(|w| w[0].time > w[1].time) {
                let table = &self.at[first + late + 1];
                return Err(table.error_at("time", "changes are listed in the order of their times"));
            }
        }
        variant.at.sort_by_key(|change| change.time);
        Ok(())
    }
}

/// Whether names may be a kernel's own: a patch may bring such names, which its build or its run checks.
#[derive(Clone, Copy)]
struct Open {
    features: bool,
    tunables: bool,
    /// Tunables in folders of debugfs, which any real kernel may have.
    folders: bool,
}

fn family<'t>(top: &Table<'t>, table: Table<'t>, real: bool) -> Result<Family<'t>> {
    let Some(kernel) = table.label("kernel")? else {
        return Err(table
            .error("[[variant]] has no kernel")
            .help("kernel = \"v6.5\", \"6.1\" or \"running\""));
    };
    let name = table.label("name")?.unwrap_or(guests::short_name(kernel)).to_owned();
    let real = real || guests::is_real(kernel);
    let shared = top.tables("at", &keys::AT.names())?;
    let nr_shared = shared.len();
    let at: Vec<Table<'t>> = shared.into_iter().chain(table.tables("at", &keys::AT.names())?).collect();
    let patch: Vec<String> = strings(&table, "patch")?.into_iter().map(|(text, _)| text.to_owned()).collect();
    let config = table.label("config")?.map(str::to_owned);
    let level = match table.label("level")? {
        Some(word) => Level::parse(word).map_err(|e| table.place("level", e))?,
        None => Level::Free,
    };
    let scx = table
        .label("scx")
        .map_err(|e| e.help(SCX_FORM))?
        .map(|command| Scx { command: command.to_owned(), hash: None });
    let open = Open {
        features: !patch.is_empty(),
        tunables: !patch.is_empty() || kernel.contains('/'),
        folders: guests::means_image(kernel),
    };
    let mut dials = features(&table, "features", open.features, |v| &mut v.features)?;
    dials.extend(tunables(&table, "", open, |v| &mut v.tunables)?);
    dials.extend(attributes(&table, "", EVERY_TASK)?);
    for (group, inner) in groups(&table)? {
        dials.extend(attributes(&inner, &format!("{group}."), group)?);
    }
    dials.extend(settings(&table)?);
    dials.extend(migration(&table)?);
    let (own_groups, group_tables, of_groups) = changes::groups(&table)?;
    dials.extend(of_groups);
    let mut first: Vec<Change> = vec![Change::default(); at.len()];
    for (i, inner) in at.iter().enumerate() {
        dials.extend(change(inner, i, &mut first, open)?);
    }
    let plain = Variant {
        name: name.clone(),
        patch,
        config,
        level,
        scx,
        at: first,
        groups: own_groups,
        ..Variant::plain(kernel)
    };
    let table = Some(table);
    let mut family =
        Family { name, variants: Vec::new(), table, at, shared: nr_shared, groups: group_tables, real };
    let choices: Vec<Vec<usize>> = dials.iter().map(|d| (0..d.values.len()).collect()).collect();
    for choice in combinations(&choices).map_err(|e| family.place("name", e))? {
        let variant = family.turned(plain.clone(), &dials, &choice)?;
        family.variants.push(variant);
    }
    Ok(family)
}

impl Family<'_> {
    /// The variant with every dial at its chosen value.
    fn turned(&self, mut variant: Variant, dials: &[Dial<'_>], choice: &[usize]) -> Result<Variant> {
        for (dial, at) in dials.iter().zip(choice) {
            let (text, value) = &dial.values[*at];
            (dial.set)(&mut variant, text).map_err(|e| self.error_on(value, e))?;
            if dial.values.len() > 1 {
                variant.name = format!("{},{}={text}", variant.name, dial.name);
            }
        }
        let key = if variant.tunables.is_empty() { "features" } else { "tunables" };
        let mut variant = variant.renamed().map_err(|e| self.place(key, e))?;
        self.order(&mut variant)?;
        changes::check(&variant, &self.groups)?;
        self.checked(variant)
    }

    fn error_on(&self, value: &Value<'_>, error: Error) -> Error {
        match &self.table {
            Some(table) => table.error_on(value, error),
            None => error,
        }
    }

    /// The variant, if its kernel has the changed features and tunables.
    fn checked(&self, variant: Variant) -> Result<Variant> {
        if self.real || guests::is_real_variant(&variant) {
            variant.tasks.values().try_for_each(|t| t.check()).map_err(|e| self.place("tasks", e))?;
            return Ok(variant);
        }
        variant_checks::attributes(&variant).map_err(|e| self.place("tasks", e))?;
        if variant.kernel == RUNNING {
            return Ok(variant);
        }
        if let Err(e) = Kernel::profile(&variant.kernel) {
            let there = e.remedy().unwrap_or_default().to_owned();
            let help = format!("{there}; a real kernel, for --backend vm, is a series without v, or a path");
            return Err(self.place("kernel", e.help(help)));
        }
        let key = if variant.tunables.is_empty() { "kernel" } else { "tunables" };
        variant.resolve().map_err(|e| self.place(key, e))?;
        variant.changes().map_err(|e| self.place("at", e))?;
        Ok(variant)
    }
}

/// Refuses a feature that no kernel has, unless a patch may bring it (`open`).
fn check_feature(text: &str, open: bool) -> Result<()> {
    let is_name = text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    if (!open || !is_name) && !preempt::is_old_feature(text) {
        Toggle::parse(text)?;
    }
    Ok(())
}

/// `features`: a list, each with a dial of its own; or a sweep over alternatives.
fn features<'t>(
    table: &Table<'t>,
    name: &str,
    open: bool,
    of: impl Fn(&mut Variant) -> &mut Vec<String> + Copy + 't,
) -> Result<Vec<Dial<'t>>> {
    let Some(value) = table.get("features") else { return Ok(Vec::new()) };
    let set = move |v: &mut Variant, text: &str| {
        check_feature(text, open)?;
        of(v).push(text.to_owned());
        Ok(())
    };
    if value.get_ref().as_table().is_some() {
        let values = values(table, "features", value)?;
        return Ok(vec![Dial { name: name.to_owned(), values, set: Box::new(set) }]);
    }
    let one = |(text, value): (&str, &'t Value<'t>)| Dial {
        name: name.to_owned(),
        values: vec![(text.to_owned(), value)],
        set: Box::new(set),
    };
    Ok(strings(table, "features")?.into_iter().map(one).collect())
}

/// `tunables`: whole numbers or words by name.
fn tunables<'t>(
    table: &Table<'t>,
    before: &str,
    open: Open,
    of: impl Fn(&mut Variant) -> &mut std::collections::BTreeMap<String, u64> + Copy + 't,
) -> Result<Vec<Dial<'t>>> {
    let names = tunable::names();
    let any = open.tunables || open.folders;
    let inner = if any { table.open_table("tunables")? } else { table.table("tunables", &names)? };
    let Some(inner) = inner else { return Ok(Vec::new()) };
    let dial = |key: &'t str| {
        let open = open.tunables || patch_names::is_in_folder(key);
        let set = move |v: &mut Variant, text: &str| {
            of(v).insert(key.to_owned(), patch_names::read_tunable(key, text, open)?);
            Ok(())
        };
        Ok(Dial { name: format!("{before}{key}"), values: given(&inner, key)?, set: Box::new(set) })
    };
    inner.keys().map(dial).collect()
}

/// The values of a key, if it is there.
fn given<'t>(table: &Table<'t>, key: &str) -> Result<Vec<Item<'t>>> {
    table.get(key).map_or(Ok(Vec::new()), |value| values(table, key, value))
}

fn whole<T: std::str::FromStr>(key: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::input(format!("{key} is a whole number, not '{text}'")))
}

/// `policy`, `nice` and `slice` of a group of tasks.
fn attributes<'t>(table: &Table<'t>, before: &str, group: &'t str) -> Result<Vec<Dial<'t>>> {
    let dial = |key: &'static str| {
        let set = move |v: &mut Variant, text: &str| {
            set_attribute(v.tasks.entry(group.to_owned()).or_default(), key, text)
        };
        Ok(Dial { name: format!("{before}{key}"), values: given(table, key)?, set: Box::new(set) })
    };
    ATTRS.iter().filter(|key| table.get(key).is_some()).map(|key| dial(key)).collect()
}

/// Sets one attribute from its text; the command line uses the same words.
///
/// # Errors
/// When the key is not an attribute, or it can't have the value.
pub fn set_attribute(change: &mut AttrChange, key: &str, text: &str) -> Result<()> {
    match key {
        "policy" => change.policy = Some(Policy::parse(text)?),
        "nice" => change.nice = Some(whole(key, text)?),
        "slice" => change.slice = Some(Ns::parse(text, "")?),
        _ => return Err(Error::unknown("attribute of tasks", key, ATTRS.iter().copied())),
    }
    change.check()
}

/// The groups of tasks that a variant changes, each with its table.
fn groups<'t>(table: &Table<'t>) -> Result<Vec<(&'t str, Table<'t>)>> {
    let Some(all) = any_keys(table, "tasks")? else { return Ok(Vec::new()) };
    let group = |name: &'t str| {
        let inner = all.table(name, ATTRS)?;
        Ok((name, all.required(name, inner)?))
    };
    all.keys().map(group).collect()
}

/// A table inside, with any keys.
fn any_keys<'t>(table: &Table<'t>, key: &str) -> Result<Option<Table<'t>>> {
    let inner = table.get(key).and_then(|v| v.get_ref().as_table());
    let keys: Vec<&str> = inner.iter().flat_map(|t| t.keys()).map(|k| &**k.get_ref()).collect();
    table.table(key, &keys)
}

/// `settings` of the live system, as they are written.
fn settings<'t>(table: &Table<'t>) -> Result<Vec<Dial<'t>>> {
    let Some(inner) = any_keys(table, "settings")? else { return Ok(Vec::new()) };
    let dial = |key: &'t str| {
        let set = move |v: &mut Variant, text: &str| {
            schedlab_native::settings::check(key, text)?;
            v.settings.insert(key.to_owned(), text.to_owned());
            Ok(())
        };
        Ok(Dial { name: key.to_owned(), values: given(&inner, key)?, set: Box::new(set) })
    };
    inner.keys().map(dial).collect()
}

/// `migration_cost` and `migration_factor`. A list is one value; a sweep has words, "0,2500" and "auto".
fn migration<'t>(table: &Table<'t>) -> Result<Vec<Dial<'t>>> {
    let dial = |key: &'static str| {
        let Some(value) = table.get(key) else { return Ok(None) };
        let values = match value.get_ref().as_array() {
            Some(_) if key == COST => {
                let us: Vec<u64> = table.numbers(key)?.unwrap_or_default();
                vec![(MigrationCost::Given(us).to_string(), value)]
            }
            _ => values(table, key, value)?,
        };
        let set = move |v: &mut Variant, text: &str| set_migration(v, key, text);
        Ok(Some(Dial { name: key.to_owned(), values, set: Box::new(set) }))
    };
    [COST, FACTOR].into_iter().filter_map(|key| dial(key).transpose()).collect()
}

const COST: &str = "migration_cost";
const FACTOR: &str = "migration_factor";
/// The keys about the time for which tasks stay cache hot.
pub const MIGRATION: [&str; 2] = [COST, FACTOR];

/// Sets one key of [`MIGRATION`] from its text; the command line uses the same words.
///
/// # Errors
/// When the text is neither a list of numbers nor `auto`, and for numbers out of range.
pub fn set_migration(variant: &mut Variant, key: &str, text: &str) -> Result<()> {
    match (key, text) {
        (FACTOR, text) => {
            let pct = whole(key, text)?;
            cache_by_level::check(&[], pct)?;
            variant.migration_factor = Some(pct);
        }
        (_, AUTO) => variant.migration_cost = Some(MigrationCost::Auto),
        _ => {
            let us = parse_costs(text)?;
            cache_by_level::check(&us, 100)?;
            variant.migration_cost = Some(MigrationCost::Given(us));
        }
    }
    Ok(())
}

/// What `scx` takes.
const SCX_FORM: &str = "scx = \"PROGRAM ARGUMENTS\" or scx = \"FILE.bpf.o NAME=VALUE\"";

/// The dials of one `[[at]]`, as the variant's change number `i` of `all`.
fn change<'t>(table: &Table<'t>, i: usize, all: &mut [Change], open: Open) -> Result<Vec<Dial<'t>>> {
    let name = if all.len() == 1 { "at".to_owned() } else { format!("at{}", i + 1) };
    let set = move |v: &mut Variant, text: &str| {
        v.at[i].time = Ns::parse(text, "")?;
        Ok(())
    };
    let time = table.required("time", table.get("time"))?;
    let mut dials =
        vec![Dial { name: name.clone(), values: values(table, "time", time)?, set: Box::new(set) }];
    dials
        .extend(features(table, &format!("{name}.features"), open.features, move |v| &mut v.at[i].features)?);
    dials.extend(tunables(table, &format!("{name}."), open, move |v| &mut v.at[i].tunables)?);
    if let Some(value) = table.get("scx") {
        let set = move |v: &mut Variant, text: &str| {
            v.at[i].scx = Some(Scx { command: text.to_owned(), hash: None });
            Ok(())
        };
        let values = values(table, "scx", value)?;
        let named =
            |item: &&(String, &Value<'_>)| item.1.get_ref().as_str().is_some_and(|s| !s.trim().is_empty());
        if let Some((text, wrong)) = values.iter().find(|item| !named(item)) {
            let e = Error::input(format!("scx in [[at]] is the text of a command, and not '{text}'"));
            return Err(table.error_on(wrong, e.help(format!("{SCX_FORM}, or \"none\" from there on"))));
        }
        dials.push(Dial { name: format!("{name}.scx"), values, set: Box::new(set) });
    }
    dials.extend(changes::of_at(table, &name, i, &mut all[i])?);
    Ok(dials)
}
