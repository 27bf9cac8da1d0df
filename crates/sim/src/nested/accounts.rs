//! Accounts of virtual machines at the end of a run.

use crate::run::{account, settle_accounts};
use crate::system::System;
use crate::task::TaskState;
use crate::{SimReport, invariants};
use schedlab_base::Result;
use schedlab_board::nested::GuestCounts;
use schedlab_board::net::Acted;

/// Adds to the report what happened in a guest: accounts of its tasks, measurements of its programs, counters.
///
/// # Errors
/// When the guest's accounts disagree.
pub fn close(sys: &mut System<'_>, end_ns: u64, counted: GuestCounts, report: &mut SimReport) -> Result<()> {
    close_kernel(sys, end_ns, report)?;
    let switches: u32 = sys.tasks.iter().map(|t| t.counted.voluntary + t.counted.involuntary).sum();
    let sums = [
        ("guest.halts", counted.halts),
        ("guest.sleeps", counted.sleeps),
        ("guest.kicks", counted.kicks),
        ("guest.steal_time", counted.steal_ns),
        ("guest.wakeups", sys.accounts.stats.wakeups),
        ("guest.switches", u64::from(switches)),
        ("guest.packets", sys.board.nic.received),
    ];
    for (name, n) in sums {
        *report.found.counters.entry(name.to_owned()).or_default() += n;
    }
    Ok(())
}

/// What another kernel has done since it was asked last; `done` becomes true when the last of its tasks has left.
pub fn acted(sys: &mut System<'_>, done: &mut bool) -> Acted {
    let left = sys.run.alive == 0;
    Acted {
        steps: std::mem::take(&mut sys.stepping.steps),
        ended: left && !std::mem::replace(done, left),
        fault: sys.run.fault.take(),
    }
}

/// Adds the accounts of another kernel's tasks.
///
/// # Errors
/// When they disagree.
pub fn close_kernel(sys: &mut System<'_>, end_ns: u64, report: &mut SimReport) -> Result<()> {
    sys.now = end_ns;
    sys.release_clocks();
    settle_accounts(sys);
    invariants::accounts_agree(sys)?;
    for task in sys.tasks.ids().filter(|t| sys.tasks[*t].state != TaskState::Unborn) {
        report.tasks[task.index()] = account(sys, task);
    }
    report.found.intervals.append(&mut sys.board.intervals.kept);
    report.wakeups += sys.accounts.stats.wakeups;
    sys.board.add_lost(report);
    Ok(())
}
