//! Records in the kernel's form, and a few threads with known stays.

use super::*;
use schedlab_base::testing::skipped;

const CPU: CpuId = CpuId(3);

/// A record's bytes after its header: `before`, then process 7, `thread` and `at`.
fn bytes(before: &[u64], thread: u32, at: u64) -> Vec<u8> {
    let numbers = before.iter().flat_map(|n| n.to_ne_bytes());
    let ids = [7u32, thread].into_iter().flat_map(u32::to_ne_bytes);
    numbers.chain(ids).chain(at.to_ne_bytes()).collect()
}

#[test]
fn a_record_has_thread_time_and_reason() {
    let of = |misc: u16| RingRecord::parse(RECORD_SWITCH, misc, &bytes(&[], 42, 1_000), CPU);
    let seen = |way| RingRecord::Switch(Switch { at_ns: 1_000, thread: 42, cpu: CPU, way });
    let (out, preempt) = (MISC_SWITCH_OUT, MISC_SWITCH_OUT_PREEMPT);
    assert_eq!([of(0), of(out), of(out | preempt)], [Way::In, Way::Slept, Way::Preempted].map(seen));
    assert_eq!(RingRecord::parse(RECORD_LOST, 0, &bytes(&[99, 12], 42, 1_000), CPU), RingRecord::Lost(12));
    assert_eq!(RingRecord::parse(3, 0, &bytes(&[1], 42, 1_000), CPU), RingRecord::Other);
    assert_eq!(RingRecord::parse(RECORD_SWITCH, 0, &[0; 15], CPU), RingRecord::Other);
}

#[test]
fn only_a_high_rate_is_too_fast() {
    let second = 1_000_000_000;
    assert!(!too_fast(2 * MOST_PER_S, second) && too_fast(2 * MOST_PER_S + 1, second));
    assert!(!too_fast(LEAST_FOR_A_RATE - 1, 1), "too few to tell");
}

#[test]
fn a_thread_seen_late_gets_an_id_of_its_own() {
    let mut threads = BTreeMap::from([(10, TaskId(0)), (11, TaskId(2))]);
    let ids: Vec<u32> = [11, 50, 51, 50].map(|t| task_of(&mut threads, t, 4).0).into();
    assert_eq!(ids, [2, 1, 3, 1]);
    assert_eq!(task_of(&mut threads, 52, 4), TaskId(4), "beyond all that were declared");
}

/// The findings while `body` runs on its own thread, which inherits the events.
fn of_a_thread(body: impl FnOnce() + Send) -> Option<ObserverFindings> {
    let cpus = sys::affinity().unwrap();
    let mut stays = OnCpuRecorder::open(&cpus, &["task".to_owned()]);
    stays.measure(std::iter::empty());
    std::thread::scope(|s| s.spawn(body).join().unwrap());
    stays.close(sys::monotonic_ns(), std::iter::empty());
    let found = stays.found();
    match found.unmeasured.get("slice") {
        // This machine can't record switches; then there is a reason.
        Some(why) => {
            assert!(why.contains("can't be recorded"), "{why}");
            skipped(format!("switches of one's own tasks: {why}"));
            None
        }
        None => Some(found),
    }
}

#[test]
fn stays_end_as_the_thread_ended_them() {
    // A timer that fires before the thread sleeps does not end a stay; the kernel's own count shows how often that
    // happened.
    let mut voluntary = 0;
    let slept = of_a_thread(|| {
        for _ in 0..50 {
            sys::sleep_for(2_000_000);
        }
        voluntary = sys::thread_usage().voluntary;
    });
    let Some(found) = slept else { return };
    let blocked = found.seen.counters.get("slice.end.blocked").copied().unwrap_or(0);
    // The thread's end and the waits at its beginning are voluntary, too.
    assert!((voluntary..=voluntary + 2).contains(&blocked), "{voluntary}: {:?}", found.seen.counters);
    let slices = &found.seen.series["slice"];
    assert!(
        voluntary >= 40
            && slices.count() >= voluntary
            && slices.sum() < 5_000_000_000
            && found.seen.warnings.is_empty()
    );
}

#[test]
fn stays_add_up_to_the_time_on_a_cpu() {
    let mut used = (0, 0);
    let mut cpu_ns = 0;
    let found = of_a_thread(|| {
        used.0 = sys::thread_usage().involuntary + sys::thread_usage().voluntary;
        let from = sys::thread_cpu_ns();
        let end = sys::monotonic_ns() + 200_000_000;
        while sys::monotonic_ns() < end {
            std::hint::spin_loop();
        }
        sys::sleep_for(1_000);
        cpu_ns = sys::thread_cpu_ns() - from;
        used.1 = sys::thread_usage().involuntary + sys::thread_usage().voluntary;
    });
    let Some(found) = found else { return };
    let sum = u64::try_from(found.seen.series["slice"].sum()).unwrap();
    // The stays include the thread's beginning, the reading does not; a hypervisor may take time from both.
    assert!(sum * 100 > cpu_ns * 97 && sum < cpu_ns + 30_000_000, "{sum} of {cpu_ns}");
    let ends: u64 = found.seen.counters.values().sum();
    assert!(ends >= used.1 - used.0 && ends <= used.1 + 2, "{ends} of {used:?}");
}
