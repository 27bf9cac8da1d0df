//! The names that can be written into an experiment, each with a line about it. They come from the tables that the
//! reader of experiments uses.

use crate::output;
use schedlab_base::{Error, Result};
use schedlab_kernel::PROFILES;
use schedlab_kernel::feature::FEATURES;
use schedlab_kernel::tunable::{TUNABLES, TunableRow};
use schedlab_lab::ask::experiment::keys::{SECTIONS, Section};
use schedlab_machine::Machine;
use schedlab_record::{METRICS, Metric};
use schedlab_report::text::wrap;
use schedlab_workload::BENCHMARKS;
use serde::Serialize;

#[derive(Serialize)]
struct Name {
    name: String,
    about: String,
}

pub struct NameList {
    name: &'static str,
    about: &'static str,
    list: fn() -> Vec<Name>,
}

const LISTS: &[NameList] = &[
    NameList { name: "keys", about: "the tables of an experiment and their keys", list: keys },
    NameList {
        name: "workloads",
        about: "[workload] name = ...; parameters: schedlab bench NAME --help",
        list: workloads,
    },
    NameList { name: "machines", about: "machine = ...; one of them: schedlab machine NAME", list: machines },
    NameList {
        name: "kernels",
        about: "[[variant]] kernel = ...; images: schedlab kernel list",
        list: kernels,
    },
    NameList { name: "features", about: "[[variant]] features = [\"NAME\", \"NO_NAME\"]", list: features },
    NameList { name: "tunables", about: "[[variant]] tunables = { NAME = VALUE }", list: tunables },
    NameList { name: "metrics", about: "metrics = [...]; more about them: docs/metrics.md", list: metrics },
];

impl NameList {
    /// The list of that name; `None`, the list of lists, for an empty name.
    ///
    /// # Errors
    /// When the list does not exist; the error offers the nearest name.
    pub fn parse(word: &str) -> Result<Option<&'static NameList>> {
        if word.is_empty() {
            return Ok(None);
        }
        let found = LISTS.iter().find(|w| w.name == word || w.name.strip_suffix('s') == Some(word));
        found.map(Some).ok_or_else(|| Error::unknown("list", word, LISTS.iter().map(|w| w.name)))
    }
}

/// Prints a list, or the list of lists.
pub fn print(what: Option<&NameList>, json: bool) -> Result<()> {
    let (title, names) = match what {
        Some(what) => (what.name, (what.list)()),
        None => ("lists", LISTS.iter().map(|w| name(w.name, w.about)).collect()),
    };
    if json {
        return output::json_as("schedlab/names/1", &serde_json::json!({ "list": title, "names": names }));
    }
    let width = names.iter().map(|n| n.name.chars().count()).max().unwrap_or(0).min(24);
    output::result(|out| {
        if what.is_none() {
            writeln!(out, "schedlab new --list WHAT:")?;
        }
        names.iter().try_for_each(|n| write!(out, "{}", wrap(&format!("{:<width$} ", n.name), &n.about)))
    })
}

fn name(name: impl Into<String>, about: impl Into<String>) -> Name {
    Name { name: name.into(), about: about.into() }
}

fn keys() -> Vec<Name> {
    let of = |s: &&Section| {
        let title = if s.header.is_empty() { "top" } else { s.header };
        let example = |e: &str| if e.is_empty() { String::new() } else { format!(" (as in {e})") };
        let keys = s
            .keys
            .iter()
            .map(|k| name(format!("  {}", k.name), format!("{}{}", k.about, example(k.example))));
        [name(title, s.about)].into_iter().chain(keys).collect::<Vec<_>>()
    };
    SECTIONS.iter().flat_map(of).collect()
}

fn workloads() -> Vec<Name> {
    BENCHMARKS.iter().map(|b| name(b.name, b.about)).collect()
}

fn machines() -> Vec<Name> {
    Machine::presets().map(|(n, about)| name(n, about)).collect()
}

fn kernels() -> Vec<Name> {
    let simulated = PROFILES.iter().map(|p| name(p.version.to_string(), p.about));
    let live = name("running", "the running kernel, for --backend host");
    let series =
        name("6.1", "a series without v: a real kernel, for --backend vm; 'schedlab kernel fetch 6.1'");
    let path = name("/path/to/bzImage", "a kernel of your own, for --backend vm");
    simulated.chain([live, series, path]).collect()
}

fn features() -> Vec<Name> {
    FEATURES.iter().map(|f| name(f.name, f.about)).collect()
}

fn tunables() -> Vec<Name> {
    let row = |t: &TunableRow| name(t.name, format!("{}; {}", t.about, t.takes()));
    TUNABLES.iter().map(row).collect()
}

fn metrics() -> Vec<Name> {
    let row = |m: &Metric| {
        let unit = if m.unit.is_empty() { String::new() } else { format!(" ({})", m.unit) };
        name(m.name, format!("{}{unit}", m.about))
    };
    METRICS.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_names_with_descriptions() {
        for what in LISTS {
            let names = (what.list)();
            let once = |n: &Name| names.iter().filter(|other| other.name == n.name).count() == 1;
            assert!(what.name == "keys" || names.iter().all(once), "{}: a name stands twice", what.name);
            assert!(names.len() > 3 && names.iter().all(|n| !n.about.is_empty()), "{}", what.name);
        }
        assert!(NameList::parse("featrues").is_err_and(|e| e.to_string().contains("'features'")));
        assert!(NameList::parse("feature").is_ok_and(|w| w.is_some_and(|w| w.name == "features")));
    }
}
