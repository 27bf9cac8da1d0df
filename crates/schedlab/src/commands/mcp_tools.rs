//! Tools for agents: each is a command of the command line, and its parameters are the command's arguments.
//!
//! Nothing is written twice: names, help, choices and numbers of values come from the command itself. A call becomes
//! the words of a command line, which the answer repeats, so that a person can run it again. A value never stands where
//! it could be taken for an option: options are written `--name=value`, and what has no name stands behind `--`.

use crate::cli;
use clap::{Arg, ArgAction, Command};
use schedlab_base::{Error, Result};
use serde_json::{Map, Value, json};

/// A row of the table of tools: the tool's name, and the command's words.
const TOOLS: &[(&str, &[&str])] = &[
    ("run", &["run"]),
    ("suite", &["suite"]),
    ("try", &["try"]),
    ("compare", &["compare"]),
    ("explain", &["explain"]),
    ("runs", &["runs"]),
    ("limits", &["limits"]),
    ("gate", &["gate"]),
    ("history", &["kernel", "history"]),
    ("names", &["new"]),
];
/// Arguments about how a result is shown or where else it is written: a tool has one form.
const WITHOUT: &[&str] =
    &["json", "format", "plot", "junit", "print", "color", "quiet", "timing", "help", "predict"];
/// A file's text, for agents that have no files.
const TEXT: &str = "toml";
const WITH_TEXT: &str = "run";

/// A tool with its command.
pub struct Tool {
    pub name: &'static str,
    words: &'static [&'static str],
    command: Command,
}

/// What a call asks for: words of the command line, and the experiment's text if it came with the call.
pub struct Asked {
    pub words: Vec<String>,
    pub text: Option<String>,
}

/// All tools, in the table's order.
pub fn all() -> Vec<Tool> {
    let root = cli::command();
    let found = |words: &[&str]| words.iter().try_fold(&root, |at, word| at.find_subcommand(word)).cloned();
    TOOLS.iter().filter_map(|&(name, words)| Some(Tool { name, words, command: found(words)? })).collect()
}

impl Tool {
    fn arguments(&self) -> impl Iterator<Item = &Arg> {
        let shown = |arg: &&Arg| !arg.is_hide_set() && !WITHOUT.contains(&arg.get_id().as_str());
        self.command.get_arguments().filter(shown)
    }
    /// Name, description and schema of the parameters, as the protocol lists a tool.
    pub fn listed(&self) -> Value {
        let about = self.command.get_about().map(ToString::to_string).unwrap_or_default();
        let mut properties: Map<String, Value> =
            self.arguments().map(|arg| (name(arg), schema(arg))).collect();
        let mut required: Vec<String> = self.arguments().filter(|a| a.is_required_set()).map(name).collect();
        if self.name == WITH_TEXT {
            let text =
                "The experiment's text, instead of its file; it is kept as a file in the working folder";
            properties.insert(TEXT.to_owned(), json!({"type": "string", "description": text}));
            required.clear();
        }
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        json!({"name": self.name, "description": about, "inputSchema": schema})
    }
    /// The words of a call.
    ///
    /// # Errors
    /// For an unknown parameter, or a value of another type.
    pub fn asked(&self, given: &Map<String, Value>) -> Result<Asked> {
        let known: Vec<(String, &Arg)> = self.arguments().map(|arg| (name(arg), arg)).collect();
        let mut words: Vec<String> = self.words.iter().map(ToString::to_string).collect();
        let (mut text, mut behind) = (None, Vec::new());
        // Many clients send what is not given as null.
        for (parameter, value) in given.iter().filter(|(_, value)| !value.is_null()) {
            if parameter == TEXT && self.name == WITH_TEXT {
                text = Some(values(parameter, value)?.concat());
                continue;
            }
            let Some((_, arg)) = known.iter().find(|(known, _)| known == parameter) else {
                return Err(Error::unknown(
                    "parameter",
                    parameter,
                    known.iter().map(|(name, _)| name.as_str()),
                ));
            };
            match (arg.get_long(), value) {
                (Some(long), Value::Bool(is_on)) if !arg.get_action().takes_values() => {
                    words.extend(is_on.then(|| format!("--{long}")));
                }
                (Some(long), _) if arg.get_action().takes_values() => {
                    words.extend(values(parameter, value)?.iter().map(|one| format!("--{long}={one}")));
                }
                (None, _) => behind.extend(values(parameter, value)?),
                _ => return Err(Error::input(format!("{parameter} is true or false, not {value}"))),
            }
        }
        words.push("--json".to_owned());
        if !behind.is_empty() || text.is_some() {
            words.push("--".to_owned());
        }
        words.extend(behind);
        Ok(Asked { words, text })
    }
}

/// The parameter's name: that of the option, or of the place.
fn name(arg: &Arg) -> String {
    arg.get_long().unwrap_or_else(|| arg.get_id().as_str()).replace('-', "_")
}

/// The schema of one parameter.
fn schema(arg: &Arg) -> Value {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    if !arg.get_action().takes_values() {
        return json!({"type": "boolean", "description": help});
    }
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|v| !v.is_hide_set())
        .map(|v| v.get_name().to_owned())
        .collect();
    let mut one = json!({"type": ["string", "number"]});
    if !choices.is_empty() {
        one = json!({"enum": choices});
    }
    let has_several = matches!(arg.get_action(), ArgAction::Append)
        || arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    if has_several {
        return json!({"type": "array", "items": one, "description": help});
    }
    one["description"] = help.into();
    one
}

/// The words of a value: a text or a number, or a list of these.
fn values(parameter: &str, value: &Value) -> Result<Vec<String>> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Number(number) => Ok(vec![number.to_string()]),
        Value::Array(all) if !all.iter().any(Value::is_array) => {
            Ok(all.iter().map(|one| values(parameter, one)).collect::<Result<Vec<_>>>()?.concat())
        }
        other => {
            Err(Error::input(format!("{parameter} takes a text, a number, or a list of them, not {other}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        all().into_iter().find(|tool| tool.name == name).unwrap()
    }
    fn words(name: &str, given: &Value) -> Result<Vec<String>> {
        tool(name).asked(given.as_object().unwrap()).map(|asked| asked.words)
    }

    #[test]
    fn every_row_names_a_command_that_prints_json() {
        assert_eq!(all().len(), TOOLS.len());
        for tool in all() {
            assert!(tool.command.get_arguments().any(|arg| arg.get_id() == "json"), "{}", tool.name);
            assert!(!tool.listed()["description"].as_str().unwrap().is_empty(), "{}", tool.name);
        }
    }

    #[test]
    fn parameters_are_the_options_of_the_command() {
        let listed = tool("run").listed();
        let properties = &listed["inputSchema"]["properties"];
        assert_eq!(properties["metric"]["type"], "array");
        assert_eq!(properties["all_rows"]["type"], "boolean");
        assert!(properties["runs"]["description"].as_str().unwrap().contains("Runs of each cell"));
        assert!(properties.get("json").is_none() && properties.get("plot").is_none(), "{properties}");
        assert!(tool("compare").listed()["inputSchema"]["properties"].get("toml").is_none());
    }

    #[test]
    fn a_value_is_never_taken_for_an_option() {
        let given = json!({"file": "--out=/elsewhere", "runs": 3, "metric": ["a", "--b"], "all_rows": true});
        let wanted = [
            "run",
            "--all-rows",
            "--metric=a",
            "--metric=--b",
            "--runs=3",
            "--json",
            "--",
            "--out=/elsewhere",
        ];
        assert_eq!(words("run", &given).unwrap(), wanted);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let said = |given| words("run", &given).unwrap_err().to_string();
        assert!(said(json!({"metrik": "a"})).contains("metric"));
        assert!(said(json!({"all_rows": "yes"})).contains("true or false"));
        assert!(said(json!({"runs": {"n": 3}})).contains("runs takes"));
        assert!(said(json!({"json": true})).contains("unknown parameter"));
    }
}
