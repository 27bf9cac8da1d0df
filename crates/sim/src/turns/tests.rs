//! The rule compared with the turns of a real guest.

use schedlab_base::CpuId;
use schedlab_board::engine::NEVER;
use schedlab_board::ring::{Next, Ring};

/// Turns of a ring in which the CPUs of `busy` use all their time, from `now` on: each turn's CPU, and when it ended.
fn turns(ring: &mut Ring, busy: &[u32], mut now: u64, n: usize) -> Vec<(u32, u64)> {
    let mut seen = Vec::new();
    while seen.len() < n {
        match ring.next(now, |c| busy.contains(&c.0)) {
            Next::Turn { cpu, until } => {
                now = until;
                seen.push((cpu.0, until));
            }
            Next::Leap(to) => now = to,
        }
    }
    seen
}

/// Last clock readings, ns, of seven spinning threads on CPUs 1 to 7 of 8 in each of their turns, kernel 6.1 in QEMU
/// 10.0.2 with `-icount shift=0,sleep=off`. Each turn continues after its reading for less than another one (90 ns). A
/// timer of the emulator's own went off before these turns, and the next tick came after them.
const SEEN: [(u32, u64); 21] = [
    (3, 46_705_978),
    (4, 46_867_713),
    (5, 47_009_285),
    (6, 47_133_094),
    (7, 47_241_473),
    (1, 47_336_293),
    (2, 47_431_131),
    (3, 47_525_926),
    (4, 47_620_727),
    (5, 47_715_583),
    (6, 47_810_367),
    (7, 47_905_201),
    (1, 47_917_029),
    (2, 47_928_899),
    (3, 47_940_732),
    (4, 47_952_571),
    (5, 47_964_465),
    (6, 47_976_287),
    (7, 47_988_159),
    (1, 47_989_628),
    (2, 47_991_133),
];

#[test]
fn seven_busy_cpus_of_eight_take_the_turns_that_a_guest_was_seen_to_take() {
    // The times of the alarm and of the tick were not seen directly; they follow from the lengths of the first turn and
    // of the last rounds.
    let (alarm, tick) = (46_521_185, 48_000_060);
    let mut ring = Ring::new(8, 4_000_000, alarm);
    ring.reset(CpuId(1), tick);
    // CPU 1 has run to the alarm; CPU 2, whose turn it would be, loses it.
    assert_eq!(turns(&mut ring, &[1], alarm - 7, 1), [(1, alarm)]);
    let seen = turns(&mut ring, &[1, 2, 3, 4, 5, 6, 7], alarm, SEEN.len());
    for ((cpu, until), (seen_cpu, last_read)) in seen.into_iter().zip(SEEN) {
        assert_eq!(cpu, seen_cpu);
        assert!((last_read..last_read + 90).contains(&until), "cpu{cpu}: {until} and not {last_read}");
    }
}

#[test]
fn setting_the_next_timer_of_all_ends_a_turn_and_setting_a_later_one_does_not() {
    let mut ring = Ring::new(4, 0, 0);
    (0..4).for_each(|c| ring.reset(CpuId(c), 4_000_000));
    assert_eq!(turns(&mut ring, &[0, 1, 2, 3], 0, 1), [(0, 1_000_000)]);
    assert!(!ring.set(CpuId(0), 5_000_000));
    assert!(!ring.set(CpuId(0), 4_000_000), "behind those of the same time");
    assert!(ring.set(CpuId(0), 1_200_000));
    // Each CPU that looks up gets a new share of the time left until then.
    assert_eq!(turns(&mut ring, &[0, 1, 2, 3], 1_000_000, 2), [(1, 1_050_000), (2, 1_087_500)]);
}

#[test]
fn halted_cpus_are_passed_over_but_count_when_shares_are_reckoned() {
    let mut ring = Ring::new(8, 0, 0);
    ring.reset(CpuId(7), 800);
    assert_eq!(turns(&mut ring, &[5], 0, 3), [(5, 100), (5, 187), (5, 263)]);
}

#[test]
fn when_all_are_halted_the_clock_leaps_to_the_next_timer() {
    let mut ring = Ring::new(2, 0, 0);
    ring.reset(CpuId(1), 500);
    assert_eq!(ring.next(20, |_| false), Next::Leap(500));
    assert_eq!(ring.next(20, |_| false), Next::Leap(500), "looking changes nothing");
    assert!(matches!(ring.next(500, |c| c.0 == 1), Next::Turn { cpu: CpuId(1), .. }));
    let mut nothing = Ring::new(2, 0, 0);
    assert_eq!(nothing.next(0, |_| false), Next::Leap(NEVER));
}
