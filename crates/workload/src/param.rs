//! Parameters of benchmarks: one table per benchmark is the source of command-line options, TOML keys, help and bounds.

use crate::build::Builder;
use schedlab_base::{Error, Ns, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a parameter's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamKind {
    /// A plain number.
    Count,
    /// A length of time, stored as ns; a bare number on the command line takes this unit, as the original tool does.
    Time(&'static str),
    /// Off (0) or on (1).
    Flag,
}

/// A parameter's row.
#[derive(Debug)]
pub struct Param {
    /// Name in TOML and as a long option (`_` becomes `-`).
    pub name: &'static str,
    /// Short option of the original tool.
    pub short: Option<char>,
    /// What the value is.
    pub kind: ParamKind,
    /// Default; for times in ns. `None`: computed by the benchmark (e.g. from the number of CPUs), see `about`.
    pub default: Option<u64>,
    /// Accepted range; for times in ns.
    pub range: (u64, u64),
    /// One sentence.
    pub about: &'static str,
}

/// A benchmark: a row of the table of workloads.
pub struct Benchmark {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Metrics its table shows first.
    pub headline: &'static [&'static str],
    /// The parameter that `knee` raises.
    pub load_param: &'static str,
    /// Declares its tasks.
    pub build: fn(&Params, &mut Builder) -> Result<()>,
}

/// Values of a benchmark's parameters by name; times in ns.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub BTreeMap<String, u64>);

impl Params {
    /// The value of a parameter that the benchmark's table gives a default, or that was set.
    ///
    /// # Errors
    /// When it has neither (a fault of the table).
    pub fn get(&self, name: &str) -> Result<u64> {
        self.0.get(name).copied().ok_or_else(|| Error::internal(format!("parameter '{name}' has no value")))
    }
    /// A time.
    ///
    /// # Errors
    /// As [`Params::get`].
    pub fn time(&self, name: &str) -> Result<Ns> {
        self.get(name).map(Ns)
    }
    /// A count.
    ///
    /// # Errors
    /// As [`Params::get`].
    pub fn count(&self, name: &str) -> Result<usize> {
        self.get(name).map(|v| v as usize)
    }
}

impl Param {
    /// Reads a value as text (command line).
    ///
    /// # Errors
    /// When it is no such value or out of range.
    pub fn parse(&self, text: &str) -> Result<u64> {
        let value = match self.kind {
            ParamKind::Time(unit) => Ns::parse(text, unit)?.0,
            ParamKind::Count => text
                .replace('_', "")
                .parse()
                .map_err(|_| Error::input(format!("{} takes a whole number, not '{text}'", self.name)))?,
            ParamKind::Flag => match text {
                "true" | "1" | "yes" | "on" => 1,
                "false" | "0" | "no" | "off" => 0,
                _ => return Err(Error::input(format!("{} takes true or false, not '{text}'", self.name))),
            },
        };
        self.check(value)
    }
    /// The value, if it is in range.
    ///
    /// # Errors
    /// When it is not; the range is named.
    pub fn check(&self, value: u64) -> Result<u64> {
        let (lo, hi) = self.range;
        if (lo..=hi).contains(&value) {
            return Ok(value);
        }
        let show = |v: u64| match self.kind {
            ParamKind::Time(_) => Ns(v).to_string(),
            _ => v.to_string(),
        };
        Err(Error::input(format!("{} = {} is out of range", self.name, show(value))).help(format!(
            "it takes {} to {}",
            show(lo),
            show(hi)
        )))
    }
}

impl Benchmark {
    /// The parameter of that name.
    ///
    /// # Errors
    /// When there is none; the nearest is offered.
    pub fn param(&self, name: &str) -> Result<&'static Param> {
        let name = name.replace('-', "_");
        self.params.iter().find(|p| p.name == name).ok_or_else(|| {
            Error::unknown(&format!("{} parameter", self.name), &name, self.params.iter().map(|p| p.name))
        })
    }
    /// `given` checked, with defaults filled in.
    ///
    /// # Errors
    /// Unknown names and values out of range.
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
