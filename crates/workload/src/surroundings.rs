//! The surroundings of a workload in words: parallel benchmarks, groups, virtual machines, machines behind a link.

use crate::group::DEFAULT_SHARES;
use crate::group::GroupSpec;
use crate::nested::NestedSpec;
use crate::remote::RemoteSpec;
use crate::spec::Spec;
use crate::together::Beside;

impl Spec {
    /// A line per item around the workload; none if it is alone.
    pub fn surroundings(&self) -> Vec<String> {
        let Spec::Together { beside, groups, nested, remotes, .. } = self else { return Vec::new() };
        let mut lines: Vec<String> = beside.iter().map(of_beside).collect();
        lines.extend(groups.iter().map(of_group));
        lines.extend(nested.iter().map(of_machine));
        lines.extend(remotes.iter().map(of_remote));
        lines
    }
}

fn of_beside(beside: &Beside) -> String {
    let called = beside.called.as_ref().map_or_else(String::new, |name| format!(", called {name}"));
    format!("beside: {}{called}", beside.name)
}

fn of_group(group: &GroupSpec) -> String {
    let mut line = format!("group {}:", group.path);
    match (group.idle, group.shares) {
        (true, _) => line.push_str(" idle,"),
        (_, DEFAULT_SHARES) => {}
        (_, shares) => line.push_str(&format!(" shares {shares},")),
    }
    if let Some(quota) = group.quota {
        line.push_str(&format!(" quota {quota} in {},", group.period));
    }
    if let Some(cpus) = &group.cpus {
        line.push_str(&format!(" CPUs {cpus},"));
    }
    line + &tasks(&group.tasks)
}

fn of_machine(machine: &NestedSpec) -> String {
    let tick = if machine.periodic_tick { ", periodic tick" } else { "" };
    let (name, vcpus, kernel) = (&machine.name, machine.vcpus, &machine.kernel);
    format!("virtual machine {name}: {vcpus} vCPUs, {kernel}{tick},{}", tasks(&machine.tasks))
}

fn of_remote(remote: &RemoteSpec) -> String {
    let (name, kernel, delay) = (&remote.name, &remote.kernel, remote.delay);
    format!("behind a link: {name}, {kernel}, {delay} each way,{}", tasks(&remote.tasks))
}

fn tasks(names: &[String]) -> String {
    match names {
        [] => " no tasks of its own".to_owned(),
        [all] if all == schedlab_kernel::policy::EVERY_TASK => " all tasks".to_owned(),
        names => format!(" tasks {}", names.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Ns;

    #[test]
    fn each_item_has_a_line() {
        let named = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<String>>();
        let base = Spec::bench("hogs", &crate::Params::default()).unwrap();
        assert!(base.surroundings().is_empty());
        let spec = Spec::Together {
            base: Box::new(base),
            beside: vec![Beside {
                name: "http".into(),
                params: Default::default(),
                rtapp: None,
                called: Some("web".into()),
            }],
            groups: vec![
                GroupSpec {
                    shares: 8192,
                    quota: Some(Ns::ms(20)),
                    tasks: named(&["*"]),
                    ..GroupSpec::at("/a")
                },
                GroupSpec { idle: true, ..GroupSpec::at("/b") },
            ],
            nested: vec![],
            remotes: vec![RemoteSpec {
                name: "far".into(),
                kernel: "v6.1".into(),
                delay: Ns::us(50),
                queues: 1,
                tasks: named(&["client"]),
            }],
        };
        assert_eq!(
            spec.surroundings(),
            [
                "beside: http, called web",
                "group /a: shares 8192, quota 20ms in 100ms, all tasks",
                "group /b: idle, no tasks of its own",
                "behind a link: far, v6.1, 50us each way, tasks client",
            ]
        );
    }
}
