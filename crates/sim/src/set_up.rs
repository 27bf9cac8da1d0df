//! How a task gets the attributes, CPUs and group that it is declared with (`sched_fork`, `sched_setattr`,
//! `sched_setaffinity`, `sched_move_task`).
//!
//! No kernel makes a task with them. A new task has its parent's, and is placed and weighed with these. Then it gives
//! itself its own, on its own CPU time and before its program begins: it joins its group, takes its CPUs, sets its
//! attributes. The live engine does so in this order (`body` in `native/src/tasks/task.rs`), each only where the
//! parent's differ. In it, a task that is there from the start has done all of that before the start. So such a task
//! has here, too, at time 0: it was placed with the attributes of the engine (nice 0 of SCHED_OTHER, no group), on a
//! CPU that it may use.
//!
//! The tasks of an autogroup are born in it, and the machine's own tasks have had their attributes since the boot.

use crate::class::{Dequeue, Enqueue};
use crate::fair::group::sessions;
use crate::fair::group::shares::FINE;
use crate::o1::state::O1Task;
use crate::system::System;
use crate::task::{Class, Declared};
use schedlab_base::{CpuId, CpuSet, GroupId, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_board::calls::Call;
use schedlab_board::drivers::Calls;
use schedlab_kernel::Attr;
use schedlab_workload::ROOT_GROUP;

/// A property that a new task gives itself by a call.
#[derive(Debug)]
enum Property {
    Join(GroupId),
    Cpus(Option<CpuSet>),
    Attr(Attr),
}

impl System<'_> {
    /// A task is forked: it has what `parent` has. The controller of a run is bound to CPUs of its own, which its
    /// children are not.
    pub(crate) fn inherit(&mut self, task: TaskId, parent: TaskId) {
        let p = &self.tasks[parent];
        let (attr, group) = (p.attr, p.group);
        let allowed = p.allowed.clone().filter(|_| !self.board.threads[parent].background);
        let declared = &self.tasks[task];
        let own = Declared {
            attr: declared.attr,
            allowed: declared.allowed.clone(),
            group: declared.group,
            pins: declared.allowed.is_some() || allowed.is_some(),
        };
        let group = if self.is_born_in(own.group) { own.group } else { group };
        self.tasks[task].own = Some(Box::new(own));
        self.tasks[task].allowed = allowed;
        self.begin_with(task, attr, group);
    }

    /// Whether tasks are in a group without having joined it.
    fn is_born_in(&self, group: GroupId) -> bool {
        sessions::is_session(&self.fair.groups[group].path)
    }

    /// A task that is on no queue yet has these attributes and this group.
    fn begin_with(&mut self, task: TaskId, attr: Attr, group: GroupId) {
        let (weight, class) = (attr.weight(&self.fixed.history), Class::of(attr, self.fixed.fair));
        let t = &mut self.tasks[task];
        (t.attr, t.class, t.o1, t.group) = (attr, class, O1Task::new(attr), group);
        let (entity, cpu) = (t.entity, t.cpu);
        self.fair.entities[entity].set_weight(weight * FINE);
        self.set_task_rq(task, cpu);
    }

    /// A task that is there from the start has been placed by `place`, which returns its CPU, as the engine's child,
    /// and has set itself up there.
    pub(crate) fn set_up_before(&mut self, task: TaskId, place: impl FnOnce(&mut Self) -> CpuId) {
        let (attr, group) = (self.tasks[task].attr, self.tasks[task].group);
        let first = if self.is_born_in(group) { group } else { ROOT_GROUP };
        self.begin_with(task, Attr::default(), first);
        let cpu = place(self);
        if group == first && attr == Attr::default() {
            return;
        }
        if group != first {
            self.join_group(cpu, task, group);
        }
        if attr != Attr::default() {
            self.set_attr(cpu, task, attr);
        }
        // One that is real-time by now has kept its place; only fair ones are put to sleep.
        if self.class(task) == Class::Rt {
            return;
        }
        // It sleeps until the start. The wakeup gives it a place, and a deadline, by its own slice.
        let begun = self.begin_enqueue(cpu, self.now);
        self.deactivate_task(task, Dequeue::Sleep);
        self.activate_task(cpu, task, Enqueue::Wakeup);
        self.end_enqueue(cpu, begun);
    }

    /// Whether the current task of `cpu`, whose program is about to be asked, has to set itself up first. It then
    /// begins the next call.
    pub(crate) fn begins_set_up(&mut self, cpu: CpuId, curr: TaskId) -> bool {
        let Some(own) = &self.tasks[curr].own else { return false };
        let t = &self.tasks[curr];
        if own.group == t.group && !own.pins && own.attr == t.attr {
            self.tasks[curr].own = None;
            return false;
        }
        self.begin_call(cpu, Call::SetUp, 0);
        true
    }

    /// The call's time has passed.
    pub(crate) fn sys_set_up(&mut self, cpu: CpuId, curr: TaskId) {
        match self.next_property(curr) {
            Some(Property::Join(group)) => self.join_group(cpu, curr, group),
            Some(Property::Cpus(allowed)) => return self.take_cpus(cpu, curr, allowed),
            Some(Property::Attr(attr)) => self.set_attr(cpu, curr, attr),
            None => {}
        }
        self.returns(cpu);
    }

    fn next_property(&mut self, task: TaskId) -> Option<Property> {
        let t = &mut self.tasks[task];
        let own = t.own.as_mut()?;
        if own.group != t.group {
            return Some(Property::Join(own.group));
        }
        if std::mem::take(&mut own.pins) {
            return Some(Property::Cpus(own.allowed.take()));
        }
        (own.attr != t.attr).then_some(Property::Attr(own.attr))
    }

    /// A queued or running task of `cpu` moves to another group (`sched_move_task`). Its load leaves the old queue and
    /// comes to the new one, and it keeps its distance from the queue's virtual time.
    pub(crate) fn join_group(&mut self, cpu: CpuId, task: TaskId, group: GroupId) {
        self.changed(cpu, task, |sys| sys.change_group(cpu, task, group));
    }

    /// A task that is on no queue of `cpu` at the moment belongs to `group` from now on, and its load with it
    /// (`task_change_group_fair`).
    pub(crate) fn change_group(&mut self, cpu: CpuId, task: TaskId, group: GroupId) {
        debug_assert!(!self.entity(task).on_rq, "{task:?} is on a queue of its old group");
        if self.class(task) != Class::Rt {
            self.switched_from(task);
        }
        self.tasks[task].group = group;
        self.set_task_rq(task, cpu);
        if self.class(task) != Class::Rt {
            self.attach_at_once(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::CfsRqId;
    use crate::upkeep_tests::{new_hog, with_system};
    use schedlab_base::Ns;
    use schedlab_kernel::Policy;
    use schedlab_workload::GroupDecl;

    const CPU: CpuId = CpuId(1);

    fn starter(sys: &mut System<'_>, attr: Attr, group: GroupId) -> TaskId {
        let new = crate::run::NewTask { attr, group, cpu: CPU, ..new_hog() };
        let task = crate::run::add(sys, new);
        sys.set_up_before(task, |sys| {
            sys.new_task(CPU, task, CPU);
            CPU
        });
        task
    }

    #[test]
    fn a_light_starter_is_placed_by_the_weight_of_nice_0() {
        // A slice of the lightest would be seconds of virtual time.
        for version in ["v2.6.30", "v3.4", "v4.5", "v6.5", "v6.12", "v7.3"] {
            for attr in [Attr::nice(19), Attr { policy: Policy::Idle, ..Attr::default() }] {
                with_system(version, |sys| {
                    let hog = starter(sys, Attr::default(), ROOT_GROUP);
                    let light = starter(sys, attr, ROOT_GROUP);
                    let ahead = sys.entity(light).vruntime - sys.entity(hog).vruntime;
                    assert!(ahead <= 12_000_000, "{version}, {attr:?}: {ahead} ns");
                    assert!(sys.entity(light).weight <= 15, "{version}");
                });
            }
        }
    }

    #[test]
    fn a_starters_load_begins_as_that_of_nice_0_and_follows_its_weight() {
        for (version, load) in [("v4.5", 1024), ("v6.5", 15)] {
            with_system(version, |sys| {
                let task = starter(sys, Attr::nice(19), ROOT_GROUP);
                let queue = CfsRqId(CPU.0);
                assert_eq!(
                    (sys.entity(task).avg.load_avg, sys.fair.queues[queue].load_weight()),
                    (load, 15),
                    "{version}"
                );
            });
        }
    }

    #[test]
    fn a_starter_with_a_slice_of_its_own_begins_with_a_deadline_by_it() {
        for version in ["v6.12", "v6.18", "v7.3"] {
            with_system(version, |sys| {
                let short = Attr { slice: Ns::us(100).into(), ..Attr::default() };
                let tasks = [Attr::default(), short].map(|attr| starter(sys, attr, ROOT_GROUP));
                let e = sys.entity(tasks[1]);
                assert_eq!((e.slice_ns, e.deadline - e.vruntime), (100_000, 100_000), "{version}");
                assert_eq!(sys.pick_next_task(CPU, None), Some(tasks[1]), "{version}");
            });
        }
    }

    #[test]
    fn a_child_has_what_its_parent_has_until_it_sets_its_own() {
        with_system("v6.5", |sys| {
            let group = GroupDecl { path: "/a".into(), parent: Some(ROOT_GROUP), ..GroupDecl::root() };
            sys.declare_groups(&[GroupDecl::root(), group]);
            let batch = Attr { policy: Policy::Batch, nice: 5, ..Attr::default() };
            let parent = starter(sys, batch, GroupId(1));
            sys.tasks[parent].allowed = Some(CpuSet::from_iter([CPU]));
            let child =
                crate::run::add(sys, crate::run::NewTask { attr: Attr::nice(-5), cpu: CPU, ..new_hog() });
            sys.inherit(child, parent);
            let t = &sys.tasks[child];
            assert_eq!((t.attr, t.group, sys.entity(child).weight), (batch, GroupId(1), 335));
            assert_eq!(sys.tasks[child].allowed, sys.tasks[parent].allowed);
            sys.new_task(CPU, child, CPU);
            let mut calls = Vec::new();
            while let Some(call) = sys.next_property(child) {
                calls.push(format!("{call:?}"));
                match call {
                    Property::Join(group) => sys.join_group(CPU, child, group),
                    Property::Cpus(allowed) => sys.tasks[child].allowed = allowed,
                    Property::Attr(attr) => sys.set_attr(CPU, child, attr),
                }
                sys.walk_classes(CPU).expect("the invariants");
            }
            assert!(calls[0].starts_with("Join") && calls[1] == "Cpus(None)", "{calls:?}");
            assert!(calls[2].starts_with("Attr") && calls.len() == 3, "{calls:?}");
            let t = &sys.tasks[child];
            assert_eq!((t.attr.nice, t.group, sys.entity(child).weight), (-5, ROOT_GROUP, 3121));
        });
    }

    #[test]
    fn a_task_that_joins_a_group_brings_its_load_up_to_the_root_at_once() {
        for version in ["v4.14", "v5.15", "v6.1", "v6.12", "v7.3"] {
            with_system(version, |sys| {
                let group = GroupDecl { path: "/a".into(), parent: Some(ROOT_GROUP), ..GroupDecl::root() };
                sys.declare_groups(&[GroupDecl::root(), group]);
                let task = starter(sys, Attr::default(), ROOT_GROUP);
                let used = sys.entity(task).avg.util_avg;
                sys.deactivate_task(task, crate::class::Dequeue::Move);
                sys.change_group(CPU, task, GroupId(1));
                let of = |sys: &System<'_>, group| sys.fair.queues[sys.group_queue(group, CPU)].avg.util_avg;
                let found = (of(sys, GroupId(1)), of(sys, ROOT_GROUP));
                assert!(used > 0 && found == (used, used), "{version}: {found:?}, not {used}");
            });
        }
    }

    #[test]
    fn a_queued_starter_may_change_its_class_and_its_group_in_every_era() {
        for version in ["v2.6.18", "v2.6.24", "v2.6.30", "v3.4", "v4.5", "v6.5", "v6.12", "v6.18", "v7.3"] {
            for attr in [Attr::nice(-20), Attr { policy: Policy::Fifo, rt_priority: 3, ..Attr::default() }] {
                with_system(version, |sys| {
                    let grouped = version != "v2.6.18";
                    if grouped {
                        let group =
                            GroupDecl { path: "/a".into(), parent: Some(ROOT_GROUP), ..GroupDecl::root() };
                        sys.declare_groups(&[GroupDecl::root(), group]);
                    }
                    let tasks = [0, 1].map(|_| starter(sys, attr, GroupId(u32::from(grouped))));
                    sys.walk_classes(CPU).unwrap_or_else(|e| panic!("{version}: {e}"));
                    assert!(tasks.iter().all(|t| sys.tasks[*t].attr == attr), "{version}");
                    let picked = sys.pick_next_task(CPU, None);
                    assert!(picked.is_some_and(|p| tasks.contains(&p)), "{version}: {picked:?}");
                    sys.walk_classes(CPU).unwrap_or_else(|e| panic!("{version}: {e}"));
                });
            }
        }
    }
}
