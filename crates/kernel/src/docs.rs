//! docs/features.md, from the tables.

use crate::reference::{Entry, Setting, all};
use crate::{PROFILES, distribution};
use std::fmt::Write;

const HEAD: &str = "# Features and tunables

Made from the tables in `crates/kernel/src/feature.rs` and `tunable.rs`; change those, then run
`SCHEDLAB_BLESS=1 cargo test -p schedlab-kernel features_page`. `schedlab kernel features [VERSION|NAME]` prints
the same.

A feature is switched on by its name and off by `NO_` before it: `--feature`, `features` of a variant, or behind a
kernel's name (`v6.5:NO_SIS_UTIL`). A tunable is set with `--tunable hz=1000`, or `tunables` of a variant. Both may
change in the middle of a run (`NAME@10s`). On live systems features and tunables are settings
([live.md](live.md#settings)). Mechanisms that differ by version and can't be switched are in
[chronology.md](chronology.md).

- **Releases** are those of kernel.org that have the name: from the first, before the second. Stable trees backport
  changes of later releases; \"read\" says so where it matters.
- **On** lists the profiles that have a feature on by default (`schedlab kernel features v6.5` prints one profile).
- **Acts** says in which simulated kernels a feature has an effect. Elsewhere it may be switched, and a warning says
  that it does nothing.
- **Whose** is `kernel` (a word of its sched/features, or the file named), `patch` (a posted patch's own word; no
  release has it) or `schedlab` (a word of ours, for code that the kernel can't switch).
- **Read** names the trees between which a change lies: \"6.1 to 6.6\" was read in both. \"From memory\" marks a
  release that no tree pins down. Trees: 6.1.192, 6.12.107, 6.12.117, 7.2.12 and 7.3.4 of Debian; 2.6.30.4, 2.6.39,
  3.19, 4.4, 4.9, 4.15, 5.4, 5.10, 5.11, 5.14, 5.15, 5.19, 6.0, 6.5, 6.8, 6.11, 6.14, 6.17 and 7.0 of kernel.org;
  vendors' 2.6.29, 2.6.32, 2.6.35, 3.0, 4.14, 4.19 and 6.6.

";

/// The whole page.
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
            releases(e),
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
            releases(e),
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

fn releases(e: &Entry) -> String {
    match (e.released, e.since, e.until) {
        (false, ..) => "none".to_owned(),
        (_, None, None) => "all".to_owned(),
        (_, Some(since), None) => format!("from {since}"),
        (_, None, Some(until)) => format!("before {until}"),
        (_, Some(since), Some(until)) => format!("from {since}, before {until}"),
    }
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
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/features.md");
        if std::env::var_os("SCHEDLAB_BLESS").is_some() {
            std::fs::write(&file, super::page()).unwrap();
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(stored == super::page(), "docs/features.md is stale: run this test with SCHEDLAB_BLESS=1");
    }
}
