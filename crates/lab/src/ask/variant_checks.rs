//! Checks that a variant's groups of tasks and times of changes fit its workloads: the groups exist, and the
//! changes come before the end.

use schedlab_base::{CpuSet, Error, Result};
use schedlab_kernel::policy::EVERY_TASK;
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Change, Variant};
use schedlab_machine::Machine;
use schedlab_record::Observe;
use schedlab_workload::{Spec, later};

/// Checks that tasks can have a variant's attributes, and that it does not ask the running kernel for cutoffs by
/// distance.
///
/// # Errors
/// When a value is out of range.
pub fn attributes(variant: &Variant) -> Result<()> {
    if variant.kernel == RUNNING && variant.migration_cost.is_some() {
        let text =
            "migration_cost by distance is of simulated kernels; a running one has one for all distances";
        return Err(Error::input(text).help("tunables = { migration_cost_ns = ... }"));
    }
    for (group, change) in &variant.tasks {
        let named = |e: Error| if group == EVERY_TASK { e } else { e.context(format!("tasks '{group}'")) };
        change.check().map_err(named)?;
    }
    Ok(())
}

/// Checks that every group of tasks a variant names is in one of the workloads.
///
/// # Errors
/// When a group has no task, or the workload is a command, whose tasks are not known.
pub fn groups<'a>(variant: &Variant, specs: impl IntoIterator<Item = &'a Spec>) -> Result<()> {
    let Some(named) = variant.tasks.keys().find(|g| *g != EVERY_TASK) else { return Ok(()) };
    let (mut names, mut asked) = (Vec::new(), false);
    for spec in specs {
        asked = true;
        if !matches!(spec, Spec::Command(_)) {
            names.extend(spec.build(0)?.tasks.into_iter().map(|t| t.name));
        }
    }
    if asked && names.is_empty() {
        let text = format!("variant '{}': a command's tasks have no groups such as '{named}'", variant.name);
        return Err(
            Error::input(text).help("policy, nice and slice of the variant itself hold for all of them")
        );
    }
    // If no load runs under the variant, its groups are not checked.
    if asked { variant.check_groups(names.iter().map(String::as_str)) } else { Ok(()) }
}

/// Checks that a change comes before the end of a workload. The end of a command is not known.
///
/// # Errors
/// When the change comes at the end or after it.
pub fn in_time(change: &Change, spec: &Spec) -> Result<()> {
    if matches!(spec, Spec::Command(_)) {
        return Ok(());
    }
    let duration = spec.build(0)?.duration;
    if change.time < duration {
        return Ok(());
    }
    let text = format!("a change at {} comes too late: {} lasts {duration}", change.time, spec.name());
    Err(Error::input(text).help("times are counted from the end of the warm-up"))
}

/// Checks that a variant's task groups fit a workload.
///
/// # Errors
/// When the workload is a command, or a group names a task that it does not have.
pub fn with_groups(variant: &Variant, spec: &Spec) -> Result<()> {
    spec.clone().with_groups(&variant.groups).map(|_| ())
}

/// Checks that a workload has the group and the tasks that a change names.
///
/// # Errors
/// For the first one that it lacks; a command has neither.
pub fn change(change: &Change, variant: &Variant, spec: &Spec) -> Result<()> {
    if change.group.is_none() && change.task.is_none() {
        return Ok(());
    }
    if let Spec::Command(command) = spec {
        let text = format!(
            "'{}' is a command: its groups and tasks can't change in the middle of a run",
            command.name
        );
        return Err(Error::input(text).help("run one of schedlab's own workloads, or leave the change out"));
    }
    later::note(&mut spec.clone().with_groups(&variant.groups)?.build(0)?, std::slice::from_ref(change))
}

/// Checks that a machine with these CPUs has at least one that a change leaves to a group or a task.
///
/// # Errors
/// When it has none of them.
pub fn cpus(change: &Change, machine: &Machine) -> Result<()> {
    let of_group =
        change.group.as_ref().and_then(|g| Some((format!("group '{}'", g.path), g.cpus.as_ref()?)));
    let of_task = change.task.as_ref().and_then(|t| Some((format!("task '{}'", t.name), t.cpus.as_ref()?)));
    let all = CpuSet::first(machine.topology.nr_cpus());
    let none = of_group.into_iter().chain(of_task).find(|(_, cpus)| cpus.and(&all).is_empty());
    let Some((who, cpus)) = none else { return Ok(()) };
    let text =
        format!("{who} may run on CPUs {cpus} only from {}, but {} has {all}", change.time, machine.name);
    Err(Error::input(text).help("choose a larger machine, or change the CPUs"))
}

/// Checks that a workload can be watched as requested.
///
/// # Errors
/// When events of a command are asked for: the recorder does not know its processes.
pub fn watched(observe: Observe, spec: &Spec) -> Result<()> {
    if let (Observe::Events, Spec::Command(command)) = (observe, spec) {
        let text = format!("--events: events of commands are not recorded, and '{}' is one", command.name);
        return Err(Error::input(text).help("leave it out, or run one of schedlab's own workloads"));
    }
    Ok(())
}

/// Makes all of these checks for one workload.
///
/// # Errors
/// As the others.
pub fn check(variant: &Variant, spec: &Spec) -> Result<()> {
    let all = || {
        attributes(variant)?;
        with_groups(variant, spec)?;
        variant.at.iter().try_for_each(|one| {
            one.check()?;
            in_time(one, spec)?;
            change(one, variant, spec)
        })
    };
    all().map_err(|e: Error| e.context(format!("variant '{}'", variant.name)))?;
    groups(variant, [spec])
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Ns;
    use schedlab_kernel::{AttrChange, Policy};
    use schedlab_workload::Params;

    fn schbench() -> Spec {
        Spec::bench("schbench", &Params([("runtime".to_owned(), 2_000_000_000)].into())).unwrap()
    }
    fn with(group: &str, policy: Policy) -> Variant {
        let mut v = Variant::plain("v4.5");
        v.tasks.insert(group.into(), AttrChange { policy: Some(policy), ..AttrChange::default() });
        v
    }

    #[test]
    fn groups_must_be_in_the_workload() {
        check(&with("*", Policy::Batch), &schbench()).unwrap();
        let error = check(&with("wroker", Policy::Batch), &schbench()).unwrap_err().to_string();
        assert!(error.contains("'wroker'") && error.contains("variant 'v4.5'"), "{error}");
        check(&with("*", Policy::Fifo), &schbench()).unwrap();
    }

    #[test]
    fn events_of_commands_are_refused_and_nothing_else_is() {
        let sleep = schedlab_workload::CommandSpec::new("sleep", vec!["sleep".to_owned(), "1".to_owned()]);
        let command = Spec::Command(Box::new(sleep));
        let refused = watched(Observe::Events, &command).unwrap_err().to_string();
        assert!(refused.contains("not recorded") && refused.contains("'sleep'"), "{refused}");
        watched(Observe::Counters, &command).unwrap();
        watched(Observe::Events, &schbench()).unwrap();
    }

    #[test]
    fn changes_come_before_the_end() {
        let at = |time| {
            let features = vec!["NO_LAST_BUDDY".to_owned()];
            Variant { at: vec![Change { time, features, ..Change::default() }], ..Variant::plain("v4.5") }
        };
        check(&at(Ns::ms(1_999)), &schbench()).unwrap();
        let late = check(&at(Ns::secs(2)), &schbench()).unwrap_err().to_string();
        assert!(late.contains("a change at 2s comes too late: schbench lasts 2s"), "{late}");
    }
}
