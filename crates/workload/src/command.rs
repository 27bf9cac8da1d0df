//! A command as a workload: the command, the commands around it, and the figures that are taken from its output.
//!
//! This is plain data, like every [`crate::Spec`]: nothing is looked up or compiled here. Only live backends can run
//! it; the live agent starts it, the lab reads its output. All times are ns.

use schedlab_base::wrap::last_lines;
use schedlab_base::{Error, Ns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The default time-out of a command.
pub const DEFAULT_TIMEOUT: Ns = Ns::secs(600);
/// The longest time-out that a command may be given: a week.
pub const MAX_TIMEOUT: Ns = Ns::secs(7 * 86_400);
/// The variable that tells a command the seed of its run.
pub const SEED_VARIABLE: &str = "SCHEDLAB_SEED";

/// The whole outputs of a command; bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// The last lines for messages, from standard error if it has any, else from standard output.
    pub fn last_lines(&self) -> String {
        last_lines(if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr })
    }
}

/// A command without placeholders.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Name of the workload, in front of its figures' names.
    pub name: String,
    /// The known tool whose output this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The parameters that tables show: `run` is the command in one line.
    pub params: BTreeMap<String, String>,
    /// The command and its arguments; at least one word.
    pub argv: Vec<String>,
    /// Variables set for it and for `setup`, `server` and `cleanup`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The folder it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A command that runs before it, outside the measured time; empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// A command that runs beside it, started before and killed after; empty: none. Its CPU time is the workload's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server: Vec<String>,
    /// A command that runs after it, whether it failed or not; empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleanup: Vec<String>,
    /// Files of a folder that is made for each run, by name. `{folder}` in the words above and in these files is that
    /// folder, `{port}` a free port of 127.0.0.1 on which the server must answer. `None`: there is no such folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<BTreeMap<String, String>>,
    /// The command, `setup` and `cleanup` are each ended after this time.
    pub timeout: Ns,
    /// Exit codes that count as success.
    pub exit_codes: Vec<u8>,
    /// Figures taken from its output, beside those of the tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Extract>,
}

impl CommandSpec {
    /// A command by itself, with defaults for everything else.
    pub fn new(name: &str, argv: Vec<String>) -> CommandSpec {
        let params = BTreeMap::from([("run".to_owned(), one_line(&argv))]);
        CommandSpec {
            name: name.to_owned(),
            tool: None,
            params,
            argv,
            env: BTreeMap::new(),
            cwd: None,
            setup: Vec::new(),
            server: Vec::new(),
            cleanup: Vec::new(),
            stage: None,
            timeout: DEFAULT_TIMEOUT,
            exit_codes: vec![0],
            metrics: Vec::new(),
        }
    }
}

/// The error of backends that have no live kernel to run a command on.
pub fn only_live() -> Error {
    Error::machine("a command can only be run live").help("use --backend host")
}

/// How one figure is taken from a command's output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Extract {
    /// Full dotted name, the workload's in front.
    pub name: String,
    /// The place of the figure in the output.
    #[serde(flatten)]
    pub place: Place,
    /// The output that is read.
    pub source: Source,
    /// The one that is taken when there are several.
    pub take: Take,
    /// Unit as the command prints it ("s", "usec", "MB/s"; "" for counts).
    pub unit: String,
    /// "lower", "higher" or "neither".
    pub better: String,
}

/// The place of a figure in a text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The match of a regular expression's only capture group.
    Regex(String),
    /// A JSON pointer (RFC 6901) into the text as JSON.
    JsonPointer(String),
}

/// One of a command's outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Which match counts when a figure is found at several places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// There is one only; several are an error.
    Only,
    First,
    Last,
    /// All of them, as a series of whole numbers or times; results are its statistics.
    All,
}

/// The words as one line that [`split`] splits into the same words.
pub fn one_line(words: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%{}".contains(c);
    let quoted = |w: &String| match w {
        w if !w.is_empty() && w.chars().all(plain) => w.clone(),
        w => format!("'{}'", w.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Splits a line into words as a shell does: blanks separate; single quotes keep all, double quotes all but `\"` and
/// `\\`, a backslash keeps the next character. Nothing else is special: no variables, no patterns, no pipes.
///
/// # Errors
/// A message when a quote is not closed, or a backslash ends the line.
pub fn split(line: &str) -> std::result::Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => word.get_or_insert_default().push_str(&quoted(&mut rest, '\'')?),
            '"' => word.get_or_insert_default().push_str(&quoted(&mut rest, '"')?),
            '\\' => {
                let next = rest.next().ok_or("nothing follows the backslash at its end")?;
                word.get_or_insert_default().push(next);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The text up to the closing quote.
fn quoted(rest: &mut std::str::Chars<'_>, close: char) -> std::result::Result<String, &'static str> {
    let mut text = String::new();
    while let Some(c) = rest.next() {
        match c {
            c if c == close => return Ok(text),
            '\\' if close == '"' => match rest.next() {
                Some(c @ ('"' | '\\')) => text.push(c),
                Some(c) => text.extend(['\\', c]),
                None => break,
            },
            c => text.push(c),
        }
    }
    Err(if close == '"' { "a double quote is not closed" } else { "a single quote is not closed" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        for (line, want) in [
            ("hackbench  -g 2\t-l 1000 ", &["hackbench", "-g", "2", "-l", "1000"][..]),
            (r#"a 'b c' "d \" e" f\ g"#, &["a", "b c", "d \" e", "f g"]),
            (r#"x"y"'z' '' "\n""#, &["xyz", "", r"\n"]),
            ("$HOME | *", &["$HOME", "|", "*"]),
            ("  ", &[]),
        ] {
            assert_eq!(split(line).unwrap(), want, "{line}");
        }
        for (line, why) in [("a 'b", "single"), ("a \"b\\", "double"), ("a\\", "backslash")] {
            assert!(split(line).unwrap_err().contains(why), "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_put_on_one_line_comes_apart_again(words in proptest::collection::vec(".{0,8}", 0..5)) {
            prop_assert_eq!(split(&one_line(&words)).unwrap(), words);
        }
        #[test]
        fn any_line_is_split_or_refused(line in ".{0,60}") {
            let _ = split(&line);
        }
    }
}
