//! Places: a task runs on the machine itself, in a virtual machine on it, or on another machine behind a link.
//!
//! Only tasks in the same place can share futex words and cells. So all tasks of a benchmark are in the same place,
//! unless its client side meets the others only at channels ([`Builder::client_side`](crate::Builder::client_side)).

use crate::build::{Builder, ChannelKind, TaskDecl};
pub(crate) use crate::decl::MACHINES;
pub use crate::decl::Place;
use schedlab_base::{Error, Result};
use schedlab_kernel::policy::{EVERY_TASK, group_of};
use std::collections::BTreeMap;

/// The name of the virtual machine to which this thread belongs.
pub(crate) fn machine_of(task: &TaskDecl) -> Option<&str> {
    if task.part != MACHINES {
        return None;
    }
    task.name.rsplit_once('/').map(|(machine, _)| machine)
}

/// Checks that machines' names are unique and differ from tasks' names.
///
/// # Errors
/// For a name that is empty, contains a slash, or belongs to another machine or a task.
pub(crate) fn check_names<'a>(names: impl Iterator<Item = &'a str>, b: &mut Builder) -> Result<()> {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if name.is_empty() || name.contains('/') {
            return Err(Error::input(format!(
                "'{name}' is not a machine's name: it is a word without slashes"
            )));
        }
        if known.contains(&name) || b.tasks_from(0).iter().any(|t| group_of(&t.name) == name) {
            return Err(Error::input(format!(
                "'{name}' is the name of another machine, or of tasks, already"
            )));
        }
        known.push(name);
    }
    Ok(())
}

/// Moves the tasks with that name to a place.
///
/// # Errors
/// For an unknown name, and a task that is already in another place.
pub(crate) fn move_to(name: &str, place: Place, tasks: &mut [TaskDecl]) -> Result<()> {
    let mut found = false;
    let mut known: Vec<String> = Vec::new();
    for task in tasks.iter_mut().filter(|t| t.part != MACHINES) {
        let own = group_of(&task.name);
        if name == EVERY_TASK || own == name || task.name == name {
            if task.place != Place::Host && task.place != place {
                return Err(Error::input(format!("task '{}' is on another machine already", task.name)));
            }
            task.place = place;
            found = true;
        } else if !known.iter().any(|k| k == own) {
            known.push(own.to_owned());
        }
    }
    if found { Ok(()) } else { Err(Error::unknown("task", name, known.iter().map(String::as_str))) }
}

/// Sets the places of channel ends. All tasks of a benchmark are in the same place, or its client side is in one and
/// the others are in another.
///
/// # Errors
/// For tasks that must be in the same place, but are not.
pub(crate) fn settle(b: &mut Builder) -> Result<()> {
    if b.tasks_from(0).iter().all(|t| t.place == Place::Host) {
        return Ok(());
    }
    let sides = b.sides.clone();
    // By part and side: the place, and one of its tasks.
    let mut places: BTreeMap<(u64, bool), (Place, String)> = BTreeMap::new();
    for task in b.tasks_from(0).iter().filter(|t| t.part != MACHINES) {
        let client = sides.get(&task.part).is_some_and(|side| side.contains(&group_of(&task.name)));
        let (place, other) =
            places.entry((task.part, client)).or_insert_with(|| (task.place, task.name.clone()));
        if *place != task.place {
            let text =
                format!("tasks '{other}' and '{}' must be on the same machine: they share memory", task.name);
            return Err(Error::input(text).help(help(sides.get(&task.part))));
        }
    }
    let of = |end: &(u64, bool)| places.get(end).map_or(Place::Host, |(place, _)| *place);
    let ends: Vec<Place> = b.ends.iter().map(of).collect();
    for (kind, pair) in b.kinds().iter().zip(ends.chunks_exact(2)) {
        if pair[0] != pair[1] && !matches!(kind, ChannelKind::Tcp | ChannelKind::Udp) {
            let text = "UNIX sockets and pipes do not lead to another machine";
            return Err(Error::input(text).help("oltp: transport = \"tcp\""));
        }
    }
    b.ends_are(ends);
    Ok(())
}

/// The remedy for a benchmark that was split wrongly, from its client side.
fn help(side: Option<&&[&str]>) -> String {
    match side {
        None => "all tasks of this benchmark are on one machine: name all of them, or none".to_owned(),
        Some(names) => {
            format!("{} may be on another machine than the others, all together", names.join(" and "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::BENCHMARKS;
    use crate::op::PortId;
    use crate::remote::RemoteSpec;
    use crate::{Beside, Built, GroupSpec, NestedSpec, Params, Spec};
    use schedlab_base::Ns;

    fn vm(name: &str, tasks: &[&str]) -> NestedSpec {
        NestedSpec {
            name: name.to_owned(),
            vcpus: 2,
            kernel: "v3.4".to_owned(),
            features: vec![],
            tunables: BTreeMap::new(),
            periodic_tick: false,
            halt_poll: Ns::ZERO,
            tasks: tasks.iter().map(|t| (*t).to_owned()).collect(),
        }
    }
    fn clients(tasks: &[&str]) -> RemoteSpec {
        RemoteSpec {
            name: "clients".to_owned(),
            kernel: "v3.4".to_owned(),
            delay: Ns::us(50),
            queues: 1,
            tasks: tasks.iter().map(|t| (*t).to_owned()).collect(),
        }
    }
    fn built(bench: &str, machines: Vec<NestedSpec>, remotes: Vec<RemoteSpec>) -> Result<Built> {
        let hogs = Beside { name: "hogs".to_owned(), params: hogs(), rtapp: None, called: None };
        let base = Spec::bench(bench, &Params::default())?;
        base.together(vec![hogs], vec![], (machines, remotes))?.build(1)
    }
    fn hogs() -> Params {
        let Spec::Bench { params, .. } = Spec::bench("hogs", &Params::default()).unwrap() else { panic!() };
        params
    }

    #[test]
    fn ends_are_where_their_side_of_the_benchmark_is() {
        let built = built("rr", vec![vm("vm", &["server"])], vec![clients(&["client"])]).unwrap();
        assert_eq!(built.ends, [Place::Remote(0), Place::Inside(0)]);
        let place = |name: &str| built.tasks.iter().find(|t| t.name == name).map(|t| t.place);
        assert_eq!(place("client-0"), Some(Place::Remote(0)));
        assert_eq!([place("hog/0"), place("vm/0"), place("vm/vhost")], [Some(Place::Host); 3]);
        assert_eq!((built.remotes[0].cpus, built.nested[0].vcpus.len()), (1, 2));
    }

    #[test]
    fn a_group_of_a_machine_holds_its_packets_thread_unless_another_names_it() {
        let group =
            |path: &str, task: &str| GroupSpec { tasks: vec![task.to_owned()], ..GroupSpec::at(path) };
        let of_vhost = |groups: Vec<GroupSpec>| {
            let base = Spec::bench("rr", &Params::default()).unwrap();
            let machines = (vec![vm("vm", &["server"])], vec![clients(&["client"])]);
            let built = base.together(vec![], groups, machines).unwrap().build(1).unwrap();
            let vhost = built.tasks.iter().find(|t| t.name == "vm/vhost").unwrap();
            built.groups[vhost.group.index()].path.clone()
        };
        assert_eq!(of_vhost(vec![group("/vm", "vm")]), "/vm");
        assert_eq!(of_vhost(vec![group("/vm", "vm"), group("/", "vm/vhost")]), "/");
        assert_eq!(of_vhost(vec![group("/vm", "vm/0")]), "/");
    }

    #[test]
    fn a_side_stays_together_and_so_does_a_benchmark_without_sides() {
        let text = |built: Result<Built>| built.err().expect("refused").to_string();
        let mut torn = vm("vm", &["server"]);
        torn.tasks = vec!["logger".to_owned()];
        assert!(text(built("oltp", vec![torn], vec![])).contains("must be on the same machine"));
        let schbench = Spec::bench("schbench", &Params::default()).unwrap();
        let torn =
            schbench.together(vec![], vec![], (vec![vm("vm", &["worker"])], vec![])).expect_err("refused");
        assert!(torn.to_string().contains("share memory"), "{torn}");
        let twice = vec![vm("a", &["client"]), vm("b", &["client"])];
        assert!(text(built("rr", twice, vec![])).contains("on another machine already"));
        assert!(text(built("rr", vec![], vec![clients(&["clint"])])).contains("unknown task 'clint'"));
    }

    #[test]
    fn client_sides_name_tasks_of_their_benchmarks_and_have_ends() {
        let mut found = 0;
        for bench in BENCHMARKS {
            let mut b = Builder::new(1);
            let Spec::Bench { params, .. } = Spec::bench(bench.name, &Params::default()).unwrap() else {
                panic!()
            };
            (bench.build)(&params, &mut b).unwrap();
            let Some(side) = b.sides.get(&0).copied() else {
                assert!(
                    b.ends.iter().all(|(_, client)| !client),
                    "{}: links without a client side",
                    bench.name
                );
                continue;
            };
            found += 1;
            for name in side {
                let has = b.tasks_from(0).iter().any(|t| group_of(&t.name) == *name);
                assert!(has, "{}: no task {name}", bench.name);
            }
            assert!(b.ends.iter().any(|(_, client)| *client), "{}: no link", bench.name);
            let first = PortId(b.ends.iter().position(|(_, client)| *client).unwrap() as u32);
            assert!(!b.ends[first.peer().0 as usize].1, "{}: the other end is the others'", bench.name);
        }
        assert!(found >= 6, "rr, stream-rr, http, oltp, volano, trade: {found}");
    }
}
