//! Handmade recordings: the same story in all binary forms, and as text.

pub mod perfetto;
pub mod sections;

use schedlab_import::to_run::{ChosenTasks, RunBuilder};
use schedlab_import::{Recording, read};
use schedlab_record::Findings;
use std::io::Write;

const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

/// Fields that every record begins with.
const COMMON: [(&str, usize); 4] =
    [("common_type", 2), ("common_flags", 1), ("common_preempt_count", 1), ("common_pid", 4)];
const SWITCH: u16 = 301;
const WAKING: u16 = 302;
const OTHER: u16 = 303;

/// The text of a `format` file.
pub fn format(name: &str, id: u16, fields: &[(&str, usize)]) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let mut offset = 0;
    for (field, size) in COMMON.iter().chain(fields) {
        let array = if *size > 8 { format!("[{size}]") } else { String::new() };
        text += &format!("\tfield:int {field}{array};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
        offset += size;
    }
    text
}

pub fn formats() -> [String; 3] {
    let switch = [
        ("prev_comm", 16),
        ("prev_pid", 4),
        ("prev_prio", 4),
        ("prev_state", 8),
        ("next_comm", 16),
        ("next_pid", 4),
        ("next_prio", 4),
    ];
    let waking = [("comm", 16), ("pid", 4), ("prio", 4), ("target_cpu", 4)];
    [
        format("sched_switch", SWITCH, &switch),
        format("sched_waking", WAKING, &waking),
        format("sched_stat_runtime", OTHER, &[("runtime", 8)]),
    ]
}

pub fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_ne_bytes(), bytes].concat()
}

/// The head of trace.dat, which perf.data contains, too.
pub fn head(version: &str) -> Vec<u8> {
    let mut all = [b"\x17\x08\x44tracing", version.as_bytes(), b"\0"].concat();
    all.extend([u8::from(cfg!(target_endian = "big")), 8]);
    all.extend(4096_u32.to_ne_bytes());
    all.extend([&b"header_page\0"[..], &long(PAGE.as_bytes()), b"header_event\0", &long(b"x")].concat());
    all.extend(0_u32.to_ne_bytes());
    all.extend([&1_u32.to_ne_bytes()[..], b"sched\0", &3_u32.to_ne_bytes()].concat());
    formats().iter().for_each(|f| all.extend(long(f.as_bytes())));
    all.extend([0_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat());
    all.extend(long(b""));
    all
}

pub fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

pub fn common(id: u16, pid: u32) -> Vec<u8> {
    [&id.to_ne_bytes()[..], &[0, 0], &pid.to_ne_bytes()].concat()
}

pub fn switch(prev: (&str, u32), state: u64, next: (&str, u32)) -> Vec<u8> {
    let mut all = common(SWITCH, prev.1);
    let prio = 120_u32.to_ne_bytes();
    all.extend([&comm(prev.0)[..], &prev.1.to_ne_bytes(), &prio, &state.to_ne_bytes()].concat());
    all.extend([&comm(next.0)[..], &next.1.to_ne_bytes(), &prio].concat());
    all
}

pub fn waking(by: u32, who: (&str, u32), cpu: u32) -> Vec<u8> {
    let prio = 120_u32.to_ne_bytes();
    [
        common(WAKING, by),
        comm(who.0).to_vec(),
        who.1.to_ne_bytes().to_vec(),
        prio.to_vec(),
        cpu.to_ne_bytes().to_vec(),
    ]
    .concat()
}

/// Records: time in ns, CPU, the tracepoint's bytes. On CPU 0, a wakes b, which waits 30 us. Each CPU's are in order.
pub fn story() -> Vec<(u64, u32, Vec<u8>)> {
    let (a, b, idle) = (("a", 10), ("b c", 20), ("swapper/0", 0));
    vec![
        (1_000_000, 0, switch(idle, 0, a)),
        (1_100_000, 0, waking(10, b, 0)),
        (1_105_000, 0, [common(OTHER, 10), vec![0; 8]].concat()),
        (1_130_000, 0, switch(a, 1, b)),
        (1_330_000, 0, switch(b, 0x100, a)),
        (1_400_000, 0, switch(a, 1, b)),
        (1_450_000, 0, switch(b, 0x10, idle)),
        (1_200_000, 1, switch(("x", 30), 2, ("swapper/1", 0))),
    ]
}

pub fn page(cpu: u32) -> Vec<u8> {
    let mut last_ns = 1_000_000;
    let mut page = u64::to_ne_bytes(last_ns).to_vec();
    let mut data = Vec::new();
    for (at_ns, _, bytes) in story().into_iter().filter(|(_, on, _)| *on == cpu) {
        let bytes = [bytes, vec![0; 3]].concat();
        let words = bytes.len() / 4;
        let delta = (at_ns - last_ns) as u32;
        // Up to 28 the type is the length in words; else the length has a word of its own.
        match words {
            0..=28 => data.extend((words as u32 | delta << 5).to_ne_bytes()),
            _ => data.extend([(delta << 5).to_ne_bytes(), (4 * words as u32 + 4).to_ne_bytes()].concat()),
        }
        data.extend(&bytes[..4 * words]);
        last_ns = at_ns;
    }
    page.extend((data.len() as u64).to_ne_bytes());
    page.extend(data);
    page.resize(4096, 0);
    page
}

/// A trace.dat of version 6.
pub fn trace_dat() -> Vec<u8> {
    let mut all = head("6");
    all.extend(2_u32.to_ne_bytes());
    all.extend(b"options  \0");
    all.extend([&9_u16.to_ne_bytes()[..], &3_u32.to_ne_bytes(), b"abc", &0_u16.to_ne_bytes()].concat());
    all.extend(b"flyrecord\0");
    let data_at = (all.len() + 32).next_multiple_of(4096);
    for cpu in 0..2_u64 {
        all.extend([(data_at as u64 + 4096 * cpu).to_ne_bytes(), 4096_u64.to_ne_bytes()].concat());
    }
    all.resize(data_at, 0);
    (0..2).for_each(|cpu| all.extend(page(cpu)));
    all
}

/// `sample_type`: identifier, thread, time, CPU, period, raw bytes.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10;

pub fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 8).next_multiple_of(8);
    let mut all =
        [&kind.to_ne_bytes()[..], &0_u16.to_ne_bytes(), &(length as u16).to_ne_bytes(), body].concat();
    all.resize(length, 0);
    all
}

pub fn sample(at_ns: u64, cpu: u32, raw: &[u8]) -> Vec<u8> {
    let tid = u32::from_ne_bytes(raw[4..8].try_into().unwrap());
    let process = if tid == 20 { 10 } else { tid };
    let mut body = 77_u64.to_ne_bytes().to_vec();
    body.extend([process.to_ne_bytes(), tid.to_ne_bytes()].concat());
    body.extend(at_ns.to_ne_bytes());
    body.extend([cpu.to_ne_bytes(), 0_u32.to_ne_bytes()].concat());
    body.extend(1_u64.to_ne_bytes());
    body.extend((raw.len() as u32).to_ne_bytes());
    body.extend(raw);
    record(9, &body)
}

pub fn perf_data(lost_at: Option<usize>) -> Vec<u8> {
    let mut data = Vec::new();
    // COMM: process, thread, name.
    data.extend(record(3, &[&30_u32.to_ne_bytes()[..], &30_u32.to_ne_bytes(), b"x\0"].concat()));
    for (nth, (at_ns, cpu, raw)) in story().iter().enumerate() {
        if lost_at == Some(nth) {
            // LOST: event, number; then thread, time, CPU, identifier.
            let ids = [0_u64, 0, u64::from(*cpu), 77].map(u64::to_ne_bytes).concat();
            data.extend(record(2, &[&77_u64.to_ne_bytes()[..], &5_u64.to_ne_bytes(), &ids].concat()));
        }
        data.extend(sample(*at_ns, *cpu, raw));
    }
    data.extend(record(68, &[]));
    let (ids_at, attrs_at) = (104_u64, 112_u64);
    let data_at = attrs_at + 80;
    let mut attr = [2_u32.to_ne_bytes(), 64_u32.to_ne_bytes()].concat();
    attr.extend([u64::from(SWITCH), 1, SAMPLE_TYPE, 0, 0, 0, 0].map(u64::to_ne_bytes).concat());
    attr.extend([ids_at, 8].map(u64::to_ne_bytes).concat());
    let sections_at = data_at + data.len() as u64;
    let tracing = head("0.6");
    let release = [&8_u32.to_ne_bytes()[..], b"6.1.192\0"].concat();
    let tracing_at = sections_at + 32;
    let release_at = tracing_at + tracing.len() as u64;
    let words = [104, 80, attrs_at, 80, data_at, data.len() as u64, 0, 0, 1 << 1 | 1 << 4, 0, 0, 0];
    let mut all = [&b"PERFILE2"[..], &words.map(u64::to_ne_bytes).concat()].concat();
    all.extend(77_u64.to_ne_bytes());
    all.extend(attr);
    all.extend(data);
    let sections = [tracing_at, tracing.len() as u64, release_at, release.len() as u64];
    all.extend(sections.map(u64::to_ne_bytes).concat());
    all.extend(tracing);
    all.extend(release);
    all
}

pub fn text() -> Vec<u8> {
    [
        "<idle>-0 [000] 0.001000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=10 next_prio=120\n",
        "a-10 [000] 0.001100: sched_waking: comm=b c pid=20 prio=120 target_cpu=000\n",
        "a-10 [000] 0.001105: sched_stat_runtime: runtime=0\n",
        "a-10 [000] 0.001130: sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=b c next_pid=20 next_prio=120\n",
        "x-30 [001] 0.001200: sched_switch: prev_comm=x prev_pid=30 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120\n",
        "b c-20 [000] 0.001330: sched_switch: prev_comm=b c prev_pid=20 prev_prio=120 prev_state=R+ ==> next_comm=a next_pid=10 next_prio=120\n",
        "a-10 [000] 0.001400: sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=b c next_pid=20 next_prio=120\n",
        "b c-20 [000] 0.001450: sched_switch: prev_comm=b c prev_pid=20 prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120\n",
    ]
    .concat()
    .into_bytes()
}

pub fn found(bytes: &[u8]) -> Result<(Findings, schedlab_import::Imported), String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let mut watch = RunBuilder::new(ChosenTasks::default(), None);
    let mut imported = read(&Recording::at(file.path()), &mut watch).map_err(|e| e.to_string())?;
    Ok((watch.finish(&mut imported), imported))
}
