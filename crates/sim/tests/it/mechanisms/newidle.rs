//! Newidle balance as D001 (Chen Yu, 27 Jul 2023) measures it: the nanosleep storm, its counts in /proc/schedstat, and
//! the effect of each step of that series.

use crate::support::{Load, forever, hog, kernel, machine, run_us, sleep_us};
use schedlab_base::{CpuId, Ns};
use schedlab_kernel::Kernel;
use schedlab_machine::Machine;
use schedlab_record::Schedstat;
use schedlab_record::schedstat::{Balance, IdleType, identities};
use schedlab_sim::{Setup, SimReport, simulate};
use schedlab_trace::{BalanceTrigger, Event, EventKind, Keep};
use schedlab_workload::{Built, Params, Spec};

/// D001's preparatory steps: the counter and the number of groups.
const RFC: &str = "v6.5 SD_SHARED_ALL SD_NR_GROUPS LB_SG_SCAN";

/// A run and its events.
#[derive(PartialEq, Debug)]
struct Seen {
    report: SimReport,
    events: Vec<Event>,
}

/// The settings of a run, other than machine and kernel.
#[derive(Clone, Copy)]
struct How {
    seed: u64,
    warmup_ms: u64,
    background: bool,
}

const PLAIN: How = How { seed: 1, warmup_ms: 0, background: false };

/// Runs a workload that lasts `ms` after its warm-up.
fn go(machine: &Machine, kernel: Kernel, how: How, mut workload: Built, ms: u64) -> Seen {
    (workload.warmup, workload.duration) = (Ns::ms(how.warmup_ms), Ns::ms(ms));
    let mut keep = Keep::default();
    let (seed, background) = (how.seed, how.background);
    let (check, stop, clock) = (false, None, None);
    let changes = Vec::new();
    let setup = Setup { machine, kernel, changes, workload, seed, background, check, stop, clock };
    let report = simulate(setup, &mut keep).expect("the run ends well");
    Seen { report, events: keep.events }
}

fn bench(name: &str, params: &[(&str, u64)], seed: u64) -> Built {
    let params = Params(params.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect());
    Spec::bench(name, &params).and_then(|s| s.build(seed)).expect("a benchmark")
}

/// The storm: one sleeper per CPU.
fn storm(machine: &Machine, seed: u64) -> Built {
    bench("nanosleep", &[("tasks", machine.topology.nr_cpus() as u64)], seed)
}

/// A load with a task that always waits on CPU 0, so that `rd->overload` is set, and a napper on each of some other
/// CPUs that runs and sleeps for `run` and `sleep` us (plus the default timer slack).
fn crowded_zero(nappers: impl IntoIterator<Item = u64>, run: u64, sleep: u64) -> Built {
    let mut load = Load::lasting_ms(1);
    load.crowd_zero();
    for cpu in nappers {
        let ops = vec![run_us(run), sleep_us(sleep + cpu % 5)];
        load.task("napper", Some(&cpu.to_string()), forever(ops));
    }
    load.built()
}

/// A load in which wakeups on CPU 0 set `rd->overload` again and again, whatever passes find, and a napper on CPU 1. No
/// task may leave its CPU.
fn restless_zero(run: u64, sleep: u64) -> Built {
    let mut load = Load::lasting_ms(1);
    load.task("hog", Some("0"), hog());
    load.task("restless", Some("0"), forever(vec![run_us(1), sleep_us(1)]));
    load.task("napper", Some("1"), forever(vec![run_us(run), sleep_us(sleep)]));
    load.built()
}

impl Seen {
    fn stat(&self) -> &Schedstat {
        self.report.found.schedstat.as_ref().expect("the simulator counts")
    }
    /// The sum over CPUs of a balance counter of one domain and idle type.
    fn lb(&self, level: usize, idle: IdleType, of: fn(&Balance) -> u64) -> u64 {
        self.stat().cpus.iter().filter_map(|c| c.domains.get(level)).map(|d| of(&d.lb[idle as usize])).sum()
    }
    /// CPUs visited and time taken by each pass over a domain that read any: (trigger, CPU, visited, ns).
    fn passes(&self, of_level: usize) -> Vec<(BalanceTrigger, CpuId, u64, u64)> {
        let of = |e: &Event| match e.kind {
            EventKind::Balance { level, trigger, visited, took_ns, .. }
                if usize::from(level) == of_level && visited > 0 =>
            {
                Some((trigger, e.cpu, u64::from(visited), u64::from(took_ns)))
            }
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }
    /// Newidle passes over a domain that read statistics.
    fn newidle(&self, level: usize) -> u64 {
        self.passes(level).iter().filter(|p| p.0 == BalanceTrigger::Newidle).count() as u64
    }
    /// Groups read in newidle passes over a domain, in hundredths per pass.
    fn scanned(&self, level: usize) -> u64 {
        let (groups, passes) = (self.lb(level, IdleType::Newidle, |b| b.lb_sg_scan), self.newidle(level));
        assert!(passes > 20, "{passes} passes are no test");
        groups * 100 / passes
    }
}

#[track_caller]
fn assert_identities(seen: &Seen, what: &str) {
    let broken = identities(seen.stat());
    assert!(broken.is_empty(), "{what}: {broken:#?}");
}

/// Every combination of the three shortcuts on top of `base`.
fn combinations(base: &str) -> Vec<String> {
    let word = |on: bool, name: &str| if on { name.to_owned() } else { format!("NO_{name}") };
    (0..8u8)
        .map(|bits| {
            let all = ["ILB_SNAPSHOT", "ILB_UTIL", "ILB_FAST"];
            let words = all.iter().enumerate().map(|(i, name)| word(bits & (1 << i) != 0, name));
            format!("{base} {}", words.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

#[test]
fn the_identities_hold_in_every_storm() {
    let machine = machine("spr-2x56");
    let mut passes = 0;
    for (seed, text) in combinations(RFC).iter().enumerate() {
        // With a warm-up, its end falls into many passes, as every end does.
        let how = How { seed: seed as u64, warmup_ms: 7 * (seed as u64 % 2), background: seed % 4 < 3 };
        let seen = go(&machine, kernel(text), how, storm(&machine, how.seed), 20);
        passes += seen.passes(1).len();
        assert_identities(&seen, text);
    }
    assert!(passes > 200, "{passes} passes are no test");
}

#[test]
fn the_identities_hold_for_every_workload() {
    let loads: [(&str, &[(&str, u64)]); 4] = [
        ("hackbench", &[("groups", 2), ("fds", 6), ("loops", 1_000)]),
        ("rr", &[("pairs", 9)]),
        ("schbench", &[("message_threads", 2), ("threads", 7), ("sleeptime", 300_000), ("cputime", 100_000)]),
        ("nanosleep", &[("tasks", 17), ("run", 20_000)]),
    ];
    let all = format!("{RFC} ILB_SNAPSHOT ILB_UTIL ILB_FAST ILB_UTIL_QUAD ILB_SHARE SD_SHARED_NUMA");
    for name in ["smt-8", "nodes-2x4"] {
        let machine = machine(name);
        for text in ["v3.4", "v4.5", "v6.5", &all] {
            for (bench_name, params) in loads {
                for seed in 1..4 {
                    let how = How { seed, warmup_ms: (seed - 1) * 9, background: seed != 2 };
                    let seen = go(&machine, kernel(text), how, bench(bench_name, params, seed), 25);
                    let what = format!("{bench_name} on {name}, {text}, seed {seed}");
                    assert!(seen.report.wakeups > 300, "{what}: {} wakeups", seen.report.wakeups);
                    assert_identities(&seen, &what);
                }
            }
        }
    }
}

#[test]
fn a_task_pushed_by_active_balance_counts_as_gained_by_an_idle_cpu() {
    // Cores {n, n + 8}. Both tasks run on one core and none waits, so only pushing helps.
    for text in ["v3.4", "v4.5", "v6.5"] {
        let mut load = Load::lasting_ms(1);
        let mask = load.builder.mask(crate::support::cpus("0-15"));
        for home in ["0", "8"] {
            let ops = vec![run_us(5_000), schedlab_workload::Op::SetAffinity { mask }, run_us(10_000_000)];
            load.task("released", Some(home), crate::support::once(ops));
        }
        let seen = go(&machine("x5570-2x4-smt"), kernel(text), PLAIN, load.built(), 2_000);
        assert_identities(&seen, text);
        let sum = |of: fn(&schedlab_record::schedstat::DomainStat) -> u64| {
            seen.stat().cpus.iter().flat_map(|c| &c.domains).map(of).sum::<u64>()
        };
        let pushed = sum(|d| d.alb_pushed);
        assert!(pushed > 0 && pushed <= sum(|d| d.lb[IdleType::Idle as usize].lb_gained), "{text}: {pushed}");
    }
}

#[test]
fn wakeups_to_the_waking_cpu_are_counted_as_affine_or_local_or_remote() {
    // More pairs than CPUs, so that some wakers are not alone.
    let seen = go(&machine("smt-8"), kernel("v6.5"), PLAIN, bench("rr", &[("pairs", 9)], 1), 40);
    let sum = |of: fn(&schedlab_record::schedstat::DomainStat) -> u64| {
        seen.stat().cpus.iter().flat_map(|c| &c.domains).map(of).sum::<u64>()
    };
    let (affine, remote) = (sum(|d| d.ttwu_move_affine), sum(|d| d.ttwu_wake_remote));
    let (all, local) = seen.stat().cpus.iter().fold((0, 0), |(a, l), c| (a + c.ttwu_count, l + c.ttwu_local));
    // A wakeup under way at the end has begun but is not counted yet: at most one on each CPU.
    assert!((0..=8).contains(&(seen.report.wakeups - all)), "{all} of {}", seen.report.wakeups);
    assert_eq!(all, local + remote);
    // A client and its server are woken by each other, with WF_SYNC; a waker that is alone on its CPU pulls its wakee.
    assert!(affine > 0 && affine < all, "{affine} of {all}");
}

#[test]
fn baseline_passes_read_all_55_other_groups() {
    let machine = machine("spr-2x56");
    let baseline = format!("{RFC} ILB_SNAPSHOT");
    let seen = go(&machine, kernel(&baseline), How { background: true, ..PLAIN }, storm(&machine, 1), 30);
    for idle in IdleType::ALL {
        let trigger = |t: BalanceTrigger| match t {
            BalanceTrigger::Newidle => IdleType::Newidle,
            BalanceTrigger::Busy => IdleType::Busy,
            BalanceTrigger::Idle | BalanceTrigger::Nohz => IdleType::Idle,
        };
        let passes: Vec<_> = seen.passes(1).into_iter().filter(|p| trigger(p.0) == idle).collect();
        assert!(passes.iter().all(|p| p.2 == 112), "{idle:?}: the whole domain");
        assert_eq!(seen.lb(1, idle, |b| b.lb_sg_scan), 55 * passes.len() as u64, "{idle:?}");
    }
    assert_eq!(seen.scanned(0), 100, "the sibling");
    assert_eq!(seen.scanned(1), 5_500);
    assert_eq!(seen.scanned(2), 100, "the other node");

    let fast = format!("{baseline} ILB_FAST");
    let seen = go(&machine, kernel(&fast), How { background: true, ..PLAIN }, storm(&machine, 1), 30);
    let scanned = seen.scanned(1);
    assert!((100..5_000).contains(&scanned), "ILB_FAST stops early: {scanned} hundredths");
    assert_eq!(seen.scanned(2), 100, "without shared state nothing stops");
    let idle = seen.passes(1).into_iter().filter(|p| p.0 != BalanceTrigger::Newidle).count() as u64;
    let read = [IdleType::Idle, IdleType::Busy].map(|t| seen.lb(1, t, |b| b.lb_sg_scan)).iter().sum::<u64>();
    assert_eq!(read, 55 * idle, "only newidle passes are cut short");
}

#[test]
fn without_a_snapshot_nothing_is_cut_short() {
    let off = format!("{RFC} NO_ILB_SNAPSHOT");
    let go =
        |machine: &Machine, text: &str| go(machine, kernel(text), PLAIN, crowded_zero(1..32, 50, 40), 120);
    let as_it_is = machine("smt-32");
    // If the shared line costs nothing, no time of reading it remains.
    let mut free = machine("smt-32");
    let costs = &mut free.costs;
    (costs.probe_hit_ns, costs.probe_miss_near_ns, costs.probe_miss_far_ns) = (0, 0, 0);
    for words in ["ILB_UTIL", "ILB_FAST", "ILB_UTIL ILB_FAST ILB_UTIL_QUAD"] {
        let text = format!("{off} {words}");
        assert_eq!(go(&as_it_is, &text).scanned(1), 1_500, "{words}");
        assert!(go(&free, &text) == go(&free, &off), "{words}");
    }
    let on = format!("{RFC} ILB_SNAPSHOT ILB_FAST");
    assert!(go(&as_it_is, &on).scanned(1) < 1_500);
}

#[test]
fn the_storm_wakes_as_often_as_published() {
    // D001, CPU 8: 89,392 wakeups in 5 s. A wiring test: costs were committed before.
    let machine = machine("spr-2x56");
    let how = How { warmup_ms: 10, background: true, ..PLAIN };
    let seen = go(&machine, kernel("v6.5 ILB_SNAPSHOT"), how, storm(&machine, 1), 30);
    let mut in_5_s: Vec<u64> = seen.stat().cpus.iter().map(|c| c.ttwu_count * 5_000 / 30).collect();
    in_5_s.sort_unstable();
    let near = |n: u64| n.abs_diff(89_392) * 100 < 15 * 89_392;
    let mean = in_5_s.iter().sum::<u64>() / 224;
    assert!(near(mean), "{mean} a CPU");
    // A few CPUs have two sleepers and a few have none, depending on where they began.
    let (quarter, half, most) = (in_5_s[56], in_5_s[112], in_5_s[168]);
    assert!(near(quarter) && near(half) && near(most), "{quarter}, {half}, {most}");
}

#[test]
fn reading_the_state_after_each_cpu_gives_about_the_same() {
    let machine = machine("spr-2x56");
    // Wakeups, newidle passes over domain 1, and the mean time of newidle balance for each of them, over some seeds.
    // One pass that sees an overload lets others begin, so their number scatters by a third from seed to seed.
    let run = |batch: u64| {
        let mut sum = [0; 3];
        for seed in 1..6 {
            let mut exact = kernel(&format!("{RFC} ILB_SNAPSHOT"));
            exact.tunables.probe_batch = batch;
            let how = How { seed, warmup_ms: 5, background: true };
            let seen = go(&machine, exact, how, storm(&machine, seed), 60);
            let spent = seen.report.found.counters["balance.newidle_time"];
            let passes = seen.lb(1, IdleType::Newidle, |b| b.lb_count);
            let now = [seen.report.wakeups, passes, spent];
            (0..3).for_each(|i| sum[i] += now[i]);
        }
        [sum[0], sum[1], sum[2] / sum[1]]
    };
    let (exact, default) = (run(1), run(0));
    let within = |i: usize, percent: u64| exact[i].abs_diff(default[i]) * 100 <= percent * exact[i];
    assert!(within(0, 1), "wakeups: {exact:?}, {default:?}");
    assert!(within(1, 35), "passes: {exact:?}, {default:?}");
    assert!(within(2, 4), "time of each: {exact:?}, {default:?}");
}

/// Groups read in a newidle pass (hundredths) over the 12 cores of a cache whose CPUs are half used. The domain of that
/// cache is not the top one: passes over the top domain see the waiting tasks of CPU 0, even if the lower pass leaves
/// groups out.
fn half_used(words: &str) -> u64 {
    let text = format!("{RFC} {words}");
    // Cores {n, n + 24}, the cores 0 to 11 share a cache.
    let load = crowded_zero((1..12).chain(24..36), 50, 10);
    go(&machine("fb-2x12-smt"), kernel(&text), PLAIN, load, 300).scanned(1)
}

#[test]
fn ilb_util_reads_fewer_groups_as_more_is_used() {
    let all = half_used("ILB_SNAPSHOT");
    let line = half_used("ILB_SNAPSHOT ILB_UTIL");
    let square = half_used("ILB_SNAPSHOT ILB_UTIL ILB_UTIL_QUAD");
    assert_eq!(all, 1_100);
    assert!(line > 100 && line < square && square < all, "{line} < {square} < {all}");
    assert_eq!(half_used("ILB_SNAPSHOT ILB_UTIL_QUAD"), all, "the law alone cuts nothing");
    let uncounted = half_used("ILB_SNAPSHOT ILB_UTIL NO_SD_NR_GROUPS");
    assert_eq!(uncounted, 100, "the groups are not counted: one is read");
}

#[test]
fn a_shortened_pass_over_the_top_domain_misses_overloaded_cpus() {
    // The machine has one cache. A pass that ends before CPU 0 finds no overload and stores that.
    let passes = |words: &str| {
        let text = format!("{RFC} ILB_SNAPSHOT {words}");
        go(&machine("smt-32"), kernel(&text), PLAIN, crowded_zero(1..32, 50, 10), 200).newidle(1)
    };
    let (whole, shortened) = (passes(""), passes("ILB_UTIL"));
    assert!(shortened * 2 < whole, "{shortened} of {whole}: with the flag down no CPU looks");
}

#[test]
fn preparatory_steps_alone_change_nothing() {
    let with = |machine: &Machine, text: &str| {
        go(machine, kernel(text), How { background: true, ..PLAIN }, storm(machine, 1), 8)
    };
    let spr = machine("spr-2x56");
    let bare = with(&spr, "v6.5 LB_SG_SCAN");
    let fast = with(&spr, "v6.5 LB_SG_SCAN SD_NR_GROUPS ILB_SNAPSHOT ILB_UTIL ILB_FAST");
    for words in ["SD_NR_GROUPS", "SD_SHARED_ALL", "SD_SHARED_NUMA", "ILB_UTIL_QUAD"] {
        assert!(with(&spr, &format!("v6.5 LB_SG_SCAN {words}")) == bare, "{words}");
    }
    let shared = "v6.5 LB_SG_SCAN SD_NR_GROUPS ILB_SNAPSHOT ILB_UTIL ILB_FAST SD_SHARED_ALL";
    assert!(with(&spr, shared) == fast, "inside a cache all domains had shared state before");
    assert!(fast.events != bare.events);
    let uncounted = with(&spr, "v6.5");
    assert!(uncounted.events == bare.events && !uncounted.stat().layout.sg_scan, "counting changes nothing");
}

#[test]
fn shared_state_above_the_cache_also_shortens_those_passes() {
    // 2 packages of 8 caches: the level of the package lies above the cache and below NUMA.
    let machine = machine("epyc-2x64-smt");
    let scanned = |words: &str| {
        let text = format!("v6.5 SD_NR_GROUPS LB_SG_SCAN ILB_SNAPSHOT ILB_FAST {words}");
        let mut load = Load::lasting_ms(1);
        load.crowd_zero();
        for cpu in 1..64 {
            load.task("napper", Some(&cpu.to_string()), forever(vec![run_us(40), sleep_us(60 + cpu % 7)]));
        }
        go(&machine, kernel(&text), PLAIN, load.built(), 40).scanned(2)
    };
    let (without, with) = (scanned(""), scanned("SD_SHARED_ALL"));
    assert!(with < without, "{with} of {without} hundredths");
    assert_eq!(without, 700);
}

#[test]
fn shared_state_of_nodes_costs_time_across_them() {
    let machine = machine("spr-2x56");
    let words = "SD_NR_GROUPS LB_SG_SCAN ILB_SNAPSHOT ILB_UTIL";
    let mean = |more: &str| {
        let text = format!("v6.5 {words} {more}");
        let seen = go(&machine, kernel(&text), How { background: true, ..PLAIN }, storm(&machine, 1), 30);
        let newidle = |p: &&(BalanceTrigger, CpuId, u64, u64)| p.0 == BalanceTrigger::Newidle;
        let (n, ns) = seen.passes(2).iter().filter(newidle).fold((0, 0), |(n, ns), p| (n + 1, ns + p.3));
        assert_eq!(seen.scanned(2), 100, "one other node, read in any case");
        (seen.events, ns / n)
    };
    let (without, with) = (mean(""), mean("SD_SHARED_NUMA"));
    assert!(without.0 != with.0, "reading the line takes time: {} and {} ns", without.1, with.1);
}

#[test]
fn shared_statistics_save_visits_but_leave_out_no_group() {
    let of = |words: &str| {
        let seen = go(
            &machine("smt-32"),
            kernel(&format!("{RFC} {words}")),
            PLAIN,
            crowded_zero(1..32, 50, 40),
            100,
        );
        let passes = seen.passes(1);
        let newidle: Vec<_> = passes.iter().filter(|p| p.0 == BalanceTrigger::Newidle).collect();
        let visited = newidle.iter().map(|p| p.2).sum::<u64>() * 100 / newidle.len() as u64;
        (visited, seen.scanned(1))
    };
    let (alone, shared) = (of(""), of("ILB_SHARE"));
    assert_eq!(alone, (3_200, 1_500));
    assert_eq!(shared.1, 1_500, "each group is looked at, though not each CPU");
    assert!(shared.0 < 3_000 && shared.0 > 200, "{} CPUs in 100 passes", shared.0);
}

#[test]
fn cpus_that_balance_at_once_slow_each_other_down() {
    // Each pass is the same walk over the same lines. A line that another CPU has changed must be fetched again.
    let mean = |nappers: u64| {
        let load = crowded_zero(1..=nappers, 20, 100);
        let seen = go(&machine("smp-8"), kernel("v6.5"), PLAIN, load, 50);
        let mine = |p: &&(BalanceTrigger, CpuId, u64, u64)| p.0 == BalanceTrigger::Newidle && p.1 == CpuId(1);
        let (n, ns) = seen.passes(0).iter().filter(mine).fold((0, 0), |(n, ns), p| (n + 1, ns + p.3));
        assert!(n > 50, "{n} passes");
        ns / n
    };
    let (alone, two, three) = (mean(1), mean(2), mean(3));
    let costs = machine("smp-8").costs;
    let line = costs.visit_miss_near_ns - costs.visit_hit_ns;
    // The second napper's own line, and CPU 0's, whose lock it takes in vain; the third napper's own line.
    let (by_second, by_third) = (two - alone, three - two);
    assert!(by_second.abs_diff(2 * line) * 10 < line, "{by_second} ns for two lines of {line} more");
    assert!(by_third.abs_diff(line) * 10 < line, "{by_third} ns for a line of {line} more");
}

#[test]
fn a_task_that_sleeps_is_not_charged_for_the_newidle_balance_that_follows() {
    // A look that pulls nothing is charged to no task; a look that pulls is charged for the pull itself.
    for words in ["v6.5", "v6.1 NO_NI_RANDOM", "v7.3 NO_NI_RANDOM"] {
        let seen = go(&machine("smp-8"), kernel(words), PLAIN, restless_zero(20, 100), 50);
        let looks: u64 = seen.passes(0).iter().filter(|p| p.0 == BalanceTrigger::Newidle).map(|p| p.3).sum();
        let at = seen.report.tasks.iter().position(|t| t.name == "napper").expect("a napper");
        let (mut since, mut on_cpu) = (0, 0);
        for e in &seen.events {
            match e.kind {
                EventKind::Switch { next: Some(n), .. } if n.index() == at => since = e.at.0,
                EventKind::Switch { prev: Some(p), .. } if p.index() == at => on_cpu += e.at.0 - since,
                _ => {}
            }
        }
        let charged = seen.report.tasks[at].cpu_time_ns;
        assert!(looks > 100_000, "{words}: {looks} ns of looking");
        assert!(
            charged + looks * 9 / 10 < on_cpu,
            "{words}: {charged} ns of {on_cpu}, {looks} of it looking"
        );
    }
}

#[test]
fn dice_stop_passes_of_a_cpu_that_never_finds_anything() {
    // No task may leave its CPU, so no pass can pull.
    let passes = |words: &str| {
        let seen = go(&machine("smp-8"), kernel(words), PLAIN, restless_zero(20, 30), 400);
        let passes = seen.passes(0);
        passes.iter().filter(|p| p.0 == BalanceTrigger::Newidle && p.1 == CpuId(1)).count()
    };
    let (all, diced) = (passes("v6.1 NO_NI_RANDOM"), passes("v6.1"));
    assert!(all > 2_500, "{all} naps, each with a look");
    assert!(diced * 4 < all && diced > 50, "{diced} of {all}");
}
