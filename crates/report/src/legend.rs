//! The legend of marks and flags, in the words that all text forms share.

use schedlab_lab::Comparison;
use schedlab_lab::compare::ASTRAY;

/// The meaning of the marks.
pub fn marks(c: &Comparison) -> String {
    let (change, same) = limits(c);
    format!("* better, ! worse, # changed: {change}; = same: {same}; ~ cannot tell.")
}

/// The meaning of verdicts that are printed as words.
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
        format!("p < 0.05 after Holm over all rows, and at least {min}%{floor}"),
        format!("the 95% interval lies within {min}%"),
    )
}

/// The meaning of the flag, behind a space; empty where no row has the flag.
pub fn flag(c: &Comparison) -> String {
    if !c.comparisons.iter().any(|r| r.astray) {
        return String::new();
    }
    format!(
        " {ASTRAY} the ratio of the means lies outside the interval of the change: a few wild runs move a mean."
    )
}
