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

/// The bundle of CPU 1, whose number is written.
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

/// As messages.
pub fn verbose() -> Vec<u8> {
    trace(&packets())
}

/// The same, in one compressed packet.
pub fn packed() -> Vec<u8> {
    trace(&[bytes(50, &miniz_oxide::deflate::compress_to_vec_zlib(&verbose(), 6))])
}

/// As columns, behind one message that tells who ran first.
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
