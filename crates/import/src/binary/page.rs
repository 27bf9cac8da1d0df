//! Sub-buffers of the kernel's ring buffer, as `trace_pipe_raw` gives them.
//!
//! A sub-buffer begins with the time of its first record (64 bits) and the number of bytes in use, with flags in its
//! high bits; `events/header_page` gives the width of the latter. Records begin with a word of 32 bits: 5 bits of type
//! or length in words, 27 bits of time since the record before (`events/header_event`; on big-endian machines the bits
//! are in the other order). Mirrors kernel/trace/ring_buffer.c of 2.6.30 and later; since 4.15 there are also absolute
//! time stamps.

use schedlab_base::{Error, Result};

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// Number of time bits in an absolute stamp; the bits above them are those of the time before.
const STAMP_BITS: u32 = 59;
/// Set in the field of bytes in use when records before this sub-buffer were overwritten.
const MISSED: u64 = 1 << 31;
/// Set if the number of overwritten records is stored after the last record.
const MISSED_STORED: u64 = 1 << 30;
const USED: u64 = (1 << 27) - 1;

/// The layout of this kernel's sub-buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Width of the field with the number of bytes in use.
    commit_bytes: usize,
    /// Offset of the first record.
    data_at: usize,
    /// Size of a whole sub-buffer.
    pub bytes: usize,
}

impl Head {
    /// Reads the text of `events/header_page`.
    ///
    /// # Errors
    /// When the text does not give the places of the fields.
    pub fn parse(text: &str) -> Result<Head> {
        let field = |name: &str| {
            let line = text.lines().find(|l| {
                l.split(';').next().is_some_and(|d| d.split_whitespace().next_back() == Some(name))
            })?;
            let number = |key: &str| {
                line.split(';').find_map(|p| p.trim().strip_prefix(key)?.trim().parse::<usize>().ok())
            };
            Some((number("offset:")?, number("size:")?))
        };
        let known = || {
            let (stamp_at, stamp) = field("timestamp")?;
            let (commit_at, commit_bytes) = field("commit")?;
            let (data_at, data) = field("data")?;
            let fits = (stamp_at, stamp, commit_at) == (0, 8, 8) && matches!(commit_bytes, 4 | 8);
            fits.then_some(Head { commit_bytes, data_at, bytes: data_at + data })
        };
        known().ok_or_else(|| {
            Error::machine("the kernel's ring buffer is laid out in a way that schedlab does not know")
        })
    }
}

impl Head {
    /// The same layout for sub-buffers of another size (since 6.8 each buffer may have its own).
    #[must_use]
    pub fn of_size(self, bytes: usize) -> Head {
        Head { bytes, ..self }
    }
}

pub enum Part<'a> {
    /// This many records before it were overwritten; 1 if the number is unknown.
    Missed(u64),
    /// A record: its time, and the tracepoint's bytes.
    Record(u64, &'a [u8]),
}

/// Gives all parts of a sub-buffer to `give`; ends early if it is malformed.
pub fn read<'a>(head: &Head, page: &'a [u8], mut give: impl FnMut(Part<'a>)) {
    let (Some(mut at_ns), Some(commit)) = (long(page, 0), commit(head, page)) else { return };
    let Some(data) = page.get(head.data_at..head.data_at + (commit & USED) as usize) else { return };
    if commit & MISSED != 0 {
        let behind = head.data_at + data.len();
        let told = (commit & MISSED_STORED != 0).then(|| long(page, behind)).flatten();
        give(Part::Missed(told.unwrap_or(1)));
    }
    let mut rest = data;
    while let Some(first) = word(rest, 0) {
        let (kind, delta) = (first & 31, u64::from(first >> 5));
        let second = word(rest, 4);
        let taken = match (kind, second) {
            (PADDING, _) if delta == 0 => return,
            (PADDING, Some(length)) => 4 + length as usize,
            (TIME_EXTEND | TIME_STAMP, Some(_)) => 8,
            (0, Some(length)) => 4 + (length as usize).next_multiple_of(4),
            (1..PADDING, _) => 4 + 4 * kind as usize,
            _ => return,
        };
        let whole = u64::from(second.unwrap_or(0)) << DELTA_BITS | delta;
        at_ns = match kind {
            TIME_STAMP => stamp(at_ns, whole),
            TIME_EXTEND => at_ns + whole,
            _ => at_ns + delta,
        };
        match kind {
            0 => rest.get(8..taken),
            1..PADDING => rest.get(4..taken),
            _ => None,
        }
        .into_iter()
        .for_each(|record| give(Part::Record(at_ns, record)));
        let Some(next) = rest.get(taken..) else { return };
        rest = next;
    }
}

/// The time of an absolute stamp, whose highest bits are those of the time before it.
fn stamp(before_ns: u64, low: u64) -> u64 {
    let at = before_ns >> STAMP_BITS << STAMP_BITS | low;
    if at < before_ns { at + (1 << STAMP_BITS) } else { at }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

fn commit(head: &Head, page: &[u8]) -> Option<u64> {
    if head.commit_bytes == 8 { long(page, 8) } else { word(page, 8).map(u64::from) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn event(kind: u32, delta: u32, words: &[u32]) -> Vec<u8> {
        let head = [kind | delta << 5];
        head.iter().chain(words).flat_map(|w| w.to_ne_bytes()).collect()
    }

    fn page(at_ns: u64, flags: u64, data: &[u8]) -> Vec<u8> {
        let mut page = at_ns.to_ne_bytes().to_vec();
        page.extend((data.len() as u64 | flags).to_ne_bytes());
        page.extend(data);
        page
    }

    fn records(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
        let (mut records, mut missed) = (Vec::new(), 0);
        read(&Head::parse(HEADER).unwrap(), page, |part| match part {
            Part::Record(at, bytes) => records.push((at, bytes.to_vec())),
            Part::Missed(n) => missed += n,
        });
        (records, missed)
    }

    #[test]
    fn the_layout_is_read_from_the_kernels_description() {
        assert_eq!(Head::parse(HEADER).unwrap(), Head { commit_bytes: 8, data_at: 16, bytes: 4096 });
        let narrow =
            HEADER.replace("offset:8;\tsize:8", "offset:8;\tsize:4").replace("offset:16", "offset:12");
        assert_eq!(Head::parse(&narrow).unwrap().data_at, 12);
        assert!(Head::parse("field: u64 timestamp;").is_err());
    }

    #[test]
    fn records_have_summed_times_and_their_bytes() {
        let mut data = event(1, 5, &[7]);
        data.extend(event(TIME_EXTEND, 3, &[1]));
        data.extend(event(0, 2, &[12, 8, 9])); // the length includes its own word
        data.extend(event(PADDING, 4, &[8, 0])); // a discarded record
        data.extend(event(2, 1, &[10, 11]));
        data.extend(event(TIME_STAMP, 6, &[2]));
        data.extend(event(1, 0, &[12]));
        data.extend(event(PADDING, 0, &[0, 0]));
        let (records, missed) = records(&page(1_000, 0, &data));
        let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let extended = 1_005 + 3 + (1 << 27) + 2;
        let want = [
            (1_005, bytes(&[7])),
            (extended, bytes(&[8, 9])),
            (extended + 5, bytes(&[10, 11])),
            ((2 << 27) + 6, bytes(&[12])),
        ];
        assert_eq!((records.as_slice(), missed), (&want[..], 0));
    }

    #[test]
    fn overwritten_records_are_reported_and_broken_pages_end() {
        let data = event(1, 5, &[7]);
        let mut whole = page(1_000, MISSED | MISSED_STORED, &data);
        whole.extend(17u64.to_ne_bytes());
        assert_eq!(records(&whole).1, 17);
        assert_eq!(records(&page(1_000, MISSED, &data)).1, 1);
        for cut in 0..whole.len() {
            records(&whole[..cut]);
        }
        assert!(records(&page(0, 0, &event(0, 1, &[u32::MAX]))).0.is_empty());
        assert_eq!(stamp((1 << 60) | 50, 20), (1 << 60) + (1 << 59) + 20);
    }
}
