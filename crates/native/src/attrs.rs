//! Scheduling attributes that a variant gives to tasks: of a child before it executes another program, whose own
//! children inherit them, and of a thread that runs already (sched_setattr(2), Linux 3.14).
//!
//! The kernel is asked first on a thread made for it: what it refuses is then told in words, which the one number that
//! comes back from between fork and exec can't carry.

use crate::sys;
use schedlab_base::{Error, Ns, Result};
use schedlab_kernel::{Attr, AttrChange, Policy};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The attributes of the calling thread. A slice it asked for is not told apart from the kernel's own, and left out.
///
/// # Errors
/// When the kernel does not say (before 3.14).
pub fn own() -> Result<Attr> {
    of_thread(0)
}

/// The attributes of a thread (0: the caller), as [`own`].
///
/// # Errors
/// When there is none of that number.
pub fn of_thread(thread: u32) -> Result<Attr> {
    sys::attr_of(thread).map_err(|e| match e.raw_os_error() {
        Some(libc::ESRCH) => Error::input(format!("no thread has the number {thread}")),
        _ => Error::machine(format!("can't read scheduling attributes: {e}")),
    })
}

/// Checks that this process may give a thread these attributes.
///
/// # Errors
/// What the kernel refuses, and what helps.
pub fn check(attr: Attr) -> Result<()> {
    let tried = std::thread::scope(|scope| scope.spawn(|| sys::set_attr(attr)).join());
    let tried = tried.map_err(|_| Error::internal("the thread that tries attributes panicked"))?;
    tried.map_err(|e| refused(attr, &e))
}

/// Has a child begin with the caller's attributes as changed. Its children inherit them.
///
/// # Errors
/// As [`check`].
pub fn at_exec(command: &mut Command, change: AttrChange) -> Result<()> {
    if change.is_empty() {
        return Ok(());
    }
    change.check()?;
    let attr = change.over(own()?);
    check(attr)?;
    // SAFETY: between fork and exec only one system call is made, on data the closure owns.
    unsafe { command.pre_exec(move || sys::set_attr(attr)) };
    Ok(())
}

/// Changes the attributes of a thread that runs.
///
/// # Errors
/// No such thread, and what the kernel refuses.
pub fn set(thread: u32, change: AttrChange) -> Result<()> {
    change.check()?;
    let attr = change.over(of_thread(thread)?);
    sys::set_attr_of(thread, attr).map_err(|e| refused(attr, &e))
}

/// Why the kernel would not give a task its attributes, and what helps.
pub(crate) fn refused(attr: Attr, error: &io::Error) -> Error {
    let Attr { policy, nice, rt_priority, slice } = attr;
    if policy.is_fair() {
        let with = if slice == Ns::ZERO { String::new() } else { format!(" and a slice of {slice}") };
        Error::machine(format!("can't set policy {policy} with nice {nice}{with}: {error}")).help(
            "nice 0 to 19 needs no privilege unless it lowers the value; below, CAP_SYS_NICE or RLIMIT_NICE",
        )
    } else {
        let range = if (1..=99).contains(&rt_priority) { "" } else { "; priorities are 1 to 99" };
        let policy = if policy == Policy::Fifo { "SCHED_FIFO" } else { "SCHED_RR" };
        Error::machine(format!("can't set {policy} with priority {rt_priority}: {error}{range}"))
            .help("real-time policies need CAP_SYS_NICE or RLIMIT_RTPRIO (ulimit -r)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_and_its_child_begin_with_them() {
        // Field 41 of /proc/self/stat is the policy, 19 the nice value; the shell's child reads its own.
        let mut command = Command::new("sh");
        command.args(["-c", "cut -d' ' -f19,41 /proc/self/stat; true"]);
        let before = own().unwrap();
        let change = AttrChange { policy: Some(Policy::Batch), nice: Some(7), slice: None };
        at_exec(&mut command, change).unwrap();
        let said = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "7 3");
        assert_eq!(own().unwrap(), before, "the caller keeps its own");
    }

    #[test]
    fn a_running_thread_is_changed_and_a_missing_one_is_told() {
        let change = AttrChange { policy: Some(Policy::Idle), ..AttrChange::default() };
        let (asked, ask) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            asked.send(sys::thread_id()).unwrap();
            let _ = wait.recv();
        });
        let id = ask.recv().unwrap();
        set(id, change).unwrap();
        assert_eq!(of_thread(id).unwrap().policy, Policy::Idle);
        drop(go);
        other.join().unwrap();
        assert!(set(u32::MAX >> 2, change).unwrap_err().to_string().contains("no thread"));
    }

    #[test]
    fn what_nobody_may_have_is_told_in_words() {
        let odd = Attr { policy: Policy::Fifo, nice: 0, rt_priority: 0, slice: Ns::ZERO };
        assert!(check(odd).unwrap_err().to_string().contains("priorities are 1 to 99"));
        let mut command = Command::new("true");
        let change = AttrChange { nice: Some(99), ..AttrChange::default() };
        assert!(at_exec(&mut command, change).unwrap_err().to_string().contains("-20 to 19"));
    }
}
