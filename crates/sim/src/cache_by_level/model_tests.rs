use super::*;
use schedlab_base::Version;

/// The kernel of the document; its machines have longs of 4 bytes.
const D003: Version = Version::v2_6(12);

/// The matrix of one of the document's machines with its own pattern.
fn documents(name: &str) -> (Machine, Matrix) {
    let machine = Machine::load(name).unwrap();
    let distances = Distances::new(&machine.topology, D003);
    let mut model = Model::new(&machine, Pattern::Y2005).unwrap().with_long(4);
    let matrix = Matrix::fill(&distances, &Overrides::default(), |_, pair| {
        let search = Search::of_cache(Some(max_cache_size(&machine)));
        measure(&mut model, search, pair, &mut |_| ()).map(|f| f.cutoff_ns(&Overrides::default()))
    });
    (machine, matrix.unwrap())
}

/// The matrix as the document prints it.
fn printed(machine: &Machine, matrix: &Matrix, mhz: u64) -> String {
    let distances = Distances::new(&machine.topology, D003);
    let largest = machine.caches.last().unwrap().size_kb * 1024;
    matrix.print(&distances, machine.topology.nr_cpus(), largest, Some(mhz))
}

/// The most by which the model may differ from the document's cutoffs.
const WITHIN_PCT: u64 = 20;

fn near(found: u64, documented: u64) {
    let off = found.abs_diff(documented) * 100 / documented;
    assert!(off <= WITHIN_PCT, "{found} ns, in the document {documented}");
}

#[test]
fn the_dual_celerons_matrix() {
    let (machine, matrix) = documents("celeron-2");
    near(matrix.cutoff_ns(1).unwrap(), 1_784_008);
    let lines = [
        "---------------------",
        "migration cost matrix (max_cache_size: 131072, cpu: 467 MHz):",
        "---------------------",
        "          [00]     [01]",
        "[00]:     -      1.6(1)",
        "[01]:   1.6(1)     -   ",
        "---------------------",
        "cacheflush times [2]: 0.0 (0) 1.6 (1698110)",
    ];
    assert_eq!(printed(&machine, &matrix, 467).lines().collect::<Vec<_>>(), lines);
}

#[test]
fn the_pentium_4s_matrix_has_siblings_at_no_cost() {
    let (machine, matrix) = documents("p4-ht-2");
    near(matrix.cutoff_ns(1).unwrap(), 448_514);
    let lines = [
        "---------------------",
        "migration cost matrix (max_cache_size: 524288, cpu: 2379 MHz):",
        "---------------------",
        "          [00]     [01]     [02]     [03]",
        "[00]:     -      0.4(1)   0.0(0)   0.4(1)",
        "[01]:   0.4(1)     -      0.4(1)   0.0(0)",
        "[02]:   0.0(0)   0.4(1)     -      0.4(1)",
        "[03]:   0.4(1)   0.0(0)   0.4(1)     -   ",
        "---------------------",
        "cacheflush times [2]: 0.0 (0) 0.4 (430164)",
    ];
    assert_eq!(printed(&machine, &matrix, 2379).lines().collect::<Vec<_>>(), lines);
}

#[test]
fn the_eight_ways_matrix() {
    let (machine, matrix) = documents("p3-8");
    near(matrix.cutoff_ns(1).unwrap(), 19_281_756);
    let text = printed(&machine, &matrix, 700);
    let rows: Vec<&str> = text.lines().filter(|l| l.contains("]: ") && l.starts_with('[')).collect();
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row.matches("18.4(1)").count() == 7), "{text}");
    assert_eq!(text.lines().last(), Some("cacheflush times [2]: 0.0 (0) 18.4 (18497376)"));
}

/// Costs of moving sets of some sizes to another CPU, ns, the largest set first.
fn curve(name: &str, pattern: Pattern) -> Vec<(u64, u64)> {
    let machine = Machine::load(name).unwrap();
    let mut model = Model::new(&machine, pattern).unwrap();
    let search = Search::of_cache(Some(max_cache_size(&machine)));
    let found = measure(&mut model, search, (CpuId(0), CpuId(1)), &mut |_| ()).unwrap();
    found.curve.iter().map(|p| (p.size, p.cost_ns())).collect()
}

#[test]
fn a_set_costs_its_lines_up_to_the_caches_size_and_staying_costs_nothing() {
    let machine = Machine::load("p3-8").unwrap();
    let cache = 2 << 20;
    for (size, cost) in curve("p3-8", Pattern::Shuffled).into_iter().filter(|(size, _)| *size <= cache) {
        // The four runs of a size are 0 to 3 KB smaller.
        let whole = size / 1024 * machine.costs.refill_far_ns_per_kb;
        assert!(cost <= whole && cost >= whole * 95 / 100, "{size} bytes: {cost} ns, all lines {whole}");
    }
    let mut model = Model::new(&machine, Pattern::Shuffled).unwrap();
    let stayed =
        measure(&mut model, Search { largest: 2 * cache }, (CpuId(3), CpuId(3)), &mut |_| ()).unwrap();
    assert_eq!(stayed.best_ns, 0, "the same CPU");
}

#[test]
fn the_pattern_of_2005_leaves_lines_out_and_the_maximum_is_the_same() {
    let (shuffled, old) = (curve("p3-8", Pattern::Shuffled), curve("p3-8", Pattern::Y2005));
    let at = |curve: &[(u64, u64)], size: u64| curve.iter().find(|p| p.0 <= size).map_or(0, |p| p.1);
    let quarter = 512 << 10;
    assert!(
        at(&old, quarter) < at(&shuffled, quarter) * 3 / 4,
        "longs of 8 bytes meet two thirds of 32-byte lines"
    );
    let most = |curve: &[(u64, u64)]| curve.iter().map(|p| p.1).max().unwrap();
    assert!(
        most(&old) >= most(&shuffled) * 9 / 10,
        "a larger set fills the cache with the lines that it does meet"
    );
}

#[test]
fn given_cutoffs_need_no_caches() {
    let machine = Machine::load("smp-2").unwrap();
    let distances = Distances::new(&machine.topology, D003);
    let measured = survey(&machine, &distances, Pattern::Shuffled, &Overrides::default(), None);
    assert!(measured.unwrap_err().to_string().contains("caches of machine 'smp-2'"));
    let overrides = Overrides { cost_us: vec![0, 2000], ..Overrides::default() };
    let given = survey(&machine, &distances, Pattern::Shuffled, &overrides, None).unwrap().matrix;
    assert_eq!(given.cutoff_ns(1), Some(2_000_000));
}

#[test]
fn a_step_of_the_shuffled_order_visits_every_block() {
    for n in [1, 2, 3, 10, 64, 1000] {
        let step = golden_step(n);
        let mut seen: Vec<u64> = (0..n).map(|i| i * step % n).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..n), "{n} blocks");
    }
}

#[test]
fn a_streams_touches_of_a_block_are_one_visit() {
    let (mut windows, mut visits) = (Windows::default(), Vec::new());
    for line in [0, 0, 1, 100, 2, 101] {
        windows.touch(line, 8, &mut visits);
    }
    assert_eq!(visits, []);
    let open: Vec<(u32, u32)> = windows.open.iter().map(|w| (w.block, w.lines)).collect();
    assert_eq!(open, [(0, 3), (12, 2)]);
}

#[test]
fn ia64_searches_from_64_mb_and_impossible_sets_are_refused() {
    let machine = Machine::load("ia64-8").unwrap();
    assert_eq!(max_cache_size(&machine), 32 << 20);
    assert_eq!(Search::of_cache(Some(max_cache_size(&machine))).largest, 64 << 20);
    let distances = Distances::new(&machine.topology, Version::v2_6(12));
    for size in [1, SMALLEST - 1, LARGEST_SET + 1, 100 << 30] {
        let error = survey(&machine, &distances, Pattern::Shuffled, &Overrides::default(), Some(size));
        assert!(error.unwrap_err().to_string().contains(&size.to_string()));
    }
}
