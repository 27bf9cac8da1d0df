//! Commands and what they print, as text: each file of `tests/texts` holds cases, each case in a folder of its own.
//!
//! | line | meaning |
//! | --- | --- |
//! | `## NAME` | a case begins; it has `small.toml` |
//! | `needs source SERIES` | the rest is left out unless the cache has a source package of that series |
//! | `+ FILE` | a file, whose text are the following lines, indented by four spaces |
//! | `+ FILE < NAME` | a file that is the text of another, of the case or of `tests`; ` s/A/B/` replaces a part of it |
//! | `$ schedlab WORDS` | runs it and expects exit code 0; `2$` another, `?$` any but 0; `NAME=VALUE` may precede |
//! | <code>&#124; TEXT</code> | standard output has this text; `\n` is the end of a line |
//! | `^ TEXT` | standard output begins with it |
//! | `~ TEXT` | standard output has it, wherever its lines are broken |
//! | `! TEXT` | standard error has it |
//! | `2\| TEXT`, `1! TEXT` | it has it so many times |
//! | `- TEXT` | neither has it |
//! | `/PATH VALUE` | standard output is JSON that has it: `#3` is a length, `~TEXT` a part, `>3` and `<3` bounds |
//! | `> FILE` | keeps standard output in the case's folder |
//! | `in FILE` | the lines that follow are about the text of this file, as if it were standard output |
//! | `== FILE`, `!= FILE` | standard output is the text of that file, or another |
//! | `same FILE FILE` | two files have one text |
//! | `narrow` | no line of standard output is wider than 78 columns |
//! | `empty`, `quiet` | standard output, or standard error, is empty |
//! | `lines N` | standard error has so many lines |
//! | `has PATH`, `lacks PATH` | a file or folder is there, or is not |
//!
//! A case has at least one line that checks something, beside the exit codes.
//!
//! In a path of JSON `*` stands for all elements and gives a list, `@` for an object's keys, `[NAME=VALUE]` for the
//! first element that has it, `%8` for eight characters of a path's last part. `{FILE:/PATH}` in a line is the text at
//! that path of a kept file. A command that ends with code 2 prints no result, one error of a few lines,
//! and changes no file. A file of `tests` that `==` or `same` compares is written anew under SCHEDLAB_BLESS.

use crate::code::has_source_of;
use crate::common::{Lab, Words, files, texts};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Most lines of an error, empty ones left out.
const ERROR_LINES: usize = 6;

/// What a command has printed.
struct Printed {
    line: String,
    out: String,
    err: String,
}

/// The value at a path.
fn at(value: &Value, path: &str) -> Value {
    let Some(rest) = path.strip_prefix('/') else { return value.clone() };
    let (name, rest) = rest.find('/').map_or((rest, ""), |end| rest.split_at(end));
    let elements = || value.as_array().into_iter().flatten();
    if name == "*" {
        let values = value.as_object().into_iter().flat_map(|map| map.values());
        return elements().chain(values).map(|v| at(v, rest)).collect();
    }
    if name == "@" {
        return value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect();
    }
    if let Some((key, wanted)) = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')?.split_once('=')) {
        return elements().find(|v| v[key] == wanted).map_or(Value::Null, |v| at(v, rest));
    }
    if let Some(length) = name.strip_prefix('%') {
        let last = value.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        return last.chars().take(length.parse().unwrap()).collect::<String>().into();
    }
    match name.parse::<usize>() {
        Ok(index) => at(&value[index], rest),
        Err(_) => at(&value[name], rest),
    }
}

/// Whether a value is as a line says.
fn is_as(value: &Value, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().unwrap();
    match wanted.split_at(1) {
        ("#", length) => value.as_array().is_some_and(|all| all.len() == number(length) as usize),
        ("~", part) => value.as_str().is_some_and(|text| text.contains(part)),
        (">", least) => value.as_f64().is_some_and(|n| n > number(least)),
        ("<", most) => value.as_f64().is_some_and(|n| n < number(most)),
        _ => *value == serde_json::from_str::<Value>(wanted).unwrap_or_else(|e| panic!("{wanted}: {e}")),
    }
}

struct Case<'a> {
    name: &'a str,
    lab: Lab,
    printed: Printed,
    faults: Vec<String>,
}

impl Case<'_> {
    /// The place of a file: in the case's folder, or in `tests`.
    fn place(&self, file: &str) -> PathBuf {
        let own = self.lab.path().join(file);
        let shipped = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        if own.exists() { own } else { shipped() }
    }
    fn text(&self, file: &str) -> String {
        let path = self.place(file);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
    /// Whether a file has a text.
    fn holds(&self, file: &str, text: &str) -> bool {
        let is_golden = !self.lab.path().join(file).exists();
        if is_golden && std::env::var_os("SCHEDLAB_BLESS").is_some() {
            std::fs::write(self.place(file), text).unwrap();
        }
        self.text(file) == text
    }
    /// Writes the file of a line `+ `, which may be made from another.
    fn file(&self, line: &str, body: &str) {
        let (name, text) = match line.split_once(" < ") {
            None => (line, body.to_owned()),
            Some((name, source)) => {
                let mut parts = source.split(" s/");
                let text = self.text(parts.next().unwrap());
                let replaced = |text: String, change: &str| {
                    let (from, to) = change.trim_end_matches('/').split_once('/').unwrap();
                    assert!(text.contains(&unescaped(from)), "{}: {line}", self.name);
                    text.replace(&unescaped(from), &unescaped(to))
                };
                (name, parts.fold(text, replaced))
            }
        };
        let path = self.lab.path().join(name);
        if name.ends_with('/') {
            return std::fs::create_dir_all(path).unwrap();
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    fn run(&mut self, code: &str, line: &str) {
        let filled: Vec<String> = line.words().into_iter().map(|w| self.filled(&w)).collect();
        let start = filled.iter().position(|w| w == "schedlab").unwrap_or_else(|| panic!("{line}"));
        let arguments: Vec<&str> = filled[start + 1..].iter().map(String::as_str).collect();
        let mut command = self.lab.command(&arguments);
        command.envs(filled[..start].iter().map(|w| w.split_once('=').unwrap()));
        let before = files(self.lab.path());
        let output = command.output().unwrap();
        let (out, err) = texts(&output);
        self.printed = Printed { line: line.to_owned(), out, err };
        let ended = output.status.code().unwrap();
        let wanted = match code {
            "?" => ended != 0,
            "" => ended == 0,
            number => number.parse() == Ok(ended),
        };
        self.check(wanted, &format!("exit code {ended}"));
        if ended == 2 && !arguments.is_empty() {
            let Printed { out, err, .. } = &self.printed;
            let plain = out.is_empty()
                && err.matches("error: ").count() == 1
                && err.lines().filter(|l| !l.is_empty()).count() <= ERROR_LINES;
            self.check(plain, "one error of a few lines");
            self.check(files(self.lab.path()) == before, "no file is changed");
        }
    }
    /// A word or text with what is at a path of a kept file in its place.
    fn filled(&self, word: &str) -> String {
        let word = unescaped(word);
        let parts = word.split_once('{').and_then(|(head, rest)| {
            let (place, tail) = rest.split_once('}')?;
            Some((head, place.split_once(":/")?, tail))
        });
        let Some((head, (file, path), tail)) = parts else { return word };
        let path = &format!("/{path}");
        let value: Value = serde_json::from_str(&self.text(file)).unwrap();
        format!("{head}{}{tail}", at(&value, path).as_str().unwrap_or_else(|| panic!("{word}")))
    }
    fn check(&mut self, holds: bool, what: &str) {
        if !holds {
            let Printed { line, out, err } = &self.printed;
            self.faults.push(format!("{}\n$ {line}\n{what}\n{out}\n{err}", self.name));
        }
    }
    /// Checks a line that says what the last command printed.
    fn expect(&mut self, line: &str) {
        let mut within = false;
        let end = line.find(|c| {
            within = (within || c == '[') && c != ']';
            c == ' ' && !within
        });
        let (mark, text) = end.map_or((line, ""), |end| (&line[..end], &line[end + 1..]));
        let text = self.filled(text);
        let Printed { out, err, .. } = &self.printed;
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let holds = match mark {
            "|" => out.contains(&text),
            "^" => out.starts_with(&text),
            "~" => flat(out).contains(&text),
            "!" => err.contains(&text),
            "-" => !out.contains(&text) && !err.contains(&text),
            "==" => self.holds(&text, out),
            "!=" => *out != self.text(&text),
            "same" => {
                let (file, golden) = text.split_once(' ').unwrap();
                self.holds(golden, &self.text(file))
            }
            "narrow" => out.lines().all(|l| l.chars().count() <= 78),
            "empty" => out.is_empty(),
            "quiet" => err.is_empty(),
            "lines" => err.lines().count().to_string() == text,
            "in" => {
                self.printed.out = self.text(&text);
                true
            }
            "has" => self.lab.path().join(&text).exists(),
            "lacks" => !self.lab.path().join(&text).exists(),
            ">" => {
                self.lab.write(&text, out);
                true
            }
            path if path.starts_with('/') => {
                serde_json::from_str(out).is_ok_and(|json: Value| is_as(&at(&json, path), &text))
            }
            counted => {
                let number = counted.strip_suffix(['|', '!']).and_then(|number| number.parse().ok());
                let number: usize =
                    number.unwrap_or_else(|| panic!("{}: '{line}' is not a line of a case", self.name));
                let whole = if counted.ends_with('!') { err } else { out };
                whole.matches(text.as_str()).count() == number
            }
        };
        self.check(holds, line);
    }
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t")
}

/// The expected exit code and the words of a line that runs a command.
fn command_of(line: &str) -> Option<(&str, &str)> {
    line.split_once("$ ").filter(|(code, _)| *code == "?" || code.chars().all(|c| c.is_ascii_digit()))
}

/// Whether a line of a case checks something: a text that is empty is found anywhere.
fn is_check(line: &str) -> bool {
    let (mark, text) = line.split_once(' ').unwrap_or((line, ""));
    let is_other = mark.is_empty() || ["#", "+", "needs", ">", "in"].contains(&mark);
    let takes_text = mark.ends_with(['|', '!', '^', '~', '-']);
    !is_other && command_of(line).is_none() && !(takes_text && text.trim().is_empty())
}

/// Works through a case and gives its faults.
fn worked(text: &str) -> Vec<String> {
    let (name, body) = text.split_once('\n').unwrap_or((text, ""));
    if !body.lines().any(is_check) {
        return vec![format!("{name}: no line of the case checks anything")];
    }
    let printed = Printed { line: String::new(), out: String::new(), err: String::new() };
    let mut case = Case { name, lab: Lab::new(), printed, faults: Vec::new() };
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        if let Some(series) = line.strip_prefix("needs source ") {
            if !has_source_of(series) {
                break;
            }
            continue;
        }
        if let Some(file) = line.strip_prefix("+ ") {
            let file = if file.contains(" < {") { case.filled(file) } else { file.to_owned() };
            let mut text = String::new();
            while let Some(next) = lines.next_if(|l| l.starts_with("    ")) {
                text += &format!("{}\n", &next[4..]);
            }
            case.file(&file, &text);
        } else if let Some((code, command)) = command_of(line) {
            case.run(code, command);
        } else {
            case.expect(line);
        }
    }
    case.faults
}

fn holds(name: &str) {
    let path = format!("{}/tests/texts/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read_to_string(path).unwrap();
    let cases: Vec<&str> = file.split("\n## ").skip(1).collect();
    assert!(!cases.is_empty(), "{name} has no case");
    let faults: Vec<String> = cases.iter().flat_map(|case| worked(case)).collect();
    assert!(faults.is_empty(), "{} faults in texts/{name}.txt\n\n{}", faults.len(), faults.join("\n---\n"));
}

macro_rules! files_of_cases {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*
    };
}

files_of_cases! {
    background bad_input bench code code_wrong external filters forms groups import kernels live new reading replay
    report runs schedstat searches settings suite validate
}

#[test]
fn a_line_that_does_not_hold_is_a_fault() {
    let faults = |lines: &str| worked(&format!("a case\n$ schedlab machine smp-2 --json\n{lines}")).len();
    assert_eq!(
        faults("/schema \"schedlab/machine/1\"\n| schedlab\n^ {\n- cores = 3\n/domains #2\nlacks runs"),
        1
    );
    let wrong = [
        "| bananas",
        "^ bananas",
        "! x",
        "- schema",
        "/schema \"x\"",
        "/schema ~bananas",
        "empty",
        "has runs",
    ];
    for line in wrong {
        assert_eq!(faults(line), 1, "{line}");
    }
    assert_eq!(worked("a case\n2$ schedlab machine smp-2\nhas small.toml").len(), 1, "another exit code");
}

#[test]
fn a_case_that_checks_nothing_is_malformed() {
    for lines in ["> kept", "+ file\n    | text", "| ", "needs source 99.9", "# | text"] {
        let faults = worked(&format!("a case\n{lines}\n$ schedlab machine smp-2"));
        assert!(faults.concat().contains("no line of the case checks"), "{lines}: {faults:?}");
    }
}

#[test]
fn a_path_leads_to_values() {
    let value = json!({ "cells": [{ "load": "a", "runs": 3 }, { "load": "b", "runs": 4 }] });
    assert_eq!(at(&value, "/cells/*/load"), json!(["a", "b"]));
    assert_eq!(at(&value, "/cells/[load=b]/runs"), json!(4));
    assert!(is_as(&at(&value, "/cells"), "#2") && is_as(&at(&value, "/cells/1/runs"), ">3"));
    assert!(is_as(&at(&value, "/cells/0/load"), "~a") && !is_as(&at(&value, "/cells/0/load"), "\"b\""));
}
