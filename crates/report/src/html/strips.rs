//! Strips of CPUs over time: the section's frame, and the data that `strips.js` draws.

use super::escape::{escape, json};
use super::{HtmlReport, ShownRun};
use crate::number::duration;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schedlab_analyse::TaskName;
use schedlab_base::counted;
use schedlab_compare::strips::Strips;
use schedlab_kernel::policy::group_of;
use schedlab_record::Wait;
use schedlab_trace::SwitchReason;
use serde_json::{Value, json as object};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many waits of each run can be selected.
pub const WAITS: usize = 20;

pub fn section(report: &HtmlReport<'_>) -> String {
    let mut out = String::from("<section id=\"cores\"><h2>Cores x time</h2>\n");
    for note in report.strip_notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    if report.shown.is_empty() {
        return out + "</section>\n";
    }
    out += CONTROLS;
    for shown in report.shown {
        let _ = write!(
            out,
            "<div class=\"strip\" tabindex=\"0\" role=\"group\" aria-label=\"CPUs over time, {0}\"><h4>{0}</h4>\n\
             <canvas class=\"cpus\"></canvas><canvas class=\"counts\"></canvas>\
             <div class=\"over\"><div class=\"cursor\"></div></div></div>\n",
            escape(&name(report, shown))
        );
    }
    out += UNDER;
    if report.shown.iter().any(|shown| shown.strips.beside_idle.is_some()) {
        out += IDLE_KEY;
    }
    out += READOUT;
    for shown in report.shown {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&shown_as(report, shown)));
    }
    let _ = writeln!(
        out,
        "<script type=\"application/json\" id=\"strips-data\">{}</script>\n</section>",
        json(&data(report))
    );
    out
}

const CONTROLS: &str = "<div class=\"controls\">\
    <button type=\"button\" data-act=\"in\" aria-label=\"zoom in\">+</button>\
    <button type=\"button\" data-act=\"out\" aria-label=\"zoom out\">&minus;</button>\
    <button type=\"button\" data-act=\"left\" aria-label=\"earlier\">&larr;</button>\
    <button type=\"button\" data-act=\"right\" aria-label=\"later\">&rarr;</button>\
    <button type=\"button\" data-act=\"whole\">whole run</button>\
    <label>colour by <select id=\"strips-by\"><option>task</option><option selected>group</option><option>state</option></select></label>\
    <span>rows <button type=\"button\" data-act=\"taller\" aria-label=\"higher rows\">+</button> \
    <button type=\"button\" data-act=\"lower\" aria-label=\"lower rows\">&minus;</button></span>\
    <div class=\"where\"><div id=\"strips-where\"></div></div><span id=\"strips-range\" class=\"dim\"></span></div>\n\
    <div class=\"key\" id=\"strips-key\"></div>\n";

const UNDER: &str = "<div class=\"axis\"><canvas id=\"strips-axis\"></canvas></div>\n\
    <div class=\"key v\"><span class=\"v0\"><i></i>tasks that run</span><span class=\"v1\"><i></i>tasks that wait</span>";

const IDLE_KEY: &str = "<span><i style=\"background:var(--mark)\"></i>share of time in which one waited while a CPU that it \
    may use was idle</span>";

const READOUT: &str = "</div>\n\
    <div class=\"readout\" id=\"strips-readout\">Point at a strip. Drag moves it; +, &minus;, two fingers, or the wheel after a \
    click or with Ctrl zoom; arrows, 0 and a double click work, too.</div>\n\
    <noscript><p>The strips are drawn by a script in this file.</p></noscript>\n";

/// "first-idle, 2x24, seed 1".
fn name(report: &HtmlReport<'_>, shown: &ShownRun<'_>) -> String {
    let cell = &report.comparison.cells[shown.cell];
    format!("{}, {} {}, seed {}", cell.variant, cell.workload, cell.load, shown.record.seed)
}

/// How exactly the run is shown, and how long it was not work-conserving.
fn shown_as(report: &HtmlReport<'_>, shown: &ShownRun<'_>) -> String {
    let s = shown.strips;
    let data = match s.bin {
        None => format!("every one of its {} pieces is here", s.pieces),
        Some(bin) => {
            let exact = match s.exact.len() {
                0 => String::new(),
                n => format!(
                    ", except in {} around the longest waits, where every piece is here",
                    counted(n, "window")
                ),
            };
            format!(
                "{} pieces are too many for a page: shown in {} bins, each with one of those that were in it, in turn, so \
                 that each has its share of the time{exact}",
                s.pieces,
                duration(bin.0 as f64)
            )
        }
    };
    let measured = shown.record.found.duration.0.max(1);
    let beside_idle = match &s.beside_idle {
        Some(b) => format!(
            "Some task waited beside an idle CPU for {} ({:.1}% of the measured time).",
            duration(b.covered.0 as f64),
            100.0 * b.covered.0 as f64 / measured as f64
        ),
        None => "These are the events that were kept; a kernel shows neither which CPUs a task may use nor its reasons, so \
                 time beside an idle CPU is not measured."
            .to_owned(),
    };
    let lost = match s.lost {
        0 => String::new(),
        n => format!(
            " The recording lost {}: a row may show a task for too long there.",
            schedlab_base::counted(n, "event")
        ),
    };
    let warm = if s.measured_from.0 > 0 { " The warm-up is pale." } else { "" };
    format!("{}: {data}. {beside_idle}{lost}{warm}", name(report, shown))
}

fn data(report: &HtmlReport<'_>) -> Value {
    let mut hues = Hues::default();
    object!({
        "why": SwitchReason::ALL.iter().map(|why| why.about()).collect::<Vec<_>>(),
        "runs": report.shown.iter().map(|shown| run(report, shown, &mut hues)).collect::<Vec<_>>(),
    })
}

/// Numbers of colours: a group or a task has the same one in every run, whatever its position.
#[derive(Default)]
struct Hues<'a> {
    groups: BTreeMap<&'a str, usize>,
    /// By name, and by the number of earlier tasks with that name in the run.
    tasks: BTreeMap<(&'a str, usize), usize>,
}

impl<'a> Hues<'a> {
    fn group(&mut self, name: &'a str) -> usize {
        let next = self.groups.len();
        *self.groups.entry(name).or_insert(next)
    }
    /// The colour numbers of a run's tasks.
    fn of_tasks(&mut self, names: &'a [TaskName]) -> Vec<usize> {
        let mut before: BTreeMap<&str, usize> = BTreeMap::new();
        let mut number = |name: &'a TaskName| {
            let same = before.entry(&name.name).or_default();
            *same += 1;
            let next = self.tasks.len();
            *self.tasks.entry((name.name.as_str(), *same)).or_insert(next)
        };
        names.iter().map(&mut number).collect()
    }
}

fn run<'a>(report: &HtmlReport<'a>, shown: &ShownRun<'a>, hues: &mut Hues<'a>) -> Value {
    let (s, record) = (shown.strips, shown.record);
    let mut groups: Vec<(&str, bool)> = Vec::new();
    let of: Vec<usize> = s
        .names
        .iter()
        .map(|name| {
            let group = (group_of(&name.name), name.background);
            groups.iter().position(|g| *g == group).unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            })
        })
        .collect();
    let thousandths = |sums: &[u64]| -> Vec<u64> {
        sums.iter().map(|sum| (u128::from(*sum) * 1000 / u128::from(s.width.0.max(1))) as u64).collect()
    };
    let cpus = &record.machine.topology.cpus;
    object!({
        "name": name(report, shown),
        "end": s.end.0,
        "warmup": s.measured_from.0,
        "cpus": s.who.len(),
        "cache": cpus.iter().map(|c| c.llc).collect::<Vec<_>>(),
        "tasks": s.names.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(),
        "hueOf": hues.of_tasks(&s.names),
        "groups": groups.iter().map(|group| of_group(*group, hues)).collect::<Vec<_>>(),
        "groupOf": of,
        "bin": s.bin.map_or(0, |bin| bin.0),
        "exact": s.exact,
        "width": s.width.0,
        "running": thousandths(&s.running),
        "waiting": thousandths(&s.waiting),
        "idle": s.beside_idle.as_ref().map(|b| thousandths(&b.by_bin)),
        "waits": record.found.waits.iter().take(WAITS).map(wait).collect::<Vec<_>>(),
        "who": STANDARD.encode(Strips::packed(&s.who)),
        "depth": STANDARD.encode(Strips::packed(&s.depth)),
    })
}

/// A group as JSON; all tasks of the machine have one colour.
fn of_group<'a>((name, background): (&'a str, bool), hues: &mut Hues<'a>) -> Value {
    let hue = (!background).then(|| hues.group(name));
    object!({ "name": name, "background": background, "hue": hue })
}

fn wait(w: &Wait) -> Value {
    object!({ "task": w.task, "from": w.woken_at.0, "length": w.length_ns, "cpu": w.chosen_cpu.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_tasks_have_one_colour_in_all_runs() {
        let names = |all: &[&str]| -> Vec<TaskName> {
            all.iter().map(|name| TaskName { name: (*name).to_owned(), background: false }).collect()
        };
        let (one, two) = (names(&["hog-1", "io", "io"]), names(&["io", "new", "hog-1", "io"]));
        let mut hues = Hues::default();
        assert_eq!(hues.of_tasks(&one), [0, 1, 2]);
        assert_eq!(hues.of_tasks(&two), [1, 3, 0, 2], "by name, not by place");
        assert_eq!(["hog", "io", "hog", "new"].map(|group| hues.group(group)), [0, 1, 0, 2]);
    }
}
