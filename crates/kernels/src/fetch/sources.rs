//! Derives sources of packages from the machine's own, for other suites.
//!
//! Nothing here names a host. The machine's files say where it gets its packages and which keys it trusts
//! (sources.list(5): stanzas in `*.sources`, lines in `*.list`); only the suites are exchanged. Sources of other
//! vendors are left out.

use std::fs;
use std::path::{Path, PathBuf};

/// Suites that name a release without its codename, newest first.
const RELEASE_WORDS: &[&str] = &["sid", "unstable", "testing", "stable", "oldstable", "oldoldstable"];
/// The first of them that is a past release.
const PAST: &str = "oldstable";
/// Endings of the suites of a release; the main suite has none.
const PARTS: &[&str] = &["", "-updates", "-security", "/updates", "-backports"];
/// Options of the one-line form, and their names in stanzas.
const OPTIONS: &[(&str, &str)] = &[
    ("signed-by", "Signed-By"),
    ("trusted", "Trusted"),
    ("check-valid-until", "Check-Valid-Until"),
    ("check-date", "Check-Date"),
    ("allow-insecure", "Allow-Insecure"),
    ("allow-weak", "Allow-Weak"),
    ("by-hash", "By-Hash"),
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// Signing keys and other options, by their names in stanzas.
    options: Vec<(String, String)>,
}

pub fn of_machine() -> Vec<Source> {
    read_below(Path::new("/etc/apt"))
}

fn read_below(folder: &Path) -> Vec<Source> {
    let parts = fs::read_dir(folder.join("sources.list.d")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = parts.map(|e| e.path()).collect();
    files.push(folder.join("sources.list"));
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        match file.extension().and_then(|e| e.to_str()) {
            Some("list") => all.extend(text.lines().filter_map(line)),
            Some("sources") => all.extend(stanzas(&text)),
            _ => {}
        }
    }
    all
}

/// A line "deb [option=value ...] URI SUITE COMPONENT...".
fn line(text: &str) -> Option<Source> {
    let text = text.split('#').next()?.trim().strip_prefix("deb")?;
    let text = text.strip_prefix(char::is_whitespace)?.trim_start();
    let (given, rest) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => ("", text),
    };
    let known = |word: &str| {
        let (key, value) = word.split_once('=')?;
        let (_, name) = OPTIONS.iter().find(|(k, _)| k.eq_ignore_ascii_case(key))?;
        Some(((*name).to_owned(), value.replace(',', " ")))
    };
    let options = given.split_whitespace().filter_map(known).collect();
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    usable(Source { uris: vec![uri], suites: vec![suite], components: words.collect(), options })
}

/// Reads stanzas of "Key: value"; a line that begins with a space continues the value.
fn stanzas(text: &str) -> Vec<Source> {
    let mut all = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            all.extend(stanza(&std::mem::take(&mut fields)));
        } else if line.starts_with('#') {
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((key, value)) = line.split_once(':') {
            fields.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    all
}

fn stanza(fields: &[(String, String)]) -> Option<Source> {
    let words = |name: &str| -> Vec<String> {
        let of = fields.iter().filter(|(k, _)| k.eq_ignore_ascii_case(name));
        of.flat_map(|(_, v)| v.split_whitespace()).map(str::to_owned).collect()
    };
    let off = words("Enabled").iter().any(|w| matches!(w.as_str(), "no" | "false" | "off" | "0"));
    if off || !words("Types").iter().any(|t| t == "deb") {
        return None;
    }
    let option = |(k, v): &(String, String)| {
        let (_, name) = OPTIONS.iter().find(|(_, name)| name.eq_ignore_ascii_case(k))?;
        Some(((*name).to_owned(), v.clone()))
    };
    let options = fields.iter().filter_map(option).collect();
    usable(Source { uris: words("URIs"), suites: words("Suites"), components: words("Components"), options })
}

fn usable(mut source: Source) -> Option<Source> {
    source.uris.retain(|u| !u.starts_with("cdrom:"));
    let whole = !source.uris.is_empty() && !source.suites.is_empty();
    (whole && source.components.iter().any(|c| c == "main")).then_some(source)
}

/// Whether a suite belongs to the machine's own release.
fn is_own(suite: &str, codename: &str) -> bool {
    let words = RELEASE_WORDS.iter().copied().chain([codename]);
    words.filter_map(|word| suite.strip_prefix(word)).any(|rest| PARTS.contains(&rest))
}

fn is_plain(suite: &str, codename: &str) -> bool {
    suite == codename || RELEASE_WORDS.contains(&suite)
}

/// Suites of the releases before the machine's, newest first. `suite` is the current word for the machine's release.
pub fn older_than(suite: Option<&str>) -> &'static [&'static str] {
    let place = |word: &str| RELEASE_WORDS.iter().position(|w| *w == word);
    let from = suite.and_then(place).map(|own| own + 1).or_else(|| place(PAST)).unwrap_or(0);
    &RELEASE_WORDS[from..]
}

/// Suites to ask for in addition to the machine's own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct More {
    /// Suites to get from the sources of the machine's main suite.
    pub suites: Vec<String>,
    /// Older releases, from the same sources.
    pub older: Vec<String>,
    /// Suites with security updates of older releases, from the sources of the machine's own security suite.
    pub older_security: Vec<String>,
}

/// Stanzas for the machine's own suites and `more`. Empty when the machine has no source of its own release.
pub fn derive(sources: &[Source], codename: &str, more: &More) -> String {
    let mut text = String::new();
    let mut known: Vec<(String, String)> = Vec::new();
    let mut add = |source: &Source, suite: &str, is_older: bool| {
        for uri in &source.uris {
            let pair = (uri.clone(), suite.to_owned());
            if !known.contains(&pair) {
                text += &written(source, uri, suite, is_older);
                known.push(pair);
            }
        }
    };
    for source in sources {
        let own: Vec<&String> = source.suites.iter().filter(|s| is_own(s, codename)).collect();
        own.iter().for_each(|suite| add(source, suite, false));
        if own.iter().any(|s| is_plain(s, codename)) {
            more.suites.iter().for_each(|suite| add(source, suite, false));
            more.older.iter().for_each(|suite| add(source, suite, true));
        }
        if own.iter().any(|s| s.ends_with("-security") || s.ends_with("/updates")) {
            more.older_security.iter().for_each(|suite| add(source, suite, true));
        }
    }
    text
}

/// One stanza. It asks for packages only, not for descriptions, icons or sources. Lists of an older release may be past
/// their date, because they are final.
fn written(source: &Source, uri: &str, suite: &str, is_older: bool) -> String {
    const UNTIL: &str = "Check-Valid-Until";
    let mut text = format!("Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nTargets: Packages\n");
    for (key, value) in source.options.iter().filter(|(key, _)| !is_older || key != UNTIL) {
        text += &format!("{key}: {value}\n");
    }
    if is_older {
        text += &format!("{UNTIL}: no\n");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZAS: &str = "# made by an installer\nTypes: deb deb-src\nURIs: mirror+file:/etc/apt/mirrors/m.list\n\
        Suites: bookworm bookworm-updates\nComponents: main contrib\nSigned-By:\n -----BEGIN\n .\n AbC=\n\n\
        Types: deb\nURIs: http://a.example/security\nSuites: bookworm-security\nComponents: main\n\
        Signed-By: /usr/share/keyrings/a.gpg\nCheck-Valid-Until: no\n\n\
        Types: deb\nURIs: http://tool.example/x\nSuites: nodistro\nComponents: main\n\n\
        Enabled: no\nTypes: deb\nURIs: http://off.example/\nSuites: bookworm\nComponents: main\n\n\
        Types: deb-src\nURIs: http://src.example/\nSuites: bookworm\nComponents: main\n";

    fn suites(name: &str) -> More {
        More { suites: vec![name.to_owned()], ..More::default() }
    }

    #[test]
    fn older_releases_come_from_the_same_places_with_the_same_keys() {
        let more = More {
            older: vec!["oldoldstable".to_owned()],
            older_security: vec!["bullseye-security".to_owned()],
            ..More::default()
        };
        let text = derive(&stanzas(STANZAS), "bookworm", &more);
        let plain = "Suites: oldoldstable\nComponents: main\nTargets: Packages\n\
            Signed-By: \n -----BEGIN\n .\n AbC=\nCheck-Valid-Until: no\n\n";
        assert!(text.contains(&format!("URIs: mirror+file:/etc/apt/mirrors/m.list\n{plain}")), "{text}");
        let security = "Suites: bullseye-security\nComponents: main\nTargets: Packages\n\
            Signed-By: /usr/share/keyrings/a.gpg\nCheck-Valid-Until: no\n\n";
        assert!(text.contains(&format!("URIs: http://a.example/security\n{security}")), "{text}");
        assert_eq!(text.matches("oldoldstable").count() + text.matches("bullseye").count(), 2, "{text}");
    }

    #[test]
    fn older_suites_depend_on_the_release() {
        assert_eq!(older_than(Some("testing")), ["stable", "oldstable", "oldoldstable"]);
        assert_eq!(older_than(Some("stable")), ["oldstable", "oldoldstable"]);
        assert_eq!(older_than(Some("oldstable")), ["oldoldstable"]);
        assert_eq!(older_than(None), ["oldstable", "oldoldstable"]);
        assert!(older_than(Some("oldoldstable")).is_empty());
    }

    #[test]
    fn stanzas_keep_their_keys_and_take_other_suites() {
        let text = derive(&stanzas(STANZAS), "bookworm", &suites("trixie-backports"));
        let expected = "Types: deb\nURIs: mirror+file:/etc/apt/mirrors/m.list\nSuites: bookworm\nComponents: main\n\
            Targets: Packages\nSigned-By: \n -----BEGIN\n .\n AbC=\n\n";
        assert!(text.starts_with(expected), "{text}");
        let suites: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("Suites: ")).collect();
        assert_eq!(suites, ["bookworm", "bookworm-updates", "trixie-backports", "bookworm-security"]);
        assert!(text.contains("Signed-By: /usr/share/keyrings/a.gpg\nCheck-Valid-Until: no\n"), "{text}");
        for absent in ["tool.example", "off.example", "src.example", "contrib"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
    }

    #[test]
    fn lines_are_read_with_their_options() {
        let lines = "deb [arch=amd64 signed-by=/k/a.gpg,/k/b.gpg] http://m.example/debian stable main # the mirror\n\
            deb http://m.example/debian stable-backports main\n#deb http://no.example/ stable main\n\
            deb-src http://m.example/debian stable main\ndeb cdrom:[Disc]/ bookworm main\n\
            deb http://vendor.example/apt bookworm stable\ndeb http://pg.example/ bookworm-pgdg main\n";
        let all: Vec<Source> = lines.lines().filter_map(line).collect();
        let text = derive(&all, "bookworm", &suites("stable-backports"));
        let expected = "Types: deb\nURIs: http://m.example/debian\nSuites: stable\nComponents: main\n\
            Targets: Packages\nSigned-By: /k/a.gpg /k/b.gpg\n\n";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(text.matches("stable-backports").count(), 1, "a suite comes once: {text}");
        assert!(!text.contains("vendor") && !text.contains("pgdg") && !text.contains("no.example"), "{text}");
    }

    #[test]
    fn a_machine_without_sources_derives_none() {
        assert_eq!(derive(&[], "bookworm", &suites("x-backports")), "");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sources.list.d")).unwrap();
        fs::write(folder.path().join("sources.list"), "deb http://m.example/d sid main\n").unwrap();
        fs::write(folder.path().join("sources.list.d/b.sources"), STANZAS).unwrap();
        fs::write(folder.path().join("sources.list.d/b.sources.save"), STANZAS).unwrap();
        assert_eq!(read_below(folder.path()).len(), 4, "sid, and three stanzas that are on");
    }
}
