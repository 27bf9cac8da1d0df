//! Pages of small comparisons: what they show and hide, and that they load nothing.

use super::*;
use schedlab_analyse::TaskName;
use schedlab_base::{Ns, TaskId};
use schedlab_compare::strips::{BesideIdle, track::Track, who};
use schedlab_compare::{Question, compare};
use schedlab_kernel::Variant;
use schedlab_record::{Better, Findings, Series, TaskAccount, Wait};
use std::collections::BTreeMap;

/// A run of two CPUs whose latencies are `factor` times 1 to 3 us.
fn record(variant: &str, seed: u64, factor: u64) -> Record {
    let mut latency = Series::new("ns", Better::Lower);
    (1000..3000u64).for_each(|i| latency.record(i * factor + seed));
    let account = |name: &str| TaskAccount {
        name: name.to_owned(),
        cpu_time: Ns::ms(3),
        voluntary: 2,
        involuntary: 1,
        migrations: Some(4),
    };
    let wait = Wait {
        task: "worker-1".into(),
        woken_at: Ns(2_000_000),
        length_ns: 700_000,
        enqueue_ns: 10,
        waker: None,
        waker_cpu: schedlab_base::CpuId(0),
        chosen_cpu: schedlab_base::CpuId(1),
        placement: Some("target_busy".into()),
        probes: 1,
        occupant: None,
        nr_running: 2,
        ran_on: schedlab_base::CpuId(1),
        moved: None,
        ended_by: Some("worker-2".into()),
        ended_why: "slice".into(),
        idle_exit_ns: 0,
        decided: Vec::new(),
        decisions: 0,
    };
    let cpu = |core: u32| serde_json::json!({ "package": 0, "node": 0, "llc": 0, "cluster": core, "core": core, "thread": 0 });
    let plain = schedlab_compare::testing::record(&[]);
    Record {
        machine: serde_json::from_value(serde_json::json!({
            "name": "two", "about": "", "costs": {}, "idle_states": [], "background": [],
            "topology": { "cpus": [cpu(0), cpu(1)], "node_distance": [[10]] },
        }))
        .unwrap(),
        kernel: "v4.5".into(),
        variant: Variant { name: variant.to_owned(), ..Variant::plain("v4.5") },
        workload: "schbench".into(),
        load: "2x4".into(),
        seed,
        found: Findings {
            duration: Ns::ms(8),
            series: BTreeMap::from([
                ("schbench.latency".to_owned(), latency.clone()),
                ("slice".to_owned(), latency),
            ]),
            counters: BTreeMap::from([
                ("placement.idle_cpu".to_owned(), 30 * factor),
                ("placement.target_busy".to_owned(), 10),
                ("slice.end.blocked".to_owned(), 25),
            ]),
            tasks: vec![account("worker-1"), account("worker-2"), account("<b>evil")],
            waits: vec![wait],
            ..plain.found
        },
        ..plain
    }
}

fn strips(bin: Option<Ns>) -> Strips {
    let mut track = Track::default();
    track.set(1_000_000, who::runs(Some(TaskId(0))));
    track.close(10_000_000);
    let name = |name: &str, background: bool| TaskName { name: name.to_owned(), background };
    Strips {
        end: Ns::ms(10),
        names: vec![name("worker-1", false), name("</script><b>", false), name("kworker", true)],
        who: vec![track.clone(), track.clone()],
        depth: vec![Track::default(); 2],
        width: Ns::ms(5),
        running: vec![8_000_000, 10_000_000],
        waiting: vec![0, 2_500_000],
        beside_idle: Some(BesideIdle { by_bin: vec![0, 1_000_000], covered: Ns::ms(1) }),
        measured_from: Ns(0),
        lost: 0,
        bin,
        exact: bin.map_or_else(Vec::new, |_| vec![(1_000_000, 3_000_000)]),
        pieces: 4,
    }
}

/// The page of two variants with eight runs each.
fn html(bin: Option<Ns>, evil: &str) -> String {
    html_of(bin, evil, 1)
}

/// The same, but with another first seed for the second variant.
fn html_of(bin: Option<Ns>, evil: &str, first: u64) -> String {
    let runs = |variant: &str, factor, first| {
        (first..first + 8).map(|seed| record(variant, seed, factor)).collect::<Vec<_>>()
    };
    let all = [runs("v4.5", 10, 1), runs(evil, 5, first)];
    let comparison = compare(&all.concat(), &Question::default(), &[]).unwrap();
    let strips = strips(bin);
    let shown = [ShownRun { cell: 0, record: &all[0][0], strips: &strips }];
    page(&HtmlReport {
        title: "small",
        about: "does it help?",
        command: "schedlab report runs",
        version: "0.0.0",
        made: ("2026-01-01 00:00".into(), "2026-01-02 00:00".into()),
        comparison: &comparison,
        runs: &all,
        again: &[Some("schedlab bench".into()), None],
        shown: &shown,
        strip_notes: &[],
    })
}

#[test]
fn a_page_has_every_section_and_the_same_bytes_each_time() {
    let text = html(None, "fast");
    for part in [
        "id=\"comparison\"",
        "id=\"cores\"",
        "id=\"waits\"",
        "id=\"loads\"",
        "id=\"environment\"",
        "id=\"again\"",
        "seeds 1-8, stored 2026-01-01 00:00 to 2026-01-02 00:00 UTC",
        "schbench.latency by percentile",
        "Why this CPU",
        "idle_cpu",
        "target_busy",
        "every one of its 4 pieces is here",
        "1.00ms (12.5% of the measured time)",
        "no single command line does it",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert_eq!(text, html(None, "fast"));
    // Half the baseline's latency: better, in the table and in its text form.
    assert!(text.contains("class=\"num better\"") && text.contains("-50% *"), "the verdict");
    assert_eq!(text.matches("<section").count(), text.matches("</section>").count());
    assert_eq!(text.matches("<details").count(), text.matches("</details>").count());
}

#[test]
fn tasks_are_shown_with_the_seed_of_their_run() {
    let same = html(None, "fast");
    assert!(same.contains("The first run of each variant (seed 1), over") && same.contains("<th>fast</th>"));
    let others = html_of(None, "fast", 3);
    assert!(others.contains("The first run of each variant, over"), "no seed for all");
    assert!(others.contains("<th>v4.5, seed 1</th>") && others.contains("<th>fast, seed 3</th>"));
}

#[test]
fn a_page_loads_nothing_and_runs_only_its_own_scripts() {
    let text = html(None, "fast");
    for word in ["http://", "https://", "src=", "@import", "url(", " onclick", " onload", "<link"] {
        assert!(!text.contains(word), "{word}");
    }
    assert!(text.contains("default-src 'none'"));
    assert_eq!(text.matches("<script").count(), text.matches("</script>").count());
}

#[test]
fn names_are_escaped() {
    let text = html(None, "\"><img onerror=x>'&");
    assert!(!text.contains("<img") && !text.contains("<b>"), "a name became markup");
    assert!(text.contains("&quot;&gt;&lt;img onerror=x&gt;&#39;&amp;"));
    assert!(text.contains("\\u003c/script\\u003e"), "in the data of the strips");
}

#[test]
fn bins_are_mentioned() {
    let text = html(Some(Ns(1_024_000)), "fast");
    assert!(text.contains("4 pieces are too many for a page: shown in 1.02ms bins"), "{text}");
    assert!(text.contains("except in 1 window around the longest waits"));
    assert!(text.contains("\"bin\":1024000"));
}

#[test]
fn a_series_of_a_few_values_is_not_drawn() {
    let mut few = Series::new("ns", Better::Lower);
    few.record(5_000_000);
    let mut all = vec![record("v4.5", 1, 10), record("fast", 1, 5)];
    for record in &mut all {
        record.found.series.insert("hackbench.elapsed".to_owned(), few.clone());
    }
    let comparison = compare(&all, &Question::default(), &[]).unwrap();
    let runs: Vec<Vec<Record>> = all.into_iter().map(|r| vec![r]).collect();
    let group = LoadGroup { cells: &comparison.cells, runs: &runs };
    let text = loads::load(&group);
    assert!(
        text.contains("Not drawn: hackbench.elapsed, of which no variant has more than 1 value."),
        "{text}"
    );
    assert!(!text.contains("hackbench.elapsed: share") && text.contains("schbench.latency: share of values"));
}

#[test]
fn the_ninth_variant_looks_unlike_the_first() {
    let classes: std::collections::BTreeSet<String> = (0..24).map(colour).collect();
    assert_eq!(classes.len(), 24);
    assert_eq!((colour(0), colour(8)), ("v0".to_owned(), "v0 r1".to_owned()));
}
