//! Task groups of a variant (`[[variant.group]]`), and changes of groups and of tasks in the middle of a run
//! (`[[at]]`): the dials of their keys, each of which may be a sweep.

use super::dial::Dial;
use super::keys;
use super::lists::strings_of;
use super::sweep::values;
use schedlab_base::{CpuSet, Error, Ns, Result};
use schedlab_kernel::{Change, GroupChange, GroupSpec, Limit, Variant};
use schedlab_machine::reader::Table;
use schedlab_workload::{GroupDecl, group, together};

/// Keys of a group that a variant's own may sweep.
const OF_GROUP: &[&str] = &["shares", "weight", "quota", "period", "burst", "idle", "cpus"];
/// Keys that a change of a group may have.
const OF_CHANGE: &[&str] = &["shares", "weight", "quota", "period", "burst", "cpus"];
/// The kernel's word for no quota.
const MAX: &str = "max";

/// The groups of a variant before any dial is turned, and the dials of all of them.
pub fn groups<'t>(table: &Table<'t>) -> Result<(Vec<GroupSpec>, Vec<Table<'t>>, Vec<Dial<'t>>)> {
    let own: Vec<&str> = keys::GROUP.names().into_iter().filter(|key| *key != "loads").collect();
    let tables = table.open_tables("group")?;
    let loads = |key: &str| {
        (key == "loads").then(|| "[[load]] has variants = [...]: the load then runs under these".to_owned())
    };
    tables.iter().try_for_each(|inner| inner.only("key in [[variant.group]]", &own, loads))?;
    let (mut groups, mut dials) = (Vec::new(), Vec::new());
    for (i, inner) in tables.iter().enumerate() {
        let path = path(inner, "path")?;
        if groups.iter().any(|g: &GroupSpec| g.path == path) {
            return Err(inner.error_at("path", format!("group '{path}' is there twice")));
        }
        one_share(inner)?;
        let name = if tables.len() == 1 { "group".to_owned() } else { format!("group{}", i + 1) };
        for key in OF_GROUP.iter().filter(|key| inner.get(key).is_some()) {
            let set = move |v: &mut Variant, text: &str| set_group(&mut v.groups[i], key, text);
            dials.push(dial(inner, &name, key, set)?);
        }
        groups.push(GroupSpec { tasks: strings_of(inner, "tasks")?, ..GroupSpec::at(&path) });
    }
    Ok((groups, tables, dials))
}

/// Checks a variant's groups. Their values are known once the dials are turned.
pub fn check(variant: &Variant, tables: &[Table<'_>]) -> Result<()> {
    for (group, table) in variant.groups.iter().zip(tables) {
        group::check_limit(group.quota, group.period, group.burst).map_err(|(key, e)| table.place(key, e))?;
        let shares = ["shares", "weight"].into_iter().find(|key| table.get(key).is_some());
        if let Some(key) = shares.filter(|_| group.idle) {
            let text = format!("an idle group has no {key}: it gives way to all others");
            return Err(table.place(key, Error::input(text)));
        }
    }
    Ok(())
}

/// The dials of one `[[at]]`, change number `i`, for a group or for tasks. The group or the task is set in `change`.
pub fn of_at<'t>(table: &Table<'t>, name: &str, i: usize, change: &mut Change) -> Result<Vec<Dial<'t>>> {
    let task = table.string("task")?;
    let group = if table.get("group").is_some() { Some(path(table, "group")?) } else { None };
    let there: Vec<&str> = OF_CHANGE.iter().copied().filter(|key| table.get(key).is_some()).collect();
    if let Some(task) = task {
        if let Some(key) = there.iter().find(|key| **key != "cpus") {
            let text = format!("{key} is a group's: with 'task', 'group' is where the task moves to");
            return Err(table
                .error_at(key, text)
                .help("a change of the group itself is an [[at]] without 'task'"));
        }
        let change =
            change.task.insert(schedlab_kernel::TaskChange { name: task.to_owned(), group, cpus: None });
        change.name = task.to_owned();
        let set = move |v: &mut Variant, text: &str| {
            let cpus = cpus(text)?;
            v.at[i].task.iter_mut().for_each(|task| task.cpus = Some(cpus.clone()));
            Ok(())
        };
        return there.iter().map(|key| dial(table, name, key, set)).collect();
    }
    let Some(path) = group else {
        return match there.first() {
            Some(key) => {
                let error =
                    table.error_at(key, format!("{key} of what? The change names no group and no task"));
                Err(error.help("group = \"/path\", or task = \"name\" with cpus"))
            }
            None => Ok(Vec::new()),
        };
    };
    one_share(table)?;
    if let Some(key) =
        ["period", "burst"].into_iter().find(|key| table.get(key).is_some() && table.get("quota").is_none())
    {
        return Err(table.error_at(key, format!("a {key} goes with a quota")));
    }
    change.group = Some(GroupChange { path, ..GroupChange::default() });
    let set = |key: &'static str| {
        move |v: &mut Variant, text: &str| v.at[i].group.iter_mut().try_for_each(|g| set_change(g, key, text))
    };
    OF_CHANGE
        .iter()
        .filter(|key| table.get(key).is_some())
        .map(|key| dial(table, name, key, set(key)))
        .collect()
}

/// Checks the limit of a change.
pub fn check_change(change: &Change, table: &Table<'_>) -> Result<()> {
    let Some(limit) = change.group.as_ref().and_then(|g| g.limit) else { return Ok(()) };
    group::check_limit(limit.quota, limit.period, limit.burst).map_err(|(key, e)| table.place(key, e))
}

fn dial<'t>(
    table: &Table<'t>,
    name: &str,
    key: &str,
    set: impl Fn(&mut Variant, &str) -> Result<()> + 't,
) -> Result<Dial<'t>> {
    let value = table.required(key, table.get(key))?;
    Ok(Dial { name: format!("{name}.{key}"), values: values(table, key, value)?, set: Box::new(set) })
}

/// A group's path, checked.
fn path(table: &Table<'_>, key: &str) -> Result<String> {
    let path = table.required(key, table.string(key)?)?;
    group::find_or_declare(&mut vec![GroupDecl::root()], path).map_err(|e| table.place(key, e))?;
    Ok(path.to_owned())
}

fn one_share(table: &Table<'_>) -> Result<()> {
    let both = table.get("shares").is_some() && table.get("weight").is_some();
    if both { Err(table.error_at("weight", "a group has shares or a weight, not both")) } else { Ok(()) }
}

fn number(key: &str, text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::input(format!("{key} is a whole number, not '{text}'")))
}

fn shares(key: &str, text: &str) -> Result<u64> {
    let n = Some(number(key, text)?);
    if key == "shares" { together::shares(n, None) } else { together::shares(None, n) }
}

fn cpus(text: &str) -> Result<CpuSet> {
    let cpus = CpuSet::parse(text)?;
    if cpus.is_empty() {
        return Err(Error::input("no CPU is left").help("write it like \"0-3\""));
    }
    Ok(cpus)
}

fn quota(text: &str) -> Result<Option<Ns>> {
    if text == MAX { Ok(None) } else { Ns::parse(text, "").map(Some) }
}

fn set_group(group: &mut GroupSpec, key: &str, text: &str) -> Result<()> {
    match key {
        "shares" | "weight" => group.shares = shares(key, text)?,
        "quota" => group.quota = quota(text)?,
        "period" => group.period = Ns::parse(text, "")?,
        "burst" => group.burst = Ns::parse(text, "")?,
        "cpus" => group.cpus = Some(cpus(text)?),
        _ => match text {
            "true" | "false" => group.idle = text == "true",
            _ => return Err(Error::input(format!("{key} is true or false, not '{text}'"))),
        },
    }
    Ok(())
}

fn set_change(change: &mut GroupChange, key: &str, text: &str) -> Result<()> {
    let limit = change.limit;
    let new = || limit.unwrap_or_default();
    match key {
        "shares" | "weight" => change.shares = Some(shares(key, text)?),
        "quota" => change.limit = Some(Limit { quota: quota(text)?, ..new() }),
        "period" => change.limit = Some(Limit { period: Ns::parse(text, "")?, ..new() }),
        "burst" => change.limit = Some(Limit { burst: Ns::parse(text, "")?, ..new() }),
        _ => change.cpus = Some(cpus(text)?),
    }
    Ok(())
}
