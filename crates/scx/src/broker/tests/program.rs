//! The programs of the tests: this executable itself, started again. They make system calls as libbpf does.

use super::btf;
use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::os::raw::c_long;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const MAP_CREATE: c_long = 0;
const LOOKUP: c_long = 1;
const UPDATE: c_long = 2;
const DELETE: c_long = 3;
const NEXT_KEY: c_long = 4;
const PROG_LOAD: c_long = 5;
const TEST_RUN: c_long = 10;
const INFO: c_long = 15;
const BTF_LOAD: c_long = 18;
const LOOKUP_BATCH: c_long = 24;
const LINK_CREATE: c_long = 28;
const UNKNOWN: c_long = 77;

/// bpf(2) with these fields: place, and 4 or 8 bytes. The result, or the number of errno.
fn bpf(command: c_long, fields: &[(usize, &[u8])]) -> Result<i32, i32> {
    let mut attributes = filled(fields);
    // SAFETY: the attributes are as long as is said, and the broker takes no more.
    let got = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), attributes.len()) };
    if got < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { Ok(got as i32) }
}
fn filled(fields: &[(usize, &[u8])]) -> [u8; 184] {
    let mut attributes = [0u8; 184];
    for (at, bytes) in fields {
        attributes[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    attributes
}
fn word(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}
fn at<T>(value: &T) -> [u8; 8] {
    (std::ptr::from_ref(value) as u64).to_le_bytes()
}
fn map(kind: u32, name: &[u8], sizes: [u32; 3]) -> i32 {
    let [key, value, entries] = sizes.map(word);
    let fields = [(0, &word(kind)[..]), (4, &key), (8, &value), (12, &entries), (28, name)];
    bpf(MAP_CREATE, &fields).unwrap()
}
fn update<K, V>(map: i32, key: &K, value: &V, flags: u64) -> Result<i32, i32> {
    bpf(UPDATE, &[(0, &word(map as u32)), (8, &at(key)), (16, &at(value)), (24, &flags.to_le_bytes())])
}
fn lookup<V: Default>(map: i32, key: &u32) -> Result<V, i32> {
    // The broker writes to it, of which the compiler knows nothing.
    let value = Cell::new(V::default());
    let fields = [(0, &word(map as u32)[..]), (8, &at(key)), (16, &at(&value))];
    bpf(LOOKUP, &fields).map(|_| black_box(&value).take())
}
fn load(kind: u32, name: &[u8], instructions: &[u64]) -> i32 {
    let place = (instructions.as_ptr() as u64).to_le_bytes();
    let count = word(instructions.len() as u32);
    bpf(PROG_LOAD, &[(0, &word(kind)), (4, &count), (8, &place), (48, name)]).unwrap()
}

/// A program's life: maps, programs, attach, a sleep, the end.
pub fn scheduler() {
    let data = renumbered(map(2, b"prog.data", [4, 16, 1]));
    update(data, &0u32, &[11u64, 22], 0).unwrap();
    // SAFETY: a new mapping of the map's memory, of one page, for reading.
    let shared = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, data, 0).cast::<u64>()
    };
    // SAFETY: the page is mapped; the far side writes to it while this process waits.
    let seen = |i: usize| unsafe { shared.add(i).read_volatile() };
    assert_eq!((seen(0), seen(1)), (11, 22));
    let keyed = map(1, b"keyed", [4, 8, 2]);
    keyed_elements(keyed);
    special_map();
    let per_cpu = map(6, b"per_cpu", [4, 4, 2]);
    update(per_cpu, &1u32, &[[7u32, 0]; 6], 0).unwrap();
    assert_eq!(lookup::<[[u32; 2]; 6]>(per_cpu, &1), Ok([[7, 0]; 6]));

    // r1 = a place in the map's value; exit. Loaded twice: as an operation, and to be run by hand.
    let wide = 0x18 | 0x21 << 8 | (data as u64) << 32;
    let instructions = [wide, 8 << 32, 0x95];
    let select = load(27, b"select", &instructions);
    let by_hand = load(31, b"by_hand", &instructions);
    assert_eq!(bpf(UNKNOWN, &[]), Err(libc::EINVAL));
    let outside = [wide, 16 << 32, 0x95];
    let place = (outside.as_ptr() as u64).to_le_bytes();
    assert_eq!(bpf(PROG_LOAD, &[(0, &word(27)), (4, &word(3)), (8, &place)]), Err(libc::EINVAL));
    let (nowhere, switch) = (tracing("select", 24), tracing("btf_trace_sched_switch", 23));
    let context = Cell::new(5u32);
    assert_eq!(run(by_hand, &context), Ok(41), "its value, though nothing is attached yet");
    assert_eq!(black_box(&context).get(), 6, "and what it has changed");
    let trace = |program: i32, how: u32| bpf(LINK_CREATE, &[(0, &word(program as u32)), (8, &word(how))]);
    assert_eq!(trace(nowhere, 24), Err(libc::EOPNOTSUPP));
    let traced = trace(switch, 23).unwrap();

    let probed = probe("select").unwrap();
    let link = attach(select).unwrap();
    assert!(link >= 1000, "link {link}");
    // From here on keyed elements are at the far side, which adds one of its own.
    assert_eq!(lookup::<u64>(keyed, &9), Ok(99));
    bind_to_4();
    assert_eq!(run(by_hand, &context), Ok(41));
    let before = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let slept = before.elapsed();
    assert!(slept >= Duration::from_secs(2) && slept < Duration::from_millis(2001), "{slept:?}");
    assert_eq!(seen(0), 1234, "what the far side wrote while this slept");
    let times = fs::read_to_string("/proc/stat").unwrap();
    assert!(times.starts_with("cpu  300 0 0 1500 0"), "3 s of CPU 0, and of five others: {times}");
    assert!(times.contains("\ncpu0 300 0 0 0 0") && times.contains("\ncpu5 0 0 0 300 0"), "{times}");
    assert_eq!(fs::read_to_string("/sys/kernel/sched_ext/root/ops").unwrap(), "mine\n");
    println!("asked to end {}", seen(1));
    // SAFETY: closes files of this function.
    unsafe { (libc::close(traced), libc::close(probed), libc::close(link)) };
    println!("taken off {}", seen(1));
    std::process::exit(7);
}

fn bind_to_4() {
    // SAFETY: sets of CPUs are plain bits, of the size that is said.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(4, &mut cpus);
        libc::CPU_SET(1000, &mut cpus);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cpus), 0);
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut cpus);
        assert_eq!((libc::CPU_COUNT(&cpus), libc::CPU_ISSET(4, &cpus), libc::sched_getcpu()), (1, true, 4));
        libc::CPU_CLR(4, &mut cpus);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cpus), -1, "none is left");
    }
}

fn renumbered(map: i32) -> i32 {
    // SAFETY: numbers of files of this process.
    let moved = unsafe { libc::fcntl(map, libc::F_DUPFD_CLOEXEC, 50) };
    // SAFETY: as above.
    unsafe { libc::close(map) };
    assert!(moved >= 50);
    moved
}

fn keyed_elements(map: i32) {
    update(map, &5u32, &50u64, 0).unwrap();
    update(map, &3u32, &30u64, 0).unwrap();
    assert_eq!(update(map, &3u32, &31u64, 1), Err(libc::EEXIST));
    assert_eq!(update(map, &4u32, &40u64, 0), Err(libc::E2BIG));
    assert_eq!(lookup::<u64>(map, &4), Err(libc::ENOENT));
    let (keys, values) = (Cell::new([0u32; 4]), Cell::new([0u64; 4]));
    let fields = [(16, &at(&keys)[..]), (24, &at(&values)), (32, &word(4)), (36, &word(map as u32))];
    assert_eq!(bpf(LOOKUP_BATCH, &fields), Err(libc::ENOENT), "all, and then no more");
    assert_eq!((black_box(&keys).get(), black_box(&values).get()), ([5, 3, 0, 0], [50, 30, 0, 0]));
    let next = Cell::new(0u32);
    bpf(NEXT_KEY, &[(0, &word(map as u32)), (8, &at(&5u32)), (16, &at(&next))]).unwrap();
    assert_eq!(black_box(&next).get(), 3);
    bpf(DELETE, &[(0, &word(map as u32)), (8, &at(&5u32))]).unwrap();
}

fn special_map() {
    let (data, kind) = btf::value();
    let place = (data.as_ptr() as u64).to_le_bytes();
    let types = bpf(BTF_LOAD, &[(0, &place), (16, &word(data.len() as u32))]).unwrap();
    let sizes = [
        (0, word(1)),
        (4, word(4)),
        (8, word(40)),
        (12, word(4)),
        (48, word(types as u32)),
        (56, word(kind)),
    ];
    let fields: Vec<(usize, &[u8])> = sizes.iter().map(|(at, word)| (*at, &word[..])).collect();
    let made = bpf(MAP_CREATE, &fields).unwrap();
    let info = Cell::new([0u32; 8]);
    bpf(INFO, &[(0, &word(made as u32)), (4, &word(32)), (8, &at(&info))]).unwrap();
    let info = black_box(&info).get();
    assert_eq!((info[0], info[2], info[3], info[4]), (1, 4, 40, 4));
}

/// What the program returns.
fn run(program: i32, context: &Cell<u32>) -> Result<u32, i32> {
    let attributes = Cell::new([0u8; 184]);
    let fields = [(0, &word(program as u32)[..]), (40, &word(4)), (48, &at(context))];
    attributes.set(filled(&fields));
    // SAFETY: the attributes are as long as is said; the broker writes the result into them.
    let got = unsafe { libc::syscall(libc::SYS_bpf, TEST_RUN, attributes.as_ptr(), 184) };
    let returned = *black_box(&attributes).get()[4..].first_chunk().unwrap();
    if got < 0 {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap())
    } else {
        Ok(u32::from_le_bytes(returned))
    }
}

fn id_of(name: &str) -> u32 {
    let kernel = crate::btf::Btf::parse(&btf::kernel().0).unwrap();
    kernel.ids().find(|id| kernel.name(*id) == name).unwrap()
}
fn tracing(name: &str, how: u32) -> i32 {
    let instructions = [0xb7u64, 0x95];
    let place = (instructions.as_ptr() as u64).to_le_bytes();
    let target = word(id_of(name));
    let fields =
        [(0, &word(26)[..]), (4, &word(2)), (8, &place), (48, b"traces"), (68, &word(how)), (108, &target)];
    bpf(PROG_LOAD, &fields).unwrap()
}
/// Attaches a program of its own to the end of a function, as a kretprobe.
fn probe(function: &str) -> Result<i32, i32> {
    let name = std::ffi::CString::new(function).unwrap();
    let mut event = [0u8; 72];
    event[0] = 8;
    event[8] = 1;
    event[56..64].copy_from_slice(&(name.as_ptr() as u64).to_le_bytes());
    // SAFETY: the attributes live through the call.
    let open =
        |event: &[u8; 72]| unsafe { libc::syscall(libc::SYS_perf_event_open, event.as_ptr(), -1, 0, -1, 0) };
    let opened = open(&event) as i32;
    assert!(opened >= 0);
    event[0] = 0;
    assert_eq!(open(&event), -1, "a counter of the hardware");
    let program = load(2, b"probes", &[0xb7, 0x95]);
    let fields = [(0, &word(program as u32)[..]), (4, &word(opened as u32)), (8, &word(41))];
    assert_eq!(bpf(LINK_CREATE, &[fields[0], (4, &word(u32::MAX)), fields[2]]), Err(libc::EBADF));
    let link = bpf(LINK_CREATE, &fields);
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::ioctl(opened, 0x2400, 0) }, 0);
    link
}
fn attach(select: i32) -> Result<i32, i32> {
    let bytes = btf::OPS_AT + btf::OPS_BYTES;
    let sizes = [(0, word(26)), (4, word(4)), (8, word(bytes as u32)), (12, word(1)), (16, word(1 << 13))];
    let kind = word(btf::kernel().1);
    let mut fields: Vec<(usize, &[u8])> = sizes.iter().map(|(at, word)| (*at, &word[..])).collect();
    fields.push((60, &kind));
    let ops = bpf(MAP_CREATE, &fields).unwrap();
    let mut value = [0u8; btf::OPS_AT + btf::OPS_BYTES];
    value[btf::OPS_AT..][..4].copy_from_slice(&word(select as u32));
    value[btf::OPS_AT + 8..][..4].copy_from_slice(b"mine");
    update(ops, &0u32, &value, 0).unwrap();
    bpf(LINK_CREATE, &[(0, &word(ops as u32)), (8, &word(44))])
}

/// What it sees of the machine.
pub fn looks_around() {
    assert_eq!(fs::read_to_string("/sys/devices/system/cpu/possible").unwrap(), "0-5\n");
    assert_eq!(std::thread::available_parallelism().unwrap().get(), 6);
    let cpus = fs::read_dir("/sys/devices/system/cpu").unwrap().flatten();
    let is_cpu = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("cpu");
    assert_eq!(cpus.filter(is_cpu).count(), 6);
    let within = fs::metadata("/sys/devices/system/node/../cpu/cpu5/topology/core_id").unwrap();
    assert_eq!(within.len(), 2);
    assert_eq!(fs::read_to_string("/etc/passwd").unwrap_err().raw_os_error(), Some(libc::ENOENT));
    let made = std::env::temp_dir().join("scx-broker-test-makes-this");
    assert_eq!(fs::write(&made, "x").unwrap_err().raw_os_error(), Some(libc::ENOENT));
    assert_eq!(fs::remove_file(&made).unwrap_err().raw_os_error(), Some(libc::EACCES));
    let own = fs::read_link("/proc/self/exe").unwrap();
    assert_eq!(own, std::env::current_exe().unwrap());
    std::process::exit(7);
}

/// A thread waits up to ten seconds, and another wakes it after three.
pub fn waits() {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3));
        send.send(()).unwrap();
    });
    let before = Instant::now();
    receive.recv_timeout(Duration::from_secs(10)).unwrap();
    println!("woken after {} s", before.elapsed().as_secs());
    std::process::exit(7);
}

/// Waits up to ten seconds for a ring, which gets an entry after two; then three seconds more, in which none comes.
pub fn reads_a_ring() {
    let ring = map(27, b"ring", [0, 0, 4096]);
    let select = load(27, b"select", &[0xb7, 0x95]);
    attach(select).unwrap();
    // SAFETY: new mappings of the ring's memory: the reader's page, and the writer's with the data behind it.
    let [reader, writer] = [(libc::PROT_READ | libc::PROT_WRITE, 4096, 0), (libc::PROT_READ, 12288, 4096)]
        .map(|(access, bytes, at)| unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, ring, at).cast::<u64>()
        });
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 99 };
    // SAFETY: the event lives through the call.
    let set = unsafe {
        let set = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        assert_eq!(libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, ring, &raw mut event), 0);
        set
    };
    event.u64 = 0;
    let before = Instant::now();
    // SAFETY: there is room for one event.
    let mut wait = |ms: i32| unsafe { (libc::epoll_wait(set, &raw mut event, 1, ms), event.u64) };
    let (ready, data) = wait(10_000);
    let first = before.elapsed().as_secs();
    assert_eq!(ready, 1);
    // SAFETY: both are mapped; the far side wrote while this process waited.
    let entry = unsafe { black_box(writer).add(512 + 1).read_volatile() };
    // SAFETY: as above.
    unsafe { reader.write_volatile(writer.read_volatile()) };
    let (ready, _) = wait(3_000);
    let second = before.elapsed().as_secs() - first;
    println!("data {data}, entry {entry}, then {ready} files, after {first} s and {second} s");
    std::process::exit(7);
}

/// Waits for a signal that does not come.
pub fn hangs() {
    // SAFETY: takes nothing.
    unsafe { libc::pause() };
}
