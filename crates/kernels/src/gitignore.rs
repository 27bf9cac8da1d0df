//! The patterns of a tree's .gitignore files, as gitignore(5) has them: a pattern with a slash before its end is bound
//! to its file's folder, `!` takes a file back in, a `/` at the end means folders, `**` goes over folders.
//!
//! Only the tree's own files count: not those of folders around it, nor the user's.

use std::path::Path;

pub const FILE: &str = ".gitignore";

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pattern {
    glob: Vec<u8>,
    /// Whether it takes files back in.
    negated: bool,
    only_folders: bool,
    /// Whether it is matched with the path from the file's folder; else with the last name only.
    bound: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Patterns(Vec<Pattern>);

impl Patterns {
    /// The patterns of a folder's file; none if the file is missing.
    pub fn read(folder: &Path) -> Patterns {
        std::fs::read(folder.join(FILE)).map_or_else(|_| Patterns::default(), |text| Patterns::parse(&text))
    }
    fn parse(text: &[u8]) -> Patterns {
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        Patterns(text.split(|b| *b == b'\n').filter_map(pattern).collect())
    }
    /// Whether the last matching pattern leaves the path out; `None` if none matches. `inner` is the path from the
    /// file's folder.
    pub fn ignores(&self, inner: &Path, is_folder: bool) -> Option<bool> {
        let path = inner.as_os_str().as_encoded_bytes();
        let name = inner.file_name().unwrap_or_default().as_encoded_bytes();
        let matches = |p: &&Pattern| {
            (is_folder || !p.only_folders) && fits(&p.glob, if p.bound { path } else { name }, true)
        };
        self.0.iter().rev().find(matches).map(|p| !p.negated)
    }
}

fn pattern(line: &[u8]) -> Option<Pattern> {
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    // Spaces at the end do not count, except an escaped one.
    while line.ends_with(b" ") && !line.ends_with(b"\\ ") {
        line = &line[..line.len() - 1];
    }
    if line.starts_with(b"#") {
        return None;
    }
    let (negated, line) = line.strip_prefix(b"!").map_or((false, line), |rest| (true, rest));
    let (only_folders, line) = line.strip_suffix(b"/").map_or((false, line), |rest| (true, rest));
    let bound = line.contains(&b'/');
    let glob = line.strip_prefix(b"/").unwrap_or(line).to_vec();
    (!glob.is_empty()).then_some(Pattern { glob, negated, only_folders, bound })
}

/// Whether a glob matches the whole text. `begins`: whether a name begins here, so that `**` may match folders.
fn fits(glob: &[u8], text: &[u8], begins: bool) -> bool {
    let Some((&first, rest)) = glob.split_first() else { return text.is_empty() };
    let one = text.first().filter(|c| **c != b'/');
    match first {
        b'*' if begins && glob == b"**" => !text.is_empty(),
        b'*' if begins && glob.starts_with(b"**/") => {
            let slashes = text.iter().enumerate().filter(|(_, c)| **c == b'/').map(|(at, _)| at + 1);
            std::iter::once(0).chain(slashes).any(|at| fits(&glob[3..], &text[at..], true))
        }
        b'*' => {
            let end = text.iter().position(|c| *c == b'/').unwrap_or(text.len());
            (0..=end).any(|at| fits(rest, &text[at..], false))
        }
        b'?' => one.is_some() && fits(rest, &text[1..], false),
        b'[' => match (one, class(rest)) {
            (Some(c), Some((set, rest))) => set.has(*c) && fits(rest, &text[1..], false),
            _ => false,
        },
        b'\\' if !rest.is_empty() => text.first() == rest.first() && fits(&rest[1..], &text[1..], false),
        literal => text.first() == Some(&literal) && fits(rest, &text[1..], literal == b'/'),
    }
}

/// The characters between brackets.
struct Class<'g> {
    negated: bool,
    inside: &'g [u8],
}

impl Class<'_> {
    fn has(&self, c: u8) -> bool {
        let mut found = false;
        let mut rest = self.inside;
        while let Some((&low, after)) = unescaped(rest) {
            rest = after;
            let high = after.strip_prefix(b"-").and_then(unescaped);
            found |= match high {
                Some((high, after)) => {
                    rest = after;
                    (low..=*high).contains(&c)
                }
                None => low == c,
            };
        }
        found != self.negated
    }
}

/// The next character of a class.
fn unescaped(inside: &[u8]) -> Option<(&u8, &[u8])> {
    match inside {
        [b'\\', c, rest @ ..] | [c, rest @ ..] => Some((c, rest)),
        [] => None,
    }
}

/// Reads a class after its `[`; returns it and the rest after its `]`. A `]` that comes first is a character of the
/// class.
fn class(glob: &[u8]) -> Option<(Class<'_>, &[u8])> {
    let negated = matches!(glob.first(), Some(b'!' | b'^'));
    let glob = if negated { &glob[1..] } else { glob };
    let mut at = usize::from(glob.first() == Some(&b']'));
    loop {
        match glob.get(at)? {
            b']' => return Some((Class { negated, inside: &glob[..at] }, &glob[at + 1..])),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(text: &str, path: &str) -> Option<bool> {
        let (path, is_folder) = path.strip_suffix('/').map_or((path, false), |p| (p, true));
        Patterns::parse(text.as_bytes()).ignores(Path::new(path), is_folder)
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let text = "# objects\n*.o\n!keep.o\n/top\nfolder/\n\\#hash\nspace\\ \n";
        for (path, ignores) in [
            ("a.o", Some(true)),
            ("deep/a.o", Some(true)),
            ("deep/keep.o", Some(false)),
            ("top", Some(true)),
            ("deep/top", None),
            ("folder", None),
            ("deep/folder/", Some(true)),
            ("#hash", Some(true)),
            ("space ", Some(true)),
            ("# objects", None),
        ] {
            assert_eq!(ignored(text, path), ignores, "{path}");
        }
    }

    #[test]
    fn globs_match_as_in_git() {
        for (glob, path, fits) in [
            ("*.asn1.[ch]", "x.asn1.c", true),
            ("*.asn1.[ch]", "x.asn1.o", false),
            (".*", ".config", true),
            ("a?c", "abc", true),
            ("a/*", "a/b", true),
            ("a/*", "a/b/c", false),
            ("**/foo", "foo", true),
            ("**/foo", "a/b/foo", true),
            ("a/**", "a/b/c", true),
            ("a/**", "a", false),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a**b", "axxb", true),
            ("a**b/c", "ax/xb/c", false),
            ("[!a-c]x", "dx", true),
            ("[^a-c]x", "bx", false),
            ("[]]x", "]x", true),
            ("[a-]x", "-x", true),
            ("[\\]]x", "]x", true),
            ("[a", "[a", false),
            ("/*", "x", true),
            ("/*", "x/y", false),
            ("doc/frotz", "doc/frotz", true),
            ("doc/frotz", "a/doc/frotz", false),
        ] {
            assert_eq!(ignored(glob, path) == Some(true), fits, "{glob} {path}");
        }
    }
}
