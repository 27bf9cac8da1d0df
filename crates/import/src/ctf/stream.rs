//! A stream of a trace: packets of one CPU, event after event.

use super::bits::{Bits, Scope};
use super::tsdl::{Description, StreamClass};
use crate::sched_record::MAX_CPUS;
use schedlab_base::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The longest packet, bytes.
const MOST_OF_PACKET: u64 = 256 << 20;
/// Bytes of a packet that are read to find its length.
const HEAD: u64 = 4096;
/// The number with which a trace's packets begin.
const MAGIC: i64 = 0xc1fc_1fc1;

/// The next part of a stream.
pub enum Next {
    /// An event. Its fields are [`Stream::scope`].
    Event {
        at_ns: u64,
        cpu: u32,
    },
    Lost {
        cpu: u32,
        count: u64,
    },
    /// An event that can't be read; the rest of its packet is passed over.
    Unreadable,
    /// The file ends within a packet.
    Cut,
    /// The file ends after a packet.
    End,
}

/// A stream that is being read.
pub struct Stream {
    file: File,
    /// Offset of the next packet, bytes.
    next_at: u64,
    packet: Vec<u8>,
    /// The end of the packet's content, and the current place, in bits.
    end: u64,
    at: u64,
    class: u64,
    /// The CPU, once a packet has named it.
    pub cpu: Option<u32>,
    /// The clock's last count.
    count: u64,
    lost: u64,
    over: bool,
    /// Whether the file does not begin like a stream of this trace.
    pub is_foreign: bool,
    /// The last event: its number, and the place of its fields.
    event: u64,
    fields_at: u64,
}

impl Stream {
    pub fn of(file: File) -> Stream {
        Stream {
            file,
            next_at: 0,
            packet: Vec::new(),
            end: 0,
            at: 0,
            class: 0,
            cpu: None,
            count: 0,
            lost: 0,
            over: false,
            is_foreign: false,
            event: 0,
            fields_at: 0,
        }
    }

    fn class<'d>(&self, description: &'d Description) -> Option<&'d StreamClass> {
        description.streams.get(&self.class)
    }

    /// The name of the last event.
    pub fn name<'d>(&self, description: &'d Description) -> &'d str {
        description.event(self.class, self.event).map_or("", |e| &e.name)
    }

    /// The fields of the last event.
    pub fn scope<'s>(&'s self, description: &'s Description) -> Scope<'s> {
        let mut scope = Scope::default();
        let mut at = Bits::of(&self.packet, self.fields_at, self.end);
        // This can't fail: they were read before, to find their end.
        let _ = self.fields(description, &mut scope, &mut at);
        scope
    }

    fn fields<'s>(
        &'s self,
        description: &'s Description,
        scope: &mut Scope<'s>,
        at: &mut Bits<'s>,
    ) -> Option<()> {
        let event = description.event(self.class, self.event)?;
        let common = self.class(description)?.event_context;
        for which in [common, event.context, event.fields].into_iter().flatten() {
            scope.read(&description.types, which, "", at)?;
        }
        Some(())
    }

    /// Moves to the next event.
    ///
    /// # Errors
    /// When the file can't be read, or is not a stream of this trace.
    pub fn advance(&mut self, description: &Description) -> Result<Next> {
        while self.at >= self.end {
            if self.over {
                return Ok(Next::End);
            }
            if let Some(next) = self.open(description)? {
                return Ok(next);
            }
        }
        Ok(self.read_event(description).unwrap_or_else(|| {
            self.at = self.end;
            Next::Unreadable
        }))
    }

    fn read_event(&mut self, description: &Description) -> Option<Next> {
        let class = self.class(description)?;
        let mut scope = Scope::default();
        let mut at = Bits::of(&self.packet, self.at, self.end);
        scope.read(&description.types, class.event_header?, "", &mut at)?;
        let event = u64::try_from(scope.number("id").unwrap_or(0)).ok()?;
        let clock = scope.clock;
        drop(scope);
        self.event = event;
        self.fields_at = at.at();
        let mut scope = Scope::default();
        let mut at = Bits::of(&self.packet, self.fields_at, self.end);
        self.fields(description, &mut scope, &mut at)?;
        // An event of no bits would be read forever.
        let ends = at.at();
        drop(scope);
        if ends <= self.at {
            return None;
        }
        self.at = ends;
        if let Some((count, bits)) = clock {
            self.clock(count, bits);
        }
        let cpu = self.cpu.unwrap_or(0);
        Some(Next::Event { at_ns: description.clock.ns(self.count), cpu })
    }

    /// Takes a count. One of fewer than 64 bits continues from the last one.
    fn clock(&mut self, count: u64, bits: u32) {
        if bits >= 64 {
            self.count = count;
            return;
        }
        let mask = (1_u64 << bits) - 1;
        let before = self.count & mask;
        self.count = (self.count & !mask).wrapping_add(count);
        if count < before {
            self.count = self.count.wrapping_add(mask + 1);
        }
    }

    /// Reads the next packet; also what its head reports before its first event (a loss).
    fn open(&mut self, description: &Description) -> Result<Option<Next>> {
        let failed = |e: &std::io::Error| Error::machine(format!("a stream of the trace can't be read: {e}"));
        let size = self.file.metadata().map_err(|e| failed(&e))?.len();
        let left = size.saturating_sub(self.next_at);
        if left == 0 {
            self.over = true;
            return Ok(None);
        }
        let mut head = vec![0; left.min(HEAD) as usize];
        self.file.read_exact_at(&mut head, self.next_at).map_err(|e| failed(&e))?;
        let Some(told) = Packet::of(&head, description) else {
            self.over = true;
            // A foreign file, or a stream whose head is damaged. A packet that ends in its head is cut.
            self.is_foreign = self.next_at == 0 && !(left >= 4 && is_magic(&head, description));
            return Ok((!self.is_foreign).then_some(Next::Cut));
        };
        let bytes = told.packet_bits.map_or(left, |bits| bits.div_ceil(8));
        if bytes > MOST_OF_PACKET || bytes * 8 < told.at {
            return Err(
                Error::input("a packet of the trace has a length that can't be").help("record it anew")
            );
        }
        let whole = bytes <= left;
        self.packet.resize(bytes.min(left) as usize, 0);
        self.file.read_exact_at(&mut self.packet, self.next_at).map_err(|e| failed(&e))?;
        self.next_at = self.next_at.saturating_add(bytes.max(1));
        (self.at, self.end) =
            (told.at, told.content_bits.unwrap_or(8 * bytes).min(8 * self.packet.len() as u64));
        self.class = told.class;
        self.count = told.begins.unwrap_or(self.count);
        if let Some(cpu) = told.cpu {
            self.cpu = Some(cpu);
        }
        if !whole {
            self.over = true;
            return Ok(Some(Next::Cut));
        }
        let lost = told.lost.saturating_sub(self.lost);
        self.lost = told.lost.max(self.lost);
        Ok((lost > 0).then_some(Next::Lost { cpu: self.cpu.unwrap_or(0), count: lost }))
    }
}

/// Whether a packet begins with the magic number.
fn is_magic(head: &[u8], description: &Description) -> bool {
    let Some(bytes) = head.first_chunk() else { return false };
    let magic = if description.types.big { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) };
    i64::from(magic) == MAGIC
}

/// The content of a packet's head.
struct Packet {
    class: u64,
    content_bits: Option<u64>,
    packet_bits: Option<u64>,
    begins: Option<u64>,
    lost: u64,
    cpu: Option<u32>,
    /// Where the packet's events begin, bits.
    at: u64,
}

impl Packet {
    fn of(head: &[u8], description: &Description) -> Option<Packet> {
        let mut at = Bits::of(head, 0, u64::MAX);
        let mut scope = Scope::default();
        if let Some(which) = description.packet_header {
            scope.read(&description.types, which, "", &mut at)?;
        }
        if scope.number("magic").is_some_and(|magic| magic & 0xffff_ffff != MAGIC) {
            return None;
        }
        let class = scope.number("stream_id").map_or(Some(0), |n| u64::try_from(n).ok())?;
        let stream = description.streams.get(&class)?;
        let mut scope = Scope::default();
        if let Some(which) = stream.packet_context {
            scope.read(&description.types, which, "", &mut at)?;
        }
        let number = |name: &str| scope.number(name).map(|n| n as u64);
        let cpu = number("cpu_id").map(|cpu| u32::try_from(cpu).ok().filter(|cpu| *cpu < MAX_CPUS));
        Some(Packet {
            class,
            content_bits: number("content_size"),
            packet_bits: number("packet_size"),
            begins: number("timestamp_begin"),
            lost: number("events_discarded").unwrap_or(0),
            cpu: cpu.map_or(Some(None), |cpu| cpu.map(Some))?,
            at: at.at(),
        })
    }
}
