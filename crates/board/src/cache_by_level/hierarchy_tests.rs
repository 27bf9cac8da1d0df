use super::*;
use proptest::prelude::*;
use schedlab_machine::Sharing;

/// A machine with caches: two cores of two threads share the LLC; a second package has the same.
fn machine(levels: &[(u64, Sharing)]) -> Machine {
    let mut machine = Machine::load("fb-2x12-smt").unwrap();
    let level = |(n, (size_kb, shared)): (usize, &(u64, Sharing))| CacheLevel {
        level: n as u32 + 1,
        size_kb: *size_kb,
        line: 64,
        shared: *shared,
        hit_ns_per_kb: 10 * (n as u64 + 1),
    };
    machine.caches = levels.iter().enumerate().map(level).collect();
    machine
}

fn hierarchy(levels: &[(u64, Sharing)], blocks: usize) -> Hierarchy {
    let mut caches = Hierarchy::new(&machine(levels), 1024).unwrap();
    caches.grow(blocks);
    caches
}

fn pass(caches: &mut Hierarchy, cpu: CpuId, blocks: std::ops::Range<u32>) {
    for block in blocks {
        caches.touch(cpu, block, WHOLE);
    }
}

const WHOLE: u32 = 16;
const A: CpuId = CpuId(0);
/// A core of the same LLC, and the sibling of A, on fb-2x12-smt.
const NEIGHBOUR: CpuId = CpuId(1);
const SIBLING: CpuId = CpuId(24);
const FAR: CpuId = CpuId(12);

#[test]
fn the_names_of_the_cpus_are_right() {
    let topology = machine(&[]).topology;
    assert_eq!(topology.distance(A, NEIGHBOUR), Distance::Llc);
    assert_eq!(topology.distance(A, SIBLING), Distance::Smt);
    assert_eq!(topology.distance(A, FAR), Distance::Remote);
}

#[test]
fn a_block_is_in_the_cache_of_its_last_user() {
    let mut caches = hierarchy(&[(4, Sharing::Core), (16, Sharing::Llc)], 8);
    let mut from = |cpu| caches.touch(cpu, 0, WHOLE).from;
    assert_eq!(from(A), FoundIn::Memory);
    assert_eq!(from(A), FoundIn::Own(0));
    assert_eq!(from(SIBLING), FoundIn::Own(0), "siblings share");
    assert_eq!(from(NEIGHBOUR), FoundIn::Near, "the first core's own cache has it");
    assert_eq!(from(A), FoundIn::Near, "the neighbour has taken it over");
    assert_eq!(from(FAR), FoundIn::Far);
    assert_eq!(from(A), FoundIn::Far);
}

#[test]
fn a_block_that_has_left_the_neighbours_own_cache_is_in_the_shared_one() {
    let mut caches = hierarchy(&[(4, Sharing::Core), (16, Sharing::Llc)], 8);
    pass(&mut caches, A, 0..5);
    assert_eq!(caches.touch(NEIGHBOUR, 0, WHOLE).from, FoundIn::Own(1));
    assert_eq!(caches.touch(NEIGHBOUR, 4, WHOLE).from, FoundIn::Near);
}

#[test]
fn without_a_shared_cache_a_block_comes_from_the_neighbours() {
    let mut caches = hierarchy(&[(4, Sharing::Core)], 8);
    assert_eq!(caches.touch(A, 0, WHOLE).from, FoundIn::Memory);
    assert_eq!(caches.touch(NEIGHBOUR, 0, WHOLE).from, FoundIn::Near);
}

#[test]
fn the_least_recently_used_block_leaves() {
    let mut caches = hierarchy(&[(2, Sharing::Core), (4, Sharing::Llc)], 8);
    pass(&mut caches, A, 0..4);
    let mut from = |b| caches.touch(A, b, WHOLE).from;
    assert_eq!(from(3), FoundIn::Own(0));
    assert_eq!(from(0), FoundIn::Own(1), "out of the small cache only");
    assert_eq!(from(4), FoundIn::Memory);
    assert_eq!(from(1), FoundIn::Memory, "the oldest in the large one");
    assert_eq!(from(0), FoundIn::Own(1));
}

#[test]
fn a_shared_cache_evicts_blocks_that_a_neighbour_leaves_unused() {
    let mut caches = hierarchy(&[(4, Sharing::Core), (8, Sharing::Llc)], 32);
    assert_eq!(caches.touch(A, 0, WHOLE).from, FoundIn::Memory);
    pass(&mut caches, NEIGHBOUR, 8..15);
    assert_eq!(caches.touch(A, 0, WHOLE).from, FoundIn::Own(0));
    pass(&mut caches, NEIGHBOUR, 16..24);
    assert_eq!(
        caches.touch(A, 0, WHOLE).from,
        FoundIn::Memory,
        "the small cache is included in the large one"
    );
}

#[test]
fn a_cache_holds_lines_of_more_blocks_if_few_of_each_are_touched() {
    let mut caches = hierarchy(&[(4, Sharing::Core)], 8);
    for block in 0..8 {
        caches.touch(A, block, WHOLE / 2);
    }
    assert!((0..8).all(|b| caches.touch(A, b, WHOLE / 2).from == FoundIn::Own(0)));
    let more = caches.touch(A, 7, WHOLE);
    assert_eq!((more.from, more.found, more.fetched), (FoundIn::Own(0), WHOLE / 2, WHOLE / 2));
    assert_eq!(caches.touch(A, 0, WHOLE / 2).from, FoundIn::Memory, "the further lines took its place");
}

#[test]
fn data_from_elsewhere_pass_through_the_largest_cache() {
    let machine = machine(&[(4, Sharing::Core), (16, Sharing::Llc)]);
    let prices = Prices::of(&machine);
    assert_eq!(prices.per_kb(FoundIn::Own(1)), 20);
    assert_eq!(prices.per_kb(FoundIn::Far), 20 + machine.costs.refill_far_ns_per_kb);
    assert_eq!(prices.excess_per_kb(FoundIn::Own(0)), 0);
    assert_eq!(prices.excess_per_kb(FoundIn::Own(1)), 10, "beyond the core's own");
}

#[test]
fn a_machine_without_caches_is_refused() {
    let error = Hierarchy::new(&machine(&[]), 1024).unwrap_err().to_string();
    assert!(error.contains("fb-2x12-smt"), "{error}");
}

proptest! {
    #[test]
    fn caches_stay_within_their_size_and_include_smaller_ones(
        touches in prop::collection::vec((0u32..48, 0u32..64, 1u32..=WHOLE), 1..300)
    ) {
        let sizes = [(4, Sharing::Core), (8, Sharing::Core), (24, Sharing::Llc)];
        let mut caches = hierarchy(&sizes, 64);
        for (cpu, block, lines) in touches {
            caches.touch(CpuId(cpu), block, lines);
            let again = caches.touch(CpuId(cpu), block, lines);
            prop_assert_eq!((again.from, again.fetched), (FoundIn::Own(0), 0), "just touched");
            for (n, (size_kb, _)) in sizes.iter().enumerate() {
                prop_assert!(caches.lines(n).iter().all(|l| u64::from(*l) * 64 <= size_kb * 1024));
            }
        }
        for block in 0..64 {
            let level = |n: usize| caches.levels[n].links[block].cache != NONE;
            prop_assert!((0..2).all(|n| !level(n) || level(n + 1)));
            prop_assert_eq!(level(2), caches.held[block] > 0);
        }
    }
}
