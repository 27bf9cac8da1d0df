//! Reads patches: a file, a folder, or standard input, each with diffs, a mail, or a mailbox.
//!
//! Mirrors the unified form of diff(1) and the extended headers of git-diff(1). A folder is a series: its file
//! `series` names the patches in order, or they are its `*.patch` and `*.diff` files by name. Mails of a mailbox
//! are put into the order of their "[PATCH 2/7]"; answers and mails without a diff are passed over.

use super::mail::{Mail, split};
use super::{FileDiff, Hunk, Line, Patch};
use crate::blob::Kind;
use schedlab_base::{Error, Result};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The longest file that is read; no series on a mailing list comes near.
const MOST_BYTES: u64 = 64 << 20;
/// The word for standard input.
const STDIN: &str = "-";

/// Standard input, which is read once: one patch may be asked for by several variants.
fn standard_input() -> Result<&'static [u8]> {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(bytes) = BYTES.get() {
        return Ok(bytes);
    }
    let mut bytes = Vec::new();
    let taken = std::io::stdin().lock().take(MOST_BYTES).read_to_end(&mut bytes);
    taken.map_err(|e| Error::machine(format!("can't read standard input: {e}")))?;
    Ok(BYTES.get_or_init(|| bytes))
}

/// The patches of a file, a folder or (`-`) standard input.
///
/// # Errors
/// When it can't be read, holds no diff, or a diff is torn; the error names file and line.
pub fn read(path: &Path) -> Result<Vec<Patch>> {
    if path.as_os_str() == STDIN {
        return parse("standard input", standard_input()?);
    }
    if path.is_dir() {
        let files = series(path)?;
        let all = files.iter().map(|file| read(file)).collect::<Result<Vec<_>>>()?;
        return Ok(all.into_iter().flatten().collect());
    }
    let failed = |e: std::io::Error| Error::io(path, "read", &e);
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(failed)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        let text = format!("{} is longer than {} MB", path.display(), MOST_BYTES >> 20);
        return Err(Error::input(text).help("give a patch: a diff, a mail, or a mailbox"));
    }
    let (place, name) =
        (path.display().to_string(), path.file_name().unwrap_or_default().display().to_string());
    let mut all = parse(&place, &bytes)?;
    // Errors have the whole path; a page has room for a name.
    all.iter_mut().for_each(|patch| patch.name = patch.name.replacen(&place, &name, 1));
    Ok(all)
}

/// The patches of a folder, in order.
fn series(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = folder.join("series");
    if let Ok(text) = fs::read_to_string(&list) {
        let names = text.lines().filter_map(|l| l.split('#').next()?.split_whitespace().next());
        return Ok(names.map(|n| folder.join(n)).collect());
    }
    let entries = fs::read_dir(folder).map_err(|e| Error::io(folder, "read", &e))?;
    let is_patch = |p: &PathBuf| p.extension().is_some_and(|e| e == "patch" || e == "diff");
    let mut all: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(is_patch).collect();
    all.sort();
    if all.is_empty() {
        let text = format!("{} holds no patch", folder.display());
        return Err(Error::input(text)
            .help("its *.patch and *.diff files are the series, or those its file 'series' names"));
    }
    Ok(all)
}

/// The patches of a text.
///
/// # Errors
/// No diff at all, a hunk that ends early, a binary diff, or a path that leads out of the tree.
pub fn parse(name: &str, bytes: &[u8]) -> Result<Vec<Patch>> {
    let mails = split(bytes);
    let several = mails.len() > 1;
    let mut all: Vec<(u32, Patch)> = Vec::new();
    for (i, mail) in mails.iter().enumerate().filter(|(_, m)| !m.is_reply()) {
        let own = if several { format!("{name} (mail {})", i + 1) } else { name.to_owned() };
        let files = files(mail, &own)?;
        if !files.is_empty() {
            let patch = Patch { name: own, subject: mail.title(), files };
            all.push((mail.place().unwrap_or(u32::MAX), patch));
        }
    }
    if all.is_empty() {
        return Err(no_diff(name, bytes, mails.iter().any(Mail::is_reply)));
    }
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, patch)| patch).collect())
}

/// The error about a text without a diff that counts. Answers quote diffs in part and with remarks between their lines,
/// so a quoted diff is reported and not applied.
fn no_diff(name: &str, bytes: &[u8], has_reply: bool) -> Error {
    if is_quoted(bytes) {
        return Error::input(format!("{name} holds a quoted diff: its lines begin with '> '")).help(
            "give the mail that is quoted; if the quotation is whole, sed 's/^> \\{0,1\\}//' takes the marks away",
        );
    }
    if has_reply {
        return Error::input(format!("{name} holds answers alone (Subject: Re: ...), and no patch")).help(
            "give the mail that is answered; a diff in an answer counts once its subject is without 'Re:'",
        );
    }
    Error::input(format!("{name} holds no diff"))
        .help("give a patch: the output of diff -u or git diff, a mail, or a mailbox")
}

/// Whether a text holds a diff behind quotation marks (one or several ">").
fn is_quoted(bytes: &[u8]) -> bool {
    let bare = |line: &[u8]| -> Option<Vec<u8>> {
        let rest = line.trim_ascii_start().strip_prefix(b">")?;
        let from = rest.iter().position(|b| !matches!(b, b'>' | b' ')).unwrap_or(rest.len());
        Some(rest[from..].to_vec())
    };
    let lines: Vec<Option<Vec<u8>>> = bytes.split(|b| *b == b'\n').map(bare).collect();
    let begins = |line: &Option<Vec<u8>>, mark: &[u8]| line.as_ref().is_some_and(|l| l.starts_with(mark));
    lines.iter().any(|l| begins(l, b"diff --git "))
        || lines.iter().any(|l| begins(l, b"@@ -"))
        || lines.windows(2).any(|w| begins(&w[0], b"--- ") && begins(&w[1], b"+++ "))
}

/// A text that is read line by line.
struct Reader<'a> {
    name: &'a str,
    lines: Vec<&'a [u8]>,
    at: usize,
    first_line: usize,
}

fn files(mail: &Mail, name: &str) -> Result<Vec<FileDiff>> {
    // The final newline does not begin another line.
    let body = mail.body.strip_suffix(b"\n").unwrap_or(&mail.body);
    let lines = body.split(|b| *b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l)).collect();
    let mut reader = Reader { name, lines, at: 0, first_line: mail.first_line };
    let mut all = Vec::new();
    while let Some(file) = reader.next_file()? {
        all.push(file);
    }
    Ok(all)
}

impl Reader<'_> {
    fn line(&self) -> Option<&[u8]> {
        self.lines.get(self.at).copied()
    }
    fn text(&self) -> Option<String> {
        self.line().map(|l| String::from_utf8_lossy(l).into_owned())
    }
    /// Number of the current line in the file. In an encoded mail, whose lines are others, it is near.
    fn number(&self) -> usize {
        self.first_line + self.at
    }
    fn error(&self, text: &str) -> Error {
        Error::input(format!("{}:{}: {text}", self.name, self.number()))
            .help("give the patch as it was sent; mail programs that wrap or trim lines damage it")
    }

    fn next_file(&mut self) -> Result<Option<FileDiff>> {
        loop {
            let Some(text) = self.text() else { return Ok(None) };
            if let Some(rest) = text.strip_prefix("diff --git ") {
                self.at += 1;
                return self.git_file(rest).map(Some);
            }
            let next = self.lines.get(self.at + 1);
            if text.starts_with("--- ") && next.is_some_and(|l| l.starts_with(b"+++ ")) {
                let mut file = FileDiff::default();
                self.names(&mut file)?;
                self.hunks(&mut file)?;
                return Ok(Some(file));
            }
            self.at += 1;
        }
    }

    /// The rest of a file that begins with "diff --git a/x b/x".
    fn git_file(&mut self, names: &str) -> Result<FileDiff> {
        // Both halves are equal except for their first letter, unless the file is renamed, which lines below say.
        let half = names.len() / 2;
        let (a, b) = (names.get(..half).unwrap_or(names), names.get(half + 1..).unwrap_or(names));
        let (old, new) = (self.path(a)?, self.path(b)?);
        let mut file = FileDiff { old, new, ..FileDiff::default() };
        while let Some(text) = self.text() {
            if let Some(mode) = text.strip_prefix("new file mode ") {
                file.old = None;
                file.kind = Some(self.kind(mode)?);
            } else if let Some(mode) = text.strip_prefix("deleted file mode ") {
                file.new = None;
                file.of_link = self.kind(mode)? == Kind::Link;
            } else if let Some(mode) = text.strip_prefix("new mode ") {
                file.kind = Some(self.kind(mode)?);
            } else if let Some((_, mode)) = text.strip_prefix("index ").and_then(|t| t.split_once(' ')) {
                file.of_link = self.kind(mode)? == Kind::Link;
            } else if let Some(from) =
                text.strip_prefix("rename from ").or_else(|| text.strip_prefix("copy from "))
            {
                file.copied = text.starts_with("copy ");
                file.old = Some(safe(from).ok_or_else(|| self.error("a path that leads out of the tree"))?);
            } else if let Some(to) = text.strip_prefix("rename to ").or_else(|| text.strip_prefix("copy to "))
            {
                file.new = Some(safe(to).ok_or_else(|| self.error("a path that leads out of the tree"))?);
            } else if text.starts_with("GIT binary patch") || text.starts_with("Binary files ") {
                return Err(self.error("a binary diff can't be applied"));
            } else if text.starts_with("--- ") {
                self.names(&mut file)?;
                self.hunks(&mut file)?;
                return Ok(file);
            } else if !["index ", "old mode ", "similarity ", "dissimilarity "]
                .iter()
                .any(|known| text.starts_with(known))
            {
                break;
            }
            self.at += 1;
        }
        Ok(file)
    }

    fn kind(&self, mode: &str) -> Result<Kind> {
        let none = || self.error(&format!("a file of mode {} can't be made", mode.trim()));
        Kind::of_mode(mode).ok_or_else(none)
    }

    /// Reads "--- a/x" and "+++ b/x".
    fn names(&mut self, file: &mut FileDiff) -> Result<()> {
        for (mark, is_old) in [("--- ", true), ("+++ ", false)] {
            let text = self.text().unwrap_or_default();
            let Some(name) = text.strip_prefix(mark) else {
                return Err(self.error(&format!("'{}' is expected", mark.trim())));
            };
            // diff(1) writes the time after a tab.
            let path = self.path(name.split('\t').next().unwrap_or(name))?;
            if is_old {
                file.old = path
            } else {
                file.new = path
            }
            self.at += 1;
        }
        if file.old.is_none() && file.new.is_none() {
            return Err(self.error("both files are /dev/null"));
        }
        Ok(())
    }

    /// A path without its first folder (a/, b/, linux-6.1/), as `patch -p1` takes it.
    fn path(&self, name: &str) -> Result<Option<String>> {
        let name = name.trim().trim_matches('"');
        if name == "/dev/null" {
            return Ok(None);
        }
        let inner = name.split_once('/').map_or(name, |(_, rest)| rest);
        safe(inner).map(Some).ok_or_else(|| self.error(&format!("'{name}' leads out of the tree")))
    }

    fn hunks(&mut self, file: &mut FileDiff) -> Result<()> {
        while let Some(text) = self.text()
            && let Some((counts, heading)) = header(&text)
        {
            let hunk = self.hunk(counts)?;
            file.hunks.push(Hunk { heading: heading.trim().to_owned(), ..hunk });
        }
        if file.hunks.is_empty() {
            return Err(self.error("'@@ -LINE,COUNT +LINE,COUNT @@' is expected"));
        }
        Ok(())
    }

    fn hunk(&mut self, (old_start, mut old, mut new): (usize, usize, usize)) -> Result<Hunk> {
        let at = self.number();
        self.at += 1;
        let (mut lines, mut ends_open) = (Vec::new(), false);
        while old > 0 || new > 0 {
            let Some(line) = self.line() else { return Err(self.error("the hunk ends early")) };
            let (sign, text) = match line.split_first() {
                Some((sign, text)) => (*sign, text.to_owned()),
                // Mail programs strip the space of an empty context line.
                None => (b' ', Vec::new()),
            };
            let (kept, of_old, of_new) = match sign {
                b' ' => (Some(Line::Context(text)), 1, 1),
                b'-' => (Some(Line::Removed(text)), 1, 0),
                b'+' => (Some(Line::Added(text)), 0, 1),
                b'\\' => (None, 0, 0),
                _ => return Err(self.error("the hunk ends early")),
            };
            let (Some(left), Some(right)) = (old.checked_sub(of_old), new.checked_sub(of_new)) else {
                return Err(self.error("the hunk ends early"));
            };
            (old, new) = (left, right);
            lines.extend(kept);
            self.at += 1;
        }
        // "\ No newline at end of file" refers to the line above.
        if self.line().is_some_and(|l| l.starts_with(b"\\ ")) {
            ends_open = !matches!(lines.last(), Some(Line::Removed(_)));
            self.at += 1;
        }
        Ok(Hunk { old_start, lines, heading: String::new(), at, ends_open })
    }
}

/// "@@ -LINE,COUNT +LINE,COUNT @@ HEADING": start and count in the old file, count in the new one, and the heading.
fn header(text: &str) -> Option<((usize, usize, usize), &str)> {
    let (ranges, heading) = text.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let ((start, old), (_, new)) = (range(old)?, range(new)?);
    Some(((start, old, new), heading))
}

/// The path, if it is relative and stays below its folder.
fn safe(path: &str) -> Option<String> {
    let clean = Path::new(path).components().all(|c| matches!(c, std::path::Component::Normal(_)));
    (clean && !path.is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIT: &str = "diff --git a/k/x.c b/k/x.c\nindex 1..2 100644\n--- a/k/x.c\n+++ b/k/x.c\n@@ -1,3 +1,3 @@ f()\n a\n-b\n+B\n\
                       \ndiff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n\
                       \\ No newline at end of file\n-- \n2.39\n";

    #[test]
    fn a_git_diff_is_read() {
        let all = parse("x.patch", GIT.as_bytes()).unwrap();
        let files = &all[0].files;
        assert_eq!(all[0].paths().collect::<Vec<_>>(), ["k/x.c", "new"]);
        assert_eq!(files[0].hunks[0].lines.len(), 4, "an empty line is context");
        assert_eq!((files[0].hunks[0].at, files[1].old.as_deref()), (5, None));
        assert!(files[1].hunks[0].ends_open && !files[0].hunks[0].ends_open);
    }

    #[test]
    fn a_plain_diff_has_times_and_another_first_folder() {
        let text = "--- linux-6.1/k/x.c\t2024-01-01 00:00:00\n+++ mine/k/x.c\t2024-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(parse("x", text.as_bytes()).unwrap()[0].files[0].path(), "k/x.c");
    }

    #[test]
    fn a_mailbox_is_in_the_order_of_its_subjects() {
        let mail = |n: u32, re: &str| {
            format!(
                "From 1 Mon Sep 17 00:00:00 2001\nSubject: {re}[PATCH {n}/2] p{n}\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+{n}\n\n"
            )
        };
        let text = [mail(2, ""), mail(1, ""), mail(1, "Re: ")].concat();
        let titles: Vec<_> =
            parse("m", text.as_bytes()).unwrap().into_iter().filter_map(|p| p.subject).collect();
        assert_eq!(titles, ["p1", "p2"]);
    }

    #[test]
    fn torn_patches_are_refused_with_their_line() {
        let error = |text: &str| parse("x.patch", text.as_bytes()).unwrap_err().to_string();
        assert!(error("hello\n").contains("x.patch holds no diff"));
        assert!(error("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n").contains("x.patch:5: the hunk ends early"));
        assert!(
            error("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\nb\n").contains("x.patch:5: the hunk ends early")
        );
        assert!(error("--- a/x\n+++ b/x\nno\n").contains("x.patch:3: '@@"));
        assert!(error("--- a/../../x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n").contains("out of the tree"));
        assert!(error("diff --git a/x b/x\nGIT binary patch\n").contains("binary"));
    }

    #[test]
    fn a_quoted_diff_and_an_answer_are_named() {
        let error = |text: &str| parse("x.mbox", text.as_bytes()).unwrap_err();
        for mark in ["> ", ">", ">> ", "> > "] {
            let text: String = GIT.lines().map(|l| format!("{mark}{l}\n")).collect();
            let error = error(&format!("Subject: Re: [PATCH]\n\nOn Monday A wrote:\n{text}\nwhy?\n"));
            assert!(error.to_string().contains("holds a quoted diff"), "{mark}: {error}");
        }
        let answer = error(&format!("Subject: Re: [PATCH]\n\n{GIT}"));
        assert!(answer.to_string().contains("holds answers alone"), "{answer}");
    }

    #[test]
    fn the_hash_is_of_the_changes_alone() {
        let of = |text: &str| parse("x", text.as_bytes()).unwrap()[0].hash();
        let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(of(diff), of(&format!("Subject: hello\n\n{diff}")));
        assert_ne!(of(diff), of(&diff.replace("+b", "+c")));
        let new = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n";
        assert_eq!(of(new), of("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n"));
        assert_ne!(of(new), of(&new.replace("100644", "100755")));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(
            cut in 0usize..400,
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        ) {
            let mut torn = GIT.as_bytes()[..cut.min(GIT.len())].to_vec();
            torn.extend(bytes);
            let _ = parse("x", &torn);
        }
    }
}
