//! Priorities, slices and weights by nice value (`NICE_TO_PRIO`, `task_timeslice`, `PRIO_TO_LOAD_WEIGHT`).
//!
//! Priorities 0 to 99 are real-time, 100 to 139 are nice -20 to 19; the lower the better. Slices are ticks: 800 ms at
//! nice -20, 100 ms at nice 0, 5 ms at nice 19. Read in 2.6.12 and 2.6.18, whose slices are the same.

/// The best priority of an ordinary task (`MAX_RT_PRIO`).
pub const MAX_RT_PRIO: u8 = 100;
/// One more than the worst priority; the idle task has it (`MAX_PRIO`).
pub const MAX_PRIO: u8 = 140;
/// Number of priorities of ordinary tasks (`MAX_USER_PRIO`).
const MAX_USER_PRIO: u64 = 40;
const NICE_0_PRIO: u8 = 120;
/// The load of a task of nice 0 that is always runnable. The kernel's SCHED_LOAD_SCALE is 128 here.
pub const ONE_TASK: u64 = 1024;

/// The priority of a nice value (`static_prio`).
#[inline]
pub fn static_prio(nice: i8) -> u8 {
    (i16::from(NICE_0_PRIO) + i16::from(nice)).clamp(i16::from(MAX_RT_PRIO), i16::from(MAX_PRIO) - 1) as u8
}

#[inline]
pub fn nice(static_prio: u8) -> i64 {
    i64::from(static_prio) - i64::from(NICE_0_PRIO)
}

/// The slice of nice 0, ticks (`DEF_TIMESLICE`).
#[inline]
pub fn default_slice(hz: u64) -> u64 {
    100 * hz / 1000
}

/// The slice of a task, ticks (`task_timeslice`).
#[inline]
pub fn slice(static_prio: u8, hz: u64) -> u64 {
    let least = (5 * hz / 1000).max(1);
    let times = if static_prio < NICE_0_PRIO { 4 } else { 1 };
    let below = u64::from(MAX_PRIO - static_prio);
    (times * default_slice(hz) * below / (MAX_USER_PRIO / 2)).max(least)
}

/// The load of a task by its slice (smpnice, 2.6.18): the kernel's whole 128ths, as 1024ths.
#[inline]
pub fn weight(static_prio: u8, hz: u64) -> u64 {
    slice(static_prio, hz) * 128 / default_slice(hz) * (ONE_TASK / 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_800_ms_at_nice_minus_20_100_at_0_and_5_at_19() {
        let ms = |nice: i8| slice(static_prio(nice), 1000);
        assert_eq!([-20, -10, -1, 0, 1, 10, 19].map(ms), [800, 600, 420, 100, 95, 50, 5]);
        assert_eq!([-20i8, 0, 19].map(|n| slice(static_prio(n), 250)), [200, 25, 1]);
        assert_eq!(slice(static_prio(19), 100), 1, "at least a tick");
    }

    #[test]
    fn a_nice_value_is_a_priority_from_100_to_139() {
        assert_eq!([-20i8, 0, 19].map(static_prio), [100, 120, 139]);
        assert!((-20..=19i8).all(|n| nice(static_prio(n)) == i64::from(n)));
    }

    #[test]
    fn a_task_of_nice_0_weighs_1024_and_others_by_their_slices() {
        let of = |nice: i8| weight(static_prio(nice), 1000);
        assert_eq!([-20, 0, 10, 19].map(of), [8192, 1024, 512, 48]);
    }
}
