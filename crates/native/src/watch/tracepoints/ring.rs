//! One CPU's ring, shared by all tracepoints of that CPU.

use super::layout::{Layouts, TracepointKind};
use crate::sys;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The smallest useful ring, bytes.
const LEAST_BYTES: usize = 64 << 10;

const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

/// A record before its analysis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedRecord {
    /// By the monotonic clock.
    pub at_ns: u64,
    /// The kernel's number.
    pub cpu: u32,
    pub what: TracepointKind,
}

pub enum RingItem<'a> {
    /// A record; the thread that ran then, with its number in the recorder's namespace; the tracepoint's bytes.
    Record(TimedRecord, u32, &'a [u8]),
    /// This many records did not fit.
    Lost(u64),
}

/// A source of one CPU's records.
pub trait Source: AsRawFd {
    /// Takes all available records.
    fn empty(&mut self, layouts: &Layouts, give: &mut dyn FnMut(RingItem<'_>));
}

/// The ring and the events that write into it; they close on drop.
pub struct Ring {
    cpu: u32,
    sampler: Sampler,
    _others: Vec<Counter>,
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.sampler.as_raw_fd()
    }
}

impl Ring {
    /// Opens all tracepoints on one CPU, with a ring of `bytes`, or smaller if the kernel refuses that.
    ///
    /// # Errors
    /// EACCES or EPERM without CAP_PERFMON.
    pub fn open(cpu: u32, layouts: &Layouts, mut bytes: usize) -> io::Result<Ring> {
        let [first, others @ ..] = &layouts.ids;
        let sampler = loop {
            match event(cpu, *first, bytes).build()?.sampled(bytes) {
                Err(e)
                    if bytes > LEAST_BYTES
                        && matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
                {
                    bytes /= 2;
                }
                done => break done?,
            }
        };
        let mut ring = Ring { cpu, sampler, _others: Vec::new() };
        for id in others {
            let other = event(cpu, *id, bytes).build()?;
            sys::set_output(&other, &ring.sampler)?;
            ring._others.push(other);
        }
        Ok(ring)
    }
}

impl Source for Ring {
    fn empty(&mut self, layouts: &Layouts, give: &mut dyn FnMut(RingItem<'_>)) {
        let cpu = self.cpu;
        while let Some(record) = self.sampler.next_record() {
            let (kind, bytes) = (record.ty(), record.to_contiguous());
            match kind {
                RECORD_SAMPLE => {
                    let Some((thread, at_ns, raw)) = sample(&bytes) else { continue };
                    if let Some(what) = layouts.read(raw) {
                        give(RingItem::Record(TimedRecord { at_ns, cpu, what }, thread, raw));
                    }
                }
                RECORD_LOST => give(RingItem::Lost(lost(&bytes))),
                _ => {}
            }
        }
    }
}

fn event(cpu: u32, id: u16, bytes: usize) -> Builder<'static> {
    let mut event = Builder::new(Tracepoint::with_id(u64::from(id)));
    event.any_pid().one_cpu(cpu as usize).include_kernel().include_hv().sample_period(1);
    event.sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::RAW);
    event.clockid(Clock::MONOTONIC).wakeup_watermark(bytes / 2).enabled(true);
    event
}

/// The thread, the time and the tracepoint's own bytes of a sample. It has process and thread (32 bits each), time (64
/// bits), the length of the rest (32 bits), and the rest.
pub(super) fn sample(bytes: &[u8]) -> Option<(u32, u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<20>()?;
    let [_, _, _, _, i0, i1, i2, i3, t0, t1, t2, t3, t4, t5, t6, t7, l0, l1, l2, l3] = *head;
    let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
    let at_ns = u64::from_ne_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
    Some((u32::from_ne_bytes([i0, i1, i2, i3]), at_ns, rest.get(..length)?))
}

/// The number of lost records, which follows the event's number.
pub(super) fn lost(bytes: &[u8]) -> u64 {
    bytes.get(8..16).and_then(|n| n.try_into().ok()).map_or(1, u64::from_ne_bytes)
}
