//! docs/features.md, from the tables.

use crate::reference::{Entry, Setting, all};
use crate::{PROFILES, distribution};
use std::fmt::Write;

const HEAD: &str = include_str!("features-head.md");

pub fn page() -> String {
    let mut text = HEAD.to_owned();
    let profiles: Vec<String> = PROFILES.iter().map(|p| p.version.to_string()).collect();
    let (features, tunables): (Vec<Entry>, Vec<Entry>) = all().into_iter().partition(|e| e.kind == "feature");
    // Writing to a String can't fail.
    let _ = writeln!(text, "Profiles: {}.\n\n## Features\n", profiles.join(", "));
    text += "| feature | what it does | releases | on | acts | whose | read |\n| --- | --- | --- | --- | --- | --- | --- |\n";
    for e in &features {
        let (name, about, on, acts) = (e.name, e.about, on(e), acts(e));
        let _ = writeln!(
            text,
            "| `{name}` | {about} | {} | {on} | {acts} | {} | {} |",
            e.releases(),
            whose(e),
            e.read
        );
    }
    text += "\n## Tunables\n\n| tunable | what it is | releases | default | takes | whose | read |\n";
    text += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for e in &tunables {
        let defaults: Vec<String> = e.defaults.iter().map(|d| format!("{} ({d})", d.value)).collect();
        let (low, high) = e.range.unwrap_or_default();
        let takes = if e.words.is_empty() { format!("{low} to {high}") } else { e.words.join(", ") };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {takes} | {} | {} |",
            e.name,
            e.about,
            e.releases(),
            defaults.join(", "),
            whose(e),
            e.read
        );
    }
    text += "\n## Debian's defaults\n\nDefaults of Debian's kernels that are not the tree's own, in the releases that were read (5.10.262, 6.1.192, \
             6.12.117, 7.3.4).\nProfiles have the tree's.\n\n| kernel | name | tree | Debian | what it is |\n| --- | --- | --- | --- | --- |\n";
    for p in PROFILES {
        for d in distribution::of(p.version) {
            let _ =
                writeln!(text, "| {} | `{}` | {} | {} | {} |", p.version, d.name, d.tree, d.debian, d.about);
        }
    }
    text
}

fn on(e: &Entry) -> String {
    let on: Vec<String> =
        e.defaults.iter().filter(|d| d.value == Setting::Switch(true)).map(ToString::to_string).collect();
    if on.is_empty() { "-".to_owned() } else { on.join(", ") }
}

fn acts(e: &Entry) -> String {
    let with = e.leans_on.map_or_else(String::new, |other| format!(", with {other}"));
    format!("{}{with}", e.acts)
}

fn whose(e: &Entry) -> String {
    match e.source_text {
        "" | "sched/features" => e.source.to_owned(),
        words => format!("{}: {words}", e.source),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn features_page_matches_the_tables() {
        schedlab_base::testing::page_is("docs/features.md", &super::page());
    }
}
