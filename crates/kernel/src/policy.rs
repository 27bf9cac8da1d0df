//! Task policies, nice values and weights (the weight table is the same since 2.6.23).

use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// Scheduling policy of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// SCHED_OTHER / SCHED_NORMAL.
    #[default]
    Other,
    /// SCHED_BATCH: never preempts at wakeup.
    Batch,
    /// SCHED_IDLE: weight 3.
    Idle,
    /// SCHED_FIFO (live kernels only).
    Fifo,
    /// SCHED_RR (live kernels only).
    Rr,
}

impl Policy {
    /// Reads "SCHED_OTHER", "other", "normal", "batch", "idle", "fifo", "rr".
    ///
    /// # Errors
    /// When the name is none of these.
    pub fn parse(text: &str) -> Result<Policy> {
        let name = text.to_ascii_lowercase();
        match name.strip_prefix("sched_").unwrap_or(&name) {
            "other" | "normal" => Ok(Policy::Other),
            "batch" => Ok(Policy::Batch),
            "idle" => Ok(Policy::Idle),
            "fifo" => Ok(Policy::Fifo),
            "rr" => Ok(Policy::Rr),
            _ => Err(Error::unknown("scheduling policy", text, ["other", "batch", "idle", "fifo", "rr"])),
        }
    }
    /// Whether the fair class runs it.
    pub fn is_fair(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch | Policy::Idle)
    }
}

/// Scheduling attributes of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Attr {
    /// Policy.
    pub policy: Policy,
    /// Nice value, -20 to 19, for fair policies.
    pub nice: i8,
    /// Real-time priority, 1 to 99, for FIFO and RR; else 0.
    pub rt_priority: u8,
}

/// Load weight of nice 0.
pub const NICE_0_WEIGHT: u64 = 1024;

/// Weights of nice -20 to 19; each step is about 25 %.
#[rustfmt::skip]
const NICE_TO_WEIGHT: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
     9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,
     1024,   820,   655,   526,   423,   335,   272,   215,   172,   137,
      110,    87,    70,    56,    45,    36,    29,    23,    18,    15,
];

impl Attr {
    /// Fair attributes with a nice value.
    pub fn nice(nice: i8) -> Attr {
        Attr { nice, ..Attr::default() }
    }
    /// The load weight of a fair task: by nice value, 3 for SCHED_IDLE.
    pub fn weight(self) -> u64 {
        if self.policy == Policy::Idle { 3 } else { NICE_TO_WEIGHT[(self.nice.clamp(-20, 19) + 20) as usize] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_step_by_a_quarter() {
        assert_eq!(
            (Attr::nice(0).weight(), Attr::nice(-20).weight(), Attr::nice(19).weight()),
            (1024, 88761, 15)
        );
        for n in -20..19i8 {
            let (a, b) = (Attr::nice(n).weight() * 100, Attr::nice(n + 1).weight());
            assert!((115..=136).contains(&(a / b)), "nice {n}: {a}/{b}");
        }
        assert_eq!(Attr { policy: Policy::Idle, ..Attr::default() }.weight(), 3);
    }
}
