//! Samples as shares of the time CPUs were busy, with the interval of each share.

use schedlab_base::Warning;
use serde::Serialize;

pub const PROFILE_SCHEMA: &str = "schedlab/profile/1";

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// [`PROFILE_SCHEMA`].
    pub schema: &'static str,
    /// The command in one line; "" for none.
    pub command: String,
    /// Whether the whole system was sampled.
    pub whole_system: bool,
    /// From start to end, ns.
    pub elapsed_ns: u64,
    /// Samples asked for, per second and CPU.
    pub rate: u64,
    /// The clock that drove them: "cycles" or "timer".
    pub clock: &'static str,
    /// Samples of CPUs that were not idle. Shares are of these.
    pub samples: u64,
    /// Samples of idle CPUs.
    pub idle: u64,
    /// The part of the samples in the kernel.
    pub kernel: u64,
    /// Records lost for lack of room.
    pub lost: u64,
    /// The kernel's functions, by their own samples, most first; or the functions asked for.
    pub functions: Vec<ShareRow>,
    /// User mode by object, most samples first.
    pub objects: Vec<ShareRow>,
    /// Warnings for the reader.
    pub warnings: Vec<Warning>,
}

/// A function's or an object's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareRow {
    /// Its name; of a renamed function the name that was asked for.
    pub name: String,
    /// Its name in this kernel, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub here: Option<String>,
    /// Samples in it or in functions that it called.
    pub total: u64,
    /// Samples in it.
    #[serde(rename = "self")]
    pub own: u64,
    /// `total` in per cent of the samples.
    pub total_pct: f64,
    /// Its 95 % interval.
    pub total_ci95_pct: Option<[f64; 2]>,
    /// `self` in per cent of the samples.
    pub self_pct: f64,
    /// Its 95 % interval.
    pub self_ci95_pct: Option<[f64; 2]>,
}
