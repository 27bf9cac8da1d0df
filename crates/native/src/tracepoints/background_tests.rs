use super::super::tests::{bytes, layouts};
use super::*;
use schedlab_base::CpuId;
use schedlab_record::background::{Shape, groups};

/// A switch's record: CPU, time, who left in which state, who came.
fn switch(l: &Layouts, cpu: u32, at_us: u64, prev: u32, state: u32, next: u32) -> Held {
    let raw = bytes(300, 0, prev, &[(24, prev), (32, state), (56, next)]);
    Held { at_ns: at_us * 1_000, cpu, what: l.read(&raw).unwrap() }
}
fn waking(l: &Layouts, cpu: u32, at_us: u64, thread: u32) -> Held {
    Held { at_ns: at_us * 1_000, cpu, what: l.read(&bytes(301, 0x08, 0, &[(24, thread)])).unwrap() }
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
        // The same switch from idle, by the other source.
        held.push(switch(&l, cpu, at_us + 6, 0, 0, thread));
    }
    let last = held.len();
    held.push(waking(&l, 0, 2_000_000, 40));
    reduction.take(&mut held, 1_500_000_000);
    assert_eq!((held.len(), last), (1, 82), "what is later stays");
    let threads = reduction.activity.finish(Ns::secs(1));
    let facts =
        |cpu: u32| Facts { kernel: true, cpus: [CpuId(cpu)].into_iter().collect(), ..Facts::default() };
    let known: Vec<_> = threads.into_iter().zip([Some(facts(0)), Some(facts(1))]).collect();
    let found = groups(&known, 2, Ns::secs(1));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].per_cpu, found[0].wakeups), ("kworker", true, 20));
    assert_eq!((found[0].run.mean, found[0].shape), (Some(20_000.0), Shape::Periodic));
    assert_eq!((found[0].per_second, found[0].gap.p50), (10.0, Some(100_000_000.0)));
}

#[test]
fn proc_tells_kernel_threads_and_their_class() {
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
    assert!(matches!(known(sys::thread_id()), Some(Known::Ours)));
    let init = known(1);
    assert!(init.is_none_or(|k| matches!(k, Known::Of(f) if !f.kernel)));
}

#[test]
fn a_sleeper_is_seen_as_often_as_it_wakes_up() {
    // It needs root or CAP_PERFMON.
    if super::super::check().is_err() || !instance::threads_have_the_kernels_numbers() {
        return println!("skipped: events can't be recorded here");
    }
    let mut child =
        std::process::Command::new("sh").args(["-c", "while :; do sleep 0.05; done"]).spawn().unwrap();
    let seen = watch(Ns::ms(1_200), &AtomicBool::new(false)).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((seen.window, seen.lost), (Ns::ms(1_200), 0));
    let of = |thread: &Thread| thread.name == "sleep" && !thread.arrivals.is_empty();
    let sleeps = seen.threads.iter().filter(|(thread, _)| of(thread)).count();
    // A loaded machine makes fewer.
    assert!((3..=24).contains(&sleeps), "{sleeps}");
    let ours = seen
        .threads
        .iter()
        .any(|(_, f)| f.as_ref().is_some_and(|f| f.process.starts_with("schedlab_native")));
    assert!(!ours, "the recorder's own threads are left out");
    let stopped = watch(Ns::secs(60), &AtomicBool::new(true)).err().unwrap();
    assert_eq!(stopped.kind(), ErrorKind::CheckFailed);
    assert!(instance::left(instance::names()).is_empty());
}
