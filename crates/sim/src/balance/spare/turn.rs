//! Decides whether it is this CPU's turn to balance a domain.
//!
//! Mirrors `should_we_balance` of 6.5. A periodic pass is elected as before
//! ([`Election`](crate::balance::interval::Election): the first idle CPU of the local group, else its first). A newidle
//! pass needs no election, but gives up if work has arrived meanwhile (6.0); it then counts as `lb_balanced`, and
//! higher domains are not tried. Not modelled: 6.6 and later prefer a CPU whose whole core is idle.

/// Why a newidle pass does not begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AlreadyArrived {
    /// A task is queued here.
    Task,
    /// A wakeup is on its way here (`ttwu_pending`).
    Wakeup,
}

/// Whether a newidle pass may begin over one domain (6.0).
///
/// # Errors
/// The work that has arrived; then no CPU balances.
pub fn newidle_may_begin(nr_running: u32, wakeup_pending: bool) -> std::result::Result<(), AlreadyArrived> {
    match () {
        () if nr_running > 0 => Err(AlreadyArrived::Task),
        () if wakeup_pending => Err(AlreadyArrived::Wakeup),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_has_come_ends_newidle_balance() {
        assert_eq!(newidle_may_begin(0, false), Ok(()));
        assert_eq!(newidle_may_begin(1, false), Err(AlreadyArrived::Task));
        assert_eq!(newidle_may_begin(0, true), Err(AlreadyArrived::Wakeup));
    }
}
