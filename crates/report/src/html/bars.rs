//! Reasons as bars: how often each was given, for each variant.

use super::escape::escape;
use super::{LoadGroup, colour};
use crate::number::{count, three};
use schedlab_record::Record;
use schedlab_trace::{BalanceReason, MoveReason, PlaceReason, SwitchReason};

struct ReasonKind {
    title: &'static str,
    about: &'static str,
    /// The part of a counter's name before the reason.
    prefix: &'static str,
    /// The reasons' names, each with a sentence.
    rows: fn() -> Vec<(&'static str, &'static str)>,
}

fn rows<R: Copy>(
    all: &[R],
    name: fn(R) -> &'static str,
    about: fn(R) -> &'static str,
) -> Vec<(&'static str, &'static str)> {
    all.iter().map(|r| (name(*r), about(*r))).collect()
}

const KINDS: &[ReasonKind] = &[
    ReasonKind {
        title: "Why this CPU",
        about: "the reason for the CPU of each woken or new task",
        prefix: "placement.",
        rows: || rows(PlaceReason::ALL, PlaceReason::name, PlaceReason::about),
    },
    ReasonKind {
        title: "Why it left",
        about: "the reason for the end of each stay on a CPU",
        prefix: "slice.end.",
        rows: || rows(SwitchReason::ALL, SwitchReason::name, SwitchReason::about),
    },
    ReasonKind {
        title: "Why it moved",
        about: "the reason for each change of a task's CPU",
        prefix: "migrations.",
        rows: || rows(MoveReason::ALL, MoveReason::name, MoveReason::about),
    },
    ReasonKind {
        title: "How balance passes ended",
        about: "they took tasks, or why not",
        prefix: "balance.",
        rows: || rows(BalanceReason::ALL, BalanceReason::name, BalanceReason::about),
    },
];

/// The most rows that are shown; rarer reasons are left out.
const MOST: usize = 14;

/// The bars of all kinds that a run of the group reports.
pub fn all(group: &LoadGroup<'_>) -> String {
    KINDS.iter().map(|kind| of_kind(kind, group)).collect()
}

/// The counter's mean over the runs of a cell; `None` if no run has it.
fn mean(runs: &[Record], counter: &str) -> Option<f64> {
    let all: Vec<f64> =
        runs.iter().filter_map(|r| r.found.counters.get(counter)).map(|n| *n as f64).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn of_kind(kind: &ReasonKind, group: &LoadGroup<'_>) -> String {
    let value = |name: &str| -> Vec<f64> {
        group.runs.iter().map(|runs| mean(runs, &format!("{}{name}", kind.prefix)).unwrap_or(0.0)).collect()
    };
    let mut rows: Vec<(&str, &str, Vec<f64>)> =
        (kind.rows)().into_iter().map(|(name, about)| (name, about, value(name))).collect();
    rows.retain(|(.., values)| values.iter().any(|v| *v > 0.0));
    if rows.is_empty() {
        return String::new();
    }
    let sums: Vec<f64> = (0..group.cells.len()).map(|at| rows.iter().map(|(.., v)| v[at]).sum()).collect();
    let most = rows.iter().flat_map(|(.., v)| v).copied().fold(0.0, f64::max);
    let largest = |v: &[f64]| v.iter().copied().fold(0.0, f64::max);
    rows.sort_by(|a, b| largest(&b.2).total_cmp(&largest(&a.2)));
    let left_out = rows.len().saturating_sub(MOST);
    rows.truncate(MOST);
    let row = |(name, about, values): &(&str, &str, Vec<f64>)| {
        let bars = values
            .iter()
            .enumerate()
            .map(|(at, v)| bar(at, *v, *v / most, *v / sums[at]))
            .collect::<String>();
        format!("<tr><th title=\"{}\">{}</th><td>{bars}</td></tr>\n", escape(about), escape(name))
    };
    let more = match left_out {
        0 => String::new(),
        n => format!("<p class=\"note\">{n} rarer reasons are not shown.</p>\n"),
    };
    format!(
        "<h4>{}</h4><p class=\"note\">{}; count (mean over runs) and share.</p>\n<table class=\"bars\"><tbody>\n{}</tbody></table>\n{more}",
        kind.title,
        kind.about,
        rows.iter().map(row).collect::<String>()
    )
}

/// A bar: its fraction of the longest bar, and its number.
fn bar(at: usize, value: f64, part: f64, share: f64) -> String {
    let share = if share.is_finite() { format!(" ({}%)", three(100.0 * share)) } else { String::new() };
    // The longest bar leaves room for its number.
    format!(
        "<div class=\"of {}\"><div class=\"bar\" style=\"width:{:.1}%\"></div><span>{}{share}</span></div>",
        colour(at),
        70.0 * part,
        count(value.round())
    )
}
