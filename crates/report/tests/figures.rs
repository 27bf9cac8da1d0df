//! No page shows figures of another model or engine without saying so.
//!
//! A line `<!-- figures: model 19, engine 9 -->` in a page says by which versions the figures up to the next such line
//! are made. Where a number is not the current one, the text from there up to the next such line or heading must say
//! it: "by model 19". A page without such lines is one of [`WITHOUT`].

use schedlab_record::{ENGINE, MODEL};
use std::path::{Path, PathBuf};

/// Pages that have no figures of runs, only those of other things (times of this program, of hosts, of mathematics), or
/// figures that another test makes anew.
const WITHOUT: &[&str] = &[
    "docs/README.md",
    "docs/automation.md",
    "docs/chronology.md",
    "docs/cluster.md",
    "docs/commands.md",
    "docs/features.md",
    "docs/first-hour.md", // schedlab's tests work through it
    "docs/formats.md",
    "docs/groups.md",
    "docs/live.md",
    "docs/machines.md",
    "docs/metrics.md",
    "docs/published.md", // its tables are made from a command; a test of schedlab holds them
    "docs/recipes.md",
    "docs/reliability.md",
    "docs/sched-ext.md",
    "docs/report.md",
    "docs/reports.md", // made from a command; schedlab's tests hold it
    "docs/speed.md",
    "docs/statistics.md",
    "docs/vm.md",
    "docs/workloads.md",
];

/// The parts of a page that begin with a marker: its versions, and the text up to the next marker or heading.
fn parts(page: &str) -> Vec<(Vec<(&str, u32)>, String)> {
    let mut parts: Vec<(Vec<(&str, u32)>, String)> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        let marker = line.strip_prefix("<!-- figures: ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(list) = marker {
            let version = |item: &'_ str| -> Option<(&str, u32)> {
                let (what, number) = item.split_once(' ')?;
                Some((["model", "engine"].into_iter().find(|w| *w == what)?, number.parse().ok()?))
            };
            let versions = list.split(", ").map(|item| version(item).unwrap_or_else(|| panic!("'{line}'")));
            parts.push((versions.collect(), String::new()));
            open = true;
        } else if line.starts_with('#') {
            open = false;
        } else if let Some((_, text)) = parts.last_mut().filter(|_| open) {
            *text += &format!("{line} ");
        }
    }
    parts
}

/// The versions of a page that are not the current ones, and that its text does not name.
fn unsaid(page: &str) -> Vec<String> {
    let mut unsaid = Vec::new();
    for (versions, text) in parts(page) {
        let text = text.to_lowercase();
        for (what, number) in versions {
            let current = if what == "model" { MODEL } else { ENGINE };
            let name = format!("{what} {number}");
            let said = text
                .match_indices(&name)
                .any(|(at, _)| !text[at + name.len()..].starts_with(|next: char| next.is_ascii_digit()));
            if number != current && !said {
                unsaid.push(name);
            }
        }
    }
    unsaid
}

fn pages() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![("README.md".to_owned(), root.join("README.md"))];
    for folder in ["docs", "docs/studies"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push((format!("{folder}/{name}"), entry.path()));
            }
        }
    }
    pages
}

#[test]
fn figures_of_another_model_say_so() {
    let mut faults = Vec::new();
    for (name, path) in pages() {
        let page = std::fs::read_to_string(path).unwrap();
        let marked = !parts(&page).is_empty();
        match (marked, WITHOUT.contains(&name.as_str())) {
            (false, false) => faults.push(format!("{name}: neither '<!-- figures: ... -->' nor in WITHOUT")),
            (true, true) => faults.push(format!("{name}: has figures, and is in WITHOUT")),
            _ => {}
        }
        faults.extend(
            unsaid(&page).into_iter().map(|version| format!("{name}: its text does not say 'by {version}'")),
        );
    }
    assert!(
        faults.is_empty(),
        "the current ones are model {MODEL} and engine {ENGINE}\n{}",
        faults.join("\n")
    );
}

#[test]
fn an_old_number_must_be_said_up_to_the_next_heading() {
    let page = |head: &str, text: &str| format!("# A page\n<!-- figures: {head} -->\n{text}\n");
    assert_eq!(unsaid(&page(&format!("model {MODEL}, engine {ENGINE}"), "7 %")), [""; 0]);
    assert_eq!(unsaid(&page("model 3", "By model 3\n: 7 %")), [""; 0]);
    assert_eq!(unsaid(&page("model 3", "by model 30: 7 %")), ["model 3"]);
    assert_eq!(unsaid(&page("model 3, engine 2", "engine 2\n## Next\nmodel 3")), ["model 3"]);
    assert_eq!(unsaid("by model 3"), [""; 0], "what has no marker is not judged");
}
