//! The boot options `migration_cost=` and `migration_factor=` (D003).

use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// The maximal number of distances (`MAX_DOMAIN_DISTANCE`).
pub const MAX_DISTANCE: usize = 32;
/// The factor's range, per cent.
const MAX_FACTOR_PCT: u64 = 10_000;

/// Values from the user that replace measurements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    /// Cutoffs by distance, us; 0 and distances beyond the list are measured.
    pub cost_us: Vec<u64>,
    /// Percentage that scales a measured cutoff. The kernel keeps 128ths, so 120 gives 119.5.
    pub factor_pct: u64,
}

impl Default for Overrides {
    fn default() -> Overrides {
        Overrides { cost_us: Vec::new(), factor_pct: 100 }
    }
}

impl Overrides {
    /// The same, with the list and the factor replaced by the given ones.
    #[must_use]
    pub fn with(mut self, cost_us: Option<&[u64]>, factor_pct: Option<u64>) -> Overrides {
        if let Some(given) = cost_us {
            self.cost_us = given.to_vec();
        }
        self.factor_pct = factor_pct.unwrap_or(self.factor_pct);
        self
    }
    /// The given cutoff of a distance, ns. The factor does not apply to it.
    pub fn cutoff_ns(&self, distance: usize) -> Option<u64> {
        self.cost_us.get(distance).filter(|us| **us > 0).map(|us| us * 1000)
    }
    /// The factor in 128ths, as in the kernel.
    pub fn factor_128(&self) -> u64 {
        self.factor_pct * 128 / 100
    }
    /// Checks limits.
    ///
    /// # Errors
    /// For too many distances, a cutoff beyond a second, or a factor beyond 10000 per cent.
    pub fn check(&self) -> Result<()> {
        if self.cost_us.len() > MAX_DISTANCE {
            let what =
                format!("{} migration costs: there are at most {MAX_DISTANCE} distances", self.cost_us.len());
            return Err(Error::input(what));
        }
        if let Some(us) = self.cost_us.iter().find(|us| **us > 1_000_000) {
            return Err(Error::input(format!("a migration cost of {us} us: at most a second")));
        }
        if self.factor_pct > MAX_FACTOR_PCT {
            let what =
                format!("a migration factor of {} per cent: at most {MAX_FACTOR_PCT}", self.factor_pct);
            return Err(Error::input(what));
        }
        Ok(())
    }
}

/// Reads "1000,2000,3000": cutoffs by distance, us.
///
/// # Errors
/// For anything but numbers with commas between them.
pub fn parse_costs(text: &str) -> Result<Vec<u64>> {
    let one = |word: &str| {
        word.trim().parse::<u64>().map_err(|_| {
            Error::input(format!("'{word}' is not a migration cost")).help(
                "write us for each distance, closest first, 0 for one that is to be measured: 0,2500,10000",
            )
        })
    };
    text.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_measure_and_a_given_cutoff_is_taken_as_it_is() {
        let given = Overrides { cost_us: parse_costs("0,2000, 3000").unwrap(), factor_pct: 50 };
        assert_eq!(given.cutoff_ns(0), None);
        assert_eq!(given.cutoff_ns(1), Some(2_000_000), "neither doubled nor scaled");
        assert_eq!(given.cutoff_ns(3), None);
        assert!(parse_costs("1000,").is_err() && parse_costs("2ms").is_err());
    }

    #[test]
    fn a_list_and_a_factor_take_the_place_of_their_own_alone() {
        let own = Overrides { cost_us: vec![0, 7], factor_pct: 120 };
        assert_eq!(own.clone().with(None, None), own);
        assert_eq!(own.clone().with(Some(&[1]), None), Overrides { cost_us: vec![1], factor_pct: 120 });
        assert_eq!(own.with(None, Some(50)), Overrides { cost_us: vec![0, 7], factor_pct: 50 });
    }

    #[test]
    fn the_factor_is_truncated_to_128ths() {
        let of = |factor_pct| Overrides { factor_pct, ..Overrides::default() }.factor_128();
        assert_eq!((of(100), of(120), of(0)), (128, 153, 0));
    }

    #[test]
    fn limits() {
        let with = |cost_us: Vec<u64>, factor_pct| Overrides { cost_us, factor_pct }.check();
        assert!(with(vec![0; 32], 100).is_ok());
        assert!(with(vec![0; 33], 100).is_err());
        assert!(with(vec![1_000_001], 100).is_err());
        assert!(with(Vec::new(), 10_001).is_err());
    }
}
