//! What marks and flags mean, in the words that all text forms share.

use schedlab_lab::Comparison;
use schedlab_lab::compare::ASTRAY;

/// What the marks mean.
pub fn marks(c: &Comparison) -> String {
    let (change, same) = limits(c);
    format!("* better, ! worse, # changed: {change}; = same: {same}; ~ cannot tell.")
}

/// What verdicts mean that stand as words.
pub fn words(c: &Comparison) -> String {
    let (change, same) = limits(c);
    format!("better, worse, changed: {change}; same: {same}; unclear: the data cannot tell.")
}

/// What counts as a change and what as the same. Where noise floors raise the first, both limits are told: a floor never
/// widens the second.
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

/// What the flag means, behind a space; nothing where no row has it.
pub fn flag(c: &Comparison) -> String {
    if !c.comparisons.iter().any(|r| r.astray) {
        return String::new();
    }
    format!(
        " {ASTRAY} the ratio of the means lies outside the interval of the change: few wild runs move a mean."
    )
}
