//! The reference of features and tunables as text of at most 78 columns: all entries, one profile's, or one entry.

use crate::text::wrap;
use schedlab_base::Version;
use schedlab_kernel::reference::{Entry, Setting};
use schedlab_kernel::{distribution, profile};
use std::io::{self, Write};

/// Writes every entry: since, until, profiles where it is on, source, and its effect.
pub fn all(entries: &[Entry], out: &mut dyn Write) -> io::Result<()> {
    let (features, tunables): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|e| e.kind == "feature");
    line(["feature", "since", "until", "on in profiles", "whose"], out)?;
    for e in features {
        let on: Vec<String> =
            e.defaults.iter().filter(|d| d.value == Setting::Switch(true)).map(ToString::to_string).collect();
        let on = if on.is_empty() { "-".to_owned() } else { on.join(", ") };
        line([e.name, &since(e), &until(e), &on, e.source], out)?;
        write!(out, "{}", wrap("    ", e.about))?;
    }
    writeln!(out)?;
    line(["tunable", "since", "until", "default", "whose"], out)?;
    for e in tunables {
        line([e.name, &since(e), &until(e), &defaults(e), e.source], out)?;
        write!(out, "{}", wrap("    ", e.about))?;
    }
    let legend = "Since, until: the releases of kernel.org that have it; '-' in both: no release. 'schedlab kernel \
                  features NAME' prints all about one entry and where it was read, 'schedlab kernel features VERSION' \
                  the defaults of one profile.";
    write!(out, "\n{}", wrap("", legend))
}

/// Writes the entries of a profile, with their defaults.
pub fn profile(version: Version, entries: &[Entry], out: &mut dyn Write) -> io::Result<()> {
    let like = profile::release(version).map_or_else(String::new, |release| format!(", as in {release}"));
    writeln!(out, "{version}{like}: features and tunables, with their defaults and since when")?;
    writeln!(out, "{:<23} {:>10} {:<8} about", "name", "default", "since")?;
    for e in entries {
        let value = e.value(version).map_or_else(|| "-".to_owned(), |v| v.to_string());
        let leans = e.leans_on.map_or_else(String::new, |other| format!(" (with {other})"));
        let whose = if e.source == "kernel" { String::new() } else { format!(" [{}]", e.source) };
        let head = format!("{:<23} {value:>10} {:<8} ", e.name, since(e));
        write!(out, "{}", wrap(&head, &format!("{}{leans}{whose}", e.about)))?;
    }
    for p in distribution::of(version) {
        let text =
            format!("{}: {} in the tree, {} in Debian's kernel: {}", p.name, p.tree, p.debian, p.about);
        write!(out, "{}", wrap("", &text))?;
    }
    Ok(())
}

/// Writes one entry in full.
pub fn page(e: &Entry, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", wrap(&format!("{}, a {}: ", e.name, e.kind), e.about))?;
    let mut row = |head: &str, text: &str| write!(out, "{}", wrap(&format!("  {head:<10} "), text));
    row("releases", &e.releases())?;
    row("read", e.read)?;
    let source = match e.source_text {
        "" => e.source.to_owned(),
        words => format!("{}: {words}", e.source),
    };
    row("whose", &source)?;
    row("default", &defaults(e))?;
    if e.kind == "feature" {
        row("acts", &format!("in simulated kernels: {}", e.acts))?;
    }
    if let Some(other) = e.leans_on {
        row("leans on", other)?;
    }
    if !e.excludes.is_empty() {
        row("excludes", &e.excludes.join(", "))?;
    }
    if let Some((low, high)) = e.range {
        let takes = if e.words.is_empty() { format!("{low} to {high}") } else { e.words.join(", ") };
        row("takes", &takes)?;
    }
    Ok(())
}

fn line(cells: [&str; 5], out: &mut dyn Write) -> io::Result<()> {
    let [name, since, until, default, whose] = cells;
    let head = format!("{name:<22} {since:<8} {until:<8} {whose:<8}  ");
    write!(out, "{}", wrap(&head, default))
}

fn since(e: &Entry) -> String {
    match (e.released, e.since) {
        (false, _) => "-".to_owned(),
        (_, None) => "always".to_owned(),
        (_, Some(v)) => v.to_string(),
    }
}

fn until(e: &Entry) -> String {
    e.until.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

fn defaults(e: &Entry) -> String {
    let all: Vec<String> = e.defaults.iter().map(|d| format!("{} ({d})", d.value)).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::text;
    use schedlab_kernel::reference;

    #[test]
    fn every_row_fits_a_mail_and_has_releases_and_source() {
        let all = text(|out| all(&reference::all(), out));
        assert!(all.lines().all(|l| l.chars().count() <= 78), "{all}");
        let row = |name: &str| {
            all.lines().find(|l| l.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(row("SIS_PROP "), ["SIS_PROP", "v4.13", "v6.7", "kernel", "v4.14..v5.19"]);
        assert_eq!(row("NI_RANDOM ")[3..], ["kernel", "v6.1,", "v6.12..v7.3"]);
        assert_eq!(row("ILB_FAST "), ["ILB_FAST", "-", "-", "patch", "-"]);
        assert_eq!(row("probe_batch "), ["probe_batch", "-", "-", "schedlab", "0", "(v2.6.12..v7.3)"]);
    }

    #[test]
    fn a_profile_shows_its_values_and_an_entry_its_whole_row() {
        let v65 = Version::new(6, 5);
        let text65 = text(|out| profile(v65, &reference::of(v65), out));
        assert!(text65.lines().all(|l| l.chars().count() <= 78), "{text65}");
        let starts = |words: &[&str]| {
            text65.lines().any(|l| l.split_whitespace().take(words.len()).eq(words.iter().copied()))
        };
        assert!(
            starts(&["SIS_UTIL", "on"]) && starts(&["ILB_FAST", "off"]) && starts(&["hz", "250"]),
            "{text65}"
        );
        assert!(!text65.contains("PLACE_LAG") && !text65.contains("Debian"));
        let v61 = Version::new(6, 1);
        let text61 = text(|out| profile(v61, &reference::of(v61), out));
        assert!(text61.contains("autogroup: 1 in the tree, 0 in Debian's kernel"), "{text61}");
        let one = text(|out| page(&reference::find("SIS_CORE").unwrap(), out));
        for words in
            ["from v4.9", "4.9, 6.1", "select_idle_core()", "on (v4.14..v7.3)", "SIS_GROUP, SIS_FIRST_IDLE"]
        {
            assert!(one.contains(words), "{words}: {one}");
        }
    }
}
