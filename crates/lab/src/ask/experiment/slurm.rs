//! Requests to Slurm: the keys of `[slurm]`, which are also options of the command line.
//!
//! [`keys::SLURM`] is the table of names. The experiment's table and `--slurm KEY=VALUE` of the command line set a
//! value by its text with [`SlurmOptions::set`]. The command line's comes last.

use super::keys;
use schedlab_base::{Error, Result};
use std::path::PathBuf;

/// Most tasks of a job: Slurm's own limit of an array is 1,000 unless a cluster sets another.
const TASKS: u32 = 100;

/// The options of a cluster. Words that only Slurm understands are passed on unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlurmOptions {
    /// Options of sbatch: name and value, in the table's order.
    passed: Vec<(&'static str, String)>,
    /// Whether a task has its node for itself.
    pub exclusive: bool,
    /// CPUs of a task, and so its runs side by side.
    pub cpus: u32,
    /// Most tasks at once.
    pub at_once: Option<u32>,
    /// Most tasks into which runs are cut.
    pub tasks: u32,
    /// The executable on the nodes; `None`: this one.
    pub schedlab: Option<PathBuf>,
}

impl Default for SlurmOptions {
    fn default() -> SlurmOptions {
        SlurmOptions {
            passed: Vec::new(),
            exclusive: false,
            cpus: 1,
            at_once: None,
            tasks: TASKS,
            schedlab: None,
        }
    }
}

impl SlurmOptions {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// A key that the table does not have, and an invalid value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let known = keys::SLURM.keys.iter().find(|k| k.name == key);
        let Some(known) = known else {
            return Err(Error::unknown("key in [slurm]", key, keys::SLURM.names()));
        };
        if value.is_empty() || value.contains(|c: char| c.is_control()) {
            return Err(Error::input(format!("{key} is empty or not on one line")));
        }
        match key {
            "exclusive" => {
                let word = || Error::input(format!("exclusive is true or false, and not '{value}'"));
                self.exclusive = value.parse().map_err(|_| word())?;
            }
            "cpus" => self.cpus = count(key, value, 4096)?,
            "at_once" => self.at_once = Some(count(key, value, 100_000)?),
            "tasks" => self.tasks = count(key, value, 100_000)?,
            // A job begins in another folder. A name without a slash is found by the node's PATH.
            "schedlab" if value.contains('/') => {
                let path = std::path::absolute(value).map_err(|e| Error::io(value.as_ref(), "find", &e))?;
                self.schedlab = Some(path);
            }
            "schedlab" => self.schedlab = Some(PathBuf::from(value)),
            _ => {
                self.passed.retain(|(name, _)| *name != known.name);
                self.passed.push((known.name, value.to_owned()));
            }
        }
        Ok(())
    }
    /// Checks that runs in real time, which other work on a node would disturb, may be submitted with these options.
    ///
    /// # Errors
    /// Without a constraint, or with one that two kinds of nodes meet.
    pub fn check_live(&self) -> Result<()> {
        let of = |name: &str| self.passed.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str());
        let help = "--slurm constraint=NAME names one feature of the nodes ('sinfo -o \"%N %f\"' lists them)";
        match of("constraint") {
            None => Err(Error::input("runs in real time need nodes of one kind, and no constraint names it")
                .help(help)),
            Some(many) if many.contains(['|', '[', '*', '(']) => {
                let text = format!("constraint '{many}': nodes of several kinds may meet it");
                Err(Error::input(text + ", and runs in real time need one kind").help(help))
            }
            Some(_) => Ok(()),
        }
    }
    /// The options of sbatch.
    pub fn sbatch(&self, live: bool) -> Vec<String> {
        let mut all: Vec<String> =
            self.passed.iter().map(|(name, value)| format!("--{name}={value}")).collect();
        if self.exclusive || live {
            all.push("--exclusive".to_owned());
        }
        if !live {
            all.push(format!("--cpus-per-task={}", self.cpus));
        }
        all
    }
}

fn count(key: &str, value: &str, most: u32) -> Result<u32> {
    let wrong = || Error::input(format!("{key} is a number from 1 to {most}, and not '{value}'"));
    value.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_table_can_be_set_and_the_last_value_counts() {
        let mut options = SlurmOptions::default();
        for key in keys::SLURM.keys {
            let value = key.example.trim_matches('"');
            options.set(key.name, value).unwrap_or_else(|e| panic!("{}: {e}", key.name));
        }
        options.set("partition", "b").unwrap();
        let said = options.sbatch(false);
        assert!(said.contains(&"--partition=b".to_owned()) && said.contains(&"--exclusive".to_owned()));
        assert_eq!(said.iter().filter(|o| o.starts_with("--partition")).count(), 1);
        assert!(options.set("partitoin", "b").unwrap_err().to_string().contains("did you mean 'partition'"));
        for (key, value) in [("cpus", "0"), ("tasks", "x"), ("account", "a\nb")] {
            assert!(options.set(key, value).is_err(), "{key} {value}");
        }
    }

    #[test]
    fn live_runs_need_one_kind_of_nodes_and_have_them_for_themselves() {
        let mut options = SlurmOptions::default();
        assert!(options.check_live().is_err());
        options.set("constraint", "[a|b]").unwrap();
        assert!(options.check_live().is_err());
        options.set("constraint", "epyc&nvme").unwrap();
        options.check_live().unwrap();
        assert!(options.sbatch(true).contains(&"--exclusive".to_owned()));
        assert!(!options.sbatch(false).contains(&"--exclusive".to_owned()));
    }

    #[test]
    fn a_relative_path_of_the_executable_is_made_absolute_and_a_name_stays() {
        let set = |value| {
            let mut options = SlurmOptions::default();
            options.set("schedlab", value).unwrap();
            options.schedlab.unwrap()
        };
        assert_eq!(set("./x"), std::env::current_dir().unwrap().join("x"));
        assert_eq!((set("/opt/x"), set("x")), (PathBuf::from("/opt/x"), PathBuf::from("x")));
    }
}
