//! A trace as LTTng's kernel tracer writes it: a description in packets, headers of few bits, characters in arrays.

use super::*;
use schedlab_base::TaskId;
use schedlab_trace::{Actor, Event, EventKind, Sink, SwitchReason};

const DESCRIPTION: &str = include_str!("../../tests/data/lttng.tsdl");

fn in_packets(text: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for part in text.as_bytes().chunks(900) {
        let (content, packet) = (37 + part.len(), 1024_usize);
        let mut one = 0x75d1_1d57_u32.to_le_bytes().to_vec();
        one.extend([7; 16]);
        one.extend(0_u32.to_le_bytes());
        one.extend((8 * content as u32).to_le_bytes());
        one.extend((8 * packet as u32).to_le_bytes());
        one.extend([0, 0, 0, 1, 8]);
        one.extend(part);
        one.resize(packet, 0);
        all.extend(one);
    }
    all
}

fn comm(name: &str) -> [u8; 16] {
    std::array::from_fn(|at| name.as_bytes().get(at).copied().unwrap_or(0))
}

fn switch((prev, tid): (&str, i32), state: i64, (next, then): (&str, i32)) -> Vec<u8> {
    let number = |n: i32| n.to_le_bytes();
    [
        &comm(prev)[..],
        &number(tid),
        &number(120),
        &state.to_le_bytes(),
        &comm(next),
        &number(then),
        &number(110),
    ]
    .concat()
}

/// A compact header: the event's number and the lowest 27 bits of the time.
fn compact(id: u32, at: u64) -> Vec<u8> {
    ((at as u32 & 0x7ff_ffff) << 5 | id).to_le_bytes().to_vec()
}

fn packet(begins: u64, lost: u64, events: &[u8]) -> Vec<u8> {
    let head = 4 + 16 + 4 + 8 + 6 * 8 + 4;
    let bits = 8 * (head + events.len()) as u64;
    let mut all = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    all.extend([7; 16]);
    all.extend([0; 4 + 8]);
    for number in [begins, begins + 1, bits, bits + 64, 0, lost] {
        all.extend(number.to_le_bytes());
    }
    all.extend(1_u32.to_le_bytes());
    assert_eq!(all.len(), head);
    all.extend(events);
    // Bytes of a packet after its content are passed over.
    all.extend([0xff; 8]);
    all
}

#[derive(Default)]
struct Heard(Vec<(u64, u32, EventKind)>, Vec<String>);

impl Sink for Heard {
    fn event(&mut self, e: &Event) {
        self.0.push((e.at.0, e.cpu.0, e.kind));
    }
}
impl Audience for Heard {
    fn meet(&mut self, _: TaskId, actor: &Actor) {
        self.1.push(actor.name.clone());
    }
    fn changed(&mut self, _: TaskId, _: &Actor) {}
}

fn trace(stream: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("kernel");
    fs::create_dir_all(kernel.join("index")).unwrap();
    fs::write(kernel.join("metadata"), in_packets(DESCRIPTION)).unwrap();
    fs::write(kernel.join("channel0_1"), stream).unwrap();
    fs::write(kernel.join("notes.txt"), "not a stream").unwrap();
    folder
}

/// Two packets, and the length of the first.
fn story() -> (Vec<u8>, usize) {
    // The time's lowest 27 bits wrap between the first two events.
    let began = (3 << 27) + (1 << 27) - 100;
    let mut events = compact(3, began);
    events.extend(switch(("swapper/1", 0), 0, ("a b", 7)));
    events.extend(compact(3, began + 300));
    events.extend(switch(("a b", 7), 0x40, ("other", 8)));
    // An event that is not read, with a long header.
    events.extend([31_u8]);
    events.extend(40_u32.to_le_bytes());
    events.extend((began + 400).to_le_bytes());
    events.extend([5, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]);
    let mut later = compact(3, began + 1000);
    later.extend(switch(("other", 8), 1, ("swapper/1", 0)));
    let first = packet(began, 0, &events);
    ([&first[..], &packet(began + 900, 2, &later)].concat(), first.len())
}

#[test]
fn a_trace_of_lttng_s_is_read() {
    let folder = trace(&story().0);
    let mut heard = Heard::default();
    let (imported, files) = read(folder.path(), &mut heard).unwrap();
    let switch = |prev, next, why| EventKind::Switch { prev, next, why };
    let (a, b) = (Some(TaskId(0)), Some(TaskId(1)));
    assert_eq!(
        heard.0,
        [
            (0, 1, switch(None, a, SwitchReason::FromIdle)),
            // Before 4.14, 0x40 is a task that ends.
            (300, 1, switch(a, b, SwitchReason::Exited)),
            (1000, 1, EventKind::Lost { count: 2 }),
            (1000, 1, switch(b, None, SwitchReason::Blocked)),
        ]
    );
    assert_eq!(heard.1, ["a b", "other"]);
    assert_eq!((imported.records, imported.others, imported.losses.events), (3, 1, 2));
    assert_eq!(imported.passed_over, ["notes.txt"]);
    assert_eq!(imported.opened_ns, 5000 + (4 << 27) - 100);
    assert_eq!((imported.cast.release.as_str(), imported.cast.cpus), ("4.9.0-13-amd64", 2));
    assert!(files.iter().any(|f| f.ends_with("channel0_1")), "{files:?}");
}

#[test]
fn a_file_that_is_called_metadata_makes_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let (info, kernel) = (dir.path().join("info"), dir.path().join("session/kernel"));
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join(METADATA), "made on: box\n").unwrap();
    assert!(!is_trace(dir.path()) && !is_trace(&info));
    fs::create_dir_all(dir.path().join("odd").join(METADATA)).unwrap();
    assert!(!is_trace(dir.path()));
    assert!(find(dir.path()).unwrap() == info, "the reader says what is wrong with it");
    fs::create_dir_all(&kernel).unwrap();
    fs::write(kernel.join(METADATA), in_packets(DESCRIPTION)).unwrap();
    assert!(is_trace(dir.path()) && find(dir.path()).unwrap() == kernel);
    fs::write(info.join(METADATA), DESCRIPTION).unwrap();
    assert!(is_trace(dir.path()) && is_trace(&info));
    assert!(find(dir.path()).unwrap_err().to_string().contains("2 traces"));
    assert!(!is_trace(&dir.path().join("missing")));
}

#[test]
fn a_stream_with_a_damaged_head_is_reported() {
    let (whole, _) = story();
    let folder = trace(&whole);
    let mut damaged = whole;
    damaged[0] ^= 1;
    fs::write(folder.path().join("kernel/channel0_0"), damaged).unwrap();
    fs::write(folder.path().join("kernel/channel0_2"), "").unwrap();
    let (imported, _) = read(folder.path(), &mut Heard::default()).unwrap();
    assert_eq!(imported.passed_over, ["channel0_0", "notes.txt"], "an empty stream lacks nothing");
    let warned = imported.warnings().into_iter().find(|w| w.code == "recording.passed_over").unwrap();
    assert!(warned.message.contains("channel0_0"), "{}", warned.message);
}

#[test]
fn cut_and_damaged_traces_end_well() {
    let (whole, first) = story();
    for length in 0..whole.len() {
        let folder = trace(&whole[..length]);
        if let Ok((imported, _)) = read(folder.path(), &mut Heard::default()) {
            // Between two packets nothing shows that one is missing.
            assert!(imported.losses.cut || imported.losses.unreadable > 0 || length == first, "{length}");
        }
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        let _ = read(trace(&damaged).path(), &mut Heard::default());
    }
    for at in (0..DESCRIPTION.len()).step_by(7) {
        let text = [&DESCRIPTION[..at], "{", &DESCRIPTION[at..]].concat();
        let _ = Description::read(text.as_bytes());
        let _ = Description::read(&DESCRIPTION.as_bytes()[..at]);
    }
    let e = Description::read(b"/* CTF 1.8 */\ntrace { major = 1; };\nevent { fields := strange x; };")
        .err()
        .unwrap();
    assert!(e.message().contains("line 3"), "{e}");
    // Types nested without an end, and elements of no size.
    let deep = format!(
        "/* CTF 1.8 */ typealias {} integer {{ size = 8; }} x; {} := t;",
        "struct { ".repeat(99),
        "} ".repeat(99)
    );
    assert!(Description::read(deep.as_bytes()).is_err());
}
