//! A guest's job and its reply, as plain data.

use schedlab_base::Ns;
use schedlab_machine::Topology;
use schedlab_native::live::Request;
use schedlab_native::{Fault, Outcome};
use serde::{Deserialize, Serialize};

/// The job of a guest's init.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The run.
    pub request: Request,
    /// Further runs in the same boot, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Request>,
    /// Whether the begin and the end of each run are marked for a counter of instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
    /// How long init lets the kernel come to rest after boot, in the guest's time.
    pub settle: Ns,
    /// Whether the loopback interface is switched on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// Whether balancing by last-level caches is switched off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub llc_balancing_off: bool,
    /// Whether the runs' events come back with the reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

/// The reply of a guest's init.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The run was made.
    Done(Box<Answer>),
    /// It could not be made.
    Failed(Fault),
}

/// The result of a run in a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The run's outcome.
    pub outcome: Outcome,
    /// The outcomes of further runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Outcome>,
    /// The CPUs as the guest's kernel sees them.
    pub topology: Topology,
    /// Bytes of each run's file of events, in the order of the runs. The files follow the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<u64>,
}

/// What comes through the port: the reply as JSON; if runs kept their events, a zero byte, which JSON has none of, and
/// their files.
pub fn joined(reply: Vec<u8>, files: &[Vec<u8>]) -> Vec<u8> {
    let mut all = reply;
    if !files.is_empty() {
        all.push(0);
        files.iter().for_each(|file| all.extend_from_slice(file));
    }
    all
}

/// The reply and what follows it.
pub fn parted(all: &[u8]) -> (&[u8], &[u8]) {
    match all.iter().position(|b| *b == 0) {
        Some(at) => (&all[..at], &all[at + 1..]),
        None => (all, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_the_reply() {
        let all = joined(b"{\"a\":1}".to_vec(), &[vec![0, 1], vec![2]]);
        assert_eq!(parted(&all), (&b"{\"a\":1}"[..], &[0, 1, 2][..]));
        assert_eq!(parted(b"{}"), (&b"{}"[..], &[][..]));
        assert_eq!(joined(b"{}".to_vec(), &[]), b"{}");
    }
}
