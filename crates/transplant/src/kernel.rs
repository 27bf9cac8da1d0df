//! The image's kernel, as the engine sees it: the verbs of `load` in schedlab's terms for machines, masks and errors.

use crate::abi::{Attr, RawNote, Usage, view};
use crate::load::{IdleState, Image, Machine as Topology, NewTask as RawTask};
use crate::note::{CallsAt, Message};
use schedlab_base::{CpuId, CpuSet, Error, Result, Warning};
use schedlab_kernel::{Attr as TaskAttr, Policy};
use schedlab_machine::{IdleGovernor, Machine};
use std::path::Path;

/// CPUs for which an image has room (CONFIG_NR_CPUS).
pub const MAX_CPUS: usize = 1024;

/// The duties of the entered CPU after a verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View(u32);

impl View {
    #[inline]
    pub fn is_idle(self) -> bool {
        self.0 & view::IDLE != 0
    }
    /// The stopper or ksoftirqd is current.
    #[inline]
    pub fn is_kthread(self) -> bool {
        self.0 & (view::STOPPER | view::KSOFTIRQD) != 0
    }
    #[inline]
    pub fn needs_resched(self) -> bool {
        self.0 & view::RESCHED != 0
    }
    /// On the way to user mode the lazy flag also counts.
    #[inline]
    pub fn gives_way(self) -> bool {
        self.0 & (view::RESCHED | view::LAZY) != 0
    }
    #[inline]
    pub fn has_user_work(self) -> bool {
        self.0 & view::USER_WORK != 0
    }
    /// The verb was left in the middle.
    #[inline]
    pub fn is_left(self) -> bool {
        self.0 & view::LEFT != 0
    }
    /// It was left because the CPU waits for a lock.
    #[inline]
    pub fn waits(self) -> bool {
        self.0 & view::WAITS != 0
    }
    #[inline]
    pub fn is_parked(self) -> bool {
        self.0 & view::PARKED != 0
    }
}

pub struct NewTask<'a> {
    pub name: &'a str,
    pub attr: TaskAttr,
    /// `None`: all CPUs.
    pub allowed: Option<&'a CpuSet>,
    pub slack_ns: u64,
    pub mm: u32,
    /// The image's number of its group; 0: the root group.
    pub group: i32,
    /// The leader of its thread group; 0: itself.
    pub tgid: i32,
    /// It inherits the attributes and CPUs of the entered CPU's current task.
    pub inherits: bool,
    /// A task whose session it is born into; 0: the current task's.
    pub session_of: i32,
}

/// How a run helps to find a fault of the kernel's code.
pub struct Debug<'a> {
    /// Whether memory that is not allocated, or no longer, is inaccessible.
    pub guard: bool,
    /// Called when the image is loaded, before it boots.
    pub loaded: &'a mut dyn FnMut(),
}

/// At most this many of its warnings are kept.
const MOST_MESSAGES: usize = 20;

/// A booted kernel.
pub struct Kernel {
    image: Image,
    /// The kernel's own tasks by CPU: stopper and ksoftirqd.
    kthreads: Vec<[i32; 2]>,
    /// Its warnings, each once, with the calls of the first.
    messages: Vec<(String, CallsAt)>,
    /// Those beyond [`MOST_MESSAGES`].
    further_messages: usize,
}

/// The error when the kernel's own code refuses something, by its errno.
pub fn refused(what: &str, errno: i32) -> Error {
    let why = std::io::Error::from_raw_os_error(errno);
    let remedy = match errno {
        libc::EBUSY => {
            "deadline tasks need bandwidth, and all CPUs: less runtime in a longer period, fewer of them, or no mask"
        }
        libc::EINVAL => "the kernel's own checks take no such value: another one",
        libc::EPERM => "a deadline task may use all CPUs; other tasks keep within what their group has",
        libc::EAGAIN => "a deadline task makes no further task",
        _ => "what the kernel takes is said where its code returns that error",
    };
    Error::input(format!("{what}: {why}")).help(remedy)
}

/// A policy's number (SCHED_* of `uapi/linux/sched.h`).
pub(crate) fn policy_number(policy: Policy) -> u32 {
    match policy {
        Policy::Other => 0,
        Policy::Fifo => 1,
        Policy::Rr => 2,
        Policy::Batch => 3,
        Policy::Idle => 5,
        Policy::Deadline => 6,
        Policy::Ext => 7,
    }
}

/// The policy of a number; an unknown one counts as ordinary.
pub(crate) fn policy_of(number: u32) -> Policy {
    let all = [Policy::Fifo, Policy::Rr, Policy::Batch, Policy::Idle, Policy::Deadline, Policy::Ext];
    all.into_iter().find(|policy| policy_number(*policy) == number).unwrap_or(Policy::Other)
}

/// A task's attributes in the kernel's form.
pub fn attr_of(attr: TaskAttr) -> Attr {
    Attr {
        policy: policy_number(attr.policy),
        nice: attr.nice.into(),
        rt_priority: attr.rt_priority.into(),
        runtime_ns: attr.slice.ns(),
        deadline_ns: attr.deadline.ns(),
        period_ns: attr.period.ns(),
        ..Attr::default()
    }
}

/// Bits by CPU, with room for every CPU of an image.
fn mask(cpus: &CpuSet) -> Vec<std::ffi::c_ulong> {
    let mut words = vec![0; MAX_CPUS / 64];
    for cpu in cpus.iter() {
        words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }
    words
}

/// Whether a machine has an idle driver. With a single idle state, as in a guest that halts, there is no choice; then
/// the idle loop itself decides whether the tick stops.
pub(crate) fn has_idle_driver(machine: &Machine) -> bool {
    match machine.idle_governor {
        IdleGovernor::Halt => false,
        IdleGovernor::Haltpoll | IdleGovernor::Menu => machine.idle_states.len() > 1,
    }
}

/// The machine's idle states, after the loop of poll_state.c, which governors expect as the first state. Empty without
/// a driver.
fn idle_states(machine: &Machine) -> Vec<IdleState> {
    if !has_idle_driver(machine) {
        return Vec::new();
    }
    let of = |state: &schedlab_machine::IdleState| IdleState {
        name: state.name.clone(),
        exit_ns: state.exit.0.min(u32::MAX.into()) as u32,
        residency_ns: state.residency.0.min(u32::MAX.into()) as u32,
        polls: false,
    };
    let poll = IdleState { name: "POLL".to_owned(), polls: true, ..IdleState::default() };
    // The first state of a guest under haltpoll is that loop.
    let behind_it = usize::from(machine.idle_governor == IdleGovernor::Haltpoll);
    std::iter::once(poll).chain(machine.idle_states[behind_it..].iter().map(of)).collect()
}

fn topology(machine: &Machine, seed: u64) -> Topology {
    let topology = &machine.topology;
    let by = |unit: fn(&schedlab_machine::Cpu) -> u32| topology.cpus.iter().map(unit).collect();
    let nr_nodes = topology.cpus.iter().map(|c| c.node + 1).max().unwrap_or(1);
    let far = |a: u32, b: u32| {
        let stated = topology.node_distance.get(a as usize).and_then(|row| row.get(b as usize)).copied();
        stated.unwrap_or(if a == b { 10 } else { 20 }).min(255) as u8
    };
    let capacity = |c: usize| topology.capacity.get(c).map_or(1024, |c| *c);
    Topology {
        nr_nodes,
        node: by(|c| c.node),
        package: by(|c| c.package),
        core: by(|c| c.core),
        cluster: by(|c| c.cluster),
        llc: by(|c| c.llc),
        capacity: (0..topology.nr_cpus()).map(capacity).collect(),
        distance: (0..nr_nodes).flat_map(|a| (0..nr_nodes).map(move |b| far(a, b))).collect(),
        reclaim_distance: topology.reclaim_distance,
        llc_bytes: machine.caches.last().map_or(32 << 20, |c| c.size_kb << 10),
        seed,
        hz: 0,
        idle_states: idle_states(machine),
        idle_governor: match machine.idle_governor {
            IdleGovernor::Haltpoll => "haltpoll".to_owned(),
            IdleGovernor::Menu | IdleGovernor::Halt => "menu".to_owned(),
        },
    }
}

impl Kernel {
    /// Loads an image and boots it for a machine, at `now` of its clock.
    ///
    /// # Errors
    /// For a machine that is too large, and when the kernel refuses it.
    pub fn boot(
        object: &Path,
        machine: &Machine,
        seed: u64,
        now: u64,
        debug: &mut Debug<'_>,
    ) -> Result<Kernel> {
        let n = machine.topology.nr_cpus();
        if n > MAX_CPUS {
            let text = format!("{} has {n} CPUs: backend 'code' simulates {MAX_CPUS} at most", machine.name);
            return Err(Error::input(text).help("take backend 'sim', or a smaller machine"));
        }
        let mut image = Image::load(object)?;
        if debug.guard {
            image.guard()?;
        }
        (debug.loaded)();
        image.set_now(now);
        image.boot(topology(machine, seed))?;
        let kthreads = (0..n).map(|c| [image.kthread_pid(c, false), image.kthread_pid(c, true)]).collect();
        Ok(Kernel { image, kthreads, messages: Vec::new(), further_messages: 0 })
    }

    /// Sets the kernel's clock, ns, and the CPU of the following verbs.
    #[inline]
    pub fn enter(&mut self, cpu: CpuId, now: u64) {
        self.image.set_now(now);
        self.image.enter(cpu.index());
    }
    /// The same before a verb: the view does not show the CPU yet.
    #[inline]
    pub fn turn_to(&mut self, cpu: CpuId, now: u64) {
        self.image.set_now(now);
        self.image.turn_to(cpu.index());
    }
    #[inline]
    pub fn view(&self) -> View {
        View(self.image.flags())
    }
    #[inline]
    pub fn image(&mut self) -> &mut Image {
        &mut self.image
    }
    /// Whether verbs may be left in the middle.
    #[inline]
    pub fn weaves(&self) -> bool {
        self.image.leaves
    }
    #[inline]
    pub fn nr_notes(&self) -> usize {
        self.image.notes().len()
    }
    #[inline]
    pub fn note(&self, i: usize) -> RawNote {
        self.image.notes()[i]
    }
    #[inline]
    pub fn clear(&mut self) {
        self.image.clear();
    }
    /// The kernel's own tasks of a CPU: stopper and ksoftirqd.
    pub fn kthreads(&self, cpu: CpuId) -> [i32; 2] {
        self.kthreads[cpu.index()]
    }
    /// For a pid of the kernel's own: whether it is ksoftirqd, and of which CPU.
    pub fn kthread_of(&self, pid: i32) -> Option<(bool, CpuId)> {
        let at = |which: usize| self.kthreads.iter().position(|pids| pids[which] == pid).map(CpuId::from);
        at(0).map(|cpu| (false, cpu)).or_else(|| at(1).map(|cpu| (true, cpu)))
    }

    /// Makes a task; returns its pid, or the error's number.
    pub fn task_new(&mut self, new: &NewTask<'_>) -> std::result::Result<i32, i32> {
        let name = new.name.replace('\0', "");
        let allowed = new.allowed.map(mask);
        self.image.task_new(&RawTask {
            name: &name,
            attr: attr_of(new.attr),
            allowed: allowed.as_deref(),
            slack_ns: new.slack_ns,
            group: new.group,
            mm: new.mm,
            tgid: new.tgid,
            inherits: new.inherits,
            session_of: new.session_of,
        })
    }
    pub fn set_attr(&mut self, pid: i32, attr: TaskAttr) -> std::result::Result<(), i32> {
        self.image.set_attr(pid, &attr_of(attr))
    }
    /// Changes a task's CPUs from outside.
    pub fn confine(&mut self, pid: i32, allowed: &CpuSet) -> std::result::Result<(), i32> {
        self.image.confine(pid, &mask(allowed))
    }
    pub fn set_affinity(&mut self, pid: i32, allowed: &CpuSet) -> std::result::Result<(), i32> {
        self.image.set_affinity(pid, &mask(allowed))
    }
    /// The text of a group's file; `None`: the tree has no such file.
    pub fn group_file(&self, group: i32, file: &str) -> Option<String> {
        self.image.group_read(group, file)
    }
    /// Time for which a group's quota has throttled CPUs that are still throttled, summed, ns.
    pub fn group_throttled(&self, group: i32) -> u64 {
        self.image.group_throttled(group)
    }
    /// A task's usage up to now.
    pub fn usage(&mut self, pid: i32) -> Usage {
        self.image.usage(pid)
    }

    /// Switches a feature of the tree's own table.
    ///
    /// # Errors
    /// When the tree has no such feature; the nearest name is the remedy.
    pub fn set_feature(&mut self, name: &str, on: bool) -> Result<()> {
        if self.image.set_feature(name, on) {
            return Ok(());
        }
        let known: Vec<String> = self.image.features().into_iter().map(|(name, _)| name).collect();
        Err(Error::unknown("feature", name, known.iter().map(String::as_str)))
    }
    /// Sets a tunable of the tree's own table.
    ///
    /// # Errors
    /// When the tree has no such tunable, or refuses the value.
    pub fn set_tunable(&mut self, name: &str, value: &str) -> Result<()> {
        match self.image.set_tunable(name, value) {
            Ok(()) => Ok(()),
            Err(libc::ENOENT) => {
                let known: Vec<String> = self.image.tunables().into_iter().map(|(name, _)| name).collect();
                Err(Error::unknown("tunable", name, known.iter().map(String::as_str)))
            }
            Err(errno) => {
                let why = std::io::Error::from_raw_os_error(errno);
                Err(Error::input(format!("the kernel refuses {name} = {value}: {why}")))
            }
        }
    }

    /// Keeps the text of a message, if it is a warning. That costs nothing.
    #[cold]
    pub fn keep_message(&mut self, message: Message) -> u64 {
        let text = self.image.text(message.text);
        if !message.is_warning || self.messages.iter().any(|(known, _)| *known == text) {
            return 0;
        }
        if self.messages.len() < MOST_MESSAGES {
            self.messages.push((text, message.calls));
        } else {
            self.further_messages += 1;
        }
        0
    }
    /// The name of a pid of the kernel's own; "swapper" is the idle task.
    pub fn own_name(&self, pid: i32) -> String {
        match self.kthread_of(pid) {
            Some((ksoftirqd, cpu)) => {
                format!("{}/{}", if ksoftirqd { "ksoftirqd" } else { "migration" }, cpu.0)
            }
            None => "swapper".to_owned(),
        }
    }
    /// The kernel's own warnings so far.
    pub fn warnings(&self) -> Vec<Warning> {
        let one = |(text, calls): &(String, CallsAt)| {
            let calls = called_by(&self.image.calls(*calls));
            Warning::new("kernel.warn", format!("the kernel's code warns: {text}{calls}"))
        };
        let further = (self.further_messages > 0).then(|| {
            let text = format!(
                "the kernel's code has {} further warnings, which are not shown",
                self.further_messages
            );
            Warning::new("kernel.warn", text)
        });
        self.messages.iter().map(one).chain(further).collect()
    }
}

/// The kernel's functions that led to a message, without the shims around them: " (calls: f < g)".
pub(crate) fn called_by(calls: &[String]) -> String {
    let kernels = calls.iter().skip_while(|call| is_shim(call)).take_while(|call| !is_shim(call));
    let names = kernels.map(|call| call.split(" at ").next().unwrap_or(call));
    // The callers of a tracepoint's probe.
    let names: Vec<&str> =
        names.skip_while(|name| name.starts_with("__traceiter_") || name.starts_with("trace_")).collect();
    if names.is_empty() { String::new() } else { format!(" (calls: {})", names.join(" < ")) }
}

fn is_shim(call: &str) -> bool {
    call.contains(" at arch/sim/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_choice_of_idle_states_has_no_driver() {
        let names = |machine: &str| -> Vec<String> {
            let machine = Machine::load(machine).unwrap();
            idle_states(&machine).into_iter().map(|state| state.name).collect()
        };
        assert!(names("icount-8-smt").is_empty(), "a guest that halts");
        let server = names("spr-2x56");
        assert_eq!(server.first().map(String::as_str), Some("POLL"));
        assert_eq!(server.len(), 1 + Machine::load("spr-2x56").unwrap().idle_states.len());
    }

    #[test]
    fn a_message_names_only_the_kernels_calls() {
        let calls = [
            "img_say at arch/sim/image/notes.c:66",
            "f at kernel/sched/core.c:1",
            "g at kernel/sched/core.c:2",
            "img_yield_now at arch/sim/image/verbs.c:3",
            "schedule at kernel/sched/core.c:4",
        ];
        assert_eq!(called_by(&calls.map(str::to_owned)), " (calls: f < g)");
        assert_eq!(called_by(&[]), "");
    }
}
