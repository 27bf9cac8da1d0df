//! Predicted changes as text and Markdown: the real and the simulated change of each row that moved.

use crate::markdown::plain;
use crate::number::{FACTOR_FROM_PCT, change, signed};
use crate::text::{WIDTH, wrap};
use schedlab_compare::predicted::{Predicted, Predictions, TOLERANCE_PCT};
use std::io::{self, Write};

/// Writes the simulator's predictions and the real changes as plain text.
pub fn text(of: &Predictions, out: &mut dyn Write) -> io::Result<()> {
    let all = &of.rows;
    if all.is_empty() && of.unknown == 0 {
        return Ok(());
    }
    write!(out, "\n{}\n", wrap("", &summary(of)))?;
    if all.is_empty() {
        return Ok(());
    }
    let several = all.iter().any(|p| p.machine != all[0].machine);
    for p in all {
        let mark = if p.agrees { "   " } else { "off" };
        let machine = if several { format!("{} ", p.machine) } else { String::new() };
        let load = format!("{machine}{} {}", p.load, p.metric);
        let figures =
            format!("{} {mark}", figures(Some(p.real_pct), Some(p.real_ci95_pct), Some(p.simulated_pct)));
        let room = WIDTH.saturating_sub(figures.chars().count() + 3);
        writeln!(out, "  {:<room$} {figures}", shortened(&load, room))?;
    }
    writeln!(out, "  (real, its 95% interval, simulated; off: does not agree)")
}

/// Writes the same as a Markdown table; nothing if there are no rows.
pub fn markdown(of: &Predictions, out: &mut dyn Write) -> io::Result<()> {
    if of.rows.is_empty() && of.unknown == 0 {
        return Ok(());
    }
    writeln!(out, "\n{}", summary(of))?;
    if of.rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n| machine | load | metric | real | 95 % interval | simulated | |")?;
    writeln!(out, "| --- | --- | --- | ---: | --- | ---: | --- |")?;
    for p in &of.rows {
        let Predicted { machine, load, metric, .. } = p;
        let (real, simulated) = (change(p.real_pct), change(p.simulated_pct));
        let mark = if p.agrees { "agrees" } else { "" };
        let interval = interval(p.real_ci95_pct);
        let [machine, load, metric] = [machine, load, metric].map(|text| plain(text));
        writeln!(out, "| {machine} | {load} | {metric} | {real} | {interval} | {simulated} | {mark} |")?;
    }
    Ok(())
}

fn summary(of: &Predictions) -> String {
    let right = of.rows.iter().filter(|p| p.agrees).count();
    let signs = of.rows.iter().filter(|p| p.same_sign == Some(true)).count();
    let signed = of.rows.iter().filter(|p| p.same_sign.is_some()).count();
    format!(
        "Changes that the simulator predicted: {right} of {} agree with the real kernel's (sign, and size within \
         {TOLERANCE_PCT:.0}% or the real change's own interval); {signs} of the {signed} whose \
         interval is without 0 have its sign. Of {} more the real change is not known well enough.",
        of.rows.len(),
        of.unknown
    )
}

/// An interval of changes: "-12.0 to +3.4%"; large ones: "x11.5 to x13.0".
pub(crate) fn interval([low, high]: [f64; 2]) -> String {
    if low >= FACTOR_FROM_PCT {
        return format!("{} to {}", change(low), change(high));
    }
    format!("{} to {}%", signed(low), signed(high))
}

/// The figures of a row in columns: real change, its interval, simulated change; "-" if not measured.
pub(crate) fn figures(real: Option<f64>, ci95: Option<[f64; 2]>, simulated: Option<f64>) -> String {
    let shown = |pct: Option<f64>| pct.map_or_else(|| "-".to_owned(), change);
    let range = ci95.map_or_else(String::new, |of| format!("({})", interval(of)));
    format!("{:>7} {range:<18} {:>7}", shown(real), shown(simulated))
}

fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_formatted_like_its_change() {
        assert_eq!(interval([-12.0, 3.4]), "-12.0 to +3.4%");
        assert_eq!(interval([900.0, 1_200.0]), "x10.0 to x13.0");
        assert_eq!(interval([850.0, 1_200.0]), "+850 to +1200%");
    }
}
