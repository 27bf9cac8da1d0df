//! The headline of each study as its page states it: directions, and sizes within the page's stated miss. A model that
//! moves one of them has to say so here and on the page.
//!
//! Studies are narrowed to the load and the variants of their headline, with fewer runs; a figure is the median of the
//! runs. The headline of `cache-aware` needs the kernel's own code of 7.3.

use crate::code::has_source_of;
use crate::common::Lab;

/// A study narrowed to its headline.
struct Headline<'a> {
    study: &'a str,
    load: &'a str,
    variants: &'a [&'a str],
    runs: &'a str,
    /// Edits of the study's file, that it takes seconds: from, to.
    edits: &'a [(&'a str, &'a str)],
    rows: &'a [Row],
}

/// A figure of a variant, as a multiple of another variant's if `of` names one, and its bounds.
struct Row {
    metric: &'static str,
    variant: &'static str,
    of: Option<&'static str>,
    within: (f64, f64),
}

const fn is(metric: &'static str, variant: &'static str, least: f64, most: f64) -> Row {
    Row { metric, variant, of: None, within: (least, most) }
}

const fn times(metric: &'static str, variant: &'static str, of: &'static str, least: f64, most: f64) -> Row {
    Row { metric, variant, of: Some(of), within: (least, most) }
}

fn median(cell: &serde_json::Value, metric: &str) -> f64 {
    let found =
        cell["metrics"][metric]["values"].as_array().unwrap_or_else(|| panic!("{metric} in {cell:.400}"));
    let mut values: Vec<f64> = found.iter().filter_map(serde_json::Value::as_f64).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn holds(headline: &Headline, backend: &str) {
    let lab = Lab::new();
    let file = format!("{}.toml", headline.study);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/");
    let mut text = std::fs::read_to_string(format!("{folder}{file}")).unwrap();
    for (from, to) in headline.edits {
        assert!(text.contains(from), "{file}: {from}");
        text = text.replace(from, to);
    }
    lab.write(&file, &text);
    let mut words =
        vec!["run", &file, "--load", headline.load, "--runs", headline.runs, "--backend", backend];
    headline.variants.iter().for_each(|v| words.extend(["--variant", v]));
    let json = lab.json(&[&words[..], &["-q", "--json"]].concat());
    let figure = |metric: &str, variant: &str| {
        let of = |cell: &&serde_json::Value| cell["variant"] == variant && cell["backend"] == backend;
        median(json["cells"].as_array().unwrap().iter().find(of).unwrap(), metric)
    };
    let outside = |row: &Row| {
        let is = figure(row.metric, row.variant) / row.of.map_or(1.0, |other| figure(row.metric, other));
        let (least, most) = row.within;
        let name = format!("{} of {} by {:?}", row.metric, row.variant, row.of);
        (!(least..=most).contains(&is)).then(|| format!("{name}: {is:.4}, not within {least} to {most}"))
    };
    let missed: Vec<String> = headline.rows.iter().filter_map(outside).collect();
    assert!(missed.is_empty(), "docs/studies/{}.md says otherwise:\n{}", headline.study, missed.join("\n"));
}

#[test]
fn idle_sibling_shortens_the_tail_and_not_the_middle() {
    let rows = &[
        is("schbench.latency.p50", "v4.5", 25_000.0, 60_000.0),
        is("schbench.latency.p99", "v4.5", 2_300_000.0, 9_400_000.0),
        times("schbench.latency.p50", "first-idle", "v4.5", 0.95, 1.05),
        times("schbench.latency.p95", "first-idle", "v4.5", 0.85, 1.05),
        times("schbench.latency.p99", "first-idle", "v4.5", 0.005, 0.1),
    ];
    let variants = &["v4.5", "first-idle"];
    holds(
        &Headline {
            study: "idle-sibling",
            load: "2x24@fb-2x12-smt-0.3pct",
            variants,
            runs: "9",
            edits: &[],
            rows,
        },
        "sim",
    );
}

#[test]
fn newidle_reads_fewer_groups_and_fails_more_often() {
    let rows = &[
        is("domain1.newidle.groups_per_balance", "base", 54.9, 55.0),
        is("balance.newidle_entries", "base", 1.5, 3.0),
        is("domain1.newidle.nobusyg_share", "base", 65.0, 85.0),
        is("domain1.newidle.nobusyq_share", "base", 8.0, 18.0),
        is("domain1.newidle.failed_share", "base", 5.0, 15.0),
        is("domain1.newidle.nobusyq_share", "fast", 0.0, 1.5),
        times("domain1.newidle.groups_per_balance", "fast", "base", 0.5, 0.8),
        times("domain1.newidle.failed_share", "fast", "base", 1.4, 3.0),
        times("balance.newidle_share", "fast", "base", 0.8, 1.02),
    ];
    let edits = &[("runtime = \"5s\"", "runtime = \"1s\"")];
    let variants = &["base", "fast"];
    holds(&Headline { study: "newidle", load: "224@spr-2x56", variants, runs: "1", edits, rows }, "sim");
}

#[test]
fn fair_sleepers_shred_slices_and_batch_tasks_do_not() {
    let rows = &[
        is("task.hog.slice.mean", "v2.6.30", 1_500_000.0, 2_200_000.0),
        is("task.hog.slice.mean", "off", 11_000_000.0, 12_500_000.0),
        is("task.hog.slice.mean", "waker batch", 10_000_000.0, 12_500_000.0),
        times("task.hog.slice.mean", "hogs batch", "v2.6.30", 0.95, 1.05),
        times("slice-test.utime_rate.mean", "off", "v2.6.30", 0.99, 1.01),
    ];
    let variants = &["v2.6.30", "off", "waker batch", "hogs batch"];
    holds(
        &Headline { study: "fair-sleepers", load: "16 hogs", variants, runs: "3", edits: &[], rows },
        "sim",
    );
}

#[test]
fn idle_cfs_rq_helps_a_virtual_machine_and_not_the_bare_one() {
    let vm = &[
        times("oltp.rate", "patch", "tip", 1.1, 1.35),
        times("migrations", "patch", "tip", 10.0, 100.0),
        is("placement.group_absent", "tip", 0.0, 0.0),
    ];
    let bare = &[times("pipe.elapsed.mean", "patch", "tip", 1.0, 1.0)];
    let variants = &["tip", "patch"];
    for (load, rows) in [("oltp vm", &vm[..]), ("pipe bm", &bare[..])] {
        holds(&Headline { study: "idle-cfs-rq", load, variants, runs: "2", edits: &[], rows }, "sim");
    }
}

#[test]
fn migration_cost_gains_where_the_cache_is_large() {
    let large = &[
        times("database.rate", "10 ms", "old", 1.1, 1.25),
        times("database.rate", "auto", "10 ms", 0.95, 1.03),
        times("migrations", "10 ms", "old", 0.05, 0.5),
    ];
    let small = &[times("database.rate", "10 ms", "old", 0.95, 1.0)];
    let variants = &["old", "10 ms", "auto"];
    for (load, rows) in [("tasks=64@p3-8", &large[..]), ("tasks=8@celeron-2", &small[..])] {
        holds(&Headline { study: "migration-cost", load, variants, runs: "1", edits: &[], rows }, "sim");
    }
}

#[test]
fn cache_aware_brings_workers_to_their_wakers() {
    if !has_source_of("7.3") {
        return;
    }
    let rows = &[
        times("schbench-modern.wakeup_latency.p50", "on", "off", 0.8, 0.95),
        times("schbench-modern.request_latency.p99", "on", "off", 0.95, 1.2),
    ];
    let edits = &[("runtime = \"5s\"", "runtime = \"2s\"")];
    let variants = &["off", "on"];
    let load = "1,threads=8@spr-2x30-interleaved";
    holds(&Headline { study: "cache-aware", load, variants, runs: "1", edits, rows }, "code");
}
