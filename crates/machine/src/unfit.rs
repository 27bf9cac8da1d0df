//! Machines with a known topology but unknown costs: they can be shown, but not simulated.
//!
//! Such a machine names the missing costs. A file `like` it, or an experiment, states them; the machine is fit once all
//! are stated.

use crate::reader::Table;
use crate::{Costs, Machine};
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

const KEYS: &[&str] = &["reason", "costs"];

/// Why a machine can't be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfit {
    /// Why its costs must not be used.
    pub reason: String,
    /// The costs that must be stated, by name.
    pub costs: Vec<String>,
}

impl Unfit {
    /// The table `[unfit]` of a machine's file.
    pub(crate) fn read(top: &Table<'_>) -> Result<Option<Unfit>> {
        let Some(table) = top.table("unfit", KEYS)? else { return Ok(None) };
        let reason = table.required("reason", table.string("reason")?)?.to_owned();
        let names = table.required("costs", table.strings("costs")?)?;
        if names.is_empty() {
            return Err(
                table.error_at("costs", "costs is empty: it names the costs that must be stated first")
            );
        }
        let unknown = names.iter().find(|name| Costs::default().get(name).is_none());
        if let Some(name) = unknown {
            let known = Costs::TABLE.iter().map(|row| row.name);
            return Err(table.place("costs", Error::unknown("cost", name, known)));
        }
        Ok(Some(Unfit { reason, costs: names.into_iter().map(str::to_owned).collect() }))
    }
}

impl Machine {
    /// Notes a stated cost. A machine without missing costs can be simulated.
    pub(crate) fn states(&mut self, name: &str) {
        if let Some(unfit) = &mut self.unfit {
            unfit.costs.retain(|missing| missing != name);
        }
        if self.unfit.as_ref().is_some_and(|unfit| unfit.costs.is_empty()) {
            self.unfit = None;
        }
    }

    /// Checks that the machine can be simulated.
    ///
    /// # Errors
    /// When its costs are known to be wrong. The message has the reason and the costs to state.
    pub fn fit(&self) -> Result<()> {
        let Some(unfit) = &self.unfit else { return Ok(()) };
        let what = format!("machine {} can't be simulated: {}", self.name, unfit.reason);
        let (name, costs, cpus) = (&self.name, unfit.costs.join(", "), self.topology.nr_cpus());
        Err(Error::input(what).help(format!(
            "take smp-{cpus}, or write a machine file with like = \"{name}\" whose [costs] state {costs}; \
             'schedlab machine {name}' shows topology and domains"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;
    use std::path::Path;

    const TOPOLOGY: &str = "name = 'm'\nabout = 'a'\n[topology]\ncores = 2\n";
    const MARK: &str = "[unfit]\nreason = 'nobody knows'\ncosts = ['tick_ns', 'syscall_ns']\n";

    fn unfit(costs: &str) -> Machine {
        parse(Path::new("m.toml"), &format!("{TOPOLOGY}{MARK}{costs}")).unwrap()
    }

    #[test]
    fn a_machine_that_lacks_costs_is_refused_until_they_are_stated() {
        let mut machine = unfit("");
        let error = machine.fit().unwrap_err().to_string();
        assert!(error.contains("machine m can't be simulated: nobody knows"), "{error}");
        assert!(error.contains("take smp-2") && error.contains("state tick_ns, syscall_ns"), "{error}");
        machine.set_cost("tick_ns", 100).unwrap();
        assert!(machine.fit().is_err(), "one is missing");
        machine.set_cost("syscall_ns", 100).unwrap();
        machine.fit().unwrap();
    }

    #[test]
    fn a_file_states_them() {
        let stated = |name: &str| format!("{name} = {{ value = 5, range = [5, 5], source = 's' }}\n");
        let one = format!("[costs]\n{}", stated("tick_ns"));
        assert!(unfit(&one).fit().is_err());
        unfit(&(one + &stated("syscall_ns"))).fit().unwrap();
    }

    #[test]
    fn every_preset_can_be_simulated() {
        for name in ["p3-8", "p4-ht-2", "celeron-2", "ia64-8", "x5570-2x4-smt"] {
            Machine::load(name).unwrap().fit().unwrap();
        }
    }

    #[test]
    fn the_mark_names_known_costs() {
        let error = |mark: &str| {
            let text = format!("{TOPOLOGY}[unfit]\n{mark}");
            parse(Path::new("m.toml"), &text).unwrap_err().to_string()
        };
        insta::assert_snapshot!(error("reason = 'r'\ncosts = ['tick_n']"), @r"
        m.toml:7:9: unknown cost 'tick_n'
          help: did you mean 'tick_ns'?
        ");
        assert!(error("reason = 'r'\ncosts = []").contains("m.toml:7:9: costs is empty"));
        assert!(error("costs = ['tick_ns']").contains("[unfit] has no reason"));
        assert!(error("reason = 'r'\ncosts = [1]").contains("must be a list of strings"));
    }
}
