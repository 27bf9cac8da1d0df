//! Programs are run for real: this executable itself, under the broker, with a far side of a few lines.

mod btf;
mod program;

use super::*;
use crate::{OpsKind, Special};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

/// Says which program the executable is, if it is one.
const PROGRAM: &str = "SCX_TEST_PROGRAM";

/// Not a test by itself: where a program starts.
#[test]
fn program_starts_here() {
    match std::env::var(PROGRAM).as_deref() {
        Ok("scheduler") => program::scheduler(),
        Ok("looks_around") => program::looks_around(),
        Ok("waits") => program::waits(),
        Ok("hangs") => program::hangs(),
        _ => {}
    }
}

/// Keeps what it gets, and writes to the first map's memory.
#[derive(Default)]
struct Fake {
    now_ns: u64,
    memory: Option<std::fs::File>,
    entries: Vec<(usize, Vec<u8>, Vec<u8>)>,
    runs: Vec<TestRun>,
    later_runs: Vec<(usize, u32)>,
    tells: BTreeMap<Vec<u8>, Vec<u8>>,
    slept: Vec<Option<u64>>,
    detached: u32,
}

impl Fake {
    fn put(&self, at: u64, value: u64) {
        self.memory.as_ref().unwrap().write_all_at(&value.to_le_bytes(), at).unwrap();
    }
}

impl Kernel for Fake {
    fn attach(&mut self, attach: Attach<'_>) -> Result<u64, Errno> {
        let data = attach.scheduler.maps.iter().position(|map| map.name == "prog.data").unwrap();
        let with_memory: Vec<bool> = attach.memory.iter().map(Option::is_some).collect();
        assert_eq!(with_memory, [true, false, false, true], "arrays have memory, hash maps have none");
        self.memory = Some(attach.memory[data].unwrap().try_clone_to_owned().unwrap().into());
        self.entries = attach.entries.into_iter().map(|entry| (entry.map, entry.key, entry.value)).collect();
        self.runs = attach.runs;
        self.tells.insert(9u32.to_le_bytes().to_vec(), 99u64.to_le_bytes().to_vec());
        Ok(self.now_ns)
    }
    fn detach(&mut self) {
        self.detached += 1;
        self.put(8, 77);
    }
    fn lookup(&mut self, _: usize, key: &[u8]) -> Result<Vec<u8>, Errno> {
        self.tells.get(key).cloned().ok_or(Errno(libc::ENOENT))
    }
    fn update(&mut self, _: usize, _: &[u8], _: &[u8], _: u64) -> Result<(), Errno> {
        Err(Errno(libc::E2BIG))
    }
    fn delete(&mut self, _: usize, _: &[u8]) -> Result<(), Errno> {
        Err(Errno(libc::ENOENT))
    }
    fn next(&mut self, _: usize, _: Option<&[u8]>) -> Result<Vec<u8>, Errno> {
        Err(Errno(libc::ENOENT))
    }
    fn test_run(&mut self, program: usize, _: &mut Vec<u8>, cpu: u32) -> Result<u32, Errno> {
        self.later_runs.push((program, cpu));
        Ok(0)
    }
    fn sleep(&mut self, until_ns: Option<u64>) -> Wake {
        self.slept.push(until_ns);
        self.now_ns = until_ns.unwrap_or(self.now_ns);
        self.put(0, 1234);
        Wake { now_ns: self.now_ns, ended: false }
    }
}

/// Runs one of the programs. None: this machine can't, and the reason is printed.
fn run_program(name: &str, kernel: &mut dyn Kernel) -> Option<Outcome> {
    if let Err(why) = is_available() {
        println!("skipped: {}", why.message());
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let cpus = (0..6).map(|core| sysfs::Cpu { core, capacity: 1024, ..sysfs::Cpu::default() });
    let nodes = vec![sysfs::Node { memory_bytes: 1 << 30, distances: vec![10] }];
    let machine = sysfs::Machine { cpus: cpus.collect(), nodes, ..sysfs::Machine::default() };
    sysfs::write(&folder.path().join("tree"), &machine).unwrap();
    std::fs::write(folder.path().join("btf"), btf::kernel().0).unwrap();
    let arguments = ["--exact", "broker::tests::program_starts_here", "--nocapture", "--test-threads=1"];
    let request = Request {
        program: std::env::current_exe().unwrap(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: vec![(PROGRAM.to_owned(), name.to_owned())],
        readable: Vec::new(),
        tree: folder.path().join("tree"),
        btf: folder.path().join("btf"),
        cpus: 6,
        release: "7.3.4".to_owned(),
        start_ns: 1_000_000_000,
        // A machine under load may not let a program run for seconds.
        patience: Duration::from_secs(if name == "hangs" { 1 } else { 60 }),
    };
    let outcome = run(&request, kernel).unwrap();
    print!("{}", String::from_utf8_lossy(&outcome.errors));
    Some(outcome)
}

#[test]
fn a_program_attaches_its_scheduler_sleeps_in_simulated_time_and_takes_it_off() {
    let mut fake = Fake { now_ns: 1_000_000_000, ..Fake::default() };
    let Some(outcome) = run_program("scheduler", &mut fake) else { return };
    assert_eq!(outcome.status.code(), Some(7), "{}", String::from_utf8_lossy(&outcome.output));
    let output = String::from_utf8_lossy(&outcome.output);
    // It sees what `detach` has written when close(2) returns.
    assert!(output.contains("told to end 22\ntaken off 77\n"), "{output}");
    assert_eq!(fake.detached, 1);
    assert!(outcome.refused_bpf.contains_key("command 77"));

    let scheduler = outcome.scheduler.unwrap();
    assert_eq!((&*scheduler.name, scheduler.ops.kind), ("mine", OpsKind::ByCpu));
    let names: Vec<&str> = scheduler.maps.iter().map(|map| &*map.name).collect();
    assert_eq!(names, ["prog.data", "keyed", "", "per_cpu"]);
    assert_eq!(scheduler.maps[0].initial, [11u64.to_le_bytes(), 22u64.to_le_bytes()].concat());
    let special = [(8, Special::Timer), (20, Special::Timer), (32, Special::Kptr)];
    assert_eq!(scheduler.maps[2].special, special);
    assert_eq!(scheduler.ops.members, [(0, 0, "select_cpu".to_owned())]);
    assert_eq!(scheduler.ops.bytes[..8], [0; 8], "no file descriptor is left in the operations");
    let load = scheduler.programs[0].instructions[0];
    assert_eq!((load.code, load.registers, load.imm), (0x18, 0x21, 0), "map 0, by its index");
    assert_eq!(scheduler.programs[0].instructions[1].imm, 8);

    assert_eq!(fake.entries, [(1, 3u32.to_le_bytes().to_vec(), 30u64.to_le_bytes().to_vec())]);
    assert_eq!(fake.runs, [TestRun { program: 1, context: 5u32.to_le_bytes().to_vec() }]);
    assert_eq!(fake.later_runs, [(1, 4)], "on the CPU to which the thread is bound");
}

#[test]
fn a_program_sees_the_simulated_machine_and_nothing_else() {
    let Some(outcome) = run_program("looks_around", &mut Fake::default()) else { return };
    assert_eq!(outcome.status.code(), Some(7), "{}", String::from_utf8_lossy(&outcome.output));
    assert!(outcome.scheduler.is_none());
    assert!(outcome.refused.contains_key(&(PathBuf::from("/etc/passwd"), Refusal::NotShown)));
}

#[test]
fn a_thread_that_waits_with_a_limit_is_woken_by_another_in_simulated_time() {
    let Some(outcome) = run_program("waits", &mut Fake::default()) else { return };
    let output = String::from_utf8_lossy(&outcome.output);
    assert_eq!(outcome.status.code(), Some(7), "{output}");
    assert_eq!(output.contains("woken after 3 s"), outcome.clock_is_simulated, "{output}");
}

#[test]
fn a_program_that_does_nothing_is_ended() {
    let Some(outcome) = run_program("hangs", &mut Fake::default()) else { return };
    assert!(outcome.was_killed);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let Ok(()) = is_available() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("btf"), btf::kernel().0).unwrap();
    let request = Request {
        program: folder.path().join("no-such"),
        arguments: Vec::new(),
        environment: Vec::new(),
        readable: Vec::new(),
        tree: folder.path().to_owned(),
        btf: folder.path().join("btf"),
        cpus: 1,
        release: "7.3.4".to_owned(),
        start_ns: 0,
        patience: Duration::from_secs(1),
    };
    let error = run(&request, &mut Fake::default()).unwrap_err();
    assert!(error.message().contains("no-such"), "{}", error.message());
}
