//! Comparison tables of LKP (`lkp ncompare`), as the kernel test robot mails them: parameters and their values, the
//! commits, then for each metric a mean with its deviation in per cent for each commit, the changes between them,
//! and the name at the line's end.
//!
//! A column is a variant and has one value, a mean over LKP's runs. Mails break long lines and quote them, and their
//! charset may have damaged the sign before a deviation. Units and directions are not told. Rows that count failures
//! (`fail:runs`) are not measurements.

use super::text::{missing, whole};
use super::{Reading, Row, SAVED_ONLY, Tool};
use schedlab_base::Result;
use schedlab_record::Better::Neither;

/// The row. It is read, never started.
pub const TOOL: Tool = Tool {
    name: "lkp",
    about: "comparison tables of LKP, as the kernel test robot mails them; each commit is a variant",
    figures: &[Row("<metric>", "", Neither, "a metric as LKP names it")],
    headline: &[],
    knows: |text| text.lines().map(unquoted).any(is_rule) && text.contains("%change"),
    read,
    ..SAVED_ONLY
};

/// A line without the marks of a mail that quotes it.
fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', ' ', '\t', '|']).trim_end()
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
    /// The last line that was not empty: the heads of the columns, commits that are cut.
    last: String,
    /// What comes next.
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
            // A long line of values or parameters may be broken; values have no ":" at their end.
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

    /// The names of that many columns: commits as they stand in the list, where the heads of the columns begin so.
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

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    let mut head = Head::default();
    // The readings of the table that is being read.
    let mut columns = 0;
    // Words of a row that a mail has broken.
    let mut broken = String::new();
    for line in text.lines().map(unquoted) {
        if is_rule(line) {
            columns = line.split_whitespace().count();
            let names = head.names(columns);
            all.extend(names.into_iter().map(|variant| Reading {
                load: head.load.clone(),
                variant: Some(variant),
                means: Some("LKP's runs".to_owned()),
                ..Reading::default()
            }));
            broken.clear();
            continue;
        }
        if columns == 0 || line.starts_with("====") {
            columns = 0;
            head.line(line);
            continue;
        }
        let joined = format!("{broken} {line}");
        broken.clear();
        match row(&joined, columns) {
            Line::Whole(name, values) => {
                let first = all.len() - columns;
                for (reading, word) in all[first..].iter_mut().zip(values) {
                    reading.values.insert(name.clone(), whole(word)?);
                }
            }
            Line::Begun => broken = joined,
            Line::Other => {}
        }
    }
    all.retain(|r| !r.values.is_empty());
    if all.is_empty() {
        Err(missing("LKP", "row 'VALUE  CHANGE  VALUE  METRIC' below its head"))
    } else {
        Ok(all)
    }
}

/// A line of a table.
enum Line<'a> {
    /// A metric and its value in each column.
    Whole(String, Vec<&'a str>),
    /// The begin of a row.
    Begun,
    /// Anything else.
    Other,
}

fn row(line: &str, columns: usize) -> Line<'_> {
    let mut words = line.split_whitespace().peekable();
    let mut values = Vec::new();
    let numeric =
        |w: &str| w.starts_with(|c: char| c.is_ascii_digit()) && !w.contains(':') && !w.ends_with('%');
    let change = |w: &str| w.starts_with(['+', '-']) && w[1..].starts_with(|c: char| c.is_ascii_digit());
    for column in 0..columns {
        // LKP prints no change where there is nothing to take it of.
        if column > 0 {
            words.next_if(|w| change(w));
        }
        match words.next() {
            Some(w) if numeric(w) => values.push(w),
            None if column > 0 => return Line::Begun,
            _ => return Line::Other,
        }
        // The sign before a deviation stands alone or with it.
        words.next_if(|w| w.chars().count() <= 2 && !w.contains(|c: char| c.is_ascii_alphanumeric()));
        words.next_if(|w| {
            let number = w.trim_start_matches(|c: char| !c.is_ascii()).trim_start_matches("+-");
            w.ends_with('%') && number.starts_with(|c: char| c.is_ascii_digit()) && !change(w)
        });
    }
    let name: Vec<&str> = words.collect();
    match name[..] {
        [] => Line::Begun,
        _ => Line::Whole(name.join("_").replace(char::is_control, "_"), values),
    }
}
