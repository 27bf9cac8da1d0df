//! A small hand-made run, read back with the same messages.

use super::messages::{Ftrace, Trace, TracePacket, TrackEventType};
use super::{Perfetto, Run, Side};
use crate::perfetto::message::Message;
use crate::{
    BalanceReason, BalanceTrigger, Cast, Counter, CounterKind, Counters, Event, EventKind, MoveReason,
    PlaceReason, Sink, SwitchReason,
};
use schedlab_base::{CpuId, Ns, TaskId};
use std::collections::{BTreeMap, BTreeSet};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);

fn cast() -> Cast {
    let mut cast = Cast::of_two(["a", "b"], "v4.5", 1000);
    cast.tasks[1].group = Some("/db".to_owned());
    cast
}

/// A runs and wakes B. B is placed on CPU 1, runs there, and is preempted. CPU 1's balancer finds no task.
fn events() -> Vec<Event> {
    use EventKind as K;
    let event = |at, cpu, kind| Event { at: Ns(at), cpu: CpuId(cpu), kind };
    let queued = |task, nr_running, new| K::Enqueued { task, nr_running, new };
    let balance = K::Balance {
        level: 0,
        trigger: BalanceTrigger::ALL[0],
        why: BalanceReason::Hot,
        moved: 0,
        visited: 2,
        took_ns: 40,
        src: Some(CpuId(0)),
    };
    vec![
        event(0, 0, K::Forked { task: A, parent: None }),
        event(0, 0, queued(A, 1, true)),
        event(10, 0, K::IdleExit { exit_ns: 5 }),
        event(20, 0, K::Switch { prev: None, next: Some(A), why: SwitchReason::FromIdle }),
        event(100, 0, K::Forked { task: B, parent: Some(A) }),
        event(110, 1, queued(B, 1, true)),
        event(150, 1, K::Switch { prev: None, next: Some(B), why: SwitchReason::FromIdle }),
        event(200, 1, K::Switch { prev: Some(B), next: None, why: SwitchReason::Blocked }),
        event(250, 1, balance),
        event(300, 0, K::Waking { task: B, waker: Some(A) }),
        event(310, 0, K::Placed { task: B, target: CpuId(0), reason: PlaceReason::TargetBusy, probes: 3 }),
        event(315, 0, K::Migrate { task: B, from: CpuId(1), why: MoveReason::Wakeup }),
        event(320, 0, queued(B, 2, false)),
        event(400, 0, K::Switch { prev: Some(A), next: Some(B), why: SwitchReason::WakeupPreempt }),
        event(700, 0, K::Exited { task: B }),
        event(710, 0, K::Switch { prev: Some(B), next: Some(A), why: SwitchReason::Exited }),
    ]
}

fn file(runs: u8) -> Vec<TracePacket> {
    let cast = cast();
    let casts = vec![&cast; runs.into()];
    let mut file = Perfetto::new(Vec::new(), &casts);
    for number in 0..runs {
        let side = if number == 0 { Side::default() } else { Side::behind(&cast) };
        let side = Side { processes: [(1000, "load".to_owned())].into(), ..side };
        let mut run = Run::new(&mut file, &cast, side, Ns(100));
        events().iter().for_each(|e| run.event(e));
        run.finish();
    }
    Trace::read(&file.finish().unwrap()).unwrap().packet
}

/// CPU time by thread until `end`, from switches alone.
fn running(packets: &[TracePacket], end: u64) -> BTreeMap<i32, u64> {
    let bundles = packets.iter().filter_map(|p| p.ftrace_events.as_ref());
    let mut since: BTreeMap<u32, (u64, i32)> = BTreeMap::new();
    let mut sums = BTreeMap::new();
    for bundle in bundles {
        for (n, switch) in bundle.switches().into_iter().enumerate() {
            let before = since.insert(bundle.cpu.unwrap(), (switch.at, switch.next_pid));
            // Readers drop a compact switch without a previous switch.
            assert_eq!(before.is_none(), n == 0 && switch.prev_pid.is_some(), "the first is a message");
            if let Some((from, tid)) = before.filter(|(_, tid)| *tid != 0) {
                *sums.entry(tid).or_insert(0) += switch.at - from;
            }
        }
    }
    for (from, tid) in since.into_values().filter(|(_, tid)| *tid != 0) {
        *sums.entry(tid).or_insert(0) += end - from;
    }
    sums
}

#[test]
fn the_system_comes_first_and_switches_add_up() {
    let packets = file(1);
    let system = packets[0].system_info.as_ref().unwrap().utsname.as_ref().unwrap();
    assert_eq!(system.release.as_deref(), Some("4.14.0-for-v4.5"));
    assert_eq!(running(&packets, 1000), [(1000, 380 + 290), (1001, 50 + 310)].into());
}

#[test]
fn threads_have_their_process_before_their_first_event() {
    let packets = file(1);
    let tree: Vec<_> =
        packets.iter().filter_map(|p| Some((p.timestamp?, p.process_tree.as_ref()?))).collect();
    assert_eq!(tree.len(), 2, "each thread is told once");
    assert_eq!(tree[0].1.processes[0].cmdline, ["load"]);
    assert!(tree.iter().all(|(_, t)| t.threads[0].tgid == Some(1000)));
    assert!(tree[1].1.processes.is_empty());
    let new =
        packets.iter().filter_map(|p| p.ftrace_events.as_ref()).flat_map(|b| &b.event).find_map(|e| match &e
            .event
        {
            Some(Ftrace::TaskNewtask(new)) => Some((e.timestamp, e.pid, new.clone())),
            _ => None,
        });
    let (at, by, new) = new.unwrap();
    assert_eq!((at, by, new.pid, new.clone_flags), (Some(100), Some(1000), Some(1001), Some(0x10000)));
    assert_eq!(tree[1].0, 101, "a forked thread is told after the fork, or there would be two");
}

#[test]
fn preemption_and_wakeup_have_the_kernels_form() {
    let packets = file(1);
    let all: Vec<_> =
        packets.iter().filter_map(|p| p.ftrace_events.as_ref()).flat_map(|b| &b.event).cloned().collect();
    let bundles = || packets.iter().filter_map(|p| p.ftrace_events.as_ref());
    let mut on: BTreeMap<u32, i32> = BTreeMap::new();
    let mut states = BTreeSet::new();
    for bundle in bundles() {
        for s in bundle.switches() {
            if on.insert(bundle.cpu.unwrap(), s.next_pid).is_some_and(|tid| tid != 0) {
                states.insert((s.at, s.prev_state));
            }
        }
    }
    assert_eq!(states, [(200, 1), (400, 0x100), (710, 0x10)].into());
    let compact =
        bundles().find_map(|b| b.compact_sched.as_ref().filter(|c| !c.waking_pid.is_empty())).unwrap();
    assert_eq!((compact.waking_timestamp[0], compact.waking_pid[0]), (300, 1001));
    assert_eq!((compact.waking_common_flags[0], compact.waking_target_cpu[0]), (0, 1), "where it ran");
    assert_eq!(compact.intern_table[compact.waking_comm_index[0] as usize], "b");
    let idle = all.iter().find_map(|e| match &e.event {
        Some(Ftrace::CpuIdle(idle)) => idle.state,
        _ => None,
    });
    assert_eq!(idle, Some(u32::MAX));
}

/// Track events: time, kind, name, counter.
fn track_events(packets: &[TracePacket]) -> Vec<(u64, i32, String, Option<i64>)> {
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut all = Vec::new();
    for p in packets {
        for name in p.interned_data.iter().flat_map(|d| &d.event_names) {
            assert!(names.insert(name.iid.unwrap(), name.name.clone().unwrap()).is_none(), "told twice");
        }
        let Some(event) = &p.track_event else { continue };
        let name = event.name_iid.map_or(String::new(), |iid| names[&iid].clone());
        all.push((p.timestamp.unwrap(), event.r#type.unwrap(), name, event.counter_value));
    }
    all
}

#[test]
fn tracks_show_reasons_counters_and_flows() {
    let packets = file(1);
    let cleared: Vec<u32> = packets.iter().filter_map(|p| p.sequence_flags).collect();
    assert!(cleared[0] & 1 == 1 && cleared[1..].iter().all(|f| *f == 2), "names begin once");
    let notes: BTreeMap<u64, String> = packets
        .iter()
        .flat_map(|p| p.interned_data.iter().flat_map(|d| d.debug_annotation_names.clone()))
        .map(|n| (n.iid.unwrap(), n.name.unwrap()))
        .collect();
    let placed =
        packets.iter().filter_map(|p| p.track_event.as_ref()).find(|e| e.debug_annotations.len() == 2);
    let said = placed
        .unwrap()
        .debug_annotations
        .iter()
        .map(|n| (notes[&n.name_iid.unwrap()].as_str(), n.uint_value));
    assert_eq!(said.collect::<Vec<_>>(), [("cpu", Some(0)), ("probes", Some(3))]);
    let all = track_events(&packets);
    let named = |words: &str| all.iter().filter(|(_, _, name, _)| name == words).count();
    assert_eq!(
        (named("placed: target_busy"), named("gives way: wakeup"), named("warm-up"), named("measured")),
        (1, 1, 1, 1)
    );
    let counts: Vec<(u64, i64)> = all.iter().filter_map(|(at, _, _, n)| Some((*at, (*n)?))).collect();
    assert_eq!(counts, [(0, 1), (110, 1), (200, 0), (320, 2), (710, 1)]);
    let slice = all.iter().find(|(_, _, name, _)| name.ends_with(": hot")).unwrap();
    assert_eq!((slice.0, slice.1), (210, TrackEventType::SliceBegin as i32));
    let events = || packets.iter().filter_map(|p| p.track_event.as_ref());
    let out: Vec<u64> = events().flat_map(|e| e.flow_ids.0.clone()).collect();
    let end: Vec<u64> = events().flat_map(|e| e.terminating_flow_ids.0.clone()).collect();
    assert_eq!((out.len(), &out), (1, &end), "from the waker to the woken");
    let tracks: Vec<u64> = packets.iter().filter_map(|p| p.track_descriptor.as_ref()?.uuid).collect();
    assert_eq!(tracks.iter().collect::<BTreeSet<_>>().len(), tracks.len());
    assert!(events().all(|e| tracks.contains(&e.track_uuid.unwrap())));
}

#[test]
fn a_waker_that_left_before_the_switch_is_named_all_the_same() {
    use EventKind as K;
    let event = |at, cpu, kind| Event { at: Ns(at), cpu: CpuId(cpu), kind };
    let into = |next| K::Switch { prev: None, next: Some(next), why: SwitchReason::FromIdle };
    let away = |prev| K::Switch { prev: Some(prev), next: None, why: SwitchReason::Blocked };
    let cast = cast();
    let mut file = Perfetto::new(Vec::new(), &[&cast]);
    let mut run = Run::new(&mut file, &cast, Side::default(), Ns(0));
    let waking = K::Waking { task: A, waker: Some(B) };
    // B wakes A while A is going to sleep, and leaves its own CPU before A has left the other.
    for e in [
        event(1, 0, into(A)),
        event(1, 1, into(B)),
        event(5, 1, waking),
        event(7, 1, away(B)),
        event(9, 0, away(A)),
    ] {
        run.event(&e);
    }
    run.finish();
    let packets = Trace::read(&file.finish().unwrap()).unwrap().packet;
    let events = packets.iter().filter_map(|p| p.ftrace_events.as_ref()).flat_map(|b| &b.event);
    let told: Vec<_> = events
        .filter(|e| matches!(e.event, Some(Ftrace::SchedWaking(_))))
        .map(|e| (e.timestamp, e.pid))
        .collect();
    assert_eq!(told, [(Some(10), Some(1001))]);
}

#[test]
fn counters_have_tracks_of_their_own_below_their_kind_s() {
    let cast = cast();
    let mut file = Perfetto::new(Vec::new(), &[&cast]);
    let wanted = Counters::NONE.and(CounterKind::Lag).and(CounterKind::Load);
    let mut run = Run::new(&mut file, &cast, Side::default(), Ns(0)).counting(wanted);
    assert_eq!(run.wants_counters(), wanted);
    run.counter(Ns(5), Counter::Lag(B), -70);
    run.counter(Ns(6), Counter::Load(CpuId(1)), 1024);
    run.counter(Ns(7), Counter::Slice(B), 3);
    run.finish();
    let packets = Trace::read(&file.finish().unwrap()).unwrap().packet;
    let values: Vec<i64> = packets.iter().filter_map(|p| p.track_event.as_ref()?.counter_value).collect();
    assert_eq!(values, [-70, 1024], "the slice was not asked for");
    let of = |name: &str| {
        packets
            .iter()
            .filter_map(|p| p.track_descriptor.as_ref())
            .find(|d| d.name.as_deref() == Some(name))
            .unwrap()
    };
    assert_eq!(of("lag b 1001").parent_uuid, of("lag").uuid);
    assert_eq!(of("load 1").counter.as_ref().unwrap().unit, Some(2));
}

#[test]
fn two_runs_have_their_own_cpus_threads_and_tracks() {
    let (one, two) = (file(1), file(2));
    let sums = running(&two, 1000);
    assert_eq!(sums, [(1000, 670), (1001, 360), (11_000, 670), (11_001, 360)].into());
    let cpus: BTreeSet<u32> = two.iter().filter_map(|p| p.ftrace_events.as_ref()?.cpu).collect();
    assert_eq!(cpus, [0, 1, 2, 3].into());
    assert_eq!(track_events(&two).len(), 2 * track_events(&one).len());
    let flows: Vec<u64> =
        two.iter().filter_map(|p| p.track_event.as_ref()).flat_map(|e| e.flow_ids.0.clone()).collect();
    assert_eq!(flows, [1, 2]);
}

#[test]
fn after_a_loss_a_switch_is_a_message_again() {
    let cast = cast();
    let mut file = Perfetto::new(Vec::new(), &[&cast]);
    let mut run = Run::new(&mut file, &cast, Side::default(), Ns(100));
    let mut add = |at, kind| run.event(&Event { at: Ns(at), cpu: CpuId(0), kind });
    let why = SwitchReason::Preempted;
    add(10, EventKind::Switch { prev: None, next: Some(A), why });
    add(20, EventKind::Switch { prev: Some(A), next: Some(B), why });
    add(30, EventKind::Lost { count: 4 });
    add(40, EventKind::Switch { prev: Some(A), next: Some(B), why });
    run.finish();
    let packets = Trace::read(&file.finish().unwrap()).unwrap().packet;
    let bundles: Vec<_> = packets.iter().filter_map(|p| p.ftrace_events.as_ref()).collect();
    let lost: Vec<bool> = bundles.iter().map(|b| b.lost_events.unwrap_or(false)).collect();
    assert_eq!(lost, [false, true]);
    let first = bundles[1].switches()[0].prev_pid;
    assert_eq!(first, Some(1000), "not B, which was the last before the loss");
}

#[test]
fn failures_to_write_are_reported_at_the_end() {
    let cast = cast();
    let mut file = Perfetto::new(std::fs::File::options().write(true).open("/dev/full").unwrap(), &[&cast]);
    let mut run = Run::new(&mut file, &cast, Side::default(), Ns(0));
    events().iter().for_each(|e| run.event(e));
    run.finish();
    assert!(file.finish().is_err());
}
