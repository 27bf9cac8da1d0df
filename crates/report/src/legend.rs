//! The legend of marks and flags, with the same words in all text forms.

use schedlab_base::{each_once, things};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::ASTRAY;
use schedlab_kernel::Level;

pub fn marks(c: &Comparison) -> String {
    let (change, same) = limits(c);
    format!("* better, ! worse, # changed: {change}; = same: {same}; ~ cannot tell.{}", looks(c))
}

/// The meaning of verdicts printed as words.
pub fn words(c: &Comparison) -> String {
    let (change, same) = limits(c);
    format!("better, worse, changed: {change}; same: {same}; unclear: the data cannot tell.")
}

/// The limits for a change and for "the same". A noise floor raises only the first, so the text gives both.
fn limits(c: &Comparison) -> (String, String) {
    let min = c.min_effect_pct;
    let floors = || c.comparisons.iter().filter_map(|r| r.min_effect_pct);
    let floor = match floors().reduce(f64::min).zip(floors().reduce(f64::max)) {
        None => String::new(),
        Some((low, high)) => {
            let from = if high - low < 0.05 { String::new() } else { format!("{low:.1}% to ") };
            format!(", or this machine's noise floor where that is higher ({from}{high:.1}%)")
        }
    };
    (
        format!("p < 0.05 {}, and at least {min}%{floor}", correction(c)),
        format!("the 95% interval lies within {min}%"),
    )
}

/// The correction of p-values, in words.
fn correction(c: &Comparison) -> &'static str {
    let own = c.comparisons.iter().filter(|r| r.own).count();
    match (own > 0 && own < c.comparisons.len(), c.looks.is_empty()) {
        (false, true) => "after Holm over all rows",
        (true, true) => "after Holm over all rows, own results first",
        (false, false) => "after Holm over all rows and looks",
        (true, false) => "after Holm over all rows and looks, own results first",
    }
}

/// The looks at which rows were judged, after a space; empty for a single look.
pub fn looks(c: &Comparison) -> String {
    let runs: Vec<String> = c.looks.iter().map(|l| l.runs.to_string()).collect();
    match runs.split_last() {
        None => String::new(),
        Some((last, before)) => format!(
            " Looks after {} and {last} runs; an interval holds for all looks together.",
            before.join(", ")
        ),
    }
}

/// The meaning of the flag, after a space; empty if no row has it.
pub fn flag(c: &Comparison) -> String {
    if !c.comparisons.iter().any(|r| r.astray) {
        return String::new();
    }
    format!(
        " {ASTRAY} the ratio of the means lies outside the interval of the change: a few wild runs move a mean."
    )
}

/// The levels at which the kernel's own code was charged, for forms that do not name backends.
pub fn levels(c: &Comparison) -> Option<String> {
    let levels: Vec<&str> = c.cells.iter().filter_map(|cell| cell.level).map(Level::word).collect();
    let levels = each_once(&levels);
    let (what, words) = (things(levels.len(), "level"), levels.join(", "));
    (!levels.is_empty()).then(|| format!("The kernel's own code is charged at {what} {words}."))
}
