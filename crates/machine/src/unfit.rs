//! Machines whose topology is known and whose costs are not: they can be shown, and not be simulated.
//!
//! Such a machine names the costs that it lacks. A file that is `like` it, or an experiment, states them; the machine
//! is fit once all of them are stated.

use crate::reader::Table;
use crate::{Costs, Machine};
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

const KEYS: &[&str] = &["reason", "costs"];

/// Why a machine can't be simulated as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfit {
    /// The reason why its costs must not be used.
    pub reason: String,
    /// The costs that must be stated first, by name.
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
    /// Notes that a cost was stated. A machine that lacks none any more can be simulated.
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
    /// When its costs are known to be wrong. The message names the reason and the costs to state.
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

    #[test]
    fn a_machine_that_lacks_costs_is_refused_until_they_are_stated() {
        for name in ["p3-8", "p4-ht-2", "celeron-2"] {
            let mut machine = Machine::load(name).unwrap();
            let error = machine.fit().unwrap_err().to_string();
            assert!(error.contains(&format!("machine {name} can't be simulated: ")), "{error}");
            assert!(error.contains("2010s") && error.contains("tick_ns"), "{error}");
            let missing = machine.unfit.clone().unwrap().costs;
            for (at, cost) in missing.iter().enumerate() {
                assert!(machine.fit().is_err(), "{at} of {} are stated", missing.len());
                machine.set_cost(cost, 100).unwrap();
            }
            machine.fit().unwrap();
        }
        Machine::load("x5570-2x4-smt").unwrap().fit().unwrap();
    }

    #[test]
    fn a_file_like_it_states_them() {
        let mut text = "name = 'm'\nabout = 'a'\nlike = 'p3-8'\n[costs]\n".to_owned();
        for cost in Machine::load("p3-8").unwrap().unfit.unwrap().costs {
            assert!(parse(Path::new("m.toml"), &text).unwrap().fit().is_err(), "{cost} is missing");
            text += &format!("{cost} = {{ value = 5, range = [5, 5], source = 's' }}\n");
        }
        parse(Path::new("m.toml"), &text).unwrap().fit().unwrap();
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
