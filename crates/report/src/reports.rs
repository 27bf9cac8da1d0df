//! Judged public reports as text and Markdown: each report's verdict, and each claim's quotient next to the published
//! one.

use crate::markdown::plain;
use crate::text::wrap;
use schedlab_base::counted;
use schedlab_compare::reports::{ClaimVerdict, JudgedClaim, JudgedReport};
use std::io::{self, Write};

pub fn text(all: &[JudgedReport], out: &mut dyn Write) -> io::Result<()> {
    for report in all {
        write!(
            out,
            "{}",
            wrap(&format!("{:<20} {:<11} ", report.name, report.verdict.word()), &report.title)
        )?;
        for claim in &report.claims {
            let line = format!("{}: {}", claim.says, figures(claim));
            write!(out, "{}", wrap(&format!("  {:<11} ", claim.verdict.word()), &line))?;
        }
        if let Some(why) = &report.why {
            write!(out, "{}", wrap("  why:        ", why))?;
        }
        for warning in &report.warnings {
            write!(out, "{}", wrap("  warning:    ", &warning.message))?;
        }
    }
    write!(out, "\n{}\n", wrap("", &summary(all)))
}

/// Writes the same as a Markdown table.
pub fn markdown(all: &[JudgedReport], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", summary(all))?;
    writeln!(out, "| report | said | source | claim | ours | verdict |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
    for report in all {
        for (at, claim) in report.claims.iter().enumerate() {
            let head = [&report.name, &report.said, &report.source].map(|text| plain(text));
            let [name, said, source] =
                if at == 0 { head.map(|text| text.to_string()) } else { Default::default() };
            let (says, figures) = (plain(&claim.says), plain(&figures(claim)).to_string());
            writeln!(out, "| {name} | {said} | {source} | {says} | {figures} | {} |", claim.verdict.word())?;
        }
    }
    let known = all.iter().filter_map(|r| Some((r, r.why.as_ref()?)));
    for (at, (report, why)) in known.enumerate() {
        let gap = if at == 0 { "\n" } else { "" };
        writeln!(out, "{gap}- `{}`: {}", report.name, plain(why))?;
    }
    Ok(())
}

/// The runs' quotient with its interval, and the published quotient or our bound.
fn figures(claim: &JudgedClaim) -> String {
    let wanted = match claim.published {
        Some([from, to]) if from == to => format!("published {}", number(from)),
        Some([from, to]) => format!("published {} to {}", number(from), number(to)),
        None if claim.above => format!("to be above {}", number(claim.bound)),
        None => format!("to be below {}", number(claim.bound)),
    };
    let interval = claim.ci95.filter(|[low, high]| number(*low) != number(*high));
    let interval =
        interval.map_or_else(String::new, |[low, high]| format!(" [{}, {}]", number(low), number(high)));
    format!("{}{interval}, {wanted}", number(claim.ours))
}

fn number(x: f64) -> String {
    if x.abs() >= 100.0 {
        format!("{x:.0}")
    } else if x.abs() >= 10.0 {
        format!("{x:.1}")
    } else {
        format!("{x:.2}")
    }
}

/// How many reports have each verdict.
fn summary(all: &[JudgedReport]) -> String {
    let of = |verdict, sized: Option<bool>| {
        all.iter().filter(|r| r.verdict == verdict && sized.is_none_or(|s| r.has_size() == s)).count()
    };
    format!(
        "Of {}, the simulator reproduces {} with the size that was published and {} of which no size was published; {} in \
         direction; {} not; of {} the runs can't tell.",
        counted(all.len(), "report"),
        of(ClaimVerdict::Reproduced, Some(true)),
        of(ClaimVerdict::Reproduced, Some(false)),
        of(ClaimVerdict::Direction, None),
        of(ClaimVerdict::Not, None),
        of(ClaimVerdict::Unclear, None)
    )
}
