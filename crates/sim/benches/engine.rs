//! Speed: the parts that every event passes through, and whole simulations.
//!
//! `cargo bench -p schedlab-sim`. Whole simulations report events a second (throughput); their times are per run.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{CpuId, Ns, Stream};
use schedlab_board::engine::WinnerTree;
use schedlab_kernel::Kernel;
use schedlab_machine::Machine;
use schedlab_record::{Better, Series};
use schedlab_sim::fair::{CfsRq, EntityId};
use schedlab_sim::pelt::Pelt;
use schedlab_sim::{Setup, simulate};
use schedlab_workload::{Builder, Built, Env, NestedSpec, Op, Params, Program, SeriesId, Spec};
use std::hint::black_box;

/// The earliest slot acts and is armed anew; with `remote` another slot is, too, as after an IPI.
fn tree(c: &mut Criterion) {
    let mut group = c.benchmark_group("winner_tree");
    let draws = Stream::new(7);
    for slots in [48usize, 224, 1024] {
        for (name, remote) in [("arm", false), ("arm_and_remote", true)] {
            let mut tree = WinnerTree::new(slots, Stream::new(1));
            (0..slots).for_each(|s| tree.arm(s, draws.below(s as u64, 100_000)));
            let mut i = slots as u64;
            group.bench_function(format!("{name}/{slots}"), |b| {
                b.iter(|| {
                    i += 1;
                    let (slot, at) = tree.first().unwrap_or_default();
                    let rival = tree.take(slot);
                    if remote {
                        let other = draws.below(i ^ 1 << 40, slots as u64) as usize;
                        tree.arm(other, at + 1 + draws.below(i ^ 1 << 41, 100_000));
                    }
                    tree.put(slot, at + 1 + draws.below(i, 100_000));
                    black_box(rival)
                });
            });
        }
    }
    group.finish();
}

/// The leftmost entity runs a while and goes back.
fn runqueue(c: &mut Criterion) {
    let mut group = c.benchmark_group("cfs_rq");
    let draws = Stream::new(3);
    for tasks in [3u32, 50, 200] {
        let mut queue = CfsRq::new(CpuId(0), None);
        (0..tasks).for_each(|t| queue.insert(EntityId(t), draws.below(u64::from(t), 24_000_000) as i64));
        let mut i = 0;
        group.bench_function(format!("pick_and_reinsert/{tasks}"), |b| {
            b.iter(|| {
                i += 1;
                if let Some((entity, vruntime)) = queue.leftmost() {
                    queue.remove(entity, vruntime);
                    queue.update_min_vruntime(Some(vruntime));
                    queue.insert(entity, vruntime + draws.below(i, 24_000_000) as i64);
                }
                black_box(queue.min_vruntime)
            });
        });
    }
    group.finish();
}

/// One update within a period, across one, across many.
fn pelt(c: &mut Criterion) {
    let mut group = c.benchmark_group("pelt_update");
    for (name, step_ns) in [("10us", 10_000), ("1ms", 1_000_000), ("30ms", 30_000_000)] {
        let (mut avg, mut now) = (Pelt::default(), 0);
        group.bench_function(name, |b| {
            b.iter(|| {
                now += step_ns;
                black_box(avg.update(now, 1024, 1, true))
            });
        });
    }
    group.finish();
}

/// Reads the clock, sleeps a microsecond, records how long that took: the load of a nanosleep storm.
struct Nap {
    since: Option<Ns>,
    series: SeriesId,
}

impl Program for Nap {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let now = env.now();
        if let Some(since) = self.since.replace(now) {
            env.record(self.series, now.since(since).0);
        }
        Op::Sleep { length: Ns::us(1) }
    }
}

/// One such task for each CPU.
fn naps(machine: &Machine, length: Ns) -> Built {
    let mut b = Builder::new(1);
    b.lasts(length, Ns::ZERO);
    let series = b.series("nap", "ns", "lower");
    for _ in 0..machine.topology.nr_cpus() {
        b.task("nap", Box::new(Nap { since: None, series })).expect("few tasks");
    }
    b.finish().expect("tasks start by themselves")
}

fn schbench(length: Ns) -> Built {
    let given = [("message_threads", 6), ("threads", 24), ("runtime", length.0)];
    let params = Params(given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    Spec::bench("schbench", &params).and_then(|s| s.build(1)).expect("schbench")
}

/// Simulates as for a run with a record: the analyser watches. Returns the numbers of events and wakeups.
fn run(machine: &Machine, kernel: Kernel, workload: Built) -> (u64, u64) {
    let tasks = workload.tasks.iter().map(|t| TaskName { name: t.name.clone(), background: false }).collect();
    let series =
        workload.series.iter().map(|s| (s.name.clone(), Series::new(&s.unit, Better::Lower))).collect();
    let mut analyser = Analyser::new(machine.topology.nr_cpus(), tasks, series, workload.warmup);
    let setup = Setup {
        machine,
        kernel,
        changes: Vec::new(),
        workload,
        seed: 1,
        background: true,
        check: false,
        stop: None,
        clock: None,
    };
    let report = simulate(setup, &mut analyser).expect("the run ends well");
    black_box(analyser.finish(report.end));
    (report.events, report.wakeups)
}

fn simulations(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    type Load = fn(&Machine, Ns) -> Built;
    let schbench: Load = |_, length| schbench(length);
    // The last two cases: an event is to cost no more than twice as much on 1,024 CPUs as on 64. They include the setup
    // and the spreading of tasks, which grow with the square of the CPUs.
    let cases: [(&str, &str, &str, Load, Ns); 7] = [
        ("schbench-6x24", "fb-2x24-smt", "v4.5", schbench, Ns::ms(100)),
        ("schbench-6x24", "fb-2x24-smt", "v6.5", schbench, Ns::ms(100)),
        ("schbench-6x24", "fb-2x12-smt", "v4.5", schbench, Ns::ms(100)),
        ("nanosleep-storm", "spr-2x56", "v4.5", naps, Ns::ms(10)),
        ("nanosleep-storm", "spr-2x56", "v6.5", naps, Ns::ms(50)),
        ("nanosleep-storm", "smp-64", "v6.5", naps, Ns::ms(100)),
        ("nanosleep-storm", "smp-1024", "v6.5", naps, Ns::ms(100)),
    ];
    for (name, machine_name, profile, load, length) in cases {
        let machine = Machine::load(machine_name).expect("a preset");
        let kernel = Kernel::profile(profile).expect("a profile");
        let (events, wakeups) = run(&machine, kernel, load(&machine, length));
        let per_wakeup = events as f64 / wakeups.max(1) as f64;
        eprintln!(
            "{name} {machine_name} {profile}, {length}: {events} events, {wakeups} wakeups, {per_wakeup:.1} each"
        );
        group.throughput(Throughput::Elements(events));
        group.bench_function(format!("{name}/{machine_name}/{profile}/{length}"), |b| {
            b.iter_batched(|| load(&machine, length), |w| run(&machine, kernel, w), BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// Pairs of client and server on eight CPUs, and the same in a virtual machine with eight vCPUs. What a second level of
/// scheduling costs is the ratio of the times per event.
fn levels(c: &mut Criterion) {
    let mut group = c.benchmark_group("levels");
    group.sample_size(10);
    let machine = Machine::load("smp-8").expect("a machine");
    let kernel = Kernel::profile("v3.4").expect("a profile");
    let base =
        Spec::bench("rr", &Params([("pairs".to_owned(), 16), ("runtime".to_owned(), 100_000_000)].into()))
            .expect("parameters");
    let inside = NestedSpec {
        name: "vm".to_owned(),
        vcpus: 8,
        kernel: "v3.4".to_owned(),
        features: vec![],
        tunables: Default::default(),
        periodic_tick: false,
        halt_poll: Ns::ZERO,
        tasks: vec!["*".to_owned()],
    };
    let nested = base.clone().together(vec![], vec![], (vec![inside], vec![])).expect("a workload");
    for (name, spec) in [("one", base), ("two", nested)] {
        let (events, _) = run(&machine, kernel, spec.build(1).expect("a workload"));
        group.throughput(Throughput::Elements(events));
        group.bench_function(name, |b| {
            b.iter_batched(
                || spec.build(1).expect("a workload"),
                |built| run(&machine, kernel, built),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, tree, runqueue, pelt, simulations, levels);
criterion_main!(benches);
