//! Tasks: what each group of tasks, and each task, got in the first run of each variant.

use super::LoadGroup;
use super::escape::escape;
use crate::number::{count, duration};
use schedlab_record::TaskAccount;
use schedlab_record::accounts::{groups, of_group};

/// The most tasks that are listed.
const MOST: usize = 100;

/// Sums over tasks.
#[derive(Clone, Copy, Default)]
struct Sum {
    tasks: u64,
    cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: Option<u64>,
}

impl Sum {
    fn of<'a>(accounts: impl Iterator<Item = &'a TaskAccount>) -> Sum {
        accounts.fold(Sum::default(), |sum, a| Sum {
            tasks: sum.tasks + 1,
            cpu_ns: sum.cpu_ns + a.cpu_time.0,
            voluntary: sum.voluntary + a.voluntary,
            involuntary: sum.involuntary + a.involuntary,
            migrations: a.migrations.map_or(sum.migrations, |m| Some(sum.migrations.unwrap_or(0) + m)),
        })
    }
    fn cells(&self) -> String {
        let switches = self.voluntary + self.involuntary;
        let slice =
            if switches == 0 { "-".to_owned() } else { duration(self.cpu_ns as f64 / switches as f64) };
        let moves = self.migrations.map_or_else(|| "-".to_owned(), |m| count(m as f64));
        let texts = [
            duration(self.cpu_ns as f64),
            slice,
            count(self.voluntary as f64),
            count(self.involuntary as f64),
            moves,
        ];
        texts.iter().map(|t| format!("<td class=\"num\">{t}</td>")).collect()
    }
}

const HEADS: &str = "<th class=\"num\">CPU time</th><th class=\"num\">mean slice</th><th class=\"num\">voluntary</th>\
                     <th class=\"num\">involuntary</th><th class=\"num\">migrations</th>";

/// The tables; empty if no run has accounts.
pub fn tables(group: &LoadGroup<'_>) -> String {
    let firsts: Vec<(String, u64, &[TaskAccount])> = group
        .cells
        .iter()
        .zip(group.runs)
        .filter_map(|(cell, runs)| {
            let r = runs.first().filter(|r| !r.found.tasks.is_empty())?;
            Some((cell.variant.clone(), r.seed, &r.found.tasks[..]))
        })
        .collect();
    let Some((_, seed, _)) = firsts.first() else { return String::new() };
    let common = firsts.iter().all(|(_, other, _)| other == seed);
    let note = if common { format!(" (seed {seed})") } else { String::new() };
    let named = |variant: &str, seed: u64| {
        if common { variant.to_owned() } else { format!("{variant}, seed {seed}") }
    };
    let sums: String =
        firsts.iter().map(|(variant, seed, tasks)| by_group(&named(variant, *seed), tasks)).collect();
    let single: String =
        firsts.iter().map(|(variant, seed, tasks)| each(&named(variant, *seed), tasks)).collect();
    format!(
        "<h4>Tasks</h4><p class=\"note\">The first run of each variant{note}, over the measured time. A group is all \
         tasks whose names differ by their number only.</p>\n\
         <div class=\"wide\"><table><thead><tr><th>variant</th><th>group</th><th class=\"num\">tasks</th>{HEADS}</tr></thead>\
         <tbody>\n{sums}</tbody></table></div>\n\
         <details class=\"long\"><summary>Each task</summary>{single}</details>\n"
    )
}

fn by_group(variant: &str, tasks: &[TaskAccount]) -> String {
    let row = |group: &&str| {
        let sum = Sum::of(of_group(tasks, group));
        let (variant, group) = (escape(variant), escape(group));
        format!(
            "<tr><th>{variant}</th><td>{group}</td><td class=\"num\">{}</td>{}</tr>\n",
            sum.tasks,
            sum.cells()
        )
    };
    groups(tasks).iter().map(row).collect()
}

fn each(variant: &str, tasks: &[TaskAccount]) -> String {
    let row = |a: &TaskAccount| {
        let sum = Sum::of(std::iter::once(a));
        format!("<tr><th>{}</th>{}</tr>\n", escape(&a.name), sum.cells())
    };
    let more = match tasks.len().saturating_sub(MOST) {
        0 => String::new(),
        n => format!("<p class=\"note\">{n} further tasks are not listed; the run's record has them.</p>\n"),
    };
    format!(
        "<h4>{}</h4><div class=\"wide\"><table><thead><tr><th>task</th>{HEADS}</tr></thead><tbody>\n{}</tbody></table></div>{more}\n",
        escape(variant),
        tasks.iter().take(MOST).map(row).collect::<String>()
    )
}
