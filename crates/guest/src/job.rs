//! A guest's job and its reply, as plain data.

use schedlab_base::Ns;
use schedlab_machine::Topology;
use schedlab_native::live::Request;
use schedlab_native::{Fault, Outcome};
use serde::{Deserialize, Serialize};

/// What init is started for. It lies in the initramfs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// How long init lets the kernel come to rest after boot, in the guest's time.
    pub settle: Ns,
    /// Whether balancing by last-level caches is switched off. A job's variant may switch it on again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub llc_balancing_off: bool,
    /// The job. `None`: the guest is stopped at rest, and the guests that continue from there read one each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// The job of a guest's init.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub request: Request,
    /// Whether the begin and the end of the run are marked for a counter of instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
    /// Whether the loopback interface is switched on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// Size of the ring of events of each CPU, KiB; 0: the usual size.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ring_kib: u32,
    /// Whether the run's events come back with the reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
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
    pub outcome: Outcome,
    /// The CPUs as the guest's kernel sees them.
    pub topology: Topology,
}

/// What comes through the port: the reply as JSON; if the run kept its events, a zero byte, which JSON has none of, and
/// their file.
pub fn joined(reply: Vec<u8>, events: &[u8]) -> Vec<u8> {
    let mut all = reply;
    if !events.is_empty() {
        all.push(0);
        all.extend_from_slice(events);
    }
    all
}

/// The reply and the file of events.
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
    fn events_follow_the_reply() {
        let all = joined(b"{\"a\":1}".to_vec(), &[0, 1, 2]);
        assert_eq!(parted(&all), (&b"{\"a\":1}"[..], &[0, 1, 2][..]));
        assert_eq!(parted(b"{}"), (&b"{}"[..], &[][..]));
        assert_eq!(joined(b"{}".to_vec(), &[]), b"{}");
    }
}
