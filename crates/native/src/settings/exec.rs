//! Runs any command under scheduling attributes (policy, nice, slice, CPUs), or sets them for a running process.
//!
//! A command replaces this process, so that no process is between it and its caller. Only if something must be restored
//! afterwards, a parent waits for it and forwards signals. Children inherit all attributes (sched(7)). A live process
//! is changed thread by thread until no new thread appears, because new threads inherit from threads that are not
//! changed yet.

use crate::settings::attrs;
use crate::settings::owner::Owner;
use crate::sys::{self, signals};
use schedlab_base::{CpuSet, Error, Result};
use schedlab_kernel::{Attr, AttrChange};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

/// The most rounds over a process, which may make threads faster than they are changed.
const ROUNDS: usize = 100;

/// New attributes of a command or process; absent ones stay unchanged.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    pub change: AttrChange,
    /// Priority under SCHED_FIFO and SCHED_RR; `None`: 1.
    pub priority: Option<u8>,
    pub cpus: Option<CpuSet>,
}

impl Attributes {
    pub fn is_empty(&self) -> bool {
        self.change.is_empty() && self.priority.is_none() && self.cpus.is_none()
    }

    fn over(&self, attr: Attr) -> Attr {
        let new = self.change.over(attr);
        let priority = self.priority.unwrap_or(attr.rt_priority).max(1);
        Attr { rt_priority: if new.policy.is_fair() { 0 } else { priority }, ..new }
    }

    /// Sets these attributes for a thread (0: the caller).
    ///
    /// # Errors
    /// When the kernel refuses; the help names the needed capability. Of kind [`ErrorKind`] `Input` if there is no such
    /// thread.
    pub fn give(&self, thread: u32) -> Result<()> {
        if !self.change.is_empty() || self.priority.is_some() {
            attrs::give(thread, self.over(attrs::of_thread(thread)?))?;
        }
        if let Some(cpus) = &self.cpus {
            sys::set_affinity_of(thread, cpus).map_err(|e| misplaced(thread, cpus, &e))?;
        }
        Ok(())
    }
}

impl Attributes {
    /// Makes a child begin with these attributes. Its children inherit them. They are tried here, on a thread, which
    /// takes longer than a short command: call it before the command's time begins. Without attributes the thread runs,
    /// too, so that the CPU has done the same before each command.
    ///
    /// # Errors
    /// As [`Attributes::give`], and for attributes that no task can have.
    pub(crate) fn at_exec(&self, command: &mut Command) -> Result<()> {
        self.change.check()?;
        attrs::tried(|| self.give(0))?;
        // What a child has anyway is not set, so a setting that changes nothing costs the child nothing.
        let mut attr = None;
        if !self.change.is_empty() || self.priority.is_some() {
            let own = attrs::of_thread(0)?;
            attr = Some(self.over(own)).filter(|attr| *attr != own);
        }
        let cpus = self.cpus.clone().filter(|cpus| !sys::affinity().is_ok_and(|own| own == *cpus));
        let begin = move || {
            attr.map_or(Ok(()), sys::set_attr)?;
            cpus.as_ref().map_or(Ok(()), sys::set_affinity)
        };
        // SAFETY: between fork and exec only system calls are made, on data that the closure owns.
        unsafe { command.pre_exec(begin) };
        Ok(())
    }
}

fn misplaced(thread: u32, cpus: &CpuSet, e: &io::Error) -> Error {
    match e.raw_os_error() {
        Some(libc::ESRCH) => attrs::unreachable(thread, e),
        Some(libc::EINVAL) => {
            let text = format!("none of the CPUs {cpus} is online and allowed here");
            let allowed = sys::affinity().map(|a| format!("this process may use {a}"));
            Error::machine(text).help(allowed.unwrap_or_else(|e| e.to_string()))
        }
        _ => Error::machine(format!("can't keep {thread} to CPUs {cpus}: {e}"))
            .help("it needs CAP_SYS_NICE for others' processes"),
    }
}

fn command(argv: &[String]) -> Result<(Command, &str)> {
    let (program, arguments) = argv.split_first().ok_or_else(|| Error::input("no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok((command, program))
}

/// The error about a command that does not start, with the shells' exit codes: 127 not found, 126 not executable.
pub(crate) fn unstartable(program: &str, e: &io::Error) -> Error {
    use schedlab_base::ErrorKind::{NoCommand, NotExecutable};
    match e.kind() {
        ErrorKind::PermissionDenied if nowhere(program) => unstartable(program, &ErrorKind::NotFound.into()),
        ErrorKind::NotFound => Error::new(NoCommand, format!("can't start '{program}': it is not there"))
            .help("install it, or name it with its folder"),
        ErrorKind::PermissionDenied => {
            Error::new(NotExecutable, format!("can't start '{program}': it may not be executed"))
                .help("chmod +x makes a file executable; a folder is not a command")
        }
        _ => Error::new(NotExecutable, format!("can't start '{program}': {e}")),
    }
}

/// Whether no folder of PATH that this user may search has the command. execvp(3) reports EACCES for such a name if
/// there is a folder that this user may not search; shells say that the command is not there.
fn nowhere(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    !program.contains('/') && !std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// Replaces this process by the command, under the attributes. Returns only on failure.
pub fn replace(argv: &[String], attributes: &Attributes) -> Error {
    let ready = command(argv).and_then(|c| attributes.give(0).map(|()| c));
    match ready {
        Ok((mut command, program)) => unstartable(program, &command.exec()),
        Err(e) => e,
    }
}

/// A process that waits for a command. From its creation on, signals do not end this process, but wait for the command.
#[derive(Debug)]
pub struct Supervisor(signals::Signals);

impl Supervisor {
    /// Create it before the first change that must be restored, in a process with one thread.
    ///
    /// # Errors
    /// When signals can't be blocked.
    pub fn new() -> Result<Supervisor> {
        let fault = |e: io::Error| Error::machine(format!("can't take signals: {e}"));
        signals::Signals::take().map(Supervisor).map_err(fault)
    }
    /// Runs the command under the attributes and forwards signals to it. Returns its exit code, or 128 plus the signal
    /// that ended it.
    ///
    /// # Errors
    /// When the kernel refuses the attributes, or the command can't be started.
    pub fn run(mut self, argv: &[String], attributes: &Attributes) -> Result<i32> {
        supervise(argv, attributes, &mut self.0)
    }
}

fn supervise(argv: &[String], attributes: &Attributes, taken: &mut signals::Signals) -> Result<i32> {
    let (mut command, program) = command(argv)?;
    let mask = taken.before();
    // SAFETY: between fork and exec only a system call is made, on data that the closure owns.
    unsafe { command.pre_exec(move || mask.set()) };
    attributes.at_exec(&mut command)?;
    let mut child = command.spawn().map_err(|e| unstartable(program, &e));
    let ended = child.as_mut().map_err(|_| ()).map(|child| {
        loop {
            match child.try_wait() {
                Ok(None) => {}
                ended => break ended,
            }
            match taken.next() {
                Ok(signal) if signal.number != libc::SIGCHLD && signal.sent => {
                    signals::send(child.id(), signal.number)
                }
                Ok(_) => {}
                Err(e) => break Err(e),
            }
        }
    });
    match (child, ended) {
        (Err(e), _) => Err(e),
        (_, Ok(Ok(Some(status)))) => Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
        (_, Ok(Err(e))) => Err(Error::machine(format!("can't wait for '{program}': {e}"))),
        _ => Err(Error::internal(format!("'{program}' ended neither way"))),
    }
}

#[derive(Debug, Default)]
pub struct Changed {
    root: u32,
    children: bool,
    /// By thread and start time: process, old attributes and old CPUs.
    before: BTreeMap<(u32, u64), (u32, Attr, CpuSet)>,
}

/// Changes a live process with all its threads, and with `children` all its descendants.
///
/// # Errors
/// When there is no such process. When the kernel refuses; earlier changes are then undone.
pub fn change_live(pid: u32, children: bool, attributes: &Attributes) -> Result<Changed> {
    let mut changed = Changed { root: pid, children, before: BTreeMap::new() };
    for round in 0..ROUNDS {
        let threads = threads(pid, children);
        if threads.is_empty() && round == 0 {
            return Err(Error::input(format!("there is no process {pid}")));
        }
        let new: Vec<_> =
            threads.into_iter().filter(|(t, s, _)| !changed.before.contains_key(&(*t, *s))).collect();
        if new.is_empty() {
            break;
        }
        for (thread, started, process) in new {
            // A thread that has ended needs no change.
            let (Ok(attr), Ok(cpus)) = (sys::attr_of(thread), sys::affinity_of(thread)) else { continue };
            changed.before.insert((thread, started), (process, attr, cpus));
            if let Err(e) = attributes.give(thread)
                && alive(thread, started)
            {
                changed.put_back();
                return Err(e.context(format!("process {process}, thread {thread}")));
            }
        }
    }
    Ok(changed)
}

impl Changed {
    /// Number of changed threads, and of their processes.
    pub fn counts(&self) -> (usize, usize) {
        let processes: BTreeSet<u32> = self.before.values().map(|(process, ..)| *process).collect();
        (self.before.len(), processes.len())
    }
    /// Restores every thread's attributes. Newer threads get those of their process's first thread, else those of the
    /// first process. Returns the number of failures.
    pub fn put_back(&self) -> usize {
        let of = |process: u32| self.before.values().find(|(p, ..)| *p == process);
        let mut failed = 0;
        for (thread, started, process) in threads(self.root, self.children) {
            let known = self.before.get(&(thread, started)).or_else(|| of(process)).or_else(|| of(self.root));
            let Some((_, attr, cpus)) = known else { continue };
            let back = sys::set_attr_of(thread, *attr).and_then(|()| sys::set_affinity_of(thread, cpus));
            failed += usize::from(back.is_err() && alive(thread, started));
        }
        failed
    }
}

fn alive(thread: u32, started: u64) -> bool {
    Owner::of(thread) == Some(Owner { pid: thread, started })
}

/// Threads of a process, and with `children` of its descendants: thread id, start time, process.
fn threads(pid: u32, children: bool) -> Vec<(u32, u64, u32)> {
    let mut processes = vec![pid];
    if children {
        let parents: Vec<(u32, u32)> = numbers("/proc").filter_map(|p| Some((p, parent(p)?))).collect();
        let mut at = 0;
        while let Some(process) = processes.get(at).copied() {
            let own = parents.iter().filter(|(child, of)| *of == process && !processes.contains(child));
            let own: Vec<u32> = own.map(|(child, _)| *child).collect();
            processes.extend(own);
            at += 1;
        }
    }
    let of = |process: u32| {
        let thread = move |t| Owner::of(t).map(|o| (t, o.started, process));
        numbers(&format!("/proc/{process}/task")).filter_map(thread).collect::<Vec<_>>()
    };
    processes.into_iter().flat_map(of).collect()
}

fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Policy;

    #[test]
    fn a_command_that_no_searchable_folder_has_is_not_there() {
        let kind = |program| unstartable(program, &ErrorKind::PermissionDenied.into()).kind();
        assert_eq!(kind("no-folder-has-this"), schedlab_base::ErrorKind::NoCommand);
        assert_eq!(kind("./no-folder-has-this"), schedlab_base::ErrorKind::NotExecutable);
        assert_eq!(kind("sh"), schedlab_base::ErrorKind::NotExecutable, "found, so a right is missing");
    }

    #[test]
    fn threads_made_since_go_back_with_the_rest() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read go; sleep 60 & read on; kill $!"]).stdin(std::process::Stdio::piped());
        let mut child = shell.spawn().unwrap();
        // A user without privileges can't lower a nice value again.
        let nice = sys::is_root().then_some(3);
        let batch = AttrChange { policy: Some(Policy::Batch), nice, slice: None };
        let attributes = Attributes { change: batch, ..Attributes::default() };
        let changed = change_live(child.id(), true, &attributes).unwrap();
        assert_eq!(changed.counts(), (1, 1));
        let mut input = child.stdin.take().unwrap();
        io::Write::write_all(&mut input, b"\n").unwrap();
        let grandchild = (0..500).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            threads(child.id(), true).into_iter().find(|(_, _, p)| *p != child.id())
        });
        let (grandchild, ..) = grandchild.expect("the shell starts sleep");
        assert_eq!(sys::attr_of(grandchild).unwrap().policy, Policy::Batch, "inherited");
        assert_eq!(changed.put_back(), 0);
        let now = [child.id(), grandchild].map(|t| sys::attr_of(t).unwrap());
        assert!(
            now.iter().all(|a| a.policy == Policy::Other && a.nice == sys::attr_of(0).unwrap().nice),
            "{now:?}"
        );
        io::Write::write_all(&mut input, b"\n").unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_child_and_its_child_begin_with_them() {
        // Fields 41 and 19 of /proc/self/stat are the policy and the nice value; the shell's child reads its own.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "cut -d' ' -f19,41 /proc/self/stat; grep Cpus_allowed_list /proc/self/status; true",
        ]);
        let (before, cpus) = (attrs::of_thread(0).unwrap(), sys::affinity().unwrap());
        let first: CpuSet = cpus.lowest().into_iter().collect();
        let change = AttrChange { policy: Some(Policy::Batch), nice: Some(7), slice: None };
        let given = Attributes { change, cpus: Some(first.clone()), priority: None };
        given.at_exec(&mut command).unwrap();
        let said = command.output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said, format!("7 3 Cpus_allowed_list: {first}"));
        let after = (attrs::of_thread(0).unwrap(), sys::affinity().unwrap());
        assert_eq!(after, (before, cpus), "the caller keeps its own");
    }

    #[test]
    fn unavailable_settings_are_errors() {
        let fifo = AttrChange { policy: Some(Policy::Fifo), ..AttrChange::default() };
        let e =
            Attributes { change: fifo, priority: Some(100), ..Attributes::default() }.give(0).unwrap_err();
        assert!(e.to_string().contains("1 to 99"), "{e}");
        let nowhere = Attributes { cpus: CpuSet::parse("4000").ok(), ..Attributes::default() };
        assert!(nowhere.give(0).unwrap_err().to_string().contains("this process may use"));
        assert!(change_live(u32::MAX >> 2, false, &nowhere).unwrap_err().to_string().contains("no process"));
        let change = AttrChange { nice: Some(99), ..AttrChange::default() };
        let given = Attributes { change, ..Attributes::default() };
        let e = given.at_exec(&mut Command::new("true")).unwrap_err();
        assert!(e.to_string().contains("-20 to 19"), "{e}");
    }
}
