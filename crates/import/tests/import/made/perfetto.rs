//! Perfetto's traces: the story as messages and as columns.

fn varint(mut number: u64) -> Vec<u8> {
    let mut all = Vec::new();
    while number > 0x7f {
        all.push(number as u8 | 0x80);
        number >>= 7;
    }
    all.push(number as u8);
    all
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [&varint(field << 3 | 2)[..], &varint(content.len() as u64), content].concat()
}

fn columns_of(field: u64, values: &[u64]) -> Vec<u8> {
    bytes(field, &values.iter().flat_map(|v| varint(*v)).collect::<Vec<_>>())
}

fn event(at_ns: u64, current: u64, kind: u64, content: &[Vec<u8>]) -> Vec<u8> {
    bytes(2, &[number(1, at_ns), number(2, current), bytes(kind, &content.concat())].concat())
}

fn switch(at_ns: u64, prev: (&str, u64), state: u64, next: (&str, u64)) -> Vec<u8> {
    let who = |at: u64, (comm, tid): (&str, u64)| {
        [bytes(at, comm.as_bytes()), number(at + 1, tid), number(at + 2, 120)].concat()
    };
    event(at_ns, prev.1, 4, &[who(1, prev), number(4, state), who(5, next)])
}

fn waking() -> Vec<u8> {
    let who = [bytes(1, b"b c"), number(2, 20), number(3, 120), number(4, 1), number(5, 0)];
    event(1_100_000, 10, 20, &who)
}

const A: (&str, u64) = ("a", 10);
const B: (&str, u64) = ("b c", 20);
const IDLE: (&str, u64) = ("swapper/0", 0);

/// The bundle of CPU 1; its number is written out.
fn other_cpu() -> Vec<u8> {
    bytes(1, &[number(1, 1), switch(1_200_000, ("x", 30), 2, ("swapper/1", 0))].concat())
}

/// An event of another kind.
fn other() -> Vec<u8> {
    event(1_105_000, 10, 13, &[number(1, 1)])
}

fn packets() -> Vec<Vec<u8>> {
    let first = [
        number(1, 0),
        switch(1_000_000, IDLE, 0, A),
        waking(),
        other(),
        switch(1_130_000, A, 1, B),
        switch(1_330_000, B, 0x100, A),
    ];
    let second = [number(1, 0), switch(1_400_000, A, 1, B), switch(1_450_000, B, 0x10, IDLE)];
    vec![bytes(1, &first.concat()), other_cpu(), bytes(1, &second.concat())]
}

fn trace(packets: &[Vec<u8>]) -> Vec<u8> {
    packets.iter().flat_map(|p| bytes(1, p)).collect()
}

/// The story as messages.
pub fn verbose() -> Vec<u8> {
    trace(&packets())
}

/// The story as messages, in one compressed packet.
pub fn packed() -> Vec<u8> {
    trace(&[bytes(50, &miniz_oxide::deflate::compress_to_vec_zlib(&verbose(), 6))])
}

/// The story as columns, after a message that says which task ran first.
pub fn columns() -> Vec<u8> {
    let switches = [
        columns_of(1, &[1_130_000, 200_000, 70_000, 50_000]),
        columns_of(2, &[1, 0x100, 1, 0x10]),
        columns_of(3, &[20, 10, 20, 0]),
        columns_of(4, &[120; 4]),
        columns_of(6, &[0, 1, 0, 2]),
    ];
    let wakings = [
        columns_of(7, &[1_100_000]),
        columns_of(8, &[20]),
        columns_of(9, &[0]),
        columns_of(10, &[120]),
        columns_of(11, &[0]),
    ];
    let names: Vec<u8> = ["b c", "a", "swapper/0"].iter().flat_map(|n| bytes(5, n.as_bytes())).collect();
    let compact = [switches.concat(), wakings.concat(), names].concat();
    let bundle = [number(1, 0), switch(1_000_000, IDLE, 0, A), other(), bytes(4, &compact)].concat();
    trace(&[bytes(1, &bundle), other_cpu()])
}

/// A packet that reports the kernel's release.
fn release(text: &str) -> Vec<u8> {
    bytes(45, &bytes(1, &bytes(3, text.as_bytes())))
}

/// Three stays on one CPU, from a kernel of that release: a's, which leaves with `preempted`, and those of b, which
/// leaves with `dead`.
pub fn states(of: &str, preempted: u64, dead: u64) -> Vec<u8> {
    let bundle = [
        number(1, 0),
        switch(1_000_000, IDLE, 0, A),
        switch(1_100_000, A, preempted, B),
        switch(1_200_000, B, dead, A),
        switch(1_300_000, A, 1, IDLE),
    ];
    trace(&[release(of), bytes(1, &bundle.concat())])
}

/// Switches in columns to threads of these numbers, 1 ms apart. `lost`: events before them were lost.
fn stays(from_ns: u64, tids: &[u64], lost: bool) -> Vec<u8> {
    let steps: Vec<u64> = (0..tids.len()).map(|at| if at == 0 { from_ns } else { 1_000_000 }).collect();
    let zeros = vec![0; tids.len()];
    let columns = [
        bytes(5, b"x"),
        columns_of(1, &steps),
        columns_of(2, &vec![1; tids.len()]),
        columns_of(3, tids),
        columns_of(4, &vec![120; tids.len()]),
        columns_of(6, &zeros),
    ];
    let lost = if lost { number(3, 1) } else { Vec::new() };
    bytes(1, &[number(1, 0), lost, bytes(4, &columns.concat())].concat())
}

/// Thread 10 comes, then events are lost, then threads 11 and 12 come.
pub fn lost_in_columns() -> Vec<u8> {
    trace(&[stays(1_000_000, &[10, 0, 10], false), stays(9_000_000, &[11, 12, 0], true)])
}

/// A compressed bundle of this many rows.
pub fn long_columns(rows: usize) -> Vec<u8> {
    let all = [verbose(), trace(&[stays(2_000_000, &vec![7; rows], false)])].concat();
    trace(&[bytes(50, &miniz_oxide::deflate::compress_to_vec_zlib(&all, 6))])
}

/// `each` records of one CPU, and as many losses on another one that has no record.
pub fn losses(each: u64) -> Vec<u8> {
    let records = (0..each).map(|at| switch(2_000 + at, IDLE, 0, A)).collect::<Vec<_>>().concat();
    let first = bytes(1, &[number(1, 1), records].concat());
    let lost = bytes(1, &[number(1, 2), number(3, 1)].concat());
    trace(&[vec![first], vec![lost; each as usize]].concat())
}
