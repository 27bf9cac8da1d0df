//! One sentence of answer behind a table of CPU limits: would removing the limit help, and who would pay?
//!
//! It says what the verdicts of the row without a limit say, and no more: a change that is not decided is not named as
//! one, and a limit that throttled nobody is not blamed.

use crate::number::{change, count, value};
use crate::table::matrix::{baseline, metrics};
use crate::text::wrap;
use crate::variants::label;
use crate::{groups, row, short};
use schedlab_base::each_once;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat, ComparisonRow, Measured};
use schedlab_compare::stats::Verdict;
use std::io::{self, Write};

/// The name of the variant without a limit.
const NONE: &str = "none";
/// Metrics that a sentence has at most of each kind.
const MOST: usize = 2;

/// A figure of a recording, and of its replay under the recorded kernel.
#[derive(Clone, Debug)]
pub struct Figure {
    pub metric: String,
    pub unit: String,
    pub recorded: f64,
    /// Of one run.
    pub replayed: f64,
}

/// What was recorded, for answers by replays.
#[derive(Clone, Debug)]
pub struct AsRecorded {
    pub figures: Vec<Figure>,
    /// A figure that is off by more than that, per cent, is far from the recording.
    pub far_pct: f64,
    /// The table's baseline has the recorded machine and kernel, so that its means are set beside the recording.
    pub is_baseline: bool,
}

impl AsRecorded {
    /// What a figure is in the replay: the mean that the table shows, or that of one run.
    fn replayed(&self, figure: &Figure, base: Option<&Cell>) -> f64 {
        let mean = base.filter(|_| self.is_baseline).and_then(|cell| measured(cell, &figure.metric));
        mean.map_or(figure.replayed, |m| m.mean)
    }
    fn shown(&self, figure: &Figure, base: Option<&Cell>) -> String {
        let of = |number| value(number, &figure.unit);
        format!("{} {} (recorded {})", figure.metric, of(self.replayed(figure, base)), of(figure.recorded))
    }
    /// The figures of metrics in which the replay is far from the recording, in words.
    fn far(&self, base: &Cell, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let is_far = |f: &&Figure| {
            let off = self.replayed(f, Some(base)) - f.recorded;
            f.recorded != 0.0 && 100.0 * (off / f.recorded).abs() > self.far_pct
        };
        let all = self.figures.iter().filter(|f| wanted(&f.metric)).filter(is_far);
        all.map(|f| self.shown(f, Some(base))).collect()
    }
    /// How far the replay under the limit as it is, the table's first baseline, is from the recording.
    pub fn off(&self, c: &Comparison) -> String {
        let base = groups(c).first().and_then(|cells| cells.get(baseline(c, cells)));
        let all: Vec<String> = self.figures.iter().map(|f| self.shown(f, base)).collect();
        format!("the replay under the limit as it is: {}", all.join(", "))
    }
}

/// Answers for each block of a table of limits. `group` is the service's.
pub fn limits(c: &Comparison, group: &str, recorded: Option<&AsRecorded>) -> Vec<String> {
    let blocks = groups(c);
    let several = blocks.len() > 1;
    let (mut all, mut doubts) = (Vec::new(), Vec::new());
    for cells in blocks {
        let (Some(base), Some(free)) =
            (cells.get(baseline(c, cells)), cells.iter().find(|cell| label(cell) == NONE))
        else {
            continue;
        };
        let head = if several { format!("{} on {}: ", free.load, free.machine) } else { String::new() };
        let (words, payers) = answer(c, group, base, free);
        all.push(format!("{head}{words}"));
        doubts.extend(recorded.into_iter().flat_map(|r| doubted(r, group, base, &payers)));
    }
    all.extend(each_once(&doubts));
    all
}

/// Prints answers for people.
///
/// # Errors
/// When `out` refuses.
pub fn print(answers: &[String], out: &mut dyn Write) -> io::Result<()> {
    answers.iter().try_for_each(|words| write!(out, "{}", wrap("", words)))
}

/// Where the replay is far from the recording: of the group, and of the others that the answer names.
fn doubted(recorded: &AsRecorded, group: &str, base: &Cell, payers: &[String]) -> Vec<String> {
    let own = format!("group.{group}.");
    let of_group = recorded.far(base, |metric| metric.starts_with(&own)).into_iter().next().map(|far| {
        let far = far.replacen(&own, "", 1);
        format!("But the replay is far from the recording, so this may not hold: {far}.")
    });
    let others = recorded.far(base, |metric| payers.iter().any(|payer| payer == metric));
    let others = (!others.is_empty()).then(|| {
        let all = others.join(", ").replace("group./", "/");
        format!(
            "But of the others the replay is far from the recording, so their change may not hold: {all}."
        )
    });
    of_group.into_iter().chain(others).collect()
}

/// A metric that both cells have, with its row.
struct Seen<'a> {
    metric: &'a str,
    row: &'a ComparisonRow,
    words: String,
}

/// The answer, and the metrics of others that it names.
fn answer(c: &Comparison, group: &str, base: &Cell, free: &Cell) -> (String, Vec<String>) {
    let seen = |metric| seen(c, group, base, free, metric);
    let own = metrics(c, free).filter(|m| is_latency(m, group, free));
    let own: Vec<Seen<'_>> = own.filter_map(seen).collect();
    let throttled = throttled(base, group);
    let of = |verdict| -> Vec<&Seen<'_>> { tails_first(own.iter().filter(|s| s.row.verdict == verdict)) };
    let (better, worse, unclear) = (of(Verdict::Better), of(Verdict::Worse), of(Verdict::Unclear));
    let often = throttled.map_or_else(String::new, |(n, all)| {
        format!("; {group} was throttled in {} of {} periods", count(n), count(all))
    });
    let never = throttled.is_some_and(|(n, _)| n == 0.0);
    let (others, named) = if better.is_empty() { Default::default() } else { payers(c, group, base, free) };
    let words = match (&better[..], &worse[..]) {
        ([], []) if own.is_empty() => {
            format!(
                "Cannot tell whether removing the limit helps: no latency was measured with and without it{often}."
            )
        }
        ([], []) if never => format!("Removing the limit does not help{often}."),
        ([], []) if unclear.is_empty() => {
            let all = listed(&tails_first(own.iter()));
            format!("Removing the limit changes by less than {}%: {all}{often}.", c.min_effect_pct)
        }
        ([], []) => {
            format!(
                "Cannot tell whether removing the limit helps: {}{often}. More --runs may tell.",
                listed(&unclear)
            )
        }
        (better, []) => {
            format!("Removing the limit helps: {}{others}.", listed(better))
        }
        ([], worse) => format!("Removing the limit makes it worse: {}{often}.", listed(worse)),
        (better, worse) => {
            format!("Removing the limit helps in part: {}; but {}{others}.", listed(better), listed(worse))
        }
    };
    (words, named)
}

/// Whether the metric is a time that the service's requests or tasks took.
fn is_latency(metric: &str, group: &str, cell: &Cell) -> bool {
    if measured(cell, metric).is_some_and(|m| m.unit != "ns") {
        return false;
    }
    let of_group = metric.strip_prefix("group.").and_then(|rest| rest.strip_prefix(group));
    match of_group {
        Some(rest) => rest.starts_with(".busy.") || rest.starts_with(".run_delay."),
        None => metric.starts_with(&format!("{}.", cell.workload)) || metric.starts_with("run_delay."),
    }
}

fn measured<'a>(cell: &'a Cell, metric: &str) -> Option<&'a Measured> {
    cell.metrics.get(metric).and_then(CellStat::measured)
}

fn seen<'a>(c: &'a Comparison, group: &str, base: &Cell, free: &Cell, metric: &'a str) -> Option<Seen<'a>> {
    let (was, is) = (measured(base, metric)?, measured(free, metric)?);
    let row = row(c, free, metric)?;
    let by = row.change_pct.map_or_else(|| "new".to_owned(), change);
    let name =
        metric.strip_prefix(&format!("group.{group}.")).unwrap_or_else(|| short(metric, &free.workload));
    let words = format!("{name} {} -> {} ({by})", value(was.mean, &was.unit), value(is.mean, &was.unit));
    Some(Seen { metric, row, words })
}

/// Tails are what limits are removed for.
fn tails_first<'s, 'a>(all: impl Iterator<Item = &'s Seen<'a>>) -> Vec<&'s Seen<'a>> {
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|s| !s.metric.rsplit_once(".p").is_some_and(|(_, p)| p.starts_with('9')));
    all
}

fn listed(all: &[&Seen<'_>]) -> String {
    let words: Vec<&str> = all.iter().take(MOST).map(|s| s.words.as_str()).collect();
    words.join(", ")
}

/// Throttled periods of the group under its limit, and all of its periods.
fn throttled(base: &Cell, group: &str) -> Option<(f64, f64)> {
    let mean = |name: &str| measured(base, &format!("group.{group}.{name}")).map(|m| m.mean);
    Some((mean("nr_throttled")?, mean("nr_periods")?))
}

/// What it does to the others, as far as it is decided, and the metrics that this names.
fn payers(c: &Comparison, group: &str, base: &Cell, free: &Cell) -> (String, Vec<String>) {
    let of_others = |m: &&str| {
        m.strip_prefix("group.")
            .is_some_and(|rest| !rest.strip_prefix(group).is_some_and(|end| end.starts_with('.')))
    };
    let others: Vec<Seen<'_>> =
        metrics(c, free).filter(of_others).filter_map(|m| seen(c, group, base, free, m)).collect();
    let plain = |s: &Seen<'_>| s.words.strip_prefix("group.").unwrap_or(&s.words).to_owned();
    let with = |verdicts: &[Verdict]| -> Vec<&Seen<'_>> {
        others.iter().filter(|s| verdicts.contains(&s.row.verdict)).take(MOST).collect()
    };
    let (changed, unclear) =
        (with(&[Verdict::Better, Verdict::Worse, Verdict::Changed]), with(&[Verdict::Unclear]));
    let words = match (&changed[..], &unclear[..]) {
        ([], []) if others.is_empty() => String::new(),
        ([], []) => "; the others are as before".to_owned(),
        ([], _) => "; what the others pay can't be told".to_owned(),
        (changed, _) => {
            let all: Vec<String> = changed.iter().map(|s| plain(s)).collect();
            format!("; of the others, {}", all.join(", "))
        }
    };
    (words, changed.iter().map(|s| s.metric.to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const P50: &str = "http.latency.p50";
    const P99: &str = "http.latency.p99";
    const CPUS: &str = "group./neighbours.cpus";
    const COUNT: &str = "http.latency.count";

    /// The answer where each metric has that verdict, with that many of 50 periods throttled.
    fn said(verdicts: &[(&str, &str)], throttled: f64) -> String {
        said_of(verdicts, throttled, None)
    }

    fn said_of(verdicts: &[(&str, &str)], throttled: f64, recorded: Option<&AsRecorded>) -> String {
        let names: Vec<&str> = verdicts.iter().map(|(metric, _)| *metric).collect();
        let measured = |unit: &str, v: f64| serde_json::json!({ "unit": unit, "better": "lower", "mean": v, "std_pct": 1.0, "values": [v] });
        let cell = |variant: &str, v: f64| {
            let mut own = serde_json::json!({
                "group./service.nr_throttled": measured("", throttled), "group./service.nr_periods": measured("", 50.0),
            });
            names.iter().for_each(|name| {
                own[*name] = measured(if [CPUS, COUNT].contains(name) { "" } else { "ns" }, v)
            });
            serde_json::json!({
                "backend": "sim", "machine": "smp-4", "kernel": "v6.12", "workload": "http", "load": "default",
                "params": {}, "variant": variant, "runs": 10, "seeds": [1], "metrics": own,
            })
        };
        let row = |(metric, verdict): &(&str, &str)| {
            serde_json::json!({
                "backend": "sim", "machine": "smp-4", "workload": "http", "load": "default", "metric": metric,
                "baseline": "as-is 2", "variant": "none", "change_pct": -50.0, "ci95_pct": [-52.0, -48.0], "p": 0.001,
                "verdict": verdict, "mean_change_pct": -50.0, "rank_pct": null, "pairs": 10, "correlation": null,
                "detectable_pct": null,
            })
        };
        let comparison: Comparison = serde_json::from_value(serde_json::json!({
            "schema": "schedlab/comparison/1", "experiment": "limits-http", "model": 1, "metrics": names,
            "min_effect_pct": 2.0, "cells": [cell("as-is 2", 2e6), cell("none", 1e6)],
            "comparisons": verdicts.iter().map(row).collect::<Vec<_>>(), "warnings": [],
        }))
        .unwrap();
        let mut out = Vec::new();
        print(&limits(&comparison, "/service", recorded), &mut out).unwrap();
        String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_sentence_says_what_the_verdicts_say() {
        assert_eq!(
            said(&[(P50, "same"), (P99, "better"), (CPUS, "changed")], 12.0),
            "Removing the limit helps: latency.p99 2.00ms -> 1.00ms (-50%); of the others, /neighbours.cpus 2.0e6 -> 1.0e6 (-50%)."
                .replace("2.0e6 -> 1.0e6", &format!("{} -> {}", value(2e6, ""), value(1e6, "")))
        );
        let tells = |verdicts: &[(&str, &str)], n, words: &str| {
            let text = said(verdicts, n);
            assert!(text.starts_with(words), "{text}");
        };
        tells(
            &[(P50, "better"), (P99, "better")],
            9.0,
            "Removing the limit helps: latency.p99 2.00ms -> 1.00ms (-50%), latency.p50",
        );
        tells(
            &[(P50, "better"), (P99, "worse")],
            9.0,
            "Removing the limit helps in part: latency.p50 2.00ms",
        );
        tells(&[(P50, "same"), (P99, "worse")], 9.0, "Removing the limit makes it worse: latency.p99");
        tells(
            &[(P50, "same"), (P99, "same")],
            9.0,
            "Removing the limit changes by less than 2%: latency.p99",
        );
        tells(
            &[(P50, "same"), (P99, "unclear")],
            9.0,
            "Cannot tell whether removing the limit helps: latency.p99",
        );
        tells(
            &[(P99, "unclear")],
            0.0,
            "Removing the limit does not help; /service was throttled in 0 of 50 periods.",
        );
        tells(
            &[(CPUS, "changed"), (COUNT, "changed")],
            3.0,
            "Cannot tell whether removing the limit helps: no latency was measured",
        );
        let better = said(&[(P99, "better"), (CPUS, "unclear")], 3.0);
        assert!(better.ends_with("; what the others pay can't be told."), "{better}");
        assert!(said(&[(P99, "better"), (CPUS, "same")], 3.0).ends_with("; the others are as before."));
        assert!(!said(&[(P99, "better")], 3.0).contains("others"));
    }

    #[test]
    fn a_neighbour_that_is_named_has_a_doubt_where_its_replay_is_far_from_the_recording() {
        const OTHER: &str = "group./batch.run_delay.mean";
        let of = |metric: &str, recorded| Figure {
            metric: metric.to_owned(),
            unit: "ns".to_owned(),
            recorded,
            replayed: 3e6,
        };
        let answered = |verdict, is_baseline, recorded| {
            let figures = vec![of("group./service.busy.p50", 3e6), of(OTHER, recorded)];
            let recorded = AsRecorded { figures, far_pct: 50.0, is_baseline };
            said_of(&[(P99, "better"), (OTHER, verdict)], 9.0, Some(&recorded))
        };
        // The table's mean is 2 ms, that of the one run 3 ms.
        let doubt = "But of the others the replay is far from the recording, so their change may not hold: \
                     /batch.run_delay.mean 2.00ms (recorded 4.50ms).";
        assert!(answered("worse", true, 4.5e6).ends_with(doubt), "{}", answered("worse", true, 4.5e6));
        assert!(!answered("worse", false, 4.5e6).contains("But"), "{}", answered("worse", false, 4.5e6));
        assert!(answered("worse", false, 9e6).ends_with("3.00ms (recorded 9.00ms)."));
        assert!(!answered("unclear", true, 4.5e6).contains("But"), "it is not named");
    }
}
