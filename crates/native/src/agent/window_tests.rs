//! Figures cover only the measured time, and only a task's work.

use super::*;
use schedlab_workload::{Builder, Env, Op, Program};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

struct Steps<F>(F);

impl<F: FnMut(&mut dyn Env) -> Op + Send + 'static> Program for Steps<F> {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        self.0(env)
    }
}

fn steps<F: FnMut(&mut dyn Env) -> Op + Send + 'static>(f: F) -> Box<dyn Program> {
    Box::new(Steps(f))
}

/// Writes a file that shows `switches` switches of a CPU.
fn say(file: &Path, switches: u32) {
    let text = format!("version 15\ntimestamp {switches}\ncpu0 0 0 {switches} 4 0 0 123 45 6\n");
    let beside = file.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, file).unwrap();
}

/// Writes to the file on drop, which is when its task has left.
struct Last(PathBuf);

impl Drop for Last {
    fn drop(&mut self) {
        say(&self.0, 5_000);
    }
}

/// The warnings of a run, except those about other work on this machine.
fn warning_codes(m: &Measured) -> Vec<&str> {
    let codes = m.own.warnings.iter().map(|w| w.code.as_str());
    codes.filter(|code| !["run.overran", "run.slow_end"].contains(code)).collect()
}

#[test]
fn counters_of_the_kernel_that_move_outside_of_the_window_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("schedstat");
    say(&file, 10);
    let kernel = KernelCounters::of(&file, true);
    let (warmup, duration) = (Ns::ms(60), Ns::ms(120));
    let mut b = Builder::new(1);
    b.lasts(duration, warmup);
    // The program counts a thousand in the warm-up, 7 in the middle of the measured time, and thousands at the end.
    let (last, mut said) = (Last(file.clone()), 10);
    let program = steps(move |env| {
        let now = if env.now() < warmup.plus(Ns::ms(30)) { 1_010 } else { 1_017 };
        if now != said {
            said = now;
            say(&last.0, now);
        }
        Op::Sleep { length: Ns::ms(5) }
    });
    b.task("teller", program).unwrap();
    let changes = Changes::default();
    let m = run_changing(b.finish().unwrap(), &Places::default(), &changes, None, Observe::Counters, kernel)
        .unwrap();
    let counted = m.own.schedstat.as_ref().expect("the file counts");
    assert_eq!((counted.cpus[0].sched_count, counted.timestamp), (7, 7));
    // The task's thread may still be exiting.
    let until = sys::monotonic_ns() + Ns::secs(5).0;
    while !std::fs::read_to_string(&file).unwrap().contains("timestamp 5000") {
        assert!(sys::monotonic_ns() < until, "its end came later, and did come");
        sys::sleep_for(Ns::ms(1).0);
    }
    assert!(warning_codes(&m).is_empty(), "{:?}", m.own.warnings);
}

/// A finished task still exists when another ends, has the usage of its own work, and delays nobody.
#[test]
fn a_task_that_has_done_its_work_waits_for_the_end() {
    let mut b = Builder::new(1);
    b.ends_within(Ns::secs(20));
    let thread = Arc::new(AtomicU32::new(0));
    let (mine, mut done) = (thread.clone(), false);
    let early = steps(move |_| {
        mine.store(sys::thread_id(), SeqCst);
        if std::mem::replace(&mut done, true) { Op::Exit } else { Op::Run { work: Ns::ms(5) } }
    });
    b.task("early", early).unwrap();
    let (there, mut slept) = (Arc::new(AtomicU32::new(0)), false);
    let seen = there.clone();
    let late = steps(move |_| {
        if !std::mem::replace(&mut slept, true) {
            return Op::Sleep { length: Ns::ms(100) };
        }
        let task = format!("/proc/self/task/{}", thread.load(SeqCst));
        seen.store(u32::from(Path::new(&task).exists()), SeqCst);
        Op::Exit
    });
    b.task("late", late).unwrap();
    let m = run_built(b.finish().unwrap(), None).unwrap();
    assert_eq!(there.load(SeqCst), 1, "it is still there");
    assert!(m.own.duration >= Ns::ms(100) && m.own.duration < Ns::secs(5), "{}", m.own.duration);
    let used = m.own.tasks[0].cpu_time;
    assert!(used >= Ns::ms(5) && used < Ns::ms(15), "{used}");
    assert!(m.own.tasks[0].voluntary >= 1, "its going to sleep is one switch");
    assert!(warning_codes(&m).is_empty(), "{:?}", m.own.warnings);
}
