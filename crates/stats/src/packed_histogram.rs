//! A stored histogram: HDR's V2 encoding, a few bytes for each bucket in use.
//!
//! Its payload is a list of variable-length numbers in the order of buckets: a positive number is a bucket's count, a
//! negative one counts empty buckets. It is read without an array of all buckets. [`Packed`] accepts only bytes exactly
//! as schedlab writes them; others are read by the crate that defines the format.

use crate::series::{DIGITS, read_histogram};
use crate::tally::{bucket, middle_of};
use hdrhistogram::Histogram;

const COOKIE: u32 = 0x1c84_9313;
/// Cookie, length of the payload, offset, digits, least and largest value, ratio.
const HEADER: usize = 40;
/// Bytes of the longest number.
const LONGEST: usize = 9;
/// The largest value that fits every histogram of three digits, even one made for smaller values.
const ALWAYS: u64 = 2047;

#[derive(Clone, Debug)]
pub struct Packed {
    bytes: Box<[u8]>,
    count: u64,
}

impl Packed {
    /// `None` unless every byte is as schedlab writes it.
    pub fn new(bytes: &[u8]) -> Option<Packed> {
        let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let length = word(4)? as usize;
        let as_written = word(0)? == COOKIE
            && (word(8)?, word(12)?, long(16)?) == (0, u32::from(DIGITS), 1)
            && long(32)? == 1f64.to_bits()
            && bytes.len() == HEADER + length;
        as_written.then_some(())?;
        let last = bucket(long(24)?.max(ALWAYS));
        let (mut count, mut at) = (0u64, 0usize);
        let mut rest = &bytes[HEADER..];
        while !rest.is_empty() {
            match number(&mut rest)? {
                n if n > 0 => {
                    (at <= last).then_some(())?;
                    (count, at) = (count.checked_add(n as u64)?, at + 1);
                }
                0 => at += 1,
                empty => at = at.checked_add(usize::try_from(empty.unsigned_abs()).ok()?)?,
            }
        }
        Some(Packed { bytes: bytes.into(), count })
    }
    /// Packs counts by bucket as the format's crate packs a histogram that was given the values. `most` is the largest.
    pub fn of(counts: &[u64], most: u64) -> Packed {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(&COOKIE.to_be_bytes());
        bytes[12..16].copy_from_slice(&u32::from(DIGITS).to_be_bytes());
        bytes[16..24].copy_from_slice(&1u64.to_be_bytes());
        // Values that fit every histogram do not make it grow.
        let high = if most > ALWAYS { (u64::MAX >> most.leading_zeros()).min(u64::MAX - 1) } else { 2 };
        bytes[24..32].copy_from_slice(&high.to_be_bytes());
        bytes[32..40].copy_from_slice(&1f64.to_be_bytes());
        let (mut rest, mut count) = (&counts[..=bucket(most)], 0u64);
        while let Some((n, after)) = rest.split_first() {
            let empty = rest.iter().take_while(|n| **n == 0).count();
            rest = if empty > 1 { &rest[empty..] } else { after };
            count += n;
            write_number(if empty > 1 { -(empty as i64) } else { *n as i64 }, &mut bytes);
        }
        let length = (bytes.len() - HEADER) as u32;
        bytes[4..8].copy_from_slice(&length.to_be_bytes());
        Packed { bytes: bytes.into(), count }
    }
    /// As they are stored.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The middle of each bucket in use, with its count, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut rest, mut at) = (&self.bytes[HEADER..], 0usize);
        std::iter::from_fn(move || {
            while !rest.is_empty() {
                let here = at;
                match number(&mut rest)? {
                    n if n > 0 => {
                        at += 1;
                        return Some((middle_of(here), n as u64));
                    }
                    0 => at += 1,
                    empty => at += empty.unsigned_abs() as usize,
                }
            }
            None
        })
    }
    /// The middle of the bucket that holds the value of this rank, from 1; a loop of its own, since a run is asked for
    /// many percentiles.
    pub fn at_rank(&self, rank: u64) -> Option<u64> {
        let (mut rest, mut at, mut seen) = (&self.bytes[HEADER..], 0usize, 0u64);
        while let Some((first, after)) = rest.split_first() {
            let n = if *first < 0x80 {
                rest = after;
                signed(u64::from(*first))
            } else {
                number(&mut rest)?
            };
            if n > 0 {
                seen += n as u64;
                if seen >= rank {
                    return Some(middle_of(at));
                }
                at += 1;
            } else {
                at += n.unsigned_abs().max(1) as usize;
            }
        }
        None
    }
    pub fn unpack(&self) -> Histogram<u64> {
        // The bytes were checked, so this can't fail; if it did, the counts would still be right.
        read_histogram(&self.bytes).unwrap_or_else(|_| {
            let mut hist = Histogram::new(DIGITS).expect("three digits are within what the histogram allows");
            self.buckets().for_each(|(value, n)| hist.saturating_record_n(value, n));
            hist
        })
    }
}

/// The next number of a payload: seven bits in each byte, lowest first, eight in the ninth byte. The lowest bit is the
/// sign.
fn number(rest: &mut &[u8]) -> Option<i64> {
    let mut word = 0u64;
    for i in 0..LONGEST {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let last = i == LONGEST - 1;
        let bits = if last { *byte } else { *byte & 0x7f };
        word |= u64::from(bits) << (7 * i);
        if last || *byte < 0x80 {
            break;
        }
    }
    Some(signed(word))
}

fn signed(word: u64) -> i64 {
    (word >> 1) as i64 ^ -((word & 1) as i64)
}

/// Writes a number as [`number`] reads it.
fn write_number(number: i64, bytes: &mut Vec<u8>) {
    let mut word = (number << 1 ^ number >> 63) as u64;
    for _ in 1..LONGEST {
        if word < 0x80 {
            break;
        }
        bytes.push(word as u8 | 0x80);
        word >>= 7;
    }
    bytes.push(word as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    fn encoded(values: &[(u64, u64)]) -> (Histogram<u64>, Vec<u8>) {
        let mut hist = Histogram::new(DIGITS).unwrap();
        values.iter().for_each(|(value, n)| hist.record_n(*value, *n).unwrap());
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&hist, &mut bytes).unwrap();
        (hist, bytes)
    }

    proptest! {
        #[test]
        fn packed_buckets_are_those_of_the_histogram(
            values in prop::collection::vec((any::<u64>(), 0u32..64, 1u64..1 << 40), 0..200),
        ) {
            let values: Vec<(u64, u64)> = values.into_iter().map(|(v, shift, n)| (v >> shift, n)).collect();
            let (hist, bytes) = encoded(&values);
            let packed = Packed::new(&bytes).unwrap();
            let all = hist.iter_recorded();
            let all: Vec<_> =
                all.map(|s| (hist.median_equivalent(s.value_iterated_to()), s.count_at_value())).collect();
            prop_assert_eq!(packed.buckets().collect::<Vec<_>>(), all);
            prop_assert_eq!(packed.count(), hist.len());
            prop_assert_eq!(packed.unpack(), hist);
        }

        #[test]
        fn damaged_bytes_never_make_it_panic(at in 0usize..60, byte: u8, cut in 0usize..60) {
            let (_, mut bytes) = encoded(&[(5, 3), (70_000, 1), (1 << 40, 9)]);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Some(packed) = Packed::new(&bytes) {
                let sum = packed.buckets().map(|(_, n)| n).sum::<u64>();
                prop_assert_eq!((cut, sum), (0, packed.count()));
            }
        }
    }

    #[test]
    fn other_encodings_are_left_to_the_formats_crate() {
        let (_, bytes) = encoded(&[(5, 3)]);
        for (at, byte) in [(0, 0), (11, 1), (15, 2), (23, 2), (32, 0)] {
            let mut other = bytes.clone();
            other[at] = byte;
            assert!(Packed::new(&other).is_none(), "byte {at}");
        }
    }
}
