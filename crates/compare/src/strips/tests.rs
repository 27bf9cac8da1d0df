//! Strips of small runs, and how they fit into little room.

use super::gather::{Follows, Gather};
use super::*;
use schedlab_analyse::conserve::{Stretches, World};
use schedlab_base::{CpuId, TaskId, Version};
use schedlab_machine::{Domains, Machine};
use schedlab_trace::{Event, EventKind, Sink, SwitchReason};

fn name(name: &str, background: bool) -> TaskName {
    TaskName { name: name.to_owned(), background }
}

/// Two CPUs: from 100 on a task of the workload runs on the first, and from 300 to 700 another waits behind it.
fn small() -> Strips {
    let machine = Machine::load("smp-2").unwrap();
    let domains = Domains::build(&machine.topology, Version::new(4, 5));
    let stretches = Stretches::new(World::new(2, vec![None; 3], Vec::new()), domains, Ns(0), 0).in_bins(250);
    followed(Follows::Stretches(Box::new(stretches)))
}

/// The same run, followed in another way.
fn followed(follows: Follows) -> Strips {
    let names = vec![name("a", false), name("b", false), name("kworker", true)];
    let mut sink = Gather::new(2, names, follows, 250);
    let (a, b, k) = (Some(TaskId(0)), Some(TaskId(1)), Some(TaskId(2)));
    let switch = |prev, next, why| EventKind::Switch { prev, next, why };
    let queued = |task: TaskId| EventKind::Enqueued { task, nr_running: 0, new: false };
    for (at, cpu, kind) in [
        (100, 0, switch(None, a, SwitchReason::FromIdle)),
        (300, 0, queued(TaskId(1))),
        (500, 1, switch(None, k, SwitchReason::FromIdle)),
        (700, 0, switch(a, b, SwitchReason::TickSlice)),
        (800, 0, switch(b, a, SwitchReason::Blocked)),
        (900, 0, switch(a, None, SwitchReason::Blocked)),
    ] {
        sink.event(&Event { at: Ns(at), cpu: CpuId(cpu), kind });
    }
    sink.finish(Ns(0), Ns(1000))
}

#[test]
fn tracks_and_counts_show_running_and_waiting_tasks() {
    let s = small();
    let ran = |cpu: usize| -> Vec<(u64, Option<u32>)> {
        s.who[cpu].pieces(1000).map(|p| (p.from, who::task(p.value).map(|t| t.0))).collect()
    };
    assert_eq!(ran(0), [(0, None), (100, Some(0)), (700, Some(1)), (800, Some(0)), (900, None)]);
    assert_eq!(ran(1), [(0, None), (500, Some(2))]);
    let depth: Vec<(u64, u32)> = s.depth[0].pieces(1000).map(|p| (p.from, p.value)).collect();
    assert_eq!(depth, [(0, 0), (300, 1), (800, 0)], "after its slice the first waits for the second");
    assert_eq!(s.waiting, [0, 200, 250, 50]);
    assert_eq!(s.running, [150, 250, 250, 150], "the kernel's thread is not of the workload");
    let beside_idle = BesideIdle { by_bin: vec![0, 200, 0, 0], covered: Ns(200) };
    assert_eq!(s.beside_idle, Some(beside_idle), "the second CPU was idle");
}

#[test]
fn a_kernel_s_events_give_the_same_except_for_idle_cpus() {
    let (simulated, points) = (small(), followed(Follows::Points(World::new(2, Vec::new(), Vec::new()))));
    assert_eq!(points, Strips { beside_idle: None, ..simulated });
}

#[test]
fn little_room_makes_bins_that_add_up() {
    let mut s = small();
    // A busy first CPU: a change in each microsecond.
    s.end = Ns(4_000_000);
    for t in s.who.iter_mut().chain(&mut s.depth) {
        t.close(1000);
    }
    for at in 1..4000u64 {
        s.who[0].set(at * 1000, who::runs(Some(TaskId(at as u32 % 2))));
    }
    s.who.iter_mut().chain(&mut s.depth).for_each(|t| t.close(4_000_000));
    let whole = s.clone().fitted(1 << 20, &[]);
    assert_eq!((whole.bin, whole.exact.len(), &whole.who), (None, 0, &s.who));
    let window = (1_000_000, 1_100_000);
    let few = s.clone().fitted(2000, &[window]);
    let bin = few.bin.expect("it is simulated in bins").0;
    assert!(few.size() <= 2000 && bin >= NARROWEST, "{} bytes in bins of {bin}", few.size());
    assert_eq!(few.pieces, whole.pieces);
    let [exact] = few.exact[..] else { panic!("one window: {:?}", few.exact) };
    assert!(exact.0 <= window.0 && exact.1 >= window.1);
    for (a, b) in s.tracks().zip(few.tracks()) {
        let length = |t: &Track| t.pieces(4_000_000).map(|p| p.until - p.from).sum::<u64>();
        assert_eq!((length(a), length(b)), (4_000_000, 4_000_000));
    }
    let inside = |t: &Track| t.pieces(4_000_000).filter(|p| p.from > exact.0 && p.until < exact.1).count();
    assert_eq!(inside(&few.who[0]), inside(&s.who[0]));
}

/// A dense run of 4 ms: the first CPU changes its task each 100 ns.
fn dense() -> Strips {
    let mut s = small();
    s.end = Ns(4_000_000);
    s.who.iter_mut().chain(&mut s.depth).for_each(|t| t.close(1000));
    for at in 1..40_000u64 {
        s.who[0].set(1000 + at * 99, who::runs(Some(TaskId(at as u32 % 2))));
    }
    s.who.iter_mut().chain(&mut s.depth).for_each(|t| t.close(4_000_000));
    s
}

#[test]
fn windows_widened_to_whole_bins_fit_the_room() {
    // In wide bins, small windows cover the whole run.
    let windows: Vec<Window> = (0..20).map(|n| (n * 200_000, n * 200_000 + 100)).collect();
    let whole = dense().size();
    for room in [whole / 2, whole / 10, 2_000, 400, 60] {
        let few = dense().fitted(room, &windows);
        assert!(few.size() <= room && few.bin.is_some(), "{} bytes of {room} of {whole}", few.size());
    }
    let least = dense().fitted(1, &windows);
    assert!(least.exact.is_empty() && least.size() < 60, "{} bytes: one bin for each track", least.size());
}

#[test]
fn the_longest_wait_stays_exact_where_it_fits() {
    let windows: Vec<Window> = vec![(1_000_000, 1_002_000), (0, 4_000_000)];
    let few = dense().fitted(4_000, &windows);
    assert!(few.size() <= 4_000);
    let bin = few.bin.unwrap().0;
    assert_eq!(few.exact, whole_bins(&windows[..1], bin), "the second alone is too large");
}
