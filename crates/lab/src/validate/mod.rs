//! The simulator held against real kernels: cases, the one list of metrics, and the rule by which they agree.
//!
//! A simulation is a claim (DESIGN.md, rule 9). A case says beforehand how far off each class of metrics may be; the
//! same list of metrics is compared in every case, and all of it is told. Everything here works on records: where they
//! are from is the plan's affair.

pub mod case;
pub mod metrics;
mod result;
pub mod rule;
pub mod sides;
#[cfg(test)]
mod testing;
mod values;

pub use case::Case;
pub use result::{CaseResult, NotRun, Outcome, Share, Side, Tripled, VALIDATION_SCHEMA, Validation};
pub use rule::{Judged, Verdict};

use metrics::LIST;
use schedlab_base::Warning;
use schedlab_record::Record;

/// Judges a case by the records of both its sides.
pub fn judge(case: &Case, simulated: &[Record], real: &[Record], warnings: Vec<Warning>) -> CaseResult {
    let rows = LIST.iter().map(|row| rule::judge(row, &case.tolerance, simulated, real)).collect();
    CaseResult::of(case, rows, simulated, real, warnings)
}
