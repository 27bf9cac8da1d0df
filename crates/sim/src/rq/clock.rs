//! A runqueue's clock (`rq_clock`): the time by which the lock holder charges and compares, ns.
//!
//! A CPU that takes a runqueue's lock reads the time once (`update_rq_clock`) and uses that reading until it is done.
//! `schedule()` charges the previous task up to its own beginning and the next task from there on, so its own time is
//! charged to the next task. After a wakeup that requests a switch, the next `schedule()` does not read the time again
//! (2.6.37+, `skip_clock_update`; since 4.0 `rq_clock_skip_update`). So a preempting task, and also a task woken on an
//! idle CPU, is charged from its wakeup on.
//!
//! Invariant: the clock never goes back. It shows the present time while the lock is free.

use schedlab_kernel::History;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ClockState {
    /// The lock is free.
    #[default]
    Runs,
    /// The lock is free, but the next `schedule()` will not read the time.
    Kept,
    /// The lock is held, and its holder uses the last reading.
    Held,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RqClock {
    /// The last reading, ns.
    seen_ns: u64,
    state: ClockState,
}

impl RqClock {
    /// The time that the lock holder sees; `now` if the lock is free.
    #[inline]
    pub fn read(&self, now: u64) -> u64 {
        if self.state == ClockState::Held { self.seen_ns } else { now }
    }

    /// Whether the lock is held.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.state == ClockState::Held
    }

    /// Reads the time `at` during other work; a lock holder sees that reading from then on.
    #[inline]
    pub fn look(&mut self, history: &History, at: u64) {
        // A request to skip the next reading (RQCF_REQ_SKIP) does not prevent such a reading.
        if self.state != ClockState::Kept || history.kept_clock_moves {
            self.seen_ns = self.seen_ns.max(at);
        }
    }

    /// A lock holder has held the lock since `at`, and enqueues at that time. Returns the argument for
    /// [`RqClock::end`].
    #[inline]
    pub fn begin(&mut self, history: &History, at: u64) -> Enqueuing {
        let before = self.state;
        self.look(history, at);
        self.state = ClockState::Held;
        Enqueuing(before)
    }

    /// The task is enqueued. `asked`: whether a switch was requested, and the running task is on its queue.
    #[inline]
    pub fn end(&mut self, history: &History, begun: Enqueuing, asked: bool) {
        // `skip_clock_update` and its successors test whether the running task is queued.
        self.state = match begun.0 {
            ClockState::Runs if asked && history.clock_kept => ClockState::Kept,
            before => before,
        };
    }

    /// `schedule()` begins: it reads the time, unless the last holder of the lock has prevented that.
    #[inline]
    pub fn hold(&mut self, now: u64) {
        if self.state == ClockState::Runs {
            debug_assert!(now >= self.seen_ns, "a runqueue's clock goes back from {} to {now}", self.seen_ns);
            self.seen_ns = now;
        }
        self.state = ClockState::Held;
    }

    #[inline]
    pub fn release(&mut self) {
        self.state = ClockState::Runs;
    }
}

/// The clock's state before an enqueue.
#[must_use]
pub struct Enqueuing(ClockState);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep_tests::with_system;
    use schedlab_base::CpuId;
    use schedlab_base::Version;
    use schedlab_trace::SwitchReason;

    const NEW: &History = &History::of(Version::new(6, 1));

    fn of(version: &str) -> History {
        History::of(Version::parse(version).expect("a version"))
    }

    fn woken(history: &History, asked: bool) -> RqClock {
        let mut clock = RqClock::default();
        let begun = clock.begin(history, 100);
        assert_eq!(clock.read(150), 100, "the enqueue goes by what was seen as the lock was taken");
        clock.end(history, begun, asked);
        assert_eq!(clock.read(160), 160);
        clock
    }

    #[test]
    fn schedule_uses_the_time_of_its_beginning() {
        let mut clock = woken(NEW, false);
        clock.hold(200);
        assert_eq!(clock.read(300), 200);
        clock.release();
        assert_eq!(clock.read(300), 300);
    }

    #[test]
    fn a_switch_requested_by_a_wakeup_uses_its_time_since_2_6_37() {
        for (version, at) in [("2.6.36", 200), ("2.6.37", 100), ("6.1", 100)] {
            let mut clock = woken(&of(version), true);
            clock.hold(200);
            assert_eq!(clock.read(300), at, "{version}");
            clock.release();
            clock.hold(400);
            assert_eq!(clock.read(500), 400, "{version}: once only");
        }
    }

    #[test]
    fn a_reading_in_passing_moves_a_kept_clock_since_4_0() {
        for (version, at) in [("3.19", 100), ("4.0", 180)] {
            let mut clock = woken(&of(version), true);
            clock.look(&of(version), 180);
            clock.hold(200);
            assert_eq!(clock.read(300), at, "{version}");
        }
    }

    #[test]
    fn a_pull_moves_the_clock_of_the_schedule_under_way_and_an_enqueue_leaves_it_held() {
        let mut clock = RqClock::default();
        clock.hold(200);
        clock.look(NEW, 250);
        assert_eq!(clock.read(300), 250);
        let begun = clock.begin(NEW, 260);
        clock.end(NEW, begun, true);
        assert_eq!(clock.read(300), 260);
        clock.release();
        clock.hold(400);
        assert_eq!(clock.read(500), 400);
    }

    #[test]
    fn the_clock_never_goes_back() {
        let mut clock = RqClock::default();
        clock.hold(200);
        clock.release();
        let begun = clock.begin(NEW, 150);
        assert_eq!(clock.read(300), 200, "the lock was had only after that");
        clock.end(NEW, begun, false);
    }

    #[test]
    fn a_wakee_that_was_pulled_away_leaves_no_old_clock_behind() {
        for version in ["v3.4", "v6.1"] {
            with_system(version, |sys| {
                let cpu = CpuId(0);
                let begun = sys.begin_enqueue(cpu, 900);
                sys.cpus[CpuId(0)].need_resched = Some(SwitchReason::WakeupPreempt);
                sys.end_enqueue(cpu, begun);
                assert_eq!(sys.cpus[CpuId(0)].clock.state, ClockState::Kept);
                sys.now = 5_000_000;
                sys.idle_loop(cpu);
                let begun = sys.begin_enqueue(cpu, sys.now);
                assert_eq!(sys.rq_clock(cpu), 5_000_000, "{version}");
                sys.end_enqueue(cpu, begun);
            });
        }
    }
}
