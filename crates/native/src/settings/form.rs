//! Forms of the kernel's files. Some read back in another form than they are written.
//!
//! `sched/features` accepts one name and shows all; `sched/preempt` shows every model, with the chosen one in
//! parentheses; `cgroup.subtree_control` accepts `+cpu` and shows `cpu`. A *current* value has the form in which it
//! would be written.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a file reads back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The value and a newline.
    Plain,
    /// All values in a row, with the current one in parentheses: `none voluntary (full)`.
    Bracketed,
    /// Every feature by name, with the prefix `NO_` if off; a write accepts one name.
    Feature,
    /// The names of enabled controllers; a write accepts one name after `+` or `-`.
    Controller,
    /// A control group: not a file but a folder, which exists ([`MADE`]) or not ([`ABSENT`]).
    Folder,
}

/// The value of an existing folder.
pub const MADE: &str = "made";
/// The value of a missing folder.
pub const ABSENT: &str = "absent";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Write {
    pub setting: String,
    pub path: PathBuf,
    pub form: Form,
    pub value: String,
}

/// The feature in `NAME` or `NO_NAME`.
pub fn feature_name(text: &str) -> &str {
    text.strip_prefix("NO_").unwrap_or(text)
}

impl Form {
    /// The current value in the file's `text` of the item that `value` would change; `None` if the text lacks it.
    pub fn current(self, text: &str, value: &str) -> Option<String> {
        match self {
            Form::Plain | Form::Folder => Some(text.trim().to_owned()),
            Form::Bracketed => {
                let (_, rest) = text.split_once('(')?;
                rest.split_once(')').map(|(word, _)| word.trim().to_owned())
            }
            Form::Feature => {
                let name = feature_name(value);
                text.split_whitespace().find(|word| feature_name(word) == name).map(str::to_owned)
            }
            Form::Controller => {
                let name = value.trim_start_matches(['+', '-']);
                let sign = if text.split_whitespace().any(|word| word == name) { '+' } else { '-' };
                Some(format!("{sign}{name}"))
            }
        }
    }
    /// The value whose write restores the state in which the file read `text`.
    pub fn old(self, text: &str, value: &str) -> Option<String> {
        if self == Form::Plain { Some(text.to_owned()) } else { self.current(text, value) }
    }
    /// Whether two values mean the same: numbers by value, words by letter.
    pub fn same(a: &str, b: &str) -> bool {
        let (a, b) = (a.trim(), b.trim());
        let number = |text: &str| text.parse::<i128>().ok();
        a == b || number(a).is_some_and(|n| number(b) == Some(n))
    }
}

impl Write {
    /// Whether both change the same item in the same file.
    pub fn same_knob(&self, other: &Write) -> bool {
        self.path == other.path
            && (self.form != Form::Feature || feature_name(&self.value) == feature_name(&other.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "PLACE_LAG PLACE_DEADLINE_INITIAL NO_NEXT_BUDDY NO_HRTICK TTWU_QUEUE\n";

    #[test]
    fn features_read_otherwise_than_they_are_written() {
        let now = |value| Form::Feature.current(LIST, value);
        assert_eq!(now("NEXT_BUDDY").as_deref(), Some("NO_NEXT_BUDDY"));
        assert_eq!(now("NO_NEXT_BUDDY").as_deref(), Some("NO_NEXT_BUDDY"));
        assert_eq!(now("NO_PLACE_LAG").as_deref(), Some("PLACE_LAG"));
        assert_eq!(now("LAG"), None, "a part of a name does not count");
    }

    #[test]
    fn a_controller_is_on_if_it_is_listed() {
        let now = |text: &str| Form::Controller.current(text, "+cpu").unwrap();
        assert_eq!([now("cpuset cpu io\n"), now("cpuset\n"), now("")], ["+cpu", "-cpu", "-cpu"]);
        assert_eq!(Form::Controller.old("memory\n", "+cpu").as_deref(), Some("-cpu"));
    }

    #[test]
    fn the_chosen_word_is_in_parentheses() {
        assert_eq!(Form::Bracketed.current("none voluntary (full) lazy\n", "lazy").as_deref(), Some("full"));
        assert_eq!(Form::Bracketed.current("full\n", "lazy"), None);
    }

    #[test]
    fn plain_values_are_kept_to_the_byte_and_compared_by_meaning() {
        assert_eq!(Form::Plain.old(" 7\n", "8").as_deref(), Some(" 7\n"));
        assert!(Form::same("0700000", "700000\n") && Form::same("powersave\n", "powersave"));
        assert!(!Form::same("1", "on") && !Form::same("", "0"));
    }
}
