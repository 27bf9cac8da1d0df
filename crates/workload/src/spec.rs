//! A workload as plain data: experiments state it, records embed it, and the live agent receives it.

use crate::build::{Builder, Built};
use crate::command::{CommandSpec, only_live};
use crate::group::GroupSpec;
use crate::nested::NestedSpec;
use crate::param::{Benchmark, Params};
use crate::remote::RemoteSpec;
use crate::replay::{self, Prices};
use crate::together::{self, Beside};
use crate::{BENCHMARKS, rtapp};
use schedlab_base::{Error, Ns, Result, input};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The longest accepted rt-app file, MiB. A longer one is a mistake (a log, a trace).
pub const MAX_FILE_MB: u64 = 16;

/// A workload with enough resolved to be built anywhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Spec {
    /// One of [`BENCHMARKS`] with its parameters, including defaults.
    Bench {
        name: String,
        /// Times in ns.
        params: Params,
    },
    RtApp {
        /// The file's name in messages.
        file: String,
        text: String,
        /// The runtime that replaces the file's duration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runtime: Option<Ns>,
    },
    /// A recorded schedule.
    Replay {
        /// The file's name in messages.
        file: String,
        text: String,
        /// Taken off its bursts.
        #[serde(default)]
        prices: Prices,
    },
    /// A command, which only live backends can run.
    Command(Box<CommandSpec>),
    /// A workload with others in parallel, and its tasks in groups.
    Together {
        base: Box<Spec>,
        /// The parallel ones.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<Beside>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupSpec>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nested: Vec<NestedSpec>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remotes: Vec<RemoteSpec>,
    },
}

impl Spec {
    /// The workload in a record. Other crates call this, so that serde's code for a spec is compiled only here.
    ///
    /// # Errors
    /// When another version wrote it.
    pub fn from_json(json: &serde_json::Value) -> serde_json::Result<Spec> {
        Spec::deserialize(json)
    }
    /// The workload in the form of a record.
    ///
    /// # Errors
    /// No error is known.
    pub fn to_json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }
    /// A benchmark with the given parameters, checked, and with defaults.
    ///
    /// # Errors
    /// When the benchmark or a parameter is unknown, a value is out of range, or values do not fit together.
    pub fn bench(name: &str, given: &Params) -> Result<Spec> {
        let bench = find(name)?;
        Spec::Bench { name: name.to_owned(), params: bench.resolve(given)? }.checked()
    }
    /// The workload of an rt-app file, checked; a `runtime` replaces the file's duration.
    ///
    /// # Errors
    /// When the file is unreadable, longer than [`MAX_FILE_MB`] or not UTF-8, or when the reader finds an error in it.
    pub fn rtapp_file(path: &Path, runtime: Option<Ns>) -> Result<Spec> {
        let text = input::text_up_to(path, MAX_FILE_MB)?;
        Spec::RtApp { file: path.display().to_string(), text, runtime }.checked()
    }
    /// The workload of a schedule's text, checked.
    ///
    /// # Errors
    /// When the text is not a schedule. The error has the line.
    pub fn replay(file: &str, text: String, prices: Prices) -> Result<Spec> {
        Spec::Replay { file: file.to_owned(), text, prices }.checked()
    }
    /// Checks that the workload can be built.
    fn checked(self) -> Result<Spec> {
        self.build(0).map(|_| self)
    }
    /// The workload's name in tables.
    pub fn name(&self) -> &str {
        match self {
            Spec::Bench { name, .. } => name,
            Spec::RtApp { file, .. } | Spec::Replay { file, .. } => file.rsplit('/').next().unwrap_or(file),
            Spec::Command(command) => &command.name,
            Spec::Together { base, .. } => base.name(),
        }
    }
    /// Builds the tasks; the same seed gives the same tasks everywhere.
    ///
    /// # Errors
    /// When the benchmark or the rt-app reader finds an error, or the workload is a command, which has no programs.
    pub fn build(&self, seed: u64) -> Result<Built> {
        let mut builder = Builder::new(seed);
        self.build_into(&mut builder)?;
        builder.finish()
    }
    /// The names of the tasks that only ask the others, as clients do; they have the others' numbers or their own.
    ///
    /// # Errors
    /// As [`Spec::build`].
    pub fn clients(&self) -> Result<Vec<&'static str>> {
        let mut builder = Builder::new(0);
        self.build_into(&mut builder)?;
        let named = [&builder.sides, &builder.callers].into_iter().filter_map(|all| all.get(&0));
        Ok(named.flat_map(|names| names.iter().copied()).collect())
    }
    pub(crate) fn build_into(&self, builder: &mut Builder) -> Result<()> {
        match self {
            Spec::Bench { name, params } => (find(name)?.build)(params, builder),
            Spec::RtApp { file, text, runtime } => rtapp::build(file, text, *runtime, builder),
            Spec::Replay { file, text, prices } => replay::build(file, text, *prices, builder),
            Spec::Command(_) => Err(only_live()),
            Spec::Together { base, beside, groups, nested, remotes } => {
                together::build(base, beside, groups, (nested, remotes), builder)
            }
        }
    }
    /// The same workload with these groups. One replaces a group with the same path, and keeps its tasks if it names
    /// none. A command has no groups: of the root it takes the CPUs.
    pub fn with_groups(self, more: &[GroupSpec]) -> Result<Spec> {
        if more.is_empty() {
            return Ok(self);
        }
        if let (Spec::Command(command), [only]) = (&self, more)
            && let Some(cpus) = only.cpus_of_all()
        {
            let command = CommandSpec { cpus: Some(cpus.clone()), ..(**command).clone() };
            return Ok(Spec::Command(Box::new(command)));
        }
        let (base, beside, mut groups, nested, remotes) = match self {
            Spec::Together { base, beside, groups, nested, remotes } => {
                (*base, beside, groups, nested, remotes)
            }
            own => (own, Vec::new(), Vec::new(), Vec::new(), Vec::new()),
        };
        for group in more {
            match groups.iter_mut().find(|own| own.path == group.path) {
                Some(own) if group.tasks.is_empty() => {
                    *own = GroupSpec { tasks: own.tasks.clone(), ..group.clone() }
                }
                Some(own) => *own = group.clone(),
                None => groups.push(group.clone()),
            }
        }
        base.together(beside, groups, (nested, remotes))
    }
    /// Whether its tasks may be in groups other than the root. The answer does not need a build.
    pub fn has_groups(&self) -> bool {
        match self {
            Spec::Bench { .. } | Spec::Command(_) => false,
            Spec::RtApp { text, .. } => text.contains("taskgroup"),
            Spec::Replay { text, .. } => text.contains(" group=/"),
            Spec::Together { base, groups, .. } => !groups.is_empty() || base.has_groups(),
        }
    }
    /// The workload itself, without parallel ones and groups.
    pub fn bare(&self) -> &Spec {
        match self {
            Spec::Together { base, .. } => base.bare(),
            own => own,
        }
    }
    /// The same workload with others in parallel, and tasks in groups and virtual machines; checked.
    ///
    /// # Errors
    /// When it can't be built.
    pub fn together(
        self,
        beside: Vec<Beside>,
        groups: Vec<GroupSpec>,
        (nested, remotes): (Vec<NestedSpec>, Vec<RemoteSpec>),
    ) -> Result<Spec> {
        if beside.is_empty() && groups.is_empty() && nested.is_empty() && remotes.is_empty() {
            return Ok(self);
        }
        if let Spec::Command(_) = self {
            let text =
                "a command runs alone: [[beside]], groups, [[nested]] and [[remote]] don't go with it yet";
            return Err(Error::input(text));
        }
        Spec::Together { base: Box::new(self), beside, groups, nested, remotes }.checked()
    }
}

/// # Errors
/// When there is none; the error offers the nearest name.
pub fn find(name: &str) -> Result<&'static Benchmark> {
    BENCHMARKS
        .iter()
        .copied()
        .find(|b| b.name == name)
        .ok_or_else(|| Error::unknown("workload", name, BENCHMARKS.iter().map(|b| b.name)))
}
