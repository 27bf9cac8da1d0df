//! Sets scheduling attributes of a running thread (sched_setattr(2), Linux 3.14). All errors about refused attributes
//! are made here.
//!
//! A child's attributes are first tried on a temporary thread. There an error can have words; between fork and exec it
//! can only be a number.

use crate::sys;
use schedlab_base::{Error, Ns, Result};
use schedlab_kernel::{Attr, Policy};
use std::io;

/// The attributes of a thread (0: the caller), without the slice: the kernel does not distinguish a requested slice
/// from its default.
///
/// # Errors
/// When there is no such thread, or the kernel does not report attributes (before 3.14).
pub(crate) fn of_thread(thread: u32) -> Result<Attr> {
    sys::attr_of(thread).map_err(|e| unreachable(thread, &e))
}

/// Sets the attributes of a thread (0: the caller).
///
/// # Errors
/// When the kernel refuses; the help lists the accepted values.
pub(crate) fn give(thread: u32, attr: Attr) -> Result<()> {
    sys::set_attr_of(thread, attr).map_err(|e| refused(attr, &e))
}

/// The error about a thread whose attributes can't be read.
pub(crate) fn unreachable(thread: u32, e: &io::Error) -> Error {
    match e.raw_os_error() {
        Some(libc::ESRCH) => Error::input(format!("there is no process or thread {thread}")),
        _ => Error::machine(format!("can't read the scheduling attributes of {thread}: {e}")),
    }
}

/// Tries `give` on a temporary thread; returns its result.
pub(crate) fn tried(give: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let tried = std::thread::scope(|scope| scope.spawn(give).join());
    tried.map_err(|_| Error::internal("the thread that tries attributes panicked"))?
}

/// The error when the kernel refuses attributes; the help lists accepted values.
pub(crate) fn refused(attr: Attr, error: &io::Error) -> Error {
    let Attr { policy, nice, rt_priority, .. } = attr;
    let [slice, deadline, period] = [attr.slice, attr.deadline, attr.period].map(Ns::from);
    if policy.is_fair() {
        let with = if slice == Ns::ZERO { String::new() } else { format!(" and a slice of {slice}") };
        Error::machine(format!("can't set policy {policy} with nice {nice}{with}: {error}")).help(
            "SCHED_BATCH, SCHED_IDLE and a higher nice value need no privilege; a lower nice value, or another \
             user's process, needs CAP_SYS_NICE or RLIMIT_NICE (ulimit -e)",
        )
    } else if policy == Policy::Deadline {
        let text =
            format!("can't set SCHED_DEADLINE with {slice} in {period}, due after {deadline}: {error}");
        Error::machine(text).help(
            "it needs CAP_SYS_NICE, all CPUs of the root domain, and bandwidth that is left (kernel.sched_rt_runtime_us)",
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
    use schedlab_kernel::AttrChange;

    #[test]
    fn a_running_thread_is_changed_and_a_missing_one_is_an_error() {
        let change = AttrChange { policy: Some(Policy::Idle), ..AttrChange::default() };
        let (asked, ask) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            asked.send(sys::thread_id()).unwrap();
            let _ = wait.recv();
        });
        let id = ask.recv().unwrap();
        give(id, change.over(of_thread(id).unwrap())).unwrap();
        assert_eq!(of_thread(id).unwrap().policy, Policy::Idle);
        drop(go);
        other.join().unwrap();
        assert!(of_thread(u32::MAX >> 2).unwrap_err().to_string().contains("no process or thread"));
    }

    #[test]
    fn refused_attributes_are_explained() {
        let odd = Attr { policy: Policy::Fifo, ..Attr::default() };
        assert!(tried(|| give(0, odd)).unwrap_err().to_string().contains("priorities are 1 to 99"));
    }
}
