//! A command as a workload: the command, its auxiliary commands, and the figures in its output.
//!
//! This is plain data, like every [`crate::Spec`]: nothing is looked up or compiled here. Only live backends can run
//! it: the live agent starts it, the lab reads its output. All times are ns.

use schedlab_base::wrap::last_lines;
use schedlab_base::{CpuSet, Error, Ns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const DEFAULT_TIMEOUT: Ns = Ns::secs(600);
/// The longest time-out: a week.
pub const MAX_TIMEOUT: Ns = Ns::secs(7 * 86_400);
/// The metric of a command that is not said otherwise: from its start until its process had ended.
pub const ELAPSED: &str = "command.elapsed";
/// The environment variable with the run's seed.
pub const SEED_VARIABLE: &str = "SCHEDLAB_SEED";

/// A command's complete outputs; invalid UTF-8 is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    /// The last lines for messages, from standard error if it is not empty, else from standard output.
    pub fn last_lines(&self) -> String {
        last_lines(if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr })
    }
}

/// A command with all placeholders replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Name of the workload, the prefix of its figures.
    pub name: String,
    /// The known tool that produces the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The parameters in tables: `run` is the command in one line.
    pub params: BTreeMap<String, String>,
    /// The command and its arguments; at least one word.
    pub argv: Vec<String>,
    /// Environment variables for it and for `setup`, `server` and `cleanup`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The working folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A command to run before it, outside the measured time; empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// A command to run in parallel, started before and killed after; empty: none. Its CPU time counts as the
    /// workload's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server: Vec<String>,
    /// A command to run after it, even if it failed; empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleanup: Vec<String>,
    /// Files by name, for a folder that is made for each run. `{folder}` in the words above and in these files is that
    /// folder, `{port}` a free port of 127.0.0.1 on which the server must answer. `None`: no such folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<BTreeMap<String, String>>,
    /// CPUs that it and its server may use; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// Time limit of the command, and of `setup` and `cleanup` each.
    pub timeout: Ns,
    /// Exit codes that count as success.
    pub exit_codes: Vec<u8>,
    /// Figures from its output, in addition to the tool's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Extract>,
}

impl CommandSpec {
    /// A command with defaults for everything else.
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
            cpus: None,
            timeout: DEFAULT_TIMEOUT,
            exit_codes: vec![0],
            metrics: Vec::new(),
        }
    }
}

/// The error of backends without a live kernel.
pub fn only_live() -> Error {
    Error::machine("a command can only be run live").help("use --backend host")
}

/// The rule that finds one figure in a command's output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Extract {
    /// Full dotted name, including the workload's.
    pub name: String,
    #[serde(flatten)]
    pub place: Place,
    pub source: Source,
    /// Which match counts if there are several.
    pub take: Take,
    /// The command's unit ("s", "usec", "MB/s"; "" for counts).
    pub unit: String,
    /// Which values are better: "lower", "higher" or "neither".
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

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Stdout,
    Stderr,
}

/// Which match counts if there are several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// The only one; several are an error.
    Only,
    First,
    Last,
    /// All, as a series of whole numbers or times; the results are its statistics.
    All,
}

/// Joins words into a line that [`split`] splits into the same words.
pub fn one_line(words: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%{}".contains(c);
    let quoted = |w: &String| match w {
        w if !w.is_empty() && w.chars().all(plain) => w.clone(),
        w => format!("'{}'", w.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Splits a line into words like a shell: blanks separate; single quotes keep everything, double quotes everything
/// except `\"` and `\\`, a backslash keeps the next character. There are no variables, patterns or pipes.
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
        fn joined_words_split_into_the_same_words(words in proptest::collection::vec(".{0,8}", 0..5)) {
            prop_assert_eq!(split(&one_line(&words)).unwrap(), words);
        }
        #[test]
        fn any_line_is_split_or_refused(line in ".{0,60}") {
            let _ = split(&line);
        }
    }
}
