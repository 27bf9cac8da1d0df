//! Reads comparison tables of LKP (`lkp ncompare`), as the kernel test robot mails them: parameters and their values;
//! the commits; then for each metric a mean with its deviation in percent for each commit, the changes between them,
//! and the metric's name at the line's end.
//!
//! A column is a variant and has one value, a mean over LKP's runs. Mails break long lines and quote them, and their
//! charset may have damaged the sign before a deviation. Units and directions are unknown. Rows that count failures
//! (`fail:runs`) are not measurements. Lines that look like rows and can't be read are reported by their numbers.

use super::mail::{self, unquoted};
use super::text::{missing, whole};
use super::tool::{BLANK, FigureRow, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::Neither;

/// LKP's tables are only read; LKP is never started.
pub const TOOL: Tool = Tool {
    name: "lkp",
    about: "comparison tables of LKP, as the kernel test robot mails them; each commit is a variant",
    figures: &[FigureRow("<metric>", "", Neither, "a metric as LKP names it")],
    knows,
    read,
    ..BLANK
};

/// Whether a text has a table. Mails encode the blanks at the end of a rule and break long lines, so lines are decoded.
fn knows(text: &str) -> bool {
    let lines = mail::lines(text);
    let mut plain = lines.iter().map(|(_, line)| unquoted(line));
    plain.clone().any(is_rule) && plain.any(|line| line.contains("%change"))
}

/// "---------------- --------------------------- ": one group for each column.
fn is_rule(line: &str) -> bool {
    let mut groups = line.split_whitespace().peekable();
    groups.peek().is_some_and(|g| g.len() == 16) && groups.clone().count() > 1 && groups.all(is_dashes)
}

fn is_dashes(word: &str) -> bool {
    word.len() >= 16 && word.bytes().all(|b| b == b'-')
}

/// The part of a mail above a table.
#[derive(Default)]
struct Head {
    /// The values of the parameters.
    load: Option<String>,
    /// The first words of the lines below "commit:".
    commits: Vec<String>,
    /// The last line that was not empty: the heads of the columns, which are shortened commits.
    last: String,
    /// What the next line may be, if it can be known.
    next: Option<Next>,
}

#[derive(Clone, Copy, PartialEq)]
enum Next {
    Parameters,
    Values,
    Commits,
}

impl Head {
    fn line(&mut self, line: &str) {
        if !line.is_empty() {
            line.clone_into(&mut self.last);
        }
        let bar = line.len() > 20 && line.bytes().all(|b| b == b'=');
        match self.next {
            _ if bar => *self = Head { next: Some(Next::Parameters), ..Head::default() },
            _ if line.starts_with("commit:") => (self.next, self.commits) = (Some(Next::Commits), Vec::new()),
            // A long line of values or parameters may be broken. Values do not end in ":".
            Some(Next::Parameters) if line.ends_with(':') => self.next = Some(Next::Values),
            Some(Next::Values) if !line.is_empty() => {
                self.load = Some(line.replace(char::is_control, " "));
                self.next = None;
            }
            Some(Next::Commits) => {
                self.commits.extend(line.split_whitespace().next().map(str::to_owned));
            }
            _ => {}
        }
    }

    /// The names of the columns: commits of the list that begin like the columns' heads.
    fn names(&self, columns: usize) -> Vec<String> {
        let heads: Vec<&str> = self.last.split_whitespace().collect();
        let commit =
            |head: &str| self.commits.iter().find(|c| head.starts_with(*c) || c.starts_with(head)).cloned();
        match heads.len() == columns {
            true => heads.into_iter().map(|head| commit(head).unwrap_or_else(|| head.to_owned())).collect(),
            false if self.commits.len() >= columns => self.commits[..columns].to_vec(),
            false => (1..=columns).map(|n| format!("column {n}")).collect(),
        }
    }
}

#[derive(Default)]
struct Table {
    /// Number of columns; 0 outside of a table.
    columns: usize,
    /// Words of a row that a mail has broken, and the number of its first line.
    broken: Option<(usize, String)>,
}

impl Table {
    /// Takes a line, joined with the beginning of its row if a mail has broken it.
    fn line(&mut self, at: usize, line: &str, all: &mut [Reading]) -> Result<()> {
        if let Some((began, words)) = self.broken.take() {
            if line.is_empty() {
                self.broken = Some((began, words));
                return Ok(());
            }
            let joined = format!("{words} {line}");
            match row(&joined, self.columns) {
                Line::Other | Line::Unread if is_like_a_row(&words) => unread(began, all),
                Line::Other | Line::Unread => {}
                found => return self.take(began, &joined, found, all),
            }
        }
        self.take(at, line, row(line, self.columns), all)
    }

    fn take(&mut self, at: usize, line: &str, found: Line<'_>, all: &mut [Reading]) -> Result<()> {
        match found {
            Line::Whole(name, values) => {
                for (reading, word) in all.iter_mut().zip(values) {
                    let value =
                        whole(word).map_err(|e| e.context(format!("can't read LKP's table, line {at}")))?;
                    reading.values.insert(name.clone(), value);
                }
            }
            Line::Begun => self.broken = Some((at, line.to_owned())),
            Line::Unread => unread(at, all),
            Line::Other => {}
        }
        Ok(())
    }

    fn end(&mut self, all: &mut [Reading]) {
        if let Some((at, words)) = self.broken.take()
            && is_like_a_row(&words)
        {
            unread(at, all);
        }
        self.columns = 0;
    }
}

/// Notes a row that can't be read.
fn unread(at: usize, columns: &mut [Reading]) {
    columns.iter_mut().for_each(|reading| reading.unread.push(at));
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    let mut head = Head::default();
    let mut table = Table::default();
    let lines = mail::lines(text);
    for (at, line) in &lines {
        let (line, first) = (unquoted(line), all.len() - table.columns);
        if is_rule(line) {
            table.end(&mut all[first..]);
            table.columns = line.split_whitespace().count();
            let names = head.names(table.columns);
            all.extend(names.into_iter().map(|variant| Reading {
                load: head.load.clone(),
                variant: Some(variant),
                means: Some("LKP's runs".to_owned()),
                ..Reading::default()
            }));
        } else if table.columns == 0 || line.starts_with("====") {
            table.end(&mut all[first..]);
            head.line(line);
        } else {
            table.line(*at, line, &mut all[first..])?;
        }
    }
    let first = all.len() - table.columns;
    table.end(&mut all[first..]);
    all.retain(|r| !r.values.is_empty());
    if all.is_empty() {
        Err(missing("LKP", "row 'VALUE  CHANGE  VALUE  METRIC' below its head"))
    } else {
        Ok(all)
    }
}

enum Line<'a> {
    /// A metric and its value in each column.
    Whole(String, Vec<&'a str>),
    /// The beginning of a row.
    Begun,
    /// A row that can't be read.
    Unread,
    /// Not a row.
    Other,
}

/// Whether a word is a value. Counts of failures (`1:4`) and percentages are not.
fn is_value(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    digits.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(':') && !word.ends_with('%')
}

fn is_change(word: &str) -> bool {
    word.strip_prefix(['+', '-']).is_some_and(|w| {
        let per_cent = w.strip_suffix('%').map(str::to_ascii_lowercase);
        w.starts_with(|c: char| c.is_ascii_digit()) || matches!(per_cent.as_deref(), Some("inf" | "nan"))
    })
}

/// Whether a word is the deviation that follows a value, with or without its sign.
fn is_deviation(word: &str) -> bool {
    let number = word.trim_start_matches(|c: char| !c.is_ascii()).trim_start_matches("+-");
    word.ends_with('%') && number.starts_with(|c: char| c.is_ascii_digit()) && !is_change(word)
}

/// Whether a line begins with a number, continues with changes or deviations, and counts no failures.
fn is_like_a_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let number = words.next().is_some_and(|w| {
        let plain = w.trim_start_matches(['-', '+']).to_ascii_lowercase();
        plain.starts_with(|c: char| c.is_ascii_digit()) || ["nan", "inf"].contains(&plain.as_str())
    });
    let counts_failures = line.split_whitespace().any(is_failures);
    number && !counts_failures && words.any(|w| is_deviation(w) || is_change(w) && w.ends_with('%'))
}

/// Whether a word counts failures among runs: "1:4", and ":4" for none.
fn is_failures(word: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    word.split_once(':').is_some_and(|(fails, runs)| !runs.is_empty() && digits(fails) && digits(runs))
}

fn row(line: &str, columns: usize) -> Line<'_> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let wrong = || if is_like_a_row(line) { Line::Unread } else { Line::Other };
    let (mut at, mut values) = (0, Vec::new());
    let next_is = |at: usize, is: &dyn Fn(&str) -> bool| words.get(at).is_some_and(|w| is(w));
    for column in 0..columns {
        // LKP prints no change without a base. A value below zero looks like a change.
        if column > 0 && next_is(at, &is_change) && (at + 1 == words.len() || next_is(at + 1, &is_value)) {
            at += 1;
        }
        match words.get(at) {
            Some(w) if is_value(w) => values.push(*w),
            None if column > 0 => return Line::Begun,
            _ => return wrong(),
        }
        at += 1;
        // The sign before a deviation is a separate word or a part of it.
        at += usize::from(next_is(at, &|w| {
            w.chars().count() <= 2 && !w.contains(|c: char| c.is_ascii_alphanumeric())
        }));
        at += usize::from(next_is(at, &is_deviation));
    }
    match &words[at..] {
        [] => Line::Begun,
        // Another row begins where the name should be.
        [first, ..] if is_value(first) || is_change(first) => wrong(),
        name => Line::Whole(name.join("_").replace(char::is_control, "_"), values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "commit: \n  aaaaaaaaaa\n  bbbbbbbbbb\n\naaaaaaaaaa bbbbbbbbbb\n\
                        ---------------- --------------------------- \n         %stddev     %change         %stddev\n";

    /// Names with the values of both columns, and the lines that could not be read.
    fn rows_of(rows: &str) -> (Vec<(String, f64, f64)>, Vec<usize>) {
        let all = read(&format!("{HEAD}{rows}")).unwrap();
        let [one, other] = &all[..] else { panic!("{all:?}") };
        let both = one.values.iter().map(|(name, value)| (name.clone(), *value, other.values[name]));
        (both.collect(), one.unread.clone())
    }

    #[test]
    fn encoded_mails_lose_no_row() {
        let rows = "    123456 =C2=B1  2%      -5.6%     116543        hackbench.throughput\n\
                    \x20     0.61 =C2=B1  3%      +0.1        0.71 =C2=B1  3%  =\nmpstat.cpu.all.irq%\n";
        let want = [("hackbench.throughput", 123_456.0, 116_543.0), ("mpstat.cpu.all.irq%", 0.61, 0.71)];
        assert_eq!(rows_of(rows), (want.map(|(n, a, b)| (n.to_owned(), a, b)).to_vec(), vec![]));
    }

    #[test]
    fn encoded_mails_are_known() {
        let rows = "  1.00 =C2=B1 2%   -5.6%    6.00   a\n";
        let encoded = HEAD.replace("--- \n", "---=20\n") + rows;
        let broken = HEAD.replace("--- ---", "---=20=\n---").replace("%change", "%cha=\nnge") + rows;
        let quoted = HEAD.replace('\n', "\n> ");
        for text in [&encoded, &broken, &quoted] {
            assert!((TOOL.knows)(text), "{text}");
        }
        assert!(!(TOOL.knows)("%change\n---------------- ----=20\n"));
    }

    #[test]
    fn values_may_be_negative_and_changes_infinite() {
        let rows = "  -1.50            +0.5       -1.00        a\n 2.00      -3.00 \u{b1} 4%  b\n\
                    \x20 0.00           +Inf%       3.00        c\n  0.00   +4.3e+104%       4.00 \u{b1}223%  d\n";
        let want = [("a", -1.5, -1.0), ("b", 2.0, -3.0), ("c", 0.0, 3.0), ("d", 0.0, 4.0)];
        assert_eq!(rows_of(rows), (want.map(|(n, a, b)| (n.to_owned(), a, b)).to_vec(), vec![]));
    }

    #[test]
    fn rows_that_cannot_be_read_are_reported_and_prose_is_not() {
        let rows = "  1.00 \u{b1} 2%    -5.6%    nan         a\n  5.00   -1.0%   6.00   b\n\
                    \x20 7.00   -1.0%   8.00\n  9.00   -1.0%   10.00   c\n:4   25%   1:4   dmesg.x\n\n\
                    3 files changed, 2 insertions(+)\nResults 50% better.\n";
        let want = [("b", 5.0, 6.0), ("c", 9.0, 10.0)];
        assert_eq!(rows_of(rows), (want.map(|(n, a, b)| (n.to_owned(), a, b)).to_vec(), vec![8, 10]));
        let rows = "  5.00   -1.0%   6.00   b\n  1.00 \u{b1} 2%  -5.6%  nan  sched_debug.cfs_rq:/.load.avg\n\
                    \x20 0:4   25%   1:4   dmesg.x\n  3   -5%   :4   dmesg.y\n";
        assert_eq!(rows_of(rows), (vec![("b".to_owned(), 5.0, 6.0)], vec![9]));
    }
}
