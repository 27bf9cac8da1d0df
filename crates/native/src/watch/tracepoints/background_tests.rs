use super::super::tests::{bytes, layouts};
use super::*;
use schedlab_analyse::background::{Shape, groups};
use schedlab_base::CpuId;
use schedlab_base::testing::skipped;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A switch's record: CPU, time, leaving thread and its state, arriving thread.
fn switch(l: &Layouts, cpu: u32, at_us: u64, prev: u32, state: u32, next: u32) -> TimedRecord {
    let raw = bytes(300, 0, prev, &[(24, prev), (32, state), (56, next)]);
    TimedRecord { at_ns: at_us * 1_000, cpu, what: l.read(&raw).unwrap() }
}
fn waking(l: &Layouts, cpu: u32, at_us: u64, thread: u32) -> TimedRecord {
    TimedRecord { at_ns: at_us * 1_000, cpu, what: l.read(&bytes(301, 0x08, 0, &[(24, thread)])).unwrap() }
}

#[test]
fn recorded_events_become_rates() {
    let l = layouts();
    let mut reduction = Reduction::new(1_000_000, true);
    for (thread, name) in [(40, "kworker/0:1"), (41, "kworker/1:0")] {
        note_name(&mut reduction.translator.names, thread, name.as_bytes());
    }
    let mut held = vec![waking(&l, 0, 500, 40), switch(&l, 0, 510, 0, 0, 40)];
    for i in 0..20u64 {
        let (cpu, at_us) = ((i % 2) as u32, 2_000 + i * 50_000);
        let thread = 40 + cpu;
        held.push(switch(&l, cpu, at_us + 25, thread, 2, 0));
        held.push(waking(&l, cpu, at_us, thread));
        held.push(switch(&l, cpu, at_us + 5, 0, 0, thread));
        // The same switch from idle, from the other source.
        held.push(switch(&l, cpu, at_us + 6, 0, 0, thread));
    }
    let last = held.len();
    held.push(waking(&l, 0, 2_000_000, 40));
    reduction.take(&mut held, 1_500_000_000);
    assert_eq!((held.len(), last), (1, 82), "what is later stays");
    let threads = reduction.activity.finish(Ns::secs(1));
    let facts = |cpu: u32| ThreadFacts {
        kernel: true,
        cpus: [CpuId(cpu)].into_iter().collect(),
        ..ThreadFacts::default()
    };
    let known: Vec<_> = threads.into_iter().zip([Some(facts(0)), Some(facts(1))]).collect();
    let found = groups(&known, 2, Ns::secs(1));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].per_cpu, found[0].wakeups), ("kworker", true, 20));
    assert_eq!((found[0].run.mean, found[0].shape), (Some(20_000.0), Shape::Periodic));
    assert_eq!((found[0].per_second, found[0].gap.p50), (10.0, Some(100_000_000.0)));
}

#[test]
fn proc_shows_kernel_threads_and_their_class() {
    let stat = |flags: u64, nice: i32, policy: u32| {
        format!(
            "7 (a) b) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 {nice} 1 0 {} {policy} 0",
            "0 ".repeat(19).trim()
        )
    };
    let of = |text: &str| facts_of(text, "p", CpuSet::first(2)).unwrap();
    let kernel = of(&stat(0x0020_8040, -20, 0));
    assert!(kernel.kernel && kernel.nice == -20 && !kernel.real_time && kernel.cpus == CpuSet::first(2));
    let process = of(&stat(0x0040_0000, 5, 1));
    assert!(!process.kernel && process.real_time && process.process == "p");
    assert_eq!(facts_of("7 (x) S 1", "p", CpuSet::new()), None);
}

#[test]
fn this_process_knows_its_own_threads_and_itself() {
    assert!(matches!(known(sys::thread_id()), Some(ProcThread::Ours)));
    let init = known(1);
    assert!(init.is_none_or(|k| matches!(k, ProcThread::Of(f) if !f.kernel)));
}

/// A shell that repeatedly sleeps, by a program that only it calls, because other programs of the machine sleep, too.
/// Before each sleep it prints the time.
struct Sleeper {
    shell: Child,
    program: PathBuf,
}

/// The resolution of /proc/uptime: hundredths of a second, rounded down.
const UPTIME_STEP_NS: u64 = 10_000_000;

impl Sleeper {
    fn start() -> Sleeper {
        let sleep = ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| Path::new(path).exists());
        // In the kernel's events a thread's name has at most 15 letters.
        let program = std::env::temp_dir().join(format!("sl{}", std::process::id()));
        let _ = fs::remove_file(&program);
        std::os::unix::fs::symlink(sleep.expect("sleep"), &program).unwrap();
        let text = format!("while read up _ < /proc/uptime; do echo $up; {} 0.05; done", program.display());
        let shell = Command::new("sh").args(["-c", &text]).stdout(Stdio::piped()).spawn().unwrap();
        Sleeper { shell, program }
    }
    fn name(&self) -> String {
        self.program.file_name().unwrap().to_string_lossy().into_owned()
    }
    /// Ends it; returns the beginnings of its sleeps, ns since boot, each up to [`UPTIME_STEP_NS`] early.
    fn end(mut self) -> Vec<u64> {
        self.shell.kill().unwrap();
        let mut said = String::new();
        self.shell.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        said.lines().map(|up| up.replace('.', "").parse::<u64>().unwrap() * UPTIME_STEP_NS).collect()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        let _ = fs::remove_file(&self.program);
    }
}

/// Nanoseconds since boot, from /proc/uptime.
fn since_boot_ns() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().replace('.', "").parse::<u64>().unwrap() * UPTIME_STEP_NS
}

#[test]
fn a_sleeper_is_seen_as_often_as_it_wakes_up() {
    // Requires root or CAP_PERFMON.
    if super::super::check().is_err() || !instance::threads_have_the_kernels_numbers() {
        return skipped("tracepoints");
    }
    let sleeper = Sleeper::start();
    let name = sleeper.name();
    let called_ns = since_boot_ns();
    let seen = watch(Ns::ms(1_200), &AtomicBool::new(false)).unwrap();
    let returned_ns = since_boot_ns() + UPTIME_STEP_NS;
    let begins = sleeper.end();
    assert!(if seen.lost == 0 { seen.window == Ns::ms(1_200) } else { seen.window <= Ns::ms(1_200) });
    // The window is somewhere between call and return, since opening and reading take time. A sleep is surely in it if
    // it is in every such window, and may be in it if it touches the call. The shell may continue just before its child
    // has left the CPU for good, so a sleep has surely ended only when the next one has.
    let (surely_from, surely_to) = (returned_ns - seen.window.0, called_ns + seen.window.0);
    let spans = || begins.windows(3).map(|of| (of[0], of[2] + UPTIME_STEP_NS));
    let surely = spans().filter(|(from, to)| *from >= surely_from && *to <= surely_to).count();
    // The last two have no end here.
    let at_most = spans().filter(|(from, to)| *to >= called_ns && *from <= returned_ns).count() + 2;
    let sleeps = seen.threads.iter().filter(|(t, _)| t.name == name && !t.arrivals.is_empty()).count();
    assert!((surely..=at_most).contains(&sleeps) && sleeps > 0, "{surely} <= {sleeps} <= {at_most}");
    let ours = seen
        .threads
        .iter()
        .any(|(_, f)| f.as_ref().is_some_and(|f| f.process.starts_with("schedlab_native")));
    assert!(!ours, "the recorder's own threads are left out");
    let stopped = watch(Ns::secs(60), &AtomicBool::new(true)).err().unwrap();
    assert_eq!(stopped.kind(), ErrorKind::CheckFailed);
}
