//! A guest's job and its reply, as plain data.

use schedlab_base::Ns;
use schedlab_machine::Topology;
use schedlab_native::live::Request;
use schedlab_native::{Fault, Outcome};
use serde::{Deserialize, Serialize};

/// Init's orders, in the initramfs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// How long init waits after boot until the kernel is at rest, in the guest's time.
    pub settle: Ns,
    /// Whether balancing by last-level caches is disabled. A job's variant may enable it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub llc_balancing_off: bool,
    /// `None`: the guest is stopped at rest, and each guest that continues from there reads a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// The job of a guest's init.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub request: Request,
    /// Whether marks for a counter of instructions surround the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
    /// Whether the loopback interface is enabled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// Size of each CPU's ring of events, KiB; 0: the usual size.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub ring_kib: u32,
    /// Whether the run's events are sent with the reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
/// The reply of a guest's init.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Done(Box<Answer>),
    Failed(Fault),
}

/// The result of a run in a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub outcome: Outcome,
    /// CPUs in the view of the guest's kernel.
    pub topology: Topology,
}

/// The bytes sent over the port: the reply as JSON, and if the run kept events, a zero byte (which JSON never has) and
/// their file.
pub fn joined(reply: Vec<u8>, events: &[u8]) -> Vec<u8> {
    let mut all = reply;
    if !events.is_empty() {
        all.push(0);
        all.extend_from_slice(events);
    }
    all
}

/// Splits the bytes into the reply and the file of events.
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
