//! A file returns the written items; damage gives one error and never a panic.

use super::*;
use crate::{
    BalanceReason, BalanceTrigger, DsqId, EventKind, ExtOp, ExtQueue, Keep, KickReason, MoveReason,
    PlaceReason, Sink, SkipReason, SwitchReason,
};
use proptest::prelude::*;
use proptest::sample::select;
use schedlab_base::CpuId;
use std::io::Cursor;
use std::path::Path;

fn task() -> impl Strategy<Value = TaskId> {
    prop_oneof![0..300u32, 0..1u32 << 22].prop_map(TaskId)
}
fn maybe_task() -> impl Strategy<Value = Option<TaskId>> {
    proptest::option::of(task())
}
fn cpu() -> impl Strategy<Value = CpuId> {
    prop_oneof![0..300u32, 0..schedlab_base::cpuset::MAX_CPUS].prop_map(CpuId)
}

fn kind() -> impl Strategy<Value = EventKind> {
    use EventKind as K;
    prop_oneof![
        (maybe_task(), maybe_task(), select(SwitchReason::ALL)).prop_map(|(prev, next, why)| K::Switch {
            prev,
            next,
            why
        }),
        (task(), maybe_task()).prop_map(|(task, waker)| K::Waking { task, waker }),
        (task(), cpu(), select(PlaceReason::ALL), any::<u16>())
            .prop_map(|(task, target, reason, probes)| K::Placed { task, target, reason, probes }),
        (task(), any::<u16>(), any::<bool>()).prop_map(|(task, nr_running, new)| K::Enqueued {
            task,
            nr_running,
            new
        }),
        (task(), cpu(), select(MoveReason::ALL)).prop_map(|(task, from, why)| K::Migrate { task, from, why }),
        (task(), maybe_task()).prop_map(|(task, parent)| K::Forked { task, parent }),
        task().prop_map(|task| K::Exited { task }),
        any::<u32>().prop_map(|count| K::Lost { count }),
        any::<u8>().prop_map(|state| K::IdleEnter { state }),
        any::<u32>().prop_map(|exit_ns| K::IdleExit { exit_ns }),
        (
            any::<u8>(),
            select(BalanceTrigger::ALL),
            select(BalanceReason::ALL),
            any::<(u16, u16, u32)>(),
            proptest::option::of(cpu())
        )
            .prop_map(|(level, trigger, why, (moved, visited, took_ns), src)| K::Balance {
                level,
                trigger,
                why,
                moved,
                visited,
                took_ns,
                src
            }),
        (any::<u8>(), select(SkipReason::ALL), any::<(u32, u32)>())
            .prop_map(|(level, why, (have_ns, need_ns))| K::Skip { level, why, have_ns, need_ns }),
        (select(KickReason::ALL), proptest::option::of(cpu())).prop_map(|(why, to)| K::Kick { why, to }),
        (task(), select(ExtOp::ALL), select(ExtQueue::ALL), any::<u64>())
            .prop_map(|(task, by, to, dsq)| { K::Decided { task, by, to, dsq: DsqId::new(dsq) } }),
        any::<bool>().prop_map(|carries| K::Schedule { carries }),
        Just(K::Stay),
        (task(), any::<u32>()).prop_map(|(task, mask)| K::Allowed { task, mask }),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let at = || prop_oneof![0..10_000_000u64, any::<u64>()].prop_map(Ns);
    prop_oneof![
        9 => (at(), cpu(), kind()).prop_map(|(at, cpu, kind)| Item::Event(Event { at, cpu, kind })),
        1 => (at(), task(), any::<u16>(), any::<u64>())
            .prop_map(|(at, task, series, value)| Item::Sample { at, task, series, value }),
    ]
}

fn cast() -> Cast {
    Cast::of_two(["a", "b \u{e9}"], "6.1.192", 99)
}

fn write(items: &[Item], sink: &mut impl Sink) {
    for item in items {
        match *item {
            Item::Event(event) => sink.event(&event),
            Item::Sample { at, task, series, value } => sink.sample(at, task, series, value),
        }
    }
}

fn written(items: &[Item]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    write(items, &mut writer);
    writer.measured_from(Ns(7));
    let (bytes, events) = (writer.bytes(), writer.events());
    let whole = writer.finish(cast()).unwrap();
    assert!(bytes < whole.len() as u64 && events <= items.len() as u64);
    whole
}

fn read(bytes: &[u8]) -> schedlab_base::Result<Vec<Item>> {
    Reader::of(Cursor::new(bytes), Path::new("events.slt"))?.items().collect()
}

proptest! {
    #[test]
    fn everything_comes_back_in_order(items in proptest::collection::vec(item(), 0..400)) {
        let bytes = written(&items);
        let mut reader = Reader::of(Cursor::new(&bytes), Path::new("x")).unwrap();
        prop_assert_eq!(reader.cast(), &cast());
        prop_assert_eq!(reader.close().measured_from, Ns(7));
        let (events, samples) = (reader.close().events, reader.close().samples);
        prop_assert_eq!((events + samples) as usize, items.len());
        for _ in 0..2 {
            let back: Vec<Item> = reader.items().map(Result::unwrap).collect();
            prop_assert_eq!(&back, &items);
        }
    }

    #[test]
    fn a_cut_file_is_an_error(
        items in proptest::collection::vec(item(), 1..200),
        at in any::<prop::sample::Index>(),
    ) {
        let bytes = written(&items);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(read(cut).is_err());
    }

    #[test]
    fn a_wrong_byte_is_found(
        items in proptest::collection::vec(item(), 1..100),
        at in any::<prop::sample::Index>(),
        by in 1..=255u8,
    ) {
        let mut bytes = written(&items);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        prop_assert!(read(&bytes).is_err());
    }
}

#[test]
fn blocks_follow_each_other_and_an_error_names_its_place() {
    let items: Vec<Item> = (0..60_000u64)
        .map(|i| {
            let kind = EventKind::Waking { task: TaskId(i as u32 % 9), waker: None };
            Item::Event(Event { at: Ns(i * 1000), cpu: CpuId(i as u32 % 224), kind })
        })
        .collect();
    let mut bytes = written(&items);
    assert!(bytes.len() < items.len() * 8, "{} bytes", bytes.len());
    assert_eq!(read(&bytes).unwrap(), items);
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    let mut kept = Keep::default();
    let e = Reader::of(Cursor::new(&bytes), Path::new("events.slt")).unwrap().replay(&mut kept).unwrap_err();
    assert!(e.to_string().starts_with("events.slt: damaged at byte "), "{e}");
    assert!(e.message().ends_with("a checksum is wrong"), "{e}");
    assert!(kept.events.len() > 10_000 && kept.events.len() < items.len());
}

#[test]
fn details_go_only_to_sinks_that_ask() {
    let event = |kind| Item::Event(Event { at: Ns(1), cpu: CpuId(0), kind });
    let items = [event(EventKind::Stay), event(EventKind::Exited { task: TaskId(0) })];
    let mut keep = Keep::default();
    Reader::of(Cursor::new(written(&items)), Path::new("x")).unwrap().replay(&mut keep).unwrap();
    assert_eq!(keep.events.len(), 1);
}

#[test]
fn other_files_are_refused_by_name() {
    let said = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(said(b"").contains("events.slt: no file of events"), "{}", said(b""));
    assert!(said(b"{\"schema\": 1}").contains("no file of events"));
    assert!(said(b"SLTEVT9\nxxxxxxxxxxxxxxxx").contains("another version"));
}

#[test]
fn a_reason_that_this_version_has_no_more_is_an_error_only_where_it_occurs() {
    let bytes = written(&[Item::Event(Event {
        at: Ns(1),
        cpu: CpuId(0),
        kind: EventKind::Switch { prev: None, next: None, why: SwitchReason::FairServer },
    })]);
    // The same file, as another version would write it.
    let head_length = u32::from_le_bytes(bytes[9..13].try_into().unwrap()) as usize;
    let head = std::str::from_utf8(&bytes[17..17 + head_length]).unwrap();
    let with = |head: String| {
        let mut all = bytes[..9].to_vec();
        all.extend((head.len() as u32).to_le_bytes());
        all.extend(crc32fast::hash(head.as_bytes()).to_le_bytes());
        all.extend(head.as_bytes());
        all.extend(&bytes[17 + head_length..]);
        all
    };
    let e = read(&with(head.replace("fair_server", "fair_serves"))).unwrap_err();
    assert!(e.message().contains("a reason that this version does not know"), "{e}");
    assert_eq!(read(&with(head.replace("\"slice\"", "\"SLICE\""))).unwrap().len(), 1);
}

#[test]
fn a_number_that_would_take_memory_is_damage() {
    for (task, cpu) in [(u32::MAX, 0), (0, u32::MAX), (1 << 22, 0)] {
        let kind = EventKind::Exited { task: TaskId(task) };
        let e = read(&written(&[Item::Event(Event { at: Ns(1), cpu: CpuId(cpu), kind })])).unwrap_err();
        assert!(e.message().contains("a number is too large"), "{e}");
    }
}

#[test]
fn a_cast_that_is_longer_than_a_section_comes_back() {
    let long = |tid| crate::Actor {
        name: "x".repeat(1 << 20),
        tid,
        process: 0,
        background: false,
        prio: 120,
        group: None,
    };
    let many = Cast { tasks: (0..MAX_SECTION as u32 / (1 << 20) + 6).map(long).collect(), ..Cast::default() };
    let bytes = Writer::new(Vec::new()).unwrap().finish(many.clone()).unwrap();
    let path = Path::new("long.slt");
    assert!(*Reader::of(Cursor::new(&bytes), path).unwrap().cast() == many);
    let cut = Reader::of(Cursor::new(&bytes[..bytes.len() - 20]), path);
    assert!(cut.is_err());
}

#[test]
fn a_file_says_its_run_once_it_has_one() {
    let folder = schedlab_base::temp::TempFolder::create(&std::env::temp_dir(), ".owner-", 0o700).unwrap();
    let path = folder.path.join("events.slt");
    let items: Vec<Item> =
        (0..9).map(|at| Item::Event(Event { at: Ns(at), cpu: CpuId(0), kind: EventKind::Stay })).collect();
    std::fs::write(&path, written(&items)).unwrap();
    assert_eq!(Reader::open(&path).unwrap().run(), None);
    let run = RunId { cell: "ab".to_owned(), seed: 7 };
    assign(&path, &run).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!((reader.run(), reader.cast()), (Some(&run), &cast()));
    assert_eq!(reader.items().map(Result::unwrap).collect::<Vec<_>>(), items);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - FOOT as usize - 3;
    bytes[at] ^= 1;
    assert!(read(&bytes).is_err(), "a damaged identity is none");
}
