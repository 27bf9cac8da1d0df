//! Every form that prints changes prints the estimate, the verdict and the flag of the JSON. Tested with the shapes of
//! all studies and values of all kinds.

use crate::common::{made_up, studies};
use regex_lite::Regex;
use schedlab_compare::comparison::ComparisonRow;
use schedlab_compare::stats::Verdict;
use schedlab_compare::{Comparison, compare};
use schedlab_record::Better;
use schedlab_report::form;
use schedlab_report::number::{change, percent, signed};

fn comparisons() -> Vec<Comparison> {
    let of = |e: &_| compare(&made_up(e), &e.question(), &[]).unwrap_or_else(|e| panic!("{e}"));
    studies().iter().map(of).collect()
}

fn written(name: &str, c: &Comparison) -> String {
    let mut out = Vec::new();
    form(name).unwrap_or_else(|e| panic!("{e}")).exporter.export(c, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Compares the rows printed by a form, in any order, with the text that each row of the JSON requires.
fn hold(form: &str, c: &Comparison, said: Vec<String>, must: impl Fn(&ComparisonRow) -> String) {
    let json: Comparison = serde_json::from_str(&written("json", c)).unwrap();
    let mut wanted: Vec<String> = json.comparisons.iter().map(must).collect();
    let mut said = said;
    wanted.sort();
    said.sort();
    assert!(wanted.len() >= 10, "{} rows of {}", wanted.len(), c.experiment);
    let first = wanted.iter().zip(&said).find(|(w, s)| w != s);
    assert_eq!((first, wanted.len()), (None, said.len()), "{form} of {}", c.experiment);
}

fn captures(pattern: &str, text: &str) -> Vec<Vec<String>> {
    let pattern = Regex::new(pattern).unwrap();
    let groups = |c: regex_lite::Captures<'_>| {
        c.iter().skip(1).map(|g| g.map_or(String::new(), |g| g.as_str().to_owned())).collect()
    };
    text.lines().flat_map(|l| pattern.captures_iter(l).map(groups).collect::<Vec<_>>()).collect()
}

#[test]
fn values_are_of_all_kinds() {
    let all = comparisons();
    let rows = || all.iter().flat_map(|c| &c.comparisons);
    for verdict in [Verdict::Better, Verdict::Worse, Verdict::Changed, Verdict::Same, Verdict::Unclear] {
        assert!(rows().any(|r| r.verdict == verdict), "{verdict:?}");
    }
    assert!(rows().any(|r| r.astray) && rows().any(|r| r.change_pct.is_none()));
    let turned = |r: &&ComparisonRow| r.mean_change_pct.zip(r.change_pct).is_some_and(|(m, c)| m * c < 0.0);
    assert!(rows().filter(|r| r.astray).any(|r| turned(&r)), "a mean that moved the other way");
}

#[test]
fn tables_show_the_estimate_the_verdict_and_the_flag() {
    for c in comparisons() {
        let cell = r"\S+?('?)\s*((?:[+-][\d.]+|0\.0)%|x[\d.]+|new) ([*!#=~])(?:\s|$)";
        let said = captures(cell, &written("table", &c)).iter().map(|g| g.join(" ")).collect();
        let shown = |r: &ComparisonRow| r.change_pct.map_or("new".to_owned(), change);
        hold("table", &c, said, |r| format!("{} {} {}", r.flag(), shown(r), r.verdict.mark()));
    }
}

#[test]
fn detail_also_shows_the_interval() {
    for c in comparisons() {
        let line = r"\S+?('?) +[\d.]*%?(?: +\S+)? +([+-][\d.]+%|new) +(\[[^\]]+\])? *([*!#=~])\S*$";
        let said = captures(line, &written("detail", &c)).iter().map(|g| g.join(" ")).collect();
        let shown = |r: &ComparisonRow| r.change_pct.map_or("new".to_owned(), percent);
        let interval = |r: &ComparisonRow| {
            r.ci95_pct.map_or(String::new(), |[a, b]| format!("[{}, {}]", signed(a), signed(b)))
        };
        hold("detail", &c, said, |r| {
            format!("{} {} {} {}", r.flag(), shown(r), interval(r), r.verdict.mark())
        });
    }
}

#[test]
fn lkml_shows_the_same_with_its_sign() {
    for c in comparisons() {
        let line = r"\t 1\.00 \([^)]*\)\t *([+-][\d.]+|new)([' ])\([^)]*\) ([*!#=~]\^?)$";
        let said = captures(line, &written("lkml", &c)).iter().map(|g| g.join(" ")).collect();
        let better = |r: &ComparisonRow| {
            let of = |cell: &schedlab_compare::comparison::Cell| {
                Some(cell.metrics.get(&r.metric)?.measured()?.better)
            };
            c.cells.iter().filter(|cell| cell.workload == r.workload).find_map(of).unwrap()
        };
        hold("lkml", &c, said, |r| {
            let sign = if better(r) == Better::Lower { -1.0 } else { 1.0 };
            let shown = r.change_pct.map_or("new".to_owned(), |p| format!("{:+.2}", sign * p + 0.0));
            let flag = if r.astray { "'" } else { " " };
            let neither = if better(r) == Better::Neither { "^" } else { "" };
            format!("{shown} {flag} {}{neither}", r.verdict.mark())
        });
    }
}

#[test]
fn markdown_shows_the_verdict_in_words() {
    for c in comparisons() {
        let line = r"\| [^|]*?('?) \| [\d.%]* \| ([+-][\d.]+%|) \| ([^|]*) \| (better|worse|changed|same|unclear) \|$";
        let said = captures(line, &written("markdown", &c)).iter().map(|g| g.join(" ")).collect();
        let interval = |r: &ComparisonRow| {
            r.ci95_pct.map_or(String::new(), |[a, b]| format!("{} to {}", signed(a), signed(b)))
        };
        hold("markdown", &c, said, |r| {
            let shown = r.change_pct.map_or(String::new(), percent);
            format!("{} {shown} {} {}", r.flag(), interval(r), r.verdict.word())
        });
    }
}

#[test]
fn csv_shows_everything_in_full() {
    for c in comparisons() {
        let text = written("csv", &c);
        let heads: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let columns =
            ["metric", "variant", "change_pct", "ci95_low_pct", "verdict", "mean_change_pct", "astray"];
        let at = columns.map(|name| heads.iter().position(|h| *h == name).unwrap());
        let fields = |line: &str| {
            // Names with commas are quoted; quoted text has no quotes inside here.
            let mut quoted = false;
            let unquoted: String = line
                .chars()
                .filter_map(|ch| match ch {
                    '"' => {
                        quoted = !quoted;
                        None
                    }
                    ',' if quoted => Some(';'),
                    other => Some(other),
                })
                .collect();
            unquoted.split(',').map(str::to_owned).collect::<Vec<_>>()
        };
        let rows = text.lines().skip(1).map(fields).filter(|f| !f[at[4]].is_empty());
        let said = rows.map(|f| at.map(|i| f[i].clone()).join(" ")).collect();
        let full = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
        hold("csv", &c, said, |r| {
            let variant = r.variant.replace(',', ";");
            let low = full(r.ci95_pct.map(|i| i[0]));
            let (shown, means) = (full(r.change_pct), full(r.mean_change_pct));
            format!("{} {variant} {shown} {low} {} {means} {}", r.metric, r.verdict.word(), r.astray)
        });
    }
}
