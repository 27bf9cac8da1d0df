//! `wake_wide`: a waker with many wakees, or the reverse, should not pull them all to its own CPU (3.12+).
//!
//! Every task counts how often it woke a task other than the time before (`wakee_flips`), halved about once a second.
//! The factor is the size of the waker's LLC (`sd_llc_size`).

use schedlab_base::TaskId;
use schedlab_kernel::History;

/// A task's record of its wakees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flips {
    /// How often the wakee changed, decayed (`wakee_flips`).
    pub count: u32,
    last: Option<TaskId>,
    decayed_at_ns: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

/// The owner of `flips` wakes `wakee`. The count is first halved if more than a second has passed since the last
/// halving; only once, even after several seconds.
pub fn record_wakee(flips: &mut Flips, wakee: TaskId, now_ns: u64) {
    if now_ns > flips.decayed_at_ns + SECOND_NS {
        flips.count /= 2;
        flips.decayed_at_ns = now_ns;
    }
    if flips.last != Some(wakee) {
        flips.last = Some(wakee);
        flips.count = flips.count.saturating_add(1);
    }
}

/// Whether waker and wakee form a one-to-many relation too wide for `factor` CPUs, so that the wakeup is not affine.
///
/// The first kernels: the wakee's flips exceed `factor`, and the waker's exceed `factor` times the wakee's. With
/// `symmetric_wake_wide`: the smaller count is at least `factor`, and the larger at least `factor` times the smaller.
pub fn wake_wide(waker_flips: u32, wakee_flips: u32, factor: u32, history: &History) -> bool {
    let (waker, wakee, factor) = (u64::from(waker_flips), u64::from(wakee_flips), u64::from(factor));
    if !history.wake_wide {
        return false;
    }
    if !history.symmetric_wake_wide {
        return wakee > factor && waker > factor * wakee;
    }
    let (master, slave) = (waker.max(wakee), waker.min(wakee));
    slave >= factor && master >= slave * factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    const V45: &History = &History::of(Version::new(4, 5));

    #[test]
    fn flips_count_changes_of_wakee_and_halve_once_a_second() {
        let mut flips = Flips::default();
        for task in [1, 1, 2, 2, 1, 3] {
            record_wakee(&mut flips, TaskId(task), 10);
        }
        assert_eq!(flips.count, 4);
        record_wakee(&mut flips, TaskId(3), SECOND_NS);
        assert_eq!(flips.count, 4, "a second, not more");
        record_wakee(&mut flips, TaskId(3), SECOND_NS + 1);
        assert_eq!(flips.count, 2);
        record_wakee(&mut flips, TaskId(3), 100 * SECOND_NS);
        assert_eq!(flips.count, 1, "only once however long");
    }

    #[test]
    fn schbench_is_never_wide() {
        // The message thread wakes 24 workers in turn every 64 ms; each worker wakes only the message thread.
        let (mut message, mut worker) = (Flips::default(), Flips::default());
        for round in 0..1000u64 {
            let now = round * 64_000_000;
            (1..=24).for_each(|w| record_wakee(&mut message, TaskId(w), now));
            record_wakee(&mut worker, TaskId(0), now);
        }
        assert!(message.count > 24 * 15, "{}", message.count);
        assert!(worker.count <= 1);
        for version in [Version::new(3, 12), Version::new(4, 5), Version::new(6, 5)] {
            let history = &History::of(version);
            assert!(!wake_wide(message.count, worker.count, 24, history));
            assert!(!wake_wide(worker.count, message.count, 24, history));
        }
    }

    #[test]
    fn the_eras_differ_at_the_edges_and_in_symmetry() {
        let old = &History::of(Version::new(4, 2));
        assert!(wake_wide(16, 4, 4, V45) && wake_wide(4, 16, 4, V45), "either may be the master");
        assert!(!wake_wide(15, 4, 4, V45) && !wake_wide(100, 3, 4, V45));
        assert!(!wake_wide(16, 4, 4, old) && wake_wide(21, 5, 4, old) && !wake_wide(5, 21, 4, old));
        assert!(!wake_wide(1000, 1000, 1, &History::of(Version::new(3, 4))), "3.4 has no wake_wide");
    }
}
