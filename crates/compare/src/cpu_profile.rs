//! Profile samples as shares of the CPUs' busy time, with the interval of each share.

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
    /// The sampling rate that was asked for, per second and CPU.
    pub rate: u64,
    /// The clock that triggered samples: "cycles" or "timer".
    pub clock: &'static str,
    /// Samples on busy CPUs, of which shares are computed.
    pub samples: u64,
    /// Samples on idle CPUs.
    pub idle: u64,
    pub kernel: u64,
    /// Records lost because buffers were full.
    pub lost: u64,
    /// The kernel's functions, most of their own samples first; or the functions asked for.
    pub functions: Vec<ShareRow>,
    /// Objects of user mode, most samples first.
    pub objects: Vec<ShareRow>,
    pub warnings: Vec<Warning>,
}

/// The share of a function or object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareRow {
    /// Its name; for a renamed function the name that was asked for.
    pub name: String,
    /// Its name in this kernel, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub here: Option<String>,
    /// Samples in it or in functions that it called.
    pub total: u64,
    /// Samples in itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// `total` in percent of the samples.
    pub total_pct: f64,
    pub total_ci95_pct: Option<[f64; 2]>,
    /// `self` in percent of the samples.
    pub self_pct: f64,
    pub self_ci95_pct: Option<[f64; 2]>,
}
