//! Protobuf by hand for frequent events: no message is built, and no memory is allocated.
//!
//! Rare messages are structs ([`messages`](super::messages)); with these, tests read back everything. A message's
//! length comes before its content, but is not known at first. So two bytes are left free, enough for 2^14 - 1: all
//! readers accept a varint that is longer than necessary.

/// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;
/// Number of bytes left free for a length.
const ROOM: usize = 2;

/// The offset of an open message's content.
#[derive(Clone, Copy)]
#[must_use]
pub(super) struct Open(usize);

/// Appends fields.
pub(super) trait Wire {
    /// A number, 7 bits per byte.
    fn varint(&mut self, value: u64);
    fn uint(&mut self, tag: u32, value: u64);
    /// A field with a signed number; a negative one takes 10 bytes.
    fn int(&mut self, tag: u32, value: i64);
    /// A field with a number of 8 bytes.
    fn fixed(&mut self, tag: u32, value: u64);
    /// A field with a text or with encoded numbers.
    fn bytes(&mut self, tag: u32, value: &[u8]);
    fn open(&mut self, tag: u32) -> Open;
    /// Ends a message. Messages end in the reverse order of their beginnings.
    fn close(&mut self, open: Open);
}

impl Wire for Vec<u8> {
    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
    #[inline]
    fn uint(&mut self, tag: u32, value: u64) {
        self.varint((tag << 3 | VARINT).into());
        self.varint(value);
    }
    #[inline]
    fn int(&mut self, tag: u32, value: i64) {
        self.uint(tag, value as u64);
    }
    #[inline]
    fn fixed(&mut self, tag: u32, value: u64) {
        self.varint((tag << 3 | FIXED64).into());
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn bytes(&mut self, tag: u32, value: &[u8]) {
        self.varint((tag << 3 | LENGTH).into());
        self.varint(value.len() as u64);
        self.extend_from_slice(value);
    }
    #[inline]
    fn open(&mut self, tag: u32) -> Open {
        self.varint((tag << 3 | LENGTH).into());
        self.extend_from_slice(&[0; ROOM]);
        Open(self.len())
    }
    #[inline]
    fn close(&mut self, open: Open) {
        let length = self.len() - open.0;
        if length >= 1 << (7 * ROOM) {
            return lengthen(self, open, length);
        }
        self[open.0 - 2] = length as u8 | 0x80;
        self[open.0 - 1] = (length >> 7) as u8;
    }
}

/// Ends a message whose length does not fit the free bytes.
#[cold]
fn lengthen(bytes: &mut Vec<u8>, open: Open, length: usize) {
    let mut number = Vec::new();
    number.varint(length as u64);
    bytes.splice(open.0 - ROOM..open.0, number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::message::Message;
    use crate::perfetto::messages::{Process, ProcessTree, TrackEvent};

    fn tree(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let process = out.open(1);
        out.uint(1, 1000);
        out.int(2, -3);
        out.bytes(3, name.as_bytes());
        out.close(process);
        out
    }

    #[test]
    fn lengths_are_right_whether_they_fit_or_not() {
        for length in [0, 1, 127, 128, 16_000, 16_383, 16_384, 3_000_000] {
            let name = "x".repeat(length);
            let told = ProcessTree::read(&tree(&name)).unwrap();
            let process = Process { pid: Some(1000), ppid: Some(-3), cmdline: vec![name] };
            assert_eq!(told.processes, [process], "{length}");
        }
    }

    #[test]
    fn a_message_in_a_message_may_be_long_too() {
        let mut out = Vec::new();
        let event = out.open(4);
        let inner = out.open(9);
        out.bytes(10, &[b'y'; 20_000]);
        out.close(inner);
        out.uint(3, 7);
        out.close(event);
        out.fixed(47, u64::MAX - 1);
        let told = TrackEvent::read(&out).unwrap();
        assert_eq!((told.debug_annotations[0].uint_value, told.flow_ids.0), (Some(7), vec![u64::MAX - 1]));
    }
}
