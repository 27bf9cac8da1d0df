//! The fair server (6.12+): a reservation of 50 ms a second that runs fair tasks before real-time ones (`fair_server`,
//! `dl_server_*`, `deadline.c`; read in 6.12.117).
//!
//! The server is deferred. It begins to wait when a CPU's first fair task is enqueued, and intervenes only when the
//! rest of its period is just enough for the rest of its runtime. Fair tasks that run meanwhile use up its runtime, so
//! it never intervenes if they get their share anyway. Once it had to intervene, it does so at the start of each
//! period, until fair tasks run without it. It stops when its turn comes and there is no fair task.
//!
//! A fair task that is being switched out when the runtime is used up is charged once more. Here that has no effect, in
//! any version: a guest of 7.3.4 was seen to continue at the period's start. By 6.12.117's source the server would
//! begin a new period and wait; no guest of 6.12 was measured.
//!
//! Not modelled: the interrupts of its timer while a run has no real-time task, because they decide nothing then; the
//! charge for idle time.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ServerStage {
    /// There are no fair tasks.
    #[default]
    Stopped,
    /// It waits for zero laxity: the latest time to intervene that leaves its runtime before the deadline.
    Waits,
    /// Fair tasks run before real-time ones.
    Runs,
    /// It has used up its runtime and waits for the next period.
    Spent,
}

/// The reservation of a server, ns.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// Runtime of a period (`fair_server/cpuN/runtime`).
    pub runtime_ns: u64,
    /// The period (`fair_server/cpuN/period`).
    pub period_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Server {
    pub stage: ServerStage,
    /// End of its period, ns.
    deadline: u64,
    /// The rest of its runtime, ns.
    runtime: i64,
    /// Whether it had to intervene: then it continues without waiting (`dl_defer_running`).
    resumes: bool,
    pub timer: Option<u64>,
}

/// The outcome of a change of stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turned {
    /// When its timer must fire next, ns; `None` for no timer.
    pub timer_at: Option<u64>,
    /// Whether the CPU must pick again.
    pub resched: bool,
}

impl Server {
    fn zero_laxity(&self) -> u64 {
        self.deadline.saturating_sub(self.runtime.max(0) as u64)
    }

    fn new_period(&mut self, now: u64, reserved: Reserved) {
        self.deadline = now + reserved.period_ns;
        self.runtime = reserved.runtime_ns as i64;
    }

    /// Waits for zero laxity, or runs if that has come.
    fn wait(&mut self, now: u64) -> Turned {
        let at = self.zero_laxity();
        if at < now {
            self.stage = ServerStage::Runs;
            return Turned { timer_at: None, resched: true };
        }
        self.stage = ServerStage::Waits;
        Turned { timer_at: Some(at), resched: false }
    }

    /// The first fair task arrives (`dl_server_start`). If the rest of the old period would exceed the reservation, a
    /// new one begins. A period in which the server has intervened continues, with the runtime reduced in proportion to
    /// the rest of the period (`update_dl_revised_wakeup`).
    pub fn start(&mut self, now: u64, reserved: Reserved) -> Turned {
        let left_ns = self.deadline.saturating_sub(now);
        let worth_ns = u128::from(left_ns) * u128::from(reserved.runtime_ns) / u128::from(reserved.period_ns);
        let overflows = self.runtime.max(0) as u128 > worth_ns;
        match (left_ns == 0, overflows && self.resumes) {
            (false, true) => self.runtime = worth_ns as i64,
            _ if left_ns == 0 || overflows => {
                self.resumes = false;
                self.new_period(now, reserved);
            }
            _ => {}
        }
        if self.resumes {
            self.stage = ServerStage::Runs;
            return Turned { timer_at: None, resched: true };
        }
        self.wait(now)
    }

    /// The server's turn has come, but there is no fair task (`dl_server_stop`).
    pub fn stop(&mut self) {
        self.stage = ServerStage::Stopped;
    }

    /// Fair tasks have run (`update_curr_dl_se`); `None` if the stage does not change. `gives_way`: they are being
    /// switched out.
    pub fn charge(&mut self, now: u64, delta_ns: u64, gives_way: bool, reserved: Reserved) -> Option<Turned> {
        if self.stage == ServerStage::Stopped {
            return None;
        }
        self.runtime -= delta_ns as i64;
        match self.stage {
            _ if self.runtime > 0 => None,
            ServerStage::Runs => {
                self.stage = ServerStage::Spent;
                Some(Turned { timer_at: Some(self.deadline.max(now)), resched: true })
            }
            ServerStage::Spent if gives_way => None,
            _ => {
                self.resumes = false;
                self.new_period(now, reserved);
                Some(self.wait(now))
            }
        }
    }

    /// The server's timer has fired (`dl_server_timer`).
    pub fn expire(&mut self, now: u64, reserved: Reserved) -> Option<Turned> {
        match self.stage {
            ServerStage::Stopped | ServerStage::Runs => return None,
            ServerStage::Waits if now + NEAR_NS < self.zero_laxity() => return Some(self.wait(now)),
            ServerStage::Waits => {}
            ServerStage::Spent => {
                let periods = (-self.runtime).max(0) as u64 / reserved.runtime_ns + 1;
                self.deadline += periods * reserved.period_ns;
                self.runtime += (periods * reserved.runtime_ns) as i64;
            }
        }
        (self.stage, self.resumes) = (ServerStage::Runs, true);
        Some(Turned { timer_at: None, resched: true })
    }
}

/// A timer this close to zero laxity counts as having reached it, ns (`dl_server_min_res`).
const NEAR_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const R: Reserved = Reserved { runtime_ns: 50 * MS, period_ns: 1000 * MS };

    #[test]
    fn the_server_runs_when_the_rest_of_the_period_is_just_enough() {
        let mut s = Server::default();
        let waits = Turned { timer_at: Some(950 * MS), resched: false };
        assert_eq!((s.start(0, R), s.stage), (waits, ServerStage::Waits));
        let runs = Turned { timer_at: None, resched: true };
        assert_eq!((s.expire(950 * MS, R), s.stage), (Some(runs), ServerStage::Runs));
        let spent = Turned { timer_at: Some(1000 * MS), resched: true };
        assert_eq!((s.charge(1000 * MS, 50 * MS, false, R), s.stage), (Some(spent), ServerStage::Spent));
        assert_eq!(s.charge(1000 * MS, 1000, true, R), None, "the way out");
        assert_eq!(
            (s.expire(1000 * MS, R), s.stage),
            (Some(runs), ServerStage::Runs),
            "the next one at once"
        );
        assert_eq!(s.charge(1050 * MS, 50 * MS, false, R).unwrap().timer_at, Some(2000 * MS));
        assert_eq!(
            s.charge(1500 * MS, MS, false, R).unwrap().timer_at,
            Some(2450 * MS),
            "they run without it"
        );
    }

    #[test]
    fn a_server_that_ran_continues_in_proportion_to_the_rest_of_the_period() {
        let mut s = Server::default();
        s.start(0, R);
        s.expire(950 * MS, R);
        s.charge(955 * MS, 5 * MS, false, R);
        s.stop();
        assert_eq!(s.start(960 * MS, R), Turned { timer_at: None, resched: true });
        assert!(s.charge(962 * MS, 2 * MS, false, R).is_some(), "a twentieth of 40 ms");
        s.expire(1000 * MS, R);
        s.charge(1005 * MS, 5 * MS, false, R);
        s.stop();
        s.start(1006 * MS, R);
        assert_eq!(s.charge(1040 * MS, 34 * MS, false, R), None, "early in a period there is enough");
    }

    #[test]
    fn the_server_never_runs_if_fair_tasks_get_their_share() {
        let mut s = Server::default();
        s.start(0, R);
        assert_eq!(s.charge(30 * MS, 30 * MS, false, R), None);
        let anew = s.charge(400 * MS, 20 * MS, false, R).unwrap();
        assert_eq!(anew, Turned { timer_at: Some(1350 * MS), resched: false }, "a period begins anew");
    }

    #[test]
    fn a_timer_that_fires_long_before_is_set_again() {
        let mut s = Server::default();
        s.start(0, R);
        s.charge(100 * MS, 30 * MS, false, R);
        assert_eq!(s.expire(950 * MS, R), Some(Turned { timer_at: Some(980 * MS), resched: false }));
    }

    #[test]
    fn a_server_that_is_restarted_soon_continues_its_period() {
        let mut s = Server::default();
        s.start(0, R);
        s.charge(10 * MS, 10 * MS, false, R);
        s.stop();
        assert_eq!(s.charge(20 * MS, 90 * MS, false, R), None, "nothing is charged to a stopped one");
        assert_eq!(s.start(20 * MS, R).timer_at, Some(960 * MS));
        s.stop();
        assert_eq!(s.start(900 * MS, R).timer_at, Some(1850 * MS), "40 ms of the last 100 would be too much");
    }
}
