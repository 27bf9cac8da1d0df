//! The time for which a task stays cache hot, by distance: `migration_cost=` and `migration_factor=` of D003.
//!
//! A distance is the number of sched domains to climb until the other CPU is inside. A variant asks for a
//! [`MigrationCost`]; a machine turns it into [`Cutoffs`]. Times are ns, and us where a name says so.

use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The word for measured cutoffs.
pub const AUTO: &str = "auto";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub enum MigrationCost {
    /// Measured, except those in the machine's file.
    Auto,
    /// By distance, us; 0 and distances beyond the list are measured.
    Given(Vec<u64>),
}

/// The form in records: the word [`AUTO`], or the list.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Word(String),
    List(Vec<u64>),
}

impl std::convert::From<MigrationCost> for Stored {
    fn from(cost: MigrationCost) -> Stored {
        match cost {
            MigrationCost::Auto => Stored::Word(AUTO.to_owned()),
            MigrationCost::Given(us) => Stored::List(us),
        }
    }
}

impl TryFrom<Stored> for MigrationCost {
    type Error = Error;
    fn try_from(stored: Stored) -> Result<MigrationCost> {
        match stored {
            Stored::Word(word) if word == AUTO => Ok(MigrationCost::Auto),
            Stored::Word(word) => {
                Err(Error::input(format!("migration_cost is a list or \"{AUTO}\", not '{word}'")))
            }
            Stored::List(us) => Ok(MigrationCost::Given(us)),
        }
    }
}

impl fmt::Display for MigrationCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MigrationCost::Auto => f.write_str(AUTO),
            MigrationCost::Given(us) => {
                let words: Vec<String> = us.iter().map(u64::to_string).collect();
                f.write_str(&words.join(","))
            }
        }
    }
}

/// The number of distances: more than the domain levels of any kernel on today's machines.
const DISTANCES: usize = 12;

/// The cutoffs of a kernel on a machine (`cache_hot_time` of its domains).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Vec<Option<u64>>", from = "Vec<Option<u64>>")]
pub struct Cutoffs([Option<u64>; DISTANCES]);

impl Cutoffs {
    /// The cutoff of a distance, ns; `None` if no pair of CPUs has it.
    pub fn ns(&self, distance: usize) -> Option<u64> {
        self.0.get(distance).copied().flatten()
    }
}

impl std::convert::From<Vec<Option<u64>>> for Cutoffs {
    /// From a list by distance, ns.
    fn from(all: Vec<Option<u64>>) -> Cutoffs {
        let mut cutoffs = Cutoffs::default();
        cutoffs.0.iter_mut().zip(all).for_each(|(own, ns)| *own = ns);
        cutoffs
    }
}

impl std::convert::From<Cutoffs> for Vec<Option<u64>> {
    fn from(cutoffs: Cutoffs) -> Vec<Option<u64>> {
        let used = cutoffs.0.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        cutoffs.0[..used].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_as_a_word_or_a_list() {
        for (cost, text) in
            [(MigrationCost::Auto, r#""auto""#), (MigrationCost::Given(vec![0, 2500]), "[0,2500]")]
        {
            assert_eq!(serde_json::to_string(&cost).unwrap(), text);
            assert_eq!(serde_json::from_str::<MigrationCost>(text).unwrap(), cost);
        }
        assert!(serde_json::from_str::<MigrationCost>(r#""measure""#).is_err());
    }

    #[test]
    fn cutoffs_are_stored_up_to_the_last_distance() {
        let cutoffs = Cutoffs::from(vec![None, Some(1_784_008)]);
        assert_eq!((cutoffs.ns(0), cutoffs.ns(1), cutoffs.ns(99)), (None, Some(1_784_008), None));
        let text = serde_json::to_string(&cutoffs).unwrap();
        assert_eq!(text, "[null,1784008]");
        assert_eq!(serde_json::from_str::<Cutoffs>(&text).unwrap(), cutoffs);
    }
}
