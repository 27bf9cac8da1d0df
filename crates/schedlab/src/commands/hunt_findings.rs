//! Findings of `schedlab hunt`: kept in files, confirmed with other seeds, and printed.

use super::hunt::HuntArgs;
use crate::{common, interrupt, output};
use schedlab_base::Result;
use schedlab_compare::comparison::ComparisonRow;
use schedlab_compare::stats::Verdict;
use schedlab_lab::ask::scx;
use schedlab_lab::search::hunt::{Class, Hunt, Judge, LosingWorkload};
use schedlab_lab::{Backend, RunRequest};
use schedlab_report::number::{change, signed};
use schedlab_report::text::wrap;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// A workload that was found, with its confirmations.
#[derive(Serialize)]
pub(super) struct HuntFinding {
    class: &'static str,
    metric: String,
    machine: String,
    tasks: u32,
    tasks_before: u32,
    loss: f64,
    spread: f64,
    shrunk_to_the_end: bool,
    experiment: PathBuf,
    workload: Vec<String>,
    confirmed: Vec<ComparisonRow>,
    /// The scheduler's end in a run of the experiment, where the workload is one that it does not last.
    #[serde(skip_serializing_if = "Option::is_none")]
    fails: Option<String>,
}

/// The found workloads with their confirmations, as many as were made before a stop.
///
/// # Errors
/// Without a signal handler.
pub(super) fn confirmed(
    found: &Hunt,
    judge: &Judge,
    args: &HuntArgs,
    backends: &[Backend],
) -> Result<Vec<HuntFinding>> {
    let stop = interrupt::stop_flag()?;
    let mut findings = Vec::new();
    for one in &found.found {
        let mut one_finding = finding(one, judge, &args.out);
        for backend in backends {
            if found.interrupted || stop.load(Ordering::Relaxed) {
                break;
            }
            match confirm(one, judge, args, *backend) {
                Ok(row) => one_finding.confirmed.extend(row),
                Err(e) if one.class == Class::Failure && scx::has_not_lasted(&e) => {
                    one_finding.fails = Some(e.message().to_owned());
                }
                Err(e) => {
                    let (class, backend) = (one_finding.class, backend.name());
                    output::note(&format!("{class} is not confirmed on {backend}: {e}"));
                }
            }
        }
        findings.push(one_finding);
    }
    Ok(findings)
}

/// Writes the rt-app file and the experiment.
pub(super) fn keep(found: &LosingWorkload, judge: &Judge, folder: &Path) -> Result<()> {
    let write = |ending: &str, text: String| {
        schedlab_base::temp::write_whole(&folder.join(format!("{}.{ending}", found.name())), text.as_bytes())
    };
    write("json", found.rtapp(judge))?;
    write("toml", found.experiment_text(judge))
}

fn finding(found: &LosingWorkload, judge: &Judge, folder: &Path) -> HuntFinding {
    HuntFinding {
        class: found.class.name(),
        metric: found.loss.metric.clone(),
        machine: judge.space.machines[found.specimen.machine].0.clone(),
        tasks: found.specimen.tasks(),
        tasks_before: found.tasks_before,
        loss: found.loss.ratio,
        spread: found.loss.spread,
        shrunk_to_the_end: found.whole,
        experiment: folder.join(format!("{}.toml", found.name())),
        workload: found.specimen.words(),
        confirmed: Vec::new(),
        fails: None,
    }
}

/// Runs a found workload with other seeds; returns the row of its metric on the backend.
fn confirm(
    found: &LosingWorkload,
    judge: &Judge,
    args: &HuntArgs,
    backend: Backend,
) -> Result<Option<ComparisonRow>> {
    let request = RunRequest {
        backend,
        jobs: args.jobs,
        guest: args.guest.setup()?,
        out: args.out.join("runs"),
        of_schedulers: judge.limit.is_some(),
        ..RunRequest::default()
    };
    let made = common::compared(&request, found.experiment(judge, &args.out)?, args.quiet)?;
    // Runs in guests bring simulations along, which have rows of their own.
    let is_it = |r: &ComparisonRow| r.metric == found.loss.metric && r.backend == backend;
    Ok(made.comparison.comparisons.into_iter().find(is_it))
}

pub(super) fn print(hunt: &Hunt, findings: &[HuntFinding], judge: &Judge, args: &HuntArgs) -> Result<()> {
    if args.json {
        return output::json_as(
            "schedlab/hunt/1",
            &serde_json::json!({
                "variant": judge.variant.name, "baseline": judge.baseline.name, "seed": args.seed,
                "evals": hunt.evals, "shrink_evals": hunt.shrink_evals, "fragile": hunt.fragile, "interrupted": hunt.interrupted,
                "found": findings,
            }),
        );
    }
    let wrong = judge.fault.map_or(String::new(), |f| format!(" with the fault {}", f.name));
    output::result(|out| {
        let (variant, baseline) = (&judge.variant.name, &judge.baseline.name);
        let (evals, shrinks) = (hunt.evals, hunt.shrink_evals);
        let by = match &judge.images {
            Some([image, _]) => format!(", by the kernel's own code at level {}", image.setup.level.word()),
            None => String::new(),
        };
        writeln!(
            out,
            "{variant}{wrong} against {baseline}{by}: {}, {shrinks} more to shrink them",
            schedlab_base::counted(evals, "workload")
        )?;
        if hunt.fragile > 0 {
            let losses = schedlab_base::counted(hunt.fragile, "loss");
            writeln!(out, "{losses} left out: gone when the workload's times change by a few per cent")?;
        }
        if findings.is_empty() && !hunt.interrupted {
            writeln!(out, "\nNo loss was found.")?;
        }
        for (one, found) in findings.iter().zip(&hunt.found) {
            of_one(one, found, judge.images.is_some(), out)?;
        }
        if hunt.interrupted && findings.iter().any(|one| one.confirmed.is_empty()) {
            writeln!(out, "\nInterrupted: what was found is kept; some of it is not confirmed.")?;
        }
        Ok(())
    })
}

fn of_one(
    one: &HuntFinding,
    found: &LosingWorkload,
    by_code: bool,
    out: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    let whole = if one.shrunk_to_the_end { "" } else { ", not shrunk to the end" };
    write!(out, "\n{}", wrap("", &format!("{}: {} on {}", one.class, found.loss.words(), one.machine)))?;
    writeln!(
        out,
        "  {}, of {} at first{whole}:",
        schedlab_base::counted(one.tasks, "task"),
        one.tasks_before
    )?;
    one.workload.iter().try_for_each(|line| writeln!(out, "    {line}"))?;
    if one.fails.is_some() {
        writeln!(out, "  it fails again in the experiment's runs")?;
    }
    for row in &one.confirmed {
        let figures = match (row.change_pct, row.ci95_pct) {
            (Some(pct), Some([a, b])) => format!("{}, {} to {}%", change(pct), signed(a), signed(b)),
            (Some(pct), None) => change(pct),
            _ => "new".to_owned(),
        };
        let words = match row.verdict {
            Verdict::Worse => "confirmed",
            // More or less CPU time is neither good nor bad; the hunt looked for less.
            Verdict::Changed if one.class == "share" && row.change_pct.is_some_and(|pct| pct < 0.0) => {
                "confirmed"
            }
            Verdict::Unclear => "not confirmed, the data can't tell",
            _ => "not confirmed",
        };
        writeln!(out, "  {words} by other seeds on {}: {} {figures}", row.backend, row.metric)?;
    }
    let backend = if by_code { " --backend code" } else { "" };
    writeln!(out, "  schedlab run {}{backend}", one.experiment.display())
}
