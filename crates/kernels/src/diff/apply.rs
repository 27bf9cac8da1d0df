//! Applies patches in memory, hunk by hunk.
//!
//! A hunk is tried at its own line, shifted by as much as the hunk before it was shifted; then ever farther from there;
//! then with its outermost lines of context left out, one and then two (the *fuzz* of patch(1)). A hunk never goes
//! before the end of the hunk above it. A hunk that fits nowhere is a reject, and the hunks below are still tried, so
//! that one message reports all of them.

use super::misfit::{ALREADY, why};
use super::{FileDiff, Hunk, Line, Patch};
use crate::blob::{Blob, Content, Kind, stays_inside, target};
use schedlab_base::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The most lines of context that may be left out at each end of a hunk, as in patch(1).
const MOST_FUZZ: usize = 2;
/// An error shows this many rejects; more of them have one cause.
const SHOWN: usize = 8;

/// A hunk that was applied at another line or with fuzz.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    pub patch: String,
    pub path: String,
    /// Number of the hunk within the file's changes, from 1.
    pub hunk: usize,
    /// Lines by which it is shifted.
    pub offset: isize,
    /// Lines of context left out at each end.
    pub fuzz: usize,
}

impl Placement {
    pub fn words(&self) -> String {
        let shifted = match self.offset {
            0 => String::new(),
            by => format!(" {by:+} lines away"),
        };
        let fuzz = match self.fuzz {
            0 => String::new(),
            lines => format!(" without {lines} line(s) of its context (fuzz)"),
        };
        format!("{}: hunk {} of {} fits{shifted}{fuzz}", self.patch, self.hunk, self.path)
    }
}

/// A hunk that fits nowhere, or a file that differs from the one the patch expects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reject {
    pub patch: String,
    pub path: String,
    /// Number of the hunk, and how many hunks there are; `None` when the whole file is refused.
    pub hunk: Option<(usize, usize)>,
    /// Line of the patch that holds the hunk's header.
    pub at: usize,
    /// Line of the file at which it was expected.
    pub line: usize,
    pub why: String,
}

/// The files after the patches, and how the hunks were applied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Every file that a patch names, by path.
    pub files: BTreeMap<String, Content>,
    /// Hunks that were applied at another line or with fuzz.
    pub moved: Vec<Placement>,
    pub rejects: Vec<Reject>,
}

/// Applies patches one after the other; `read` gives the original files.
///
/// # Errors
/// Those of `read`. Hunks that do not fit are rejects, not errors.
pub fn apply(patches: &[Patch], mut read: impl FnMut(&str) -> Result<Content>) -> Result<Outcome> {
    let mut out = Outcome::default();
    for patch in patches {
        for file in &patch.files {
            for path in [&file.old, &file.new].into_iter().flatten() {
                if !out.files.contains_key(path) {
                    let content = read(path)?;
                    out.files.insert(path.clone(), content);
                }
            }
            change(patch, file, &mut out);
        }
        behind_others(patch, &mut out);
    }
    Ok(out)
}

/// Rejects files whose path leads through a file or link that the same patch makes.
fn behind_others(patch: &Patch, out: &mut Outcome) {
    let is_there = |path: &str| matches!(out.files.get(path), Some(Some(_)));
    let above = |path: &str| {
        let all = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
        all.map(str::to_owned).find(|above| is_there(above))
    };
    let behind = patch.paths().filter(|path| is_there(path)).filter_map(|path| Some((path, above(path)?)));
    let rejects: Vec<Reject> = behind
        .map(|(path, above)| Reject {
            patch: patch.name.clone(),
            path: path.to_owned(),
            hunk: None,
            at: 0,
            line: 0,
            why: format!("it would lie behind {above}, which is not a folder"),
        })
        .collect();
    out.rejects.extend(rejects);
}

fn change(patch: &Patch, file: &FileDiff, out: &mut Outcome) {
    match changed(patch, file, out) {
        Ok(after) => {
            let moved = |old: &&String| !file.copied && file.new.as_ref() != Some(old);
            if let Some(old) = file.old.as_ref().filter(moved) {
                out.files.insert(old.clone(), None);
            }
            if let Some(new) = &file.new {
                out.files.insert(new.clone(), Some(after));
            }
        }
        Err(why) => out.rejects.push(Reject {
            patch: patch.name.clone(),
            path: file.path().to_owned(),
            hunk: None,
            at: file.hunks.first().map_or(0, |h| h.at),
            line: 0,
            why,
        }),
    }
}

/// The new file, or why the whole file is refused.
fn changed(patch: &Patch, file: &FileDiff, out: &mut Outcome) -> std::result::Result<Blob, String> {
    let there = |path: &Option<String>| path.as_ref().and_then(|p| out.files.get(p).cloned().flatten());
    let before = match (&file.old, there(&file.old)) {
        (Some(_), None) => return Err("there is no such file".to_owned()),
        (Some(_), Some(before)) => before,
        (None, _) => Blob::plain(Vec::new()),
    };
    match (before.kind == Kind::Link, file.of_link) {
        (true, false) if !file.hunks.is_empty() => {
            let to = target(&before).display();
            return Err(format!("it is a symbolic link to {to}: a patch names the file itself"));
        }
        (false, true) => return Err("the patch changes a symbolic link, and it is a file".to_owned()),
        _ => {}
    }
    let kind = file.kind.unwrap_or(before.kind);
    let already = file.old.is_none().then(|| there(&file.new)).flatten();
    let after = Blob { bytes: hunks(patch, file, &before.bytes, out), kind };
    match already {
        Some(now) if now == after => return Err(format!("{MADE_ALREADY}, as the patch has it: {LEAVE_OUT}")),
        Some(_) => return Err(format!("{MADE_ALREADY}, and it is another")),
        None => {}
    }
    if after.kind == Kind::Link && !stays_inside(Path::new(file.path()), target(&after)) {
        return Err(format!("the link to {} would lead out of the tree", target(&after).display()));
    }
    Ok(after)
}

/// The reason why a new file that already exists is rejected.
const MADE_ALREADY: &str = "the patch makes this file, but there is one already";
const LEAVE_OUT: &str = "leave this file out";

/// A file's lines, and whether the last one has no newline.
fn lines(content: &[u8]) -> (Vec<&[u8]>, bool) {
    let mut all: Vec<&[u8]> = content.split(|b| *b == b'\n').collect();
    let open = all.last().is_some_and(|l| !l.is_empty());
    if !open {
        all.pop();
    }
    (all, open)
}

fn hunks(patch: &Patch, file: &FileDiff, before: &[u8], out: &mut Outcome) -> Vec<u8> {
    let (old, mut open) = lines(before);
    let mut after: Vec<&[u8]> = Vec::with_capacity(old.len());
    // Lines of `old` that are already copied, and the shift of the last hunk.
    let (mut done, mut shift) = (0usize, 0isize);
    for (i, hunk) in file.hunks.iter().enumerate() {
        let wanted = hunk.old_start.saturating_sub(1).saturating_add_signed(shift);
        let Some((at, fuzz)) = place(hunk, &old, wanted, done) else {
            out.rejects.push(Reject {
                patch: patch.name.clone(),
                path: file.path().to_owned(),
                hunk: Some((i + 1, file.hunks.len())),
                at: hunk.at,
                line: wanted + 1,
                why: why(hunk, &old, wanted),
            });
            continue;
        };
        let offset = at as isize - hunk.old_start.saturating_sub(1) as isize;
        if offset != shift || fuzz > 0 {
            let path = file.path().to_owned();
            out.moved.push(Placement { patch: patch.name.clone(), path, hunk: i + 1, offset, fuzz });
        }
        shift = offset;
        let (skip, kept) = trimmed(hunk, fuzz);
        after.extend(&old[done..at + skip]);
        // Context is copied from the file, which may differ from the patch in ways that the comparison ignores.
        let mut from = at + skip;
        for line in kept {
            match line {
                Line::Context(_) => {
                    after.push(old[from]);
                    from += 1;
                }
                Line::Removed(_) => from += 1,
                Line::Added(text) => after.push(text),
            }
        }
        done = from;
        if done == old.len() {
            open = hunk.ends_open;
        }
    }
    after.extend(&old[done..]);
    let mut bytes = after.join(&b'\n');
    if !after.is_empty() && !open {
        bytes.push(b'\n');
    }
    bytes
}

/// Where the hunk goes: index of its first old line (including lines that fuzz leaves out), and the fuzz needed.
fn place(hunk: &Hunk, old: &[&[u8]], wanted: usize, from: usize) -> Option<(usize, usize)> {
    for fuzz in 0..=MOST_FUZZ {
        let (skip, kept) = trimmed(hunk, fuzz);
        if fuzz > 0 && trimmed(hunk, fuzz - 1) == (skip, kept) {
            break;
        }
        let pattern: Vec<&[u8]> = kept.iter().filter_map(Line::in_old).collect();
        // An insertion without context is tried only at its own line.
        if pattern.is_empty() {
            let at = if hunk.old_start == 0 { 0 } else { wanted + 1 };
            return (hunk.lines.len() == kept.len() && at >= from && at <= old.len()).then_some((at, 0));
        }
        let fits = |at: usize| old[at..].starts_with(&pattern);
        let last = old.len().checked_sub(pattern.len());
        let Some(last) = last.filter(|last| *last >= from) else { continue };
        let near = (wanted + skip).clamp(from, last);
        let far = (near - from).max(last - near);
        let tried = (0..=far).flat_map(|d| [near.checked_sub(d), near.checked_add(d)]).flatten();
        let found = tried.filter(|at| (from..=last).contains(at)).find(|at| fits(*at));
        if let Some(at) = found.and_then(|at| at.checked_sub(skip)) {
            return Some((at, fuzz));
        }
    }
    None
}

/// The hunk's lines without up to `fuzz` lines of context at each end, and how many of the first are left out.
fn trimmed(hunk: &Hunk, fuzz: usize) -> (usize, &[Line]) {
    let is_context = |l: &&Line| matches!(l, Line::Context(_));
    let head = hunk.lines.iter().take_while(is_context).count();
    let tail = hunk.lines.iter().rev().take_while(is_context).count();
    // patch(1) takes the longer end first: context of unequal lengths means the file's start or end.
    let most = head.max(tail);
    let cut = |own: usize| fuzz.saturating_sub(most - own).min(own);
    if head == hunk.lines.len() {
        return (0, &hunk.lines);
    }
    (cut(head), &hunk.lines[cut(head)..hunk.lines.len() - cut(tail)])
}

/// The error for rejects, hunk by hunk; `onto` names the source.
pub fn rejected(rejects: &[Reject], onto: &str) -> Error {
    let names: std::collections::BTreeSet<&str> = rejects.iter().map(|r| r.patch.as_str()).collect();
    let mut text = format!("{} does not apply to {onto}:", names.into_iter().collect::<Vec<_>>().join(", "));
    for r in rejects.iter().take(SHOWN) {
        // Writing to a String never fails.
        let _ = match r.hunk {
            Some((n, of)) => {
                write!(
                    text,
                    "\n    {}:{}: hunk {n} of {of} for {}:{}: {}",
                    r.patch, r.at, r.path, r.line, r.why
                )
            }
            None => write!(text, "\n    {}: {}: {}", r.patch, r.path, r.why),
        };
    }
    if rejects.len() > SHOWN {
        let _ = write!(text, "\n    and {} more", rejects.len() - SHOWN);
    }
    let in_already = |r: &Reject| r.why == ALREADY || r.why.ends_with(LEAVE_OUT);
    let help = match rejects.iter().filter(|r| in_already(r)).count() {
        n if n == rejects.len() => {
            "the source has these changes: take them out of the patch, or leave out the whole patch if that is all of it"
        }
        _ => {
            "is it for another version, or does it need a patch before it? --source names the source, and each --patch \
             adds one, in order"
        }
    };
    Error::input(text).help(help)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn file(n: usize) -> String {
        (1..=n).map(|i| format!("line {i}\n")).collect()
    }
    fn run(diff: &str, content: Option<&str>) -> Outcome {
        let patches = parse("p", diff.as_bytes()).unwrap();
        apply(&patches, |_| Ok(content.map(Blob::plain))).unwrap()
    }
    fn text(out: &Outcome) -> String {
        String::from_utf8(out.files["f"].clone().unwrap().bytes).unwrap()
    }
    const ONE: &str =
        "--- a/f\n+++ b/f\n@@ -4,5 +4,6 @@\n line 4\n line 5\n-line 6\n+six\n+more\n line 7\n line 8\n";

    #[test]
    fn a_hunk_goes_to_its_line_or_the_nearest_that_fits() {
        let out = run(ONE, Some(&file(10)));
        assert!(out.moved.is_empty() && out.rejects.is_empty());
        assert_eq!(text(&out), file(10).replace("line 6\n", "six\nmore\n"));
        let moved = run(ONE, Some(&format!("x\ny\n{}", file(10))));
        assert_eq!((moved.moved[0].offset, moved.moved[0].fuzz), (2, 0));
        assert_eq!(text(&moved), format!("x\ny\n{}", file(10).replace("line 6\n", "six\nmore\n")));
    }

    #[test]
    fn of_several_places_the_nearest_is_taken() {
        let twice = format!("{}{}", file(8), file(8));
        let far = ONE.replace("@@ -4,5", "@@ -11,5");
        let out = run(&far, Some(&twice));
        assert_eq!(text(&out), format!("{}{}", file(8), file(8).replace("line 6\n", "six\nmore\n")));
    }

    #[test]
    fn fuzz_leaves_out_context_but_never_a_change() {
        let out = run(ONE, Some(&file(10).replace("line 4\n", "four\n")));
        assert_eq!(out.moved[0].fuzz, 1);
        assert!(text(&out).contains("four\nline 5\nsix\nmore\nline 7\n"));
        let out = run(ONE, Some(&file(10).replace("line 6\n", "LINE 6\n")));
        assert!(
            out.rejects[0].why.contains("line 6 is 'LINE 6', the patch expects 'line 6'"),
            "{:?}",
            out.rejects
        );
        assert_eq!((out.rejects[0].hunk, out.rejects[0].at), (Some((1, 1)), 3));
    }

    #[test]
    fn a_reject_gives_its_reason() {
        let done = run(ONE, Some(&file(10).replace("line 6\n", "six\nmore\n")));
        assert!(done.rejects[0].why.contains("already: leave this hunk out"));
        assert!(rejected(&done.rejects, "x").remedy().unwrap().contains("leave out the whole patch"));
        let spaces = run(ONE, Some(&file(10).replace("line 6\n", "\tline  6\n")));
        assert!(spaces.rejects[0].why.contains("white space"));
        assert!(run(ONE, None).rejects[0].why.contains("no such file"));
        let error = rejected(&done.rejects, "linux 6.1").to_string();
        assert!(
            error.contains("p does not apply to linux 6.1") && error.contains("p:3: hunk 1 of 1 for f:4"),
            "{error}"
        );
    }

    #[test]
    fn hunks_below_a_reject_still_go_in_and_shift_with_those_above() {
        let two = format!("{ONE}@@ -20,3 +21,2 @@\n line 20\n-line 21\n line 22\n");
        let out = run(&two, Some(&format!("new\n{}", file(30))));
        assert_eq!(out.moved.len(), 1, "the second hunk is shifted as the first is");
        assert!(!text(&out).contains("line 21\n"));
        let out = run(&two, Some(&file(30).replace("line 6\n", "")));
        assert_eq!((out.rejects.len(), text(&out).contains("line 21\n")), (1, false));
    }

    #[test]
    fn files_are_added_and_removed_and_may_end_without_a_newline() {
        let new = "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n";
        assert_eq!(text(&run(new, None)), "a\nb");
        assert!(run(new, Some("x")).rejects[0].why.ends_with("already, and it is another"));
        assert!(run(new, Some("a\nb")).rejects[0].why.ends_with("leave this file out"));
        let gone = "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        assert_eq!(run(gone, Some("a\n")).files["f"], None);
        let closed = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n";
        assert_eq!(text(&run(closed, Some("a"))), "b\n");
        let insert = "--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+x\n";
        assert_eq!(text(&run(insert, Some("a\nb\n"))), "a\nx\nb\n");
    }

    #[test]
    fn a_renamed_file_moves_and_a_copied_one_stays() {
        let git = |word: &str| {
            format!(
                "diff --git a/f b/g\nsimilarity index 50%\n{word} from f\n{word} to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"
            )
        };
        let files = |word: &str| {
            let patches = parse("p", git(word).as_bytes()).unwrap();
            let read = |path: &str| Ok((path == "f").then(|| Blob::plain("a\n")));
            let out = apply(&patches, read).unwrap();
            (out.files["f"].clone(), out.files["g"].clone())
        };
        assert_eq!(files("rename"), (None, Some(Blob::plain("b\n"))));
        assert_eq!(files("copy"), (Some(Blob::plain("a\n")), Some(Blob::plain("b\n"))));
    }

    #[test]
    fn modes_and_links_are_made_and_links_that_lead_out_are_refused() {
        let outcome = |diff: &str, before: Option<Blob>| {
            let patches = parse("p", diff.as_bytes()).unwrap();
            apply(&patches, |path| Ok((path == "d/f").then(|| before.clone()).flatten())).unwrap()
        };
        let made = |diff: &str, before| outcome(diff, before).files["d/f"].clone();
        let blob = |bytes: &str, kind| Some(Blob { bytes: bytes.into(), kind });
        let head = "diff --git a/d/f b/d/f\n";
        let mode = format!("{head}old mode 100644\nnew mode 100755\n");
        assert_eq!(made(&mode, Some(Blob::plain("a\n"))), blob("a\n", Kind::Executable));
        let new = |mode: &str, text: &str| {
            format!(
                "{head}new file mode {mode}\nindex 0..1\n--- /dev/null\n+++ b/d/f\n@@ -0,0 +1 @@\n+{text}\n"
            )
        };
        let open = "\\ No newline at end of file\n";
        assert_eq!(made(&new("100755", "a"), None), blob("a\n", Kind::Executable));
        let link = new("120000", "../g") + open;
        assert_eq!(made(&link, None), blob("../g", Kind::Link));
        for to in ["/etc/passwd", "../../g"] {
            let out = outcome(&(new("120000", to) + open), None);
            assert!(out.rejects[0].why.contains("would lead out of the tree"), "{:?}", out.rejects);
        }
        let turned =
            format!("{head}index 1..2 120000\n--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-../g\n{open}+../h\n{open}");
        assert_eq!(made(&turned, blob("../g", Kind::Link)), blob("../h", Kind::Link));
        assert!(outcome(&turned, Some(Blob::plain("../g"))).rejects[0].why.contains("it is a file"));
        let through = turned.replace(" 120000", " 100644");
        let why = &outcome(&through, blob("../g", Kind::Link)).rejects[0].why;
        assert!(why.contains("symbolic link to ../g"), "{why}");
        assert!(parse("p", mode.replace("100755", "160000").as_bytes()).is_err(), "a submodule");
    }

    #[test]
    fn a_file_behind_a_link_of_the_same_patch_is_refused() {
        let diff = "diff --git a/d b/d\nnew file mode 120000\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+e\n\
                    \\ No newline at end of file\n--- /dev/null\n+++ b/d/f\n@@ -0,0 +1 @@\n+x\n";
        let out = apply(&parse("p", diff.as_bytes()).unwrap(), |_| Ok(None)).unwrap();
        assert!(out.rejects[0].why.contains("behind d"), "{:?}", out.rejects);
    }

    proptest::proptest! {
        /// Applying the diff of two texts to the first gives the second, even if the text has moved.
        #[test]
        fn a_diff_leads_from_old_to_new(
            n in 1usize..40, at in 0usize..40, add in 0usize..3, cut in 0usize..3, before in 0usize..5,
        ) {
            let old: Vec<String> = (0..n).map(|i| format!("l{i}")).collect();
            let at = at.min(n);
            let cut = cut.min(n - at);
            let (lo, hi) = (at.saturating_sub(3), (at + cut + 3).min(n));
            let mut lines: Vec<String> = old[lo..at].iter().map(|l| format!(" {l}")).collect();
            lines.extend(old[at..at + cut].iter().map(|l| format!("-{l}")));
            lines.extend((0..add).map(|i| format!("+n{i}")));
            lines.extend(old[at + cut..hi].iter().map(|l| format!(" {l}")));
            let start = if hi == lo { lo } else { lo + 1 };
            let diff = format!("--- a/f\n+++ b/f\n@@ -{start},{} +{start},{} @@\n{}\n", hi - lo, hi - lo - cut + add, lines.join("\n"));
            let mut new = old.clone();
            new.splice(at..at + cut, (0..add).map(|i| format!("n{i}")));
            let joined = |l: &[String]| l.iter().map(|l| format!("{l}\n")).collect::<String>();
            let head: String = (0..before).map(|i| format!("h{i}\n")).collect();
            let out = run(&diff, Some(&format!("{head}{}", joined(&old))));
            proptest::prop_assert!(out.rejects.is_empty());
            proptest::prop_assert_eq!(text(&out), format!("{head}{}", joined(&new)));
        }
    }
}
