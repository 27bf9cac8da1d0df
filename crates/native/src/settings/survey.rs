//! This machine's settings, their values, and whether this user may change them.

use super::expand::{flipped, missing, place_of, refused, state_name};
use super::files::Files;
use super::form::Form;
use super::table::{Row, SETTINGS, Values};
use serde::Serialize;

/// Whether a setting can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Yes,
    /// This user may not change it.
    Refused,
    /// The machine lacks it.
    Missing,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SettingState {
    pub name: &'static str,
    /// Description, one line.
    pub about: &'static str,
    /// Accepted values, in words.
    pub values: String,
    pub access: Access,
    /// The current value in accepted words; `None` if it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Why it can't be changed, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Every setting of the table, with its state on this machine.
pub fn survey(files: &dyn Files) -> Vec<SettingState> {
    SETTINGS.iter().map(|row| seen(files, row)).collect()
}

fn seen(files: &dyn Files, row: &'static Row) -> SettingState {
    let told = |access, now, remedy| {
        let values = row.values.describe();
        SettingState { name: row.name, about: row.about, values, access, now, remedy }
    };
    let Some((place, paths)) = place_of(files, row) else {
        return told(Access::Missing, None, Some(missing(files, row).to_string()));
    };
    let now = if row.values == Values::IdleState {
        Some(deepest(files, &paths))
    } else {
        let values = paths.iter().filter_map(|p| files.read(p).ok());
        let mut values: Vec<String> = values
            .filter_map(|text| match place.form {
                Form::Feature => Some(text.split_whitespace().collect::<Vec<_>>().join(",")),
                form => form.current(&text, ""),
            })
            .collect();
        values.dedup();
        if place.inverted {
            values.iter_mut().for_each(|v| *v = flipped(v).to_owned());
        }
        Some(values.join(", ")).filter(|v| !v.is_empty())
    };
    if now.as_deref().is_some_and(|n| matches!(n, "notsupported" | "notimplemented")) {
        let says = format!("{} says '{}'", paths[0].display(), now.as_deref().unwrap_or_default());
        return told(Access::Missing, now, Some(says));
    }
    match paths.iter().find_map(|p| files.read(p).and_then(|_| files.writable(p)).err().map(|e| (p, e))) {
        None => told(Access::Yes, now, None),
        Some((path, e)) => {
            told(Access::Refused, now, Some(refused(row.name, path, "change", &e).to_string()))
        }
    }
}

/// The last enabled idle state of the first CPU.
fn deepest(files: &dyn Files, paths: &[std::path::PathBuf]) -> String {
    let allowed = |p: &&std::path::PathBuf| files.read(p).is_ok_and(|t| t.trim() == "0");
    let first: Vec<_> =
        paths.iter().take_while(|p| p.ancestors().nth(3) == paths[0].ancestors().nth(3)).collect();
    let last = first.iter().rposition(allowed);
    match last {
        Some(i) if i + 1 == first.len() => "all".to_owned(),
        Some(i) => state_name(files, first[i]),
        None => "none".to_owned(),
    }
}
