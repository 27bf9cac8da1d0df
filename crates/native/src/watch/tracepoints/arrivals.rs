//! Tasks that come to a CPU after its idle task, on kernels that do not report the idle task's events.
//!
//! sched_switch records a switch from idle in the idle task's context. perf's own record of an arriving task (a
//! software event with `context_switch`, PERF_RECORD_SWITCH_CPU_WIDE, Linux 4.3) is made in the context of that task,
//! at the end of the switch: one or two microseconds later.

use super::layout::{Layouts, TracepointKind};
use super::ring::{RingItem, Source, TimedRecord};
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use schedlab_trace::SwitchReason;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

const RECORD_LOST: u32 = 2;
const RECORD_SWITCH_CPU_WIDE: u32 = 15;
const MISC_SWITCH_OUT: u16 = 1 << 13;

pub struct Arrivals {
    cpu: u32,
    sampler: Sampler,
}

impl Arrivals {
    /// Opens the event with a ring of `bytes`.
    pub fn open(cpu: u32, bytes: usize) -> io::Result<Arrivals> {
        let mut event = Builder::new(Software::DUMMY);
        event.any_pid().one_cpu(cpu as usize).include_kernel().context_switch(true).sample_id_all(true);
        event.sample(SampleFlag::TID | SampleFlag::TIME).clockid(Clock::MONOTONIC);
        event.wakeup_watermark(bytes / 2).enabled(true);
        Ok(Arrivals { cpu, sampler: event.build()?.sampled(bytes)? })
    }
}

impl AsRawFd for Arrivals {
    fn as_raw_fd(&self) -> RawFd {
        self.sampler.as_raw_fd()
    }
}

impl Source for Arrivals {
    fn empty(&mut self, _: &Layouts, give: &mut dyn FnMut(RingItem<'_>)) {
        let cpu = self.cpu;
        while let Some(record) = self.sampler.next_record() {
            let (kind, misc, bytes) = (record.ty(), record.misc(), record.to_contiguous());
            match kind {
                RECORD_SWITCH_CPU_WIDE if misc & MISC_SWITCH_OUT == 0 => {
                    if let Some((thread, at_ns)) = from_idle(&bytes) {
                        let what =
                            TracepointKind::Switch { prev: 0, next: thread, why: SwitchReason::FromIdle };
                        give(RingItem::Record(TimedRecord { at_ns, cpu, what }, thread, &[]));
                    }
                }
                RECORD_LOST => give(RingItem::Lost(super::ring::lost(&bytes))),
                _ => {}
            }
        }
    }
}

/// The arriving thread and the time, if it came after the idle task. The record has process and thread of the previous
/// task (32 bits each), process and thread of the arriving task, and the time (64 bits).
fn from_idle(bytes: &[u8]) -> Option<(u32, u64)> {
    let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let at_ns = bytes.get(16..24)?.try_into().ok().map(u64::from_ne_bytes)?;
    (number(4)? == 0).then_some((number(12)?, at_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_arrivals_after_idle_are_reported() {
        let record = |prev: u32| {
            let mut bytes: Vec<u8> = [prev, prev, 70, 71].into_iter().flat_map(u32::to_ne_bytes).collect();
            bytes.extend(5_000u64.to_ne_bytes());
            bytes
        };
        assert_eq!(from_idle(&record(0)), Some((71, 5_000)));
        assert_eq!(from_idle(&record(9)), None);
        assert_eq!(from_idle(&record(0)[..20]), None);
    }
}
