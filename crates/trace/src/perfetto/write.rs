//! The file: packets, including those at its beginning.
//!
//! Packets are encoded one after the other into a buffer, which is written when full.

use super::message::put_message;
use super::messages::{
    CLEARED, Clock, ClockSnapshot, Cpu, CpuInfo, EventName, InternedData, SystemInfo, TRACK_SEQUENCE,
    TracePacket, Utsname,
};
use super::names::ArgName;
use super::wire::Wire;
use crate::Cast;
use std::io::{self, Write};

/// Field `Trace.packet`.
const PACKET: u32 = 1;
/// A buffer with this many bytes is written.
const FULL: usize = 256 << 10;
/// Ids of clocks: realtime, monotonic, boottime.
const CLOCKS: [u32; 3] = [1, 3, 6];
/// The first kernel with today's layout of `prev_state`.
const LAYOUT: (u32, u32) = (4, 14);

/// A sink can't return errors, so after a failure nothing more is written, and [`Perfetto::finish`] returns the error.
pub struct Perfetto<W> {
    out: W,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
    pub(super) names: super::names::WrittenNames,
    pub(super) flows: u64,
}

impl<W: Write> Perfetto<W> {
    /// Begins a file for runs of these casts, on `cpus` CPUs.
    pub fn new(out: W, casts: &[&Cast]) -> Perfetto<W> {
        let names = super::names::WrittenNames::default();
        let buffer = Vec::with_capacity(FULL + FULL / 4);
        let mut file = Perfetto { out, buffer, failed: None, names, flows: 0 };
        let cpus: usize = casts.iter().map(|c| c.cpus).sum();
        let releases: Vec<&str> = casts.iter().map(|c| c.release.as_str()).collect();
        let utsname = Utsname {
            sysname: Some("Linux".to_owned()),
            version: Some(format!("schedlab: {}", releases.join(", "))),
            release: Some(release(&releases)),
        };
        let system_info = SystemInfo { utsname: Some(utsname), num_cpus: Some(cpus as u32) };
        file.packet(&TracePacket { system_info: Some(system_info), ..TracePacket::default() });
        let clock = |id| Clock { clock_id: Some(id), timestamp: Some(0) };
        let clock_snapshot = ClockSnapshot { clocks: CLOCKS.map(clock).into() };
        file.packet(&TracePacket {
            timestamp: Some(0),
            clock_snapshot: Some(clock_snapshot),
            ..TracePacket::default()
        });
        let cpu = |cast: &&Cast| vec![Cpu { processor: Some(cast.release.clone()) }; cast.cpus];
        let cpu_info = CpuInfo { cpus: casts.iter().flat_map(cpu).collect() };
        file.packet(&TracePacket { cpu_info: Some(cpu_info), ..TracePacket::default() });
        let word =
            |(n, word): (usize, &&str)| EventName { iid: Some(n as u64 + 1), name: Some((*word).to_owned()) };
        let notes = InternedData {
            event_names: Vec::new(),
            debug_annotation_names: ArgName::WORDS.iter().enumerate().map(word).collect(),
        };
        file.packet(&TracePacket {
            trusted_packet_sequence_id: Some(TRACK_SEQUENCE),
            sequence_flags: Some(CLEARED),
            interned_data: Some(notes),
            ..TracePacket::default()
        });
        file
    }
    /// # Errors
    /// The first failure to write.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush();
        match self.failed {
            Some(e) => Err(e),
            None => self.out.flush().map(|()| self.out),
        }
    }

    pub(super) fn packet(&mut self, packet: &TracePacket) {
        put_message(packet, PACKET, &mut self.buffer);
        self.flush_if_full();
    }
    #[inline]
    pub(super) fn encoded(&mut self, fields: impl FnOnce(&mut Vec<u8>)) {
        let packet = self.buffer.open(PACKET);
        fields(&mut self.buffer);
        self.buffer.close(packet);
        self.flush_if_full();
    }
    #[inline]
    fn flush_if_full(&mut self) {
        if self.buffer.len() >= FULL {
            self.flush();
        }
    }
    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }
}

/// The kernel release in the file. Readers take the layout of `prev_state` from it, which in our files is always
/// 4.14's.
fn release(releases: &[&str]) -> String {
    let number = |text: &str| {
        let mut parts = text.trim_start_matches('v').split(['.', '-', '+']).map(|p| p.parse::<u32>().ok());
        Some((parts.next()??, parts.next()??))
    };
    match releases.first() {
        Some(first) if number(first).is_some_and(|n| n >= LAYOUT) => first.trim_start_matches('v').to_owned(),
        Some(first) if !first.is_empty() => format!("{}.{}.0-for-{first}", LAYOUT.0, LAYOUT.1),
        _ => format!("{}.{}.0-for-unknown", LAYOUT.0, LAYOUT.1),
    }
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn the_release_in_the_file_implies_the_written_layout() {
        for (ran, told) in [
            ("v2.6.30", "4.14.0-for-v2.6.30"),
            ("v4.5", "4.14.0-for-v4.5"),
            ("v4.14", "4.14"),
            ("6.1.192-amd64", "6.1.192-amd64"),
            ("v7.3", "7.3"),
            ("", "4.14.0-for-unknown"),
        ] {
            assert_eq!(release(&[ran]), told);
        }
    }
}
