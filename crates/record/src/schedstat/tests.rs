//! Fields and rows, reading and printing files, refusing foreign files, differences.

use super::*;
use crate::Record;
use proptest::prelude::*;
use schedlab_base::ErrorKind;
use schedlab_base::{CpuId, CpuSet, Result};
use std::path::Path;

/// Handmade files from the lists of fields: four CPUs, two threads per core.
const SAMPLES: &[(&str, Layout)] = &[
    (include_str!("../../tests/data/schedstat.v15"), Layout { version: 15, sg_scan: false }),
    (include_str!("../../tests/data/schedstat.v15-sg-scan"), Layout { version: 15, sg_scan: true }),
    (include_str!("../../tests/data/schedstat.v16"), Layout { version: 16, sg_scan: false }),
    (include_str!("../../tests/data/schedstat.v17"), Layout { version: 17, sg_scan: false }),
];

pub(crate) fn read(text: &str) -> Result<Schedstat> {
    parse(Path::new("schedstat"), text.as_bytes())
}

pub(crate) fn sample(i: usize) -> Schedstat {
    read(SAMPLES[i].0).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn counters_are_plain_fields() {
    let shape = || vec![vec![("SMT".to_owned(), CpuSet::first(2))]; 2];
    let mut stat = Schedstat::new(shape());
    stat.cpus[1].ttwu_count += 1;
    stat.cpus[1].domains[0].ttwu_wake_remote += 1;
    stat.cpus[1].domains[0].lb[IdleType::Newidle as usize].lb_count += 2;
    assert_eq!((stat.cpus[1].id, stat.cpus[1].counters.ttwu_count), (CpuId(1), 1));
    assert_eq!(stat.cpus[1].domains[0].lb[2].lb_count, 2);
    assert_eq!(stat.cpus[0], Schedstat::new(shape()).cpus[0]);
    stat.clear();
    assert_eq!(stat, Schedstat::new(shape()));
}

#[test]
fn a_row_reads_its_own_field() {
    let mut balance = Balance::default();
    for (i, row) in BALANCE_ROWS.iter().enumerate() {
        *(row.field)(&mut balance) = 1 << i;
    }
    for (i, row) in BALANCE_ROWS.iter().enumerate() {
        let kinds = if row.since == Since::Mixed { 0b1_1111 << i } else { 1 << i };
        assert_eq!((row.get)(&balance), kinds, "{}", row.name);
    }
}

#[test]
fn samples_are_read_and_printed_unchanged() {
    for (text, layout) in SAMPLES {
        let stat = read(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(stat.layout, *layout);
        assert_eq!(stat.print(*layout).unwrap(), *text);
        assert_eq!(stat.cpus.len(), 4);
        assert_eq!(identities(&stat), [""; 0]);
    }
}

#[test]
fn each_number_comes_from_its_own_column() {
    for i in 0..SAMPLES.len() {
        let stat = sample(i);
        let cpu = &stat.cpus[2];
        assert_eq!((cpu.yld_count, cpu.sched_count, cpu.sched_goidle), (1, 178_783, 89_390));
        assert_eq!((cpu.ttwu_count, cpu.ttwu_local, cpu.pcount), (89_392, 88_166, 89_393));
        assert_eq!((cpu.rq_cpu_time, cpu.run_delay), (227_910_772, 2_145_671));
        let domain = &cpu.domains[1];
        assert_eq!(domain.span.to_string(), "0-3");
        assert_eq!(domain.name, if stat.layout.version == 17 { "MC" } else { "" });
        let [idle, busy, newidle] = &domain.lb;
        assert_eq!((idle.lb_count, idle.lb_balanced, idle.lb_gained), (864, 861, 3));
        assert_eq!((busy.lb_count, busy.lb_failed), (20, 2));
        assert_eq!((newidle.lb_count, newidle.lb_nobusyg, newidle.lb_nobusyq), (822, 497, 235));
        let sum = BALANCE_ROWS.iter().find(|r| r.name == "lb_imbalance").unwrap();
        assert_eq!([idle, busy, newidle].map(|b| (sum.get)(b)), [5, 2048, 90]);
        assert_eq!(newidle.lb_sg_scan, if stat.layout.sg_scan { 45_231 } else { 0 });
        assert_eq!((domain.alb_count, domain.ttwu_wake_remote, domain.ttwu_move_affine), (2, 626, 7));
    }
    assert_eq!(sample(3).cpus[0].domains[0].lb[1].lb_imbalance_load, 2048);
    assert_eq!(sample(3).cpus[0].domains[0].lb[2].lb_imbalance_task, 90);
}

#[test]
fn a_layout_with_more_columns_can_be_printed_with_fewer() {
    let v17 = sample(3);
    assert_eq!(v17.print(SAMPLES[0].1).unwrap(), SAMPLES[0].0);
    assert_eq!(v17.print(SAMPLES[2].1).unwrap(), SAMPLES[2].0);
    assert_eq!(sample(0).print(SAMPLES[2].1).unwrap(), SAMPLES[2].0);
    let e = sample(0).print(SAMPLES[3].1).unwrap_err();
    assert!(e.message().contains("kinds of imbalance"), "{e}");
    assert!(sample(0).print(SAMPLES[1].1).unwrap_err().message().contains("lb_sg_scan"));
    assert!(v17.print(Layout { version: 14, sg_scan: false }).is_err());
}

#[test]
fn foreign_files_are_refused_with_the_line() {
    let good = SAMPLES[0].0;
    let (domain, _) = good.lines().nth(3).unwrap().rsplit_once(' ').unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let cases: &[(String, &str, &str)] = &[
        (String::new(), "schedstat:1:", "not a /proc/schedstat"),
        ("{\"schema\": 1}\n".to_owned(), "schedstat:1:1", "'version N'"),
        ("version 15\n".to_owned(), "schedstat:2:1", "'timestamp N'"),
        ("version 15\ntimestamp 5\n".to_owned(), "schedstat:2:1", "there is no CPU"),
        (good.replace("version 15", "version 14"), "schedstat:1:9", "older"),
        (good.replace("version 15", "version 18"), "schedstat:1:9", "newer"),
        (good.replace("version 15", "version fifteen"), "schedstat:1:1", "'fifteen' is not a number"),
        (good.replace('\n', "\r\n"), "schedstat:1:11", "CR LF"),
        (good.replacen("cpu1 1", "cpu1 99999999999", 1), "schedstat:6:1", "32 bits"),
        (good.replacen("227910772", "99999999999999999999999", 1), "schedstat:3:1", "64 bits"),
        (good.replacen("227910772", "-3", 1), "schedstat:3:1", "rq_cpu_time: '-3' is not a number"),
        (good.replacen("227910772 ", "", 1), "schedstat:3:1", "8 numbers where 9 are due"),
        (good.replacen("227910772", "1 1", 1), "schedstat:3:1", "10 numbers where 9"),
        (good.replacen(lines[3], domain, 1), "schedstat:4:1", "domain0 of cpu0: 35 numbers where 36"),
        (good.replacen("cpu1", "cpu0", 1), "schedstat:6:1", "cpu0 is there twice"),
        (good.replacen("cpu2", "cpu0", 1), "schedstat:9:1", "cpu0 comes after cpu1"),
        (good.replacen("cpu3", "cpu5000", 1), "schedstat:12:1", "at most 4095"),
        (good.replacen("domain0 3", "domain1 3", 1), "schedstat:4:1", "where domain0 is due"),
        (good.replacen("domain0 3", "domain0 xyz", 1), "schedstat:4:1", "'xyz' is not a mask"),
        (good.replacen("domain0 3", "domain0 0", 1), "schedstat:4:1", "'0' is not a mask"),
        (good.replacen("domain0 3", "domain0 c", 1), "schedstat:", "domain0 of cpu0 does not hold cpu0"),
        (good.replacen("domain1 f", "domain1 1", 1), "schedstat:", "does not hold all of domain0"),
        (good.replacen("cpu0", "gpu0", 1), "schedstat:3:1", "no CPU and no domain"),
        (lines[..2].join("\n") + "\n" + lines[3] + "\n", "schedstat:3:1", "before any CPU"),
        (lines[..11].join("\n") + "\n", "schedstat:", "shares a domain with cpu3"),
        (lines[..13].join("\n") + "\n", "schedstat:", "cpu3 lacks the domain"),
        (lines[..12].join("\n") + "\n", "schedstat:", "shares a domain with cpu3"),
        (SAMPLES[3].0.replacen("SMT ", "", 1), "schedstat:4:1", "numbers where"),
        (SAMPLES[1].0.replacen(" 900 ", " ", 1), "schedstat:4:1", "38 numbers where 36"),
    ];
    for (text, place, words) in cases {
        let e = read(text).expect_err(words);
        assert_eq!(e.kind(), ErrorKind::Input);
        let said = e.to_string();
        assert!(said.starts_with(place) && said.contains(words), "{words}: {said}");
    }
    assert!(parse(Path::new("x"), b"\xff\xfe").unwrap_err().to_string().contains("x: "));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for (text, _) in SAMPLES {
        // The first three lines are the whole file of a machine with one CPU, which has no domains.
        let three: usize = text.lines().take(3).map(|l| l.len() + 1).sum();
        for at in (0..text.len()).filter(|at| *at != three) {
            assert!(read(&text[..at]).is_err(), "cut at {at}");
        }
    }
}

#[test]
fn differences_are_taken_counter_by_counter() {
    let before = sample(1);
    let mut after = before.clone();
    after.timestamp += 1250;
    after.cpus[1].ttwu_count += 5;
    after.cpus[1].ttwu_local += 5;
    after.cpus[3].domains[1].lb[2].lb_count += 2;
    let (d, warnings) = delta(&before, &after).unwrap();
    assert!(warnings.is_empty());
    assert_eq!((d.timestamp, d.cpus[1].ttwu_count, d.cpus[0].ttwu_count), (1250, 5, 0));
    assert_eq!(d.cpus[3].domains[1].lb[2].lb_count, 2);
    assert_eq!(d.totals().counters, CpuCounters { ttwu_count: 5, ttwu_local: 5, ..CpuCounters::default() });
    assert!(delta(&after, &before).unwrap_err().message().contains("older than the first"));
    assert!(delta(&sample(0), &after).unwrap_err().message().contains("layouts"));
}

#[test]
fn a_counter_may_wrap_but_not_go_back() {
    let (mut before, after) = (sample(0), sample(0));
    before.cpus[0].ttwu_count = u64::from(u32::MAX) - 9;
    let (d, warnings) = delta(&before, &after).unwrap();
    assert_eq!(d.cpus[0].ttwu_count, 89_392 + 10);
    assert!(warnings[0].message.starts_with("cpu0.ttwu_count went past"), "{warnings:?}");
    before.cpus[0].ttwu_count = 89_393;
    let e = delta(&before, &after).unwrap_err();
    assert!(e.message().contains("cpu0.ttwu_count went from 89393 back to 89392"), "{e}");
    let mut before = sample(0);
    before.cpus[0].run_delay += 1;
    assert!(delta(&before, &after).is_err(), "64-bit counters do not wrap");
    let mut before = sample(0);
    before.cpus[2].domains[0].lb[1].lb_imbalance_mixed = 4_000;
    let (d, warnings) = delta(&before, &after).unwrap();
    assert_eq!(d.cpus[2].domains[0].lb[1].lb_imbalance_mixed, (1 << 32) - 4_000 + 2_048);
    assert!(warnings[0].message.starts_with("cpu2.domain0.CPU_NOT_IDLE.lb_imbalance "));
}

#[test]
fn snapshots_of_other_cpus_or_domains_are_refused() {
    let (before, mut after) = (sample(0), sample(0));
    after.cpus[3].domains[0].span = CpuSet::parse("3").unwrap();
    assert!(delta(&before, &after).unwrap_err().message().contains("domains of cpu3 differ"));
    after.cpus.pop();
    assert!(delta(&before, &after).unwrap_err().message().contains("different CPUs"));
}

#[test]
fn sums_are_over_the_chosen_cpus() {
    let stat = sample(1).of_cpus(&CpuSet::parse("1,3").unwrap()).unwrap();
    let t = stat.totals();
    assert_eq!((t.cpus.to_string().as_str(), t.counters.pcount), ("1,3", 2 * 89_393));
    assert_eq!((t.domains[0].cpus, t.domains[0].lb[2].lb_count), (2, 2 * 822));
    let e = sample(1).of_cpus(&CpuSet::parse("2-4").unwrap()).unwrap_err();
    assert!(e.to_string().contains("there is no cpu4") && e.to_string().contains("0-3"), "{e}");
    assert_eq!(sample(3).totals().domains.iter().map(|d| d.name.clone()).collect::<Vec<_>>(), ["SMT", "MC"]);
}

#[test]
fn figures_of_the_published_baseline() {
    // D001, CPU 8, domain1, newly idle.
    let b = Balance {
        lb_count: 822,
        lb_balanced: 732,
        lb_failed: 90,
        lb_imbalance_task: 90,
        lb_nobusyg: 497,
        lb_nobusyq: 235,
        lb_sg_scan: 45_210,
        ..Balance::default()
    };
    let of = |name: &str| DERIVED.iter().find(|d| d.name == name).unwrap().of(&b).unwrap();
    assert_eq!(of("groups_per_balance"), 55.0);
    assert!((of("past_balanced") - 10.949).abs() < 1e-3);
    assert_eq!(of("past_balanced"), of("failed_share"), "all of them failed");
    assert_eq!(of("gained_per_attempt"), 0.0);
    assert_eq!(DERIVED[0].of(&Balance::default()), None);
}

#[test]
fn each_identity_can_be_broken() {
    type Breaks = fn(&mut CpuStat);
    let cases: &[(Breaks, &str)] = &[
        (|c| c.ttwu_local += 1, "ttwu_count = ttwu_local"),
        (|c| c.sched_goidle = c.sched_count + 1, "sched_goidle"),
        (|c| c.domains[0].ttwu_move_affine += c.counters.ttwu_count, "ttwu_move_affine"),
        (|c| c.domains[1].alb_failed += 1, "alb_count = alb_failed + alb_pushed"),
        (|c| c.domains[1].lb[2].lb_balanced += 100, "lb_balanced + lb_failed <= lb_count"),
        (|c| c.domains[1].lb[2].lb_nobusyg += 1, "lb_nobusyg + lb_nobusyq <= lb_balanced"),
        (|c| c.domains[1].lb[2].lb_gained = 9, "neither balanced nor failed gained"),
        (|c| c.domains[1].lb[1].lb_gained = 1, "so none gained"),
        (|c| c.domains[1].lb[2].lb_sg_scan = 821, "one group or more"),
        (
            |c| {
                c.domains[1].lb[1] = Balance { lb_imbalance_load: 1, ..Balance::default() };
            },
            "no imbalance was added",
        ),
        (
            |c| {
                c.domains[1].lb[1] = Balance { lb_sg_scan: 1, ..Balance::default() };
            },
            "no group read",
        ),
        (|c| c.domains[0].lb[0].lb_gained = 0, "alb_pushed <= lb_gained"),
    ];
    for (breaks, words) in cases {
        let mut stat = sample(1);
        breaks(&mut stat.cpus[2]);
        let found = identities(&stat);
        assert!(found.iter().any(|v| v.starts_with("cpu2") && v.contains(words)), "{words}: {found:?}");
    }
    let mut stat = sample(1);
    stat.cpus[0].domains[0].alb_failed += 1;
    assert_eq!((identities(&stat).len(), identities_within(&stat, 1).len()), (1, 0));
}

#[test]
fn counters_that_wrapped_at_32_bits_do_not_contradict() {
    // Both parts of the count of wakeups grew by half the range, so that the count itself has wrapped.
    let wrapped = |n: u64, by: u64| n.wrapping_add(by) & u64::from(u32::MAX);
    let by = 1 << 31;
    let mut stat = sample(1);
    for cpu in &mut stat.cpus {
        let placed = cpu.ttwu_count;
        cpu.ttwu_local = wrapped(cpu.ttwu_local, by);
        if let Some(domain) = cpu.domains.last_mut() {
            domain.ttwu_wake_remote = wrapped(domain.ttwu_wake_remote, by);
        }
        assert_eq!(wrapped(cpu.ttwu_count, 2 * by), placed);
        // Attempts and balanced attempts grew by half the range, too.
        for b in cpu.domains.iter_mut().flat_map(|d| &mut d.lb) {
            b.lb_count = wrapped(b.lb_count, by);
            b.lb_balanced = wrapped(b.lb_balanced, by);
        }
    }
    assert_eq!(
        identities(&stat),
        [""; 0],
        "the sum of two is beyond 32 bits, and their count has begun anew"
    );
    stat.cpus[0].ttwu_local += 3;
    assert_eq!(identities(&stat).len(), 1, "and what contradicts still does");
    // One of two counters has wrapped, the other has not: the number of attempts that moved a task is still known.
    let mut stat = sample(1);
    for b in stat.cpus.iter_mut().flat_map(|cpu| &mut cpu.domains).flat_map(|d| &mut d.lb) {
        let until_anew = (1 << 32) - b.lb_count + 1;
        (b.lb_count, b.lb_balanced) = (wrapped(b.lb_count, until_anew), wrapped(b.lb_balanced, until_anew));
    }
    assert_eq!(identities(&stat), [""; 0]);
    // A simulator's counters are wider and do not wrap.
    let mut stat = sample(1);
    stat.cpus[0].ttwu_count += 1 << 32;
    assert!(!identities(&stat).is_empty());
}

#[test]
fn a_record_of_224_cpus_stays_small() {
    let shape = |cpu: usize| {
        let core: CpuSet = [CpuId::from(cpu % 112), CpuId::from(cpu % 112 + 112)].into_iter().collect();
        let node = if cpu % 112 < 56 { "0-55,112-167" } else { "56-111,168-223" };
        vec![
            ("SMT".to_owned(), core),
            ("MC".to_owned(), CpuSet::parse(node).unwrap()),
            ("NUMA".to_owned(), CpuSet::first(224)),
        ]
    };
    let mut stat = Schedstat::new((0..224).map(shape));
    for cpu in &mut stat.cpus {
        CPU_ROWS.iter().for_each(|r| *(r.field)(&mut cpu.counters) = 89_392);
        for domain in &mut cpu.domains {
            domain.ttwu_wake_remote = 626;
            domain.lb[0] = Balance { lb_count: 843, lb_balanced: 843, lb_sg_scan: 843, ..Balance::default() };
            domain.lb[2] = Balance { lb_imbalance_task: 90, lb_failed: 90, ..domain.lb[0] };
        }
    }
    let text = serde_json::to_string(&stat).unwrap();
    assert!(text.len() < 150_000, "{}", text.len());
    assert_eq!(serde_json::from_str::<Schedstat>(&text).unwrap(), stat);
}

#[test]
fn a_record_stores_it_and_old_records_have_none() {
    let mut r = crate::tests::record(1);
    let without = serde_json::to_string(&r).unwrap();
    assert!(!without.contains("schedstat"));
    for i in 0..SAMPLES.len() {
        r.found.schedstat = Some(sample(i));
        let text = serde_json::to_string(&r).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), r);
    }
    assert_eq!(serde_json::from_str::<Record>(&without).unwrap().found.schedstat, None);
    let text = serde_json::to_string(&sample(0)).unwrap();
    assert!(
        text.contains("[2,[1,178783,89390,89392,88166,227910772,2145671,89393],[[\"\",\"2-3\",[["),
        "{text}"
    );
    for (from, to) in [("\"version\":15", "\"version\":9"), ("\"2-3\"", "\"0-1\""), ("[2,[", "[2,[0,")] {
        assert!(serde_json::from_str::<Schedstat>(&text.replacen(from, to, 1)).is_err(), "{to}");
    }
}

/// Arbitrary counters on a machine of cores in packages.
fn any_stat() -> impl Strategy<Value = Schedstat> {
    let value = || prop_oneof![4 => 0..20u64, 1 => 0..=u64::from(u32::MAX)];
    (1..4usize, 1..40usize, proptest::collection::vec(value(), 1..200)).prop_map(|(levels, cpus, values)| {
        let span = |cpu: usize, level: usize| -> CpuSet {
            let size = 2usize << (3 * level);
            let first = cpu / size * size;
            (first..(first + size).min(cpus)).map(CpuId::from).collect()
        };
        let domains = |cpu| (0..levels).map(|l| (format!("L{l}"), span(cpu, l))).collect();
        let mut stat = Schedstat::new((0..cpus).map(domains));
        let mut next = values.into_iter().cycle();
        let mut fill = |field: &mut u64| *field = next.next().unwrap_or(0);
        for cpu in &mut stat.cpus {
            CPU_ROWS.iter().for_each(|r| fill((r.field)(&mut cpu.counters)));
            for d in &mut cpu.domains {
                DOMAIN_ROWS.iter().for_each(|r| fill((r.field)(&mut d.counters)));
                let kinds = || BALANCE_ROWS.iter().filter(|r| r.since != Since::Mixed);
                d.lb.iter_mut().for_each(|b| kinds().for_each(|r| fill((r.field)(b))));
            }
        }
        stat
    })
}

proptest! {
    #[test]
    fn a_printed_file_is_read_back_unchanged(stat in any_stat()) {
        let text = stat.print(stat.layout).unwrap();
        prop_assert_eq!(&read(&text).unwrap(), &stat);
        for version in VERSIONS {
            for sg_scan in [false, true] {
                let layout = Layout { version, sg_scan };
                let text = stat.print(layout).unwrap();
                let again = read(&text).unwrap();
                prop_assert_eq!(again.layout, layout);
                prop_assert_eq!(again.print(layout).unwrap(), text);
            }
        }
        let json = serde_json::to_string(&stat).unwrap();
        prop_assert_eq!(serde_json::from_str::<Schedstat>(&json).unwrap(), stat);
    }

    #[test]
    fn a_snapshot_minus_itself_is_zero_and_breaks_nothing(stat in any_stat()) {
        let (mut zero, warnings) = delta(&stat, &stat).unwrap();
        prop_assert!(warnings.is_empty() && identities(&zero).is_empty());
        let same = zero.clone();
        zero.clear();
        prop_assert_eq!(zero, same);
        // Judging arbitrary counters never panics.
        identities(&stat);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(Path::new("x"), &bytes);
    }

    #[test]
    fn no_change_to_a_file_makes_the_reader_panic(
        which in 0..4usize,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>(), 0..4u8), 1..8),
    ) {
        let mut bytes = SAMPLES[which].0.as_bytes().to_vec();
        for (at, byte, how) in changes {
            let at = at as usize % bytes.len();
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => bytes.insert(at, b"0123456789 \n,"[byte as usize % 13]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Ok(stat) = parse(Path::new("x"), &bytes) {
            identities(&stat);
            prop_assert!(stat.print(stat.layout).is_ok());
        }
    }
}
