//! A tool, its figures and its readings: the data that each file of this folder defines.

use schedlab_base::{Error, Result, natural};
use schedlab_record::{Better, Figure, MAX_FIGURE};
use std::collections::BTreeMap;

pub struct Tool {
    /// Also the default name of its workload.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// The program; "" for a tool of which only saved files are read.
    pub program: &'static str,
    /// The Debian package that has it; "" if there is none.
    pub package: &'static str,
    /// Words before the user's own arguments.
    pub before: &'static [&'static str],
    /// Words that set the load, with `{load}` in them, after the user's arguments; empty if it has no load.
    pub load: &'static [&'static str],
    /// Words after the load.
    pub after: &'static [&'static str],
    /// The unit of a load ("groups").
    pub load_about: &'static str,
    /// The default load; "" for the tool's own.
    pub default_load: &'static str,
    /// A program that must run at the same time; empty if none.
    pub server: &'static [&'static str],
    /// Files, a port and a package that the server needs, if any.
    pub stage: Option<ServerSetup>,
    pub figures: &'static [FigureRow],
    /// The figures that tables show by default.
    pub headline: &'static [&'static str],
    /// Whether a text is this tool's output.
    pub knows: fn(&str) -> bool,
    /// Reads the results in a text; at least one.
    pub read: fn(&str) -> Result<Vec<Reading>>,
}

/// Defaults of a tool's row: nothing, and never started.
pub(super) const BLANK: Tool = Tool {
    name: "",
    about: "",
    program: "",
    package: "",
    before: &[],
    load: &[],
    after: &[],
    load_about: "",
    default_load: "",
    server: &[],
    stage: None,
    figures: &[],
    headline: &[],
    knows: |_| false,
    read: |_| Ok(Vec::new()),
};

/// Defaults of a row of perf.
pub(super) const PERF: Tool = Tool { program: "perf", package: "linux-perf", ..BLANK };

/// Things that a tool's server needs. In the tool's words and in the files, `{folder}` is a folder made for each run
/// and `{port}` a free port of 127.0.0.1.
pub struct ServerSetup {
    /// The Debian package that has the server.
    pub package: &'static str,
    /// The command that prepares the server's data before it starts; empty if none.
    pub setup: &'static [&'static str],
    /// Files of the folder: name and content.
    pub files: &'static [(&'static str, &'static str)],
}

/// A figure of a tool: its name after the workload's, unit, direction, definition. A word in angle brackets stands for
/// any word.
pub struct FigureRow(pub &'static str, pub &'static str, pub Better, pub &'static str);

/// One result of a tool.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reading {
    /// The load, if the text has it ("2 groups").
    pub load: Option<String>,
    /// Values by the names of `Tool::figures`, in their units.
    pub values: FigureValues,
    /// The values of each repeat, if the tool prints them.
    pub repeats: Vec<FigureValues>,
    /// The variant, if the text has several.
    pub variant: Option<String>,
    /// The number of repeats ("5 runs"), if the tool prints only means of them.
    pub means: Option<String>,
    /// Numbers of table lines that look like figures and can't be read.
    pub unread: Vec<usize>,
}

pub type FigureValues = BTreeMap<String, f64>;

impl Tool {
    pub(super) fn row(&self, name: &str) -> Option<&'static FigureRow> {
        self.figures.iter().find(|row| fits(row.0, name))
    }
    pub(super) fn figures(&self, workload: &str, values: &FigureValues) -> Result<BTreeMap<String, Figure>> {
        let one = |(name, value): (&String, &f64)| {
            let row = self.row(name).ok_or_else(|| {
                Error::internal(format!("{} has no row for its figure '{name}'", self.name))
            })?;
            let figure = Figure { value: *value, unit: row.1.to_owned(), better: row.2 };
            Ok((format!("{workload}.{name}"), figure))
        };
        values.iter().map(one).collect()
    }
}

/// Whether a name fits the pattern; `<word>` in a pattern stands for any text without blanks.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let hole = pattern.find('<').zip(pattern.find('>')).filter(|(open, close)| open < close);
    let Some((open, close)) = hole else { return pattern == name };
    let inner = name.strip_prefix(&pattern[..open]).and_then(|n| n.strip_suffix(&pattern[close + 1..]));
    inner.is_some_and(|n| !n.is_empty() && !n.contains(char::is_whitespace))
}

/// The names of all figures: those of `firsts` that exist, then the others in natural order (2 before 16).
pub fn firsts_first(figures: &BTreeMap<String, Figure>, firsts: &[String]) -> Vec<String> {
    let mut rest: Vec<&String> = figures.keys().filter(|name| !firsts.contains(name)).collect();
    rest.sort_by(|a, b| natural(a, b));
    let firsts = firsts.iter().filter(|name| figures.contains_key(*name));
    firsts.chain(rest).cloned().collect()
}

/// Refuses figures that are too large for a record.
pub(super) fn check_size(figures: &BTreeMap<String, Figure>) -> Result<()> {
    match figures.iter().find(|(_, figure)| !figure.is_fit()) {
        None => Ok(()),
        Some((name, figure)) => {
            let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
            let text = format!(
                "figure '{name}' is {:e}{unit}: more than {MAX_FIGURE:e} can't be compared",
                figure.value
            );
            Err(Error::input(text).help("the unit may be another one, or the place of the number"))
        }
    }
}
