//! Parameters of benchmarks: a table per benchmark gives command-line options, TOML keys, help and limits.

use crate::build::Builder;
use schedlab_base::{Error, Ns, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamKind {
    /// A plain number.
    Count,
    /// A time in ns; a bare number on the command line has this unit, as in the original tool.
    Time(&'static str),
    /// A nice value, stored as its difference to -20.
    Nice,
    /// Off (0) or on (1).
    Flag,
    /// One of a few words; the value is the word's index.
    Choice(&'static [Choice]),
}

/// A possible word of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    pub name: &'static str,
    /// The original tool's switch for it: long option and letter.
    pub switch: Option<(&'static str, char)>,
}

impl Choice {
    pub const fn word(name: &'static str) -> Choice {
        Choice { name, switch: None }
    }
    pub const fn switch(name: &'static str, long: &'static str, short: char) -> Choice {
        Choice { name, switch: Some((long, short)) }
    }
}

impl ParamKind {
    /// The written form of a value: times with a unit, a choice as its word.
    pub fn show(self, value: u64) -> String {
        match self {
            ParamKind::Count => value.to_string(),
            ParamKind::Time(_) => Ns(value).to_string(),
            ParamKind::Nice => (value as i64 + LEAST_NICE).to_string(),
            ParamKind::Flag => (if value == 0 { "off" } else { "on" }).to_owned(),
            ParamKind::Choice(words) => {
                words.get(value as usize).map_or_else(|| value.to_string(), |c| c.name.to_owned())
            }
        }
    }
}

impl ParamKind {
    /// A value as an experiment has it; [`Param::parse`] reads the same from it.
    pub fn show_exactly(self, value: u64) -> String {
        match self {
            ParamKind::Time(_) => format!("\"{value}ns\""),
            ParamKind::Flag => (value != 0).to_string(),
            ParamKind::Choice(_) => format!("\"{}\"", self.show(value)),
            ParamKind::Count | ParamKind::Nice => self.show(value),
        }
    }
}

/// The lowest nice value, stored as 0.
const LEAST_NICE: i64 = -20;

/// A row of the table.
#[derive(Debug)]
pub struct Param {
    /// Name in TOML and as a long option (`_` becomes `-`).
    pub name: &'static str,
    /// The original tool's short option.
    pub short: Option<char>,
    pub kind: ParamKind,
    /// In ns for times. `None`: computed by the benchmark (e.g. from the number of CPUs), see `about`.
    pub default: Option<u64>,
    /// Accepted range; in ns for times.
    pub range: (u64, u64),
    /// One sentence.
    pub about: &'static str,
}

/// A row of the table of workloads.
pub struct Benchmark {
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    pub params: &'static [Param],
    /// The first metrics in its table.
    pub headline: &'static [&'static str],
    /// The one or two metrics by which its users measure it. Comparisons correct them before other rows.
    pub own: &'static [&'static str],
    /// The parameter that `knee` raises.
    pub load_param: &'static str,
    /// Parameters of a first experiment, as users write them. A simulated run on a few CPUs then takes well under a
    /// second.
    pub brief: &'static [(&'static str, &'static str)],
    /// Values of `load_param` for that experiment's two loads; `{cpus}` is the machine's number of CPUs.
    pub brief_loads: [&'static str; 2],
    /// For a variant of another benchmark: that benchmark, and its switch that runs this one instead.
    pub form_of: Option<(&'static str, &'static str)>,
    pub build: fn(&Params, &mut Builder) -> Result<()>,
}

/// Parameter values by name; times in ns.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub BTreeMap<String, u64>);

impl Param {
    /// A row for a plain number.
    pub const fn count(
        name: &'static str,
        short: Option<char>,
        default: u64,
        range: (u64, u64),
        about: &'static str,
    ) -> Param {
        Param { name, short, kind: ParamKind::Count, default: Some(default), range, about }
    }
    /// A row for a time; default and range in ns.
    pub const fn time(
        name: &'static str,
        short: Option<char>,
        unit: &'static str,
        default: u64,
        range: (u64, u64),
        about: &'static str,
    ) -> Param {
        Param { name, short, kind: ParamKind::Time(unit), default: Some(default), range, about }
    }
    /// A row for one of several words; the first is the default.
    pub const fn choice(name: &'static str, words: &'static [Choice], about: &'static str) -> Param {
        let range = (0, words.len() as u64 - 1);
        Param { name, short: None, kind: ParamKind::Choice(words), default: Some(0), range, about }
    }
    /// A row for a nice value; the default is 0.
    pub const fn nice(name: &'static str, about: &'static str) -> Param {
        Param { name, short: None, kind: ParamKind::Nice, default: Some(20), range: (0, 39), about }
    }
    /// A row for a switch; the default is off.
    pub const fn flag(name: &'static str, short: Option<char>, about: &'static str) -> Param {
        Param { name, short, kind: ParamKind::Flag, default: Some(0), range: (0, 1), about }
    }
}

impl Params {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The value of a parameter that was set or has a default in the table.
    ///
    /// # Errors
    /// When it has neither (a bug in the table).
    pub fn get(&self, name: &str) -> Result<u64> {
        self.0.get(name).copied().ok_or_else(|| Error::internal(format!("parameter '{name}' has no value")))
    }
    pub fn time(&self, name: &str) -> Result<Ns> {
        self.get(name).map(Ns)
    }
    /// A parameter that is missing in workloads stored by older releases; 0 there.
    pub fn newer(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
    pub fn nice(&self, name: &str) -> Result<i8> {
        self.get(name).map(|v| (v as i64 + LEAST_NICE) as i8)
    }
    pub fn count(&self, name: &str) -> Result<usize> {
        self.get(name).map(|v| v as usize)
    }
}

impl Param {
    /// Reads a value from the command line.
    ///
    /// # Errors
    /// When the text is not a valid value, or is out of range.
    pub fn parse(&self, text: &str) -> Result<u64> {
        let value = match self.kind {
            ParamKind::Time(unit) => Ns::parse(text, unit)?.0,
            ParamKind::Count => text
                .replace('_', "")
                .parse()
                .map_err(|_| Error::input(format!("{} takes a whole number, not '{text}'", self.name)))?,
            ParamKind::Nice => {
                let nice: Option<i64> = text.parse().ok().filter(|n| (LEAST_NICE..=19).contains(n));
                let wrong =
                    || Error::input(format!("{} takes a nice value, -20 to 19, not '{text}'", self.name));
                (nice.ok_or_else(wrong)? - LEAST_NICE) as u64
            }
            ParamKind::Flag => match text {
                "true" | "1" | "yes" | "on" => 1,
                "false" | "0" | "no" | "off" => 0,
                _ => return Err(Error::input(format!("{} takes true or false, not '{text}'", self.name))),
            },
            ParamKind::Choice(words) => words
                .iter()
                .position(|c| c.name == text)
                .ok_or_else(|| Error::unknown(self.name, text, words.iter().map(|c| c.name)))?
                as u64,
        };
        self.check(value)
    }
    /// # Errors
    /// When the value is out of range. The message has the range.
    pub fn check(&self, value: u64) -> Result<u64> {
        let (lo, hi) = self.range;
        if (lo..=hi).contains(&value) {
            return Ok(value);
        }
        let show = |v: u64| match self.kind {
            ParamKind::Flag => v.to_string(),
            kind => kind.show(v),
        };
        Err(Error::input(format!("{} = {} is out of range", self.name, show(value))).help(format!(
            "it takes {} to {}",
            show(lo),
            show(hi)
        )))
    }
}

impl Benchmark {
    /// # Errors
    /// When there is none; the error offers the nearest name.
    pub fn param(&self, name: &str) -> Result<&'static Param> {
        let name = name.replace('-', "_");
        self.params.iter().find(|p| p.name == name).ok_or_else(|| {
            Error::unknown(&format!("{} parameter", self.name), &name, self.params.iter().map(|p| p.name))
        })
    }
    /// Checks `given`, and fills in defaults.
    ///
    /// # Errors
    /// For unknown names and values out of range.
    pub fn resolve(&self, given: &Params) -> Result<Params> {
        let mut all = Params::default();
        for p in self.params {
            if let Some(v) = p.default {
                all.0.insert(p.name.to_owned(), v);
            }
        }
        for (name, value) in &given.0 {
            let param = self.param(name)?;
            all.0.insert(param.name.to_owned(), param.check(*value)?);
        }
        Ok(all)
    }
}
