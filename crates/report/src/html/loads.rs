//! Load by load: curves and histograms, stays on a CPU, reasons, balance counters, tasks.

use super::escape::escape;
use super::points::{FEWEST, pooled};
use super::{HtmlReport, LoadGroup, balance, bars, curves, histogram, key, tasks};
use schedlab_base::counted;
use schedlab_record::metric::of_program;
use schedlab_record::{Record, Series};

/// The series of stays on a CPU. Names of series of stays by reason begin with it.
const STAYS: &str = "slice";
/// The most series of a load that are drawn.
const MOST: usize = 6;

pub fn section(report: &HtmlReport<'_>) -> String {
    let groups = report.groups();
    let parts = groups.iter().enumerate().map(|(at, group)| {
        let open = if at == 0 { " open" } else { "" };
        format!(
            "<details{open}><summary><h3>{}</h3></summary>\n{}</details>\n",
            escape(&group.name()),
            load(group)
        )
    });
    format!(
        "<section id=\"loads\"><h2>Latency, slices, reasons</h2>\n{}</section>\n",
        parts.collect::<String>()
    )
}

pub(super) fn load(group: &LoadGroup<'_>) -> String {
    let names = names(group);
    let (stays, mut others): (Vec<&str>, Vec<&str>) = names.iter().copied().partition(|n| *n == STAYS);
    others.retain(|n| !n.starts_with("slice."));
    let few = |name: &&str| values(group, name) < FEWEST;
    let sparse: Vec<&str> = others.extract_if(.., |name| few(name)).collect();
    let left_out = others.split_off(others.len().min(MOST));
    let mut out = key(group.cells);
    out += &charts(group, &others);
    if !left_out.is_empty() {
        out += &format!("<p class=\"note\">Not drawn: {}.</p>\n", escape(&left_out.join(", ")));
    }
    for name in sparse {
        let n = counted(values(group, name) as usize, "value");
        out += &format!(
            "<p class=\"note\">Not drawn: {}, of which no variant has more than {n}.</p>\n",
            escape(name)
        );
    }
    if !stays.is_empty() {
        out += "<h4>Slices</h4><p class=\"note\">The length of stays on a CPU, from the switch to a task until the \
                switch away from it.</p>\n";
        out += &charts(group, &stays);
    }
    out += &bars::all(group);
    out += &balance::table(group);
    out += &tasks::tables(group);
    out
}

/// The series that some run of the group has; the program's own come first.
fn names<'a>(group: &LoadGroup<'a>) -> Vec<&'a str> {
    let series = group.runs.iter().flatten().flat_map(|r| &r.found.series);
    let mut names: Vec<&str> = series.filter(|(_, s)| s.count() > 0).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|name| !of_program(name));
    names
}

/// The largest number of values of a series that a variant has in all its runs.
fn values(group: &LoadGroup<'_>, name: &str) -> u64 {
    let of =
        |runs: &Vec<Record>| runs.iter().filter_map(|r| r.found.series.get(name)).map(Series::count).sum();
    group.runs.iter().map(of).max().unwrap_or(0)
}

fn charts(group: &LoadGroup<'_>, names: &[&str]) -> String {
    let of = |name: &&str| {
        let series: Vec<Option<Series>> = group.runs.iter().map(|runs| pooled(runs, name)).collect();
        curves::figure(group, name, &series) + &histogram::figure(name, &series)
    };
    format!("<div class=\"charts\">\n{}</div>\n", names.iter().map(of).collect::<String>())
}
