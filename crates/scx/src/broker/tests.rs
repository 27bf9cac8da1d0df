//! Programs are run for real: this executable itself, under the broker, with a far side of a few lines.

mod btf;
mod hostile;
mod program;

use super::*;
use crate::{Field, OpsKind, Special, Target};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

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
        Ok("calls") => hostile::calls(),
        Ok("files") => hostile::files(),
        Ok("looks_for_the_host") => hostile::looks_for_the_host(),
        Ok("timers") => hostile::timers(),
        Ok("prints") => hostile::prints(),
        Ok("reads_a_ring") => program::reads_a_ring(),
        _ => {}
    }
}

/// Keeps what it gets, and writes to the first map's memory.
#[derive(Default)]
struct Fake {
    now_ns: u64,
    memory: Option<std::fs::File>,
    entries: Vec<(usize, Vec<u8>, Vec<u8>)>,
    /// Programs that ran, whether a scheduler was attached then, and the CPU.
    runs: Vec<(usize, Vec<u8>, bool, u32)>,
    loads: Vec<(usize, usize)>,
    traces: Vec<(usize, String)>,
    tells: BTreeMap<Vec<u8>, Vec<u8>>,
    slept: Vec<Option<u64>>,
    ring: Option<std::fs::File>,
    detached: u32,
}

impl Fake {
    fn put(&self, at: u64, value: u64) {
        self.memory.as_ref().unwrap().write_all_at(&value.to_le_bytes(), at).unwrap();
    }
}

impl Kernel for Fake {
    fn load(&mut self, given: Attach<'_>) -> Result<(), Errno> {
        assert!(given.scheduler.ops.members.is_empty());
        self.loads.push((given.scheduler.maps.len(), given.scheduler.programs.len()));
        self.entries.extend(given.entries.into_iter().map(|entry| (entry.map, entry.key, entry.value)));
        Ok(())
    }
    fn trace(&mut self, program: usize, target: &Target) -> Result<(), Errno> {
        self.traces.push((program, target.to_string()));
        if *target == Target::Entry("select".to_owned()) { Err(Errno(libc::EOPNOTSUPP)) } else { Ok(()) }
    }
    fn untrace(&mut self, program: usize, target: &Target) {
        self.traces.push((program, format!("not {target}")));
    }
    fn attach(&mut self, attach: Attach<'_>) -> Result<u64, Errno> {
        let named = |name: &str| attach.scheduler.maps.iter().position(|map| map.name == name);
        let file = |at: usize| std::fs::File::from(attach.memory[at].unwrap().try_clone_to_owned().unwrap());
        self.ring = named("ring").map(file);
        let Some(data) = named("prog.data") else { return Ok(self.now_ns) };
        let with_memory: Vec<bool> = attach.memory.iter().map(Option::is_some).collect();
        assert_eq!(with_memory, [true, false, false, true], "arrays have memory, hash maps have none");
        self.memory = Some(attach.memory[data].unwrap().try_clone_to_owned().unwrap().into());
        assert_eq!(attach.entries, [], "they came with the maps");
        self.tells.insert(9u32.to_le_bytes().to_vec(), 99u64.to_le_bytes().to_vec());
        Ok(self.now_ns)
    }
    fn detach(&mut self) {
        self.detached += 1;
        if self.memory.is_some() {
            self.put(8, 77);
        }
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
    fn test_run(&mut self, program: usize, context: &mut Vec<u8>, cpu: u32) -> Result<u32, Errno> {
        self.runs.push((program, context.clone(), self.memory.is_some(), cpu));
        context[0] += 1;
        Ok(41)
    }
    fn busy_ns(&mut self) -> Vec<u64> {
        // CPU 0 has worked all the time, the others have not.
        vec![self.now_ns, 0, 0, 0, 0, 0]
    }
    fn sleep(&mut self, until_ns: Option<u64>) -> Wake {
        self.slept.push(until_ns);
        if let Some(ring) = self.ring.take() {
            // An entry of 8 bytes at its begin, two seconds from now.
            self.now_ns += 2_000_000_000;
            ring.write_all_at(&[8u32.to_le_bytes(), [0; 4]].concat(), 8192).unwrap();
            ring.write_all_at(&4711u64.to_le_bytes(), 8200).unwrap();
            ring.write_all_at(&16u64.to_le_bytes(), 4096).unwrap();
            return Wake { now_ns: self.now_ns, ended: false, rung: true };
        }
        self.now_ns = until_ns.unwrap_or(self.now_ns);
        if self.memory.is_some() {
            self.put(0, 1234);
        }
        Wake { now_ns: self.now_ns, ended: false, rung: false }
    }
}

/// Runs one of the programs. None: this machine can't, and the reason is printed.
fn run_program(name: &str, kernel: &mut dyn Kernel) -> Option<Outcome> {
    run_in(name, Path::new("/no-such-folder"), kernel)
}

/// The same for one that is shown a folder of this machine.
fn run_in(name: &str, shown: &Path, kernel: &mut dyn Kernel) -> Option<Outcome> {
    if let Err(why) = is_available() {
        println!("skipped: {}", why.message());
        return None;
    }
    let cpus = (0..6).map(|core| sysfs::Cpu { core, capacity: 1024, ..sysfs::Cpu::default() });
    let nodes = vec![sysfs::Node { memory_bytes: 1 << 30, distances: vec![10] }];
    let machine = sysfs::Machine { cpus: cpus.collect(), nodes, ..sysfs::Machine::default() };
    let mut tree = sysfs::files(&machine);
    tree.put(BTF, Node::File(btf::kernel().0));
    let arguments = ["--exact", "broker::tests::program_starts_here", "--nocapture", "--test-threads=1"];
    let request = Request {
        program: std::env::current_exe().unwrap(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: vec![
            (PROGRAM.to_owned(), name.to_owned()),
            ("SCX_TEST_BROKER_PID".to_owned(), std::process::id().to_string()),
            ("SCX_TEST_FOLDER".to_owned(), shown.display().to_string()),
        ],
        readable: vec![shown.to_owned()],
        tree,
        cpus: 6,
        memory_bytes: 1 << 30,
        release: "7.3.4".to_owned(),
        start_ns: 1_000_000_000,
        // A machine under load may not let a program run for seconds.
        patience: Duration::from_secs(if ["hangs", "prints"].contains(&name) { 1 } else { 60 }),
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
    assert!(output.contains("asked to end 22\ntaken off 77\n"), "{output}");
    assert_eq!(fake.detached, 1);
    assert!(outcome.refused_bpf.contains_key("command 77"));

    let scheduler = outcome.scheduler.unwrap();
    assert_eq!((&*scheduler.name, scheduler.ops.kind), ("mine", OpsKind::ByCpu));
    let names: Vec<&str> = scheduler.maps.iter().map(|map| &*map.name).collect();
    assert_eq!(names, ["prog.data", "keyed", "", "per_cpu"]);
    assert_eq!(scheduler.maps[0].initial, [11u64.to_le_bytes(), 22u64.to_le_bytes()].concat());
    let field = |at, bytes, special| Field { at, bytes, special };
    let special = [field(8, 12, Special::Timer), field(20, 12, Special::Timer), field(32, 8, Special::Own)];
    assert_eq!(scheduler.maps[2].special, special);
    assert_eq!(scheduler.ops.members, [(0, 0, "select_cpu".to_owned())]);
    assert_eq!(scheduler.ops.bytes[..8], [0; 8], "no file descriptor is left in the operations");
    let load = scheduler.programs[0].instructions[0];
    assert_eq!((load.code, load.registers, load.imm), (0x18, 0x21, 0), "map 0, by its index");
    assert_eq!(scheduler.programs[0].instructions[1].imm, 8);

    assert_eq!(fake.entries, [(1, 3u32.to_le_bytes().to_vec(), 30u64.to_le_bytes().to_vec())]);
    let context = |n: u32| n.to_le_bytes().to_vec();
    assert_eq!(
        fake.runs,
        [(1, context(5), false, 0), (1, context(6), true, 4)],
        "one before, one after the attach"
    );
    assert_eq!(
        fake.loads,
        [(4, 4), (4, 5)],
        "for the run, then for the probe; nothing was new for the others"
    );
    let traces = [
        (2, "fentry/select"),
        (3, "tp_btf/sched_switch"),
        (4, "kretprobe/select"),
        (3, "not tp_btf/sched_switch"),
        (4, "not kretprobe/select"),
    ];
    assert_eq!(fake.traces, traces.map(|(at, target)| (at, target.to_owned())));
    assert!(outcome.refused_bpf.contains_key("link of program traces to fentry/select"));
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
fn a_program_that_gets_nowhere_is_ended() {
    for name in ["hangs", "prints"] {
        let Some(outcome) = run_program(name, &mut Fake::default()) else { return };
        assert!(outcome.was_killed, "{name}");
    }
}

#[test]
fn a_program_waits_for_a_ring_and_reads_what_is_there() {
    let mut fake = Fake { now_ns: 1_000_000_000, ..Fake::default() };
    let Some(outcome) = run_program("reads_a_ring", &mut fake) else { return };
    let output = String::from_utf8_lossy(&outcome.output);
    assert_eq!(outcome.status.code(), Some(7), "{output}");
    assert!(output.contains("data 99, entry 4711, then 0 files"), "{output}");
    if outcome.clock_is_simulated {
        assert!(output.contains("after 2 s and 3 s"), "{output}");
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let Ok(()) = is_available() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut tree = Tree::default();
    tree.put(BTF, Node::File(btf::kernel().0));
    let request = Request {
        program: folder.path().join("no-such"),
        arguments: Vec::new(),
        environment: Vec::new(),
        readable: Vec::new(),
        tree,
        cpus: 1,
        memory_bytes: 1 << 30,
        release: "7.3.4".to_owned(),
        start_ns: 0,
        patience: Duration::from_secs(1),
    };
    let error = run(&request, &mut Fake::default()).unwrap_err();
    assert!(error.message().contains("no-such"), "{}", error.message());
}

/// What it printed, of a program that ended as it should.
fn said(outcome: &Outcome) -> String {
    let output = String::from_utf8_lossy(&outcome.output).into_owned();
    assert_eq!(outcome.status.code(), Some(7), "{output}");
    output
}

#[test]
fn what_no_scheduler_needs_is_refused_by_name() {
    let Some(outcome) = run_program("calls", &mut Fake::default()) else { return };
    let output = said(&outcome);
    let named: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("refused ")).collect();
    assert!(named.len() > 30, "{output}");
    for name in named {
        assert!(outcome.refused_calls.contains_key(name), "{name}: {:?}", outcome.refused_calls);
    }
    assert!(outcome.refused.contains_key(&(PathBuf::from("/bin/sh"), Refusal::Execute)));
}

#[test]
fn a_program_reaches_no_file_that_it_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "shown").unwrap();
    symlink("file", folder.path().join("good")).unwrap();
    symlink("/etc/passwd", folder.path().join("link")).unwrap();
    symlink("/etc", folder.path().join("folder")).unwrap();
    let Some(outcome) = run_in("files", folder.path(), &mut Fake::default()) else { return };
    said(&outcome);
    for path in ["/etc/passwd", "/proc/self/root/etc/passwd", "/proc/self/mem"] {
        assert!(outcome.refused.contains_key(&(PathBuf::from(path), Refusal::NotShown)), "{path}");
    }
}

#[test]
fn nothing_of_the_host_is_in_what_a_program_learns() {
    let run = || run_program("looks_for_the_host", &mut Fake::default()).map(|outcome| said(&outcome));
    let Some(first) = run() else { return };
    assert!(
        first.contains("process 4100000 parent 1 group 4100000\nuser 0 0\nmemory 1073741824 up 1"),
        "{first}"
    );
    assert!(first.contains("used 0 0\non CPU 0 of nice 0\nstack 8388608\n"), "{first}");
    assert!(
        first.contains("[\"cpu0\", \"cpu1\", \"cpu2\", \"cpu3\", \"cpu4\", \"cpu5\", \"isolated\""),
        "{first}"
    );
    assert_eq!(run().unwrap(), first);
}

#[test]
fn timers_are_of_simulated_time() {
    let Some(outcome) = run_program("timers", &mut Fake::default()) else { return };
    let wanted = "alarm 1 at 3000 ms\ntimer 1 at 3025 ms\ntimer 1 at 3035 ms\n\
                  timer 3 at 3070 ms\nselect at 3075 ms\nepoll at 3085 ms\nnothing at 3088 ms\nalarm 4 at 3105 ms\n";
    assert!(said(&outcome).contains(wanted) || !outcome.clock_is_simulated, "{}", said(&outcome));
}

/// The process ids of a process's children.
fn children(pid: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let all = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    all.collect::<String>().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn a_program_ends_with_a_broker_that_is_killed() {
    let Ok(()) = is_available() else { return };
    let broker = ["--exact", "broker::tests::broker_starts_here", "--nocapture", "--test-threads=1"];
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut broker = command.args(broker).env(BROKER, "hangs").stdout(Stdio::null()).spawn().unwrap();
    let within = |what: &dyn Fn() -> bool| {
        (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            what()
        })
    };
    assert!(within(&|| !children(broker.id()).is_empty()));
    let program = children(broker.id())[0];
    broker.kill().unwrap();
    broker.wait().unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{program}/stat")).unwrap_or_default();
    assert!(within(&|| state().is_empty() || state().contains(") Z ")), "{}", state());
}

/// Not a test by itself: a broker that is to be killed.
const BROKER: &str = "SCX_TEST_BROKER";
#[test]
fn broker_starts_here() {
    if let Ok(name) = std::env::var(BROKER) {
        run_program(&name, &mut Fake::default());
    }
}
