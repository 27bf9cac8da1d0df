//! Whether a simulated and a real kernel agree, metric by metric: the list, the rule, the shares.
//!
//! [`rows`] is the one list of metrics, fixed before any case was run. [`values`] takes a row's value out of records,
//! [`rule`] judges it. [`result`] sums up a case and all cases, [`traits`] by kind of case, [`wrong`] without metrics
//! that wrong schedulers pass, too. [`stored`] keeps a result in a file, whose [`real`] side serves later simulations.
//! [`changes`] judges what a switched mechanism moves, [`limits`] what CPU limits do to a latency.

pub mod changes;
pub mod decisions;
pub mod limits;
pub mod real;
pub mod result;
pub mod rows;
pub mod rule;
pub mod stored;
pub mod traits;
pub mod values;
pub mod wrong;

pub use real::RealSide;
pub use result::{
    AgreementShare, CaseResult, CaseSide, Judgement, NotRun, Outcome, Tripled, VALIDATION_SCHEMA, Validation,
};
pub use rule::{Agreement, JudgedMetric};
pub use traits::{MachineCounts, TraitAgreement};
pub use values::numbers as numbers_of;
pub use wrong::{Discriminating, WrongSchedulerResult};
