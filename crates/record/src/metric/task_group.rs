//! The CPUs that a task group used: `group./service.cpus`. Events show the CPU time of a group's tasks; without them it
//! is that of the tasks' accounts, and the record says which tasks each group names.

use crate::Record;
use schedlab_base::Ns;
use schedlab_kernel::policy::{EVERY_TASK, group_of};

/// The row of the table.
pub const CPUS: &str = "group.<path>.cpus";

/// The mean number of CPUs that the tasks of a group and of those below it used, by the metric's name.
///
/// # Errors
/// Says in words what the run lacks.
pub fn cpus(record: &Record, name: &str) -> Result<f64, String> {
    let path = name.strip_prefix("group.").and_then(|n| n.strip_suffix(".cpus")).unwrap_or_default();
    let counted = record.found.counters.get(&format!("group.{path}.cpu_time"));
    if let (Some(ns), true) = (counted, record.found.duration > Ns::ZERO) {
        return Ok(*ns as f64 / record.found.duration.0 as f64);
    }
    let groups = groups(record);
    if !groups.iter().any(|(own, _)| own == path) {
        return Err(format!("the run has no task group '{path}'"));
    }
    if record.found.duration == Ns::ZERO {
        return Err("no time was measured".to_owned());
    }
    let is_below =
        |own: &str| own == path || own.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    if groups.iter().all(|(own, tasks)| tasks.is_empty() || !is_below(own)) {
        return Err("the run does not say which tasks are in it".to_owned());
    }
    let own = record.found.tasks.iter().filter(|t| group(&groups, &t.name).is_some_and(is_below));
    let ns: u64 = own.map(|t| t.cpu_time.0).sum();
    Ok(ns as f64 / record.found.duration.0 as f64)
}

/// The group of a task: the one that names it most closely.
fn group<'g>(groups: &'g [(String, Vec<String>)], task: &str) -> Option<&'g str> {
    let named = |name: &str| groups.iter().find(|(_, tasks)| tasks.iter().any(|t| t == name));
    let found = named(task).or_else(|| named(group_of(task))).or_else(|| named(EVERY_TASK));
    found.map(|(path, _)| path.as_str())
}

/// The groups with the tasks that they name. A variant's group keeps the tasks of the one that it replaces.
fn groups(record: &Record) -> Vec<(String, Vec<String>)> {
    let word = |v: &serde_json::Value| v.as_str().map(str::to_owned);
    let one = |group: &serde_json::Value| {
        let tasks = group.get("tasks").and_then(|t| t.as_array()).into_iter().flatten().filter_map(word);
        Some((word(group.get("path")?)?, tasks.collect()))
    };
    let stated = record.spec.get("groups").and_then(|g| g.as_array()).into_iter().flatten();
    let mut all: Vec<(String, Vec<String>)> = stated.filter_map(one).collect();
    for group in &record.variant.groups {
        match all.iter_mut().find(|(path, _)| *path == group.path) {
            Some(own) if !group.tasks.is_empty() => own.1.clone_from(&group.tasks),
            Some(_) => {}
            None => all.push((group.path.clone(), group.tasks.clone())),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::tests::record;
    use crate::{TaskAccount, Value, evaluate};
    use schedlab_base::Ns;

    #[test]
    fn a_groups_tasks_are_those_that_it_names_most_closely() {
        let mut r = record(1);
        r.found.duration = Ns::ms(1000);
        r.spec = serde_json::json!({ "groups": [
            { "path": "/a", "tasks": ["*"] }, { "path": "/a/b", "tasks": ["server"] }, { "path": "/c", "tasks": ["hog"] },
        ] });
        let account = |name: &str, ms| TaskAccount {
            name: name.into(),
            cpu_time: Ns::ms(ms),
            voluntary: 0,
            involuntary: 0,
            migrations: None,
        };
        r.found.tasks = vec![account("server/0", 500), account("client/0", 250), account("hog/1", 2000)];
        let cpus = |name: &str| evaluate(&r, name).number();
        assert_eq!((cpus("group./a/b.cpus"), cpus("group./c.cpus")), (Some(0.5), Some(2.0)));
        assert_eq!(cpus("group./a.cpus"), Some(0.75), "with the group below it");
        assert!(matches!(evaluate(&r, "group./d.cpus"), Value::Missing(why) if why.contains("'/d'")));
    }
}
