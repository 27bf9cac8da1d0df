use super::*;
use schedlab_machine::{CacheLevel, Sharing};

/// fb-2x12-smt with caches: 64 KB a core, 256 KB shared by the LLC's cores.
fn machine() -> Machine {
    let mut machine = Machine::load("fb-2x12-smt").unwrap();
    let level = |level, size_kb, shared, hit_ns_per_kb| CacheLevel {
        level,
        size_kb,
        line: 64,
        shared,
        hit_ns_per_kb,
    };
    machine.caches = vec![level(2, 64, Sharing::Core, 50), level(3, 256, Sharing::Llc, 150)];
    machine
}

const A: CpuId = CpuId(0);
const NEIGHBOUR: CpuId = CpuId(1);
const SIBLING: CpuId = CpuId(24);
const FAR: CpuId = CpuId(12);
const T: TaskId = TaskId(0);
const OTHER: TaskId = TaskId(1);

fn sets(footprints_kb: &[u32]) -> Sets {
    Sets::new(&machine(), footprints_kb.iter().copied()).unwrap()
}

/// Goes over `kb` KB once; returns the time of the work and the refill, ns.
fn pass(sets: &mut Sets, cpu: CpuId, task: TaskId, kb: u32) -> (u64, u64) {
    sets.begin_touch(task, kb, 1);
    let mut sum = (0, 0);
    while sets.touches_on(task) {
        let chunk = sets.touch_chunk(cpu, task);
        sum = (sum.0 + chunk.work_ns, sum.1 + chunk.refill_ns);
    }
    sum
}

#[test]
fn a_moved_task_pays_once_for_the_data_it_touches() {
    let mut sets = sets(&[60]);
    pass(&mut sets, A, T, 60);
    assert_eq!(pass(&mut sets, A, T, 60), (60 * 50, 0), "warm");
    let costs = machine().costs;
    let beyond = |refill: u64| 150 + refill - 50;
    assert_eq!(pass(&mut sets, FAR, T, 20), (20 * 50, 20 * beyond(costs.refill_far_ns_per_kb)));
    assert_eq!(pass(&mut sets, FAR, T, 20), (20 * 50, 0), "once");
    assert_eq!(
        pass(&mut sets, A, T, 60).1,
        20 * beyond(costs.refill_far_ns_per_kb),
        "the rest was still here"
    );
}

#[test]
fn siblings_share_and_neighbours_fetch_from_the_cores_own_cache() {
    let mut sets = sets(&[60]);
    pass(&mut sets, A, T, 60);
    assert_eq!(pass(&mut sets, SIBLING, T, 60), (60 * 50, 0));
    let near = 150 + machine().costs.refill_near_ns_per_kb - 50;
    assert_eq!(pass(&mut sets, NEIGHBOUR, T, 60), (60 * 50, 60 * near));
}

#[test]
fn a_large_set_evicts_a_neighbours_from_the_shared_cache() {
    let mut sets = sets(&[60, 400]);
    pass(&mut sets, A, T, 60);
    pass(&mut sets, NEIGHBOUR, OTHER, 100);
    assert_eq!(pass(&mut sets, A, T, 60).1, 0, "both fit in");
    pass(&mut sets, NEIGHBOUR, OTHER, 400);
    let before = sets.sources;
    pass(&mut sets, A, T, 60);
    assert_eq!(sets.sources.memory_kb - before.memory_kb, 60);
}

#[test]
fn a_computation_touches_a_kb_per_warming_time_and_pays_the_excess() {
    let mut sets = sets(&[8]);
    let excess = 150 + machine().costs.memory_ns_per_kb - 50;
    assert_eq!(sets.run_left_ns(T), 0, "the first chunk is due");
    assert_eq!(sets.run_chunk(A, T, 3_000, 2_000), 4 * excess, "a block of 4 KB is 8 us of work");
    assert_eq!(sets.run_left_ns(T), 8_000);
    sets.ran(T, 3_000);
    assert_eq!(sets.run_left_ns(T), 5_000, "the rest is left to the next computation");
    sets.ran(T, 5_000);
    assert_eq!(sets.run_chunk(A, T, 1_000_000, 2_000), 4 * excess, "the cold block, then round and round");
    assert_eq!(sets.run_left_ns(T), 16 * 8_000);
}

#[test]
fn a_task_without_a_set_computes_in_one_go() {
    assert_eq!(sets(&[0]).run_left_ns(T), u64::MAX);
}

#[test]
fn blocks_suit_the_caches_and_grow_with_the_footprints() {
    assert_eq!(block_kb(&machine(), 1), 4, "a 32nd of 256 KB, at most 4");
    assert_eq!(block_kb(&machine(), 64 << 20), 64, "64 GB in a million blocks");
    assert!(Sets::new(&Machine::load("smp-2").unwrap(), std::iter::once(64)).is_none());
}
