//! Reads values from the bits of a packet, by the types of the description.

use super::tsdl::{Kind, Types, Which};

/// The most fields and elements of an event.
const MOST_VALUES: usize = 1 << 14;
/// The deepest nesting of types.
const DEPTH: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'p> {
    /// A number. An unsigned one of 64 bits keeps its bits.
    Number(i64),
    /// A text, up to its first zero.
    Text(&'p [u8]),
}

/// The values of fields by name, in the order in which they were read; inner ones next to outer ones.
#[derive(Default)]
pub struct Scope<'p> {
    values: Vec<(&'p str, Value<'p>)>,
    /// The enumerations of values, by name.
    enums: Vec<(&'p str, Which)>,
    steps: usize,
    /// The last number that is a clock's count, and its bits.
    pub clock: Option<(u64, u32)>,
}

impl<'p> Scope<'p> {
    /// The last value of a name.
    pub fn value(&self, name: &str) -> Option<Value<'p>> {
        self.values.iter().rev().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
    /// The last number of a name.
    pub fn number(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Number(n) => Some(n),
            Value::Text(_) => None,
        }
    }

    /// Reads a value of a type, and the values in it.
    pub fn read(&mut self, types: &'p Types, which: Which, name: &'p str, at: &mut Bits<'p>) -> Option<()> {
        self.inner(types, which, name, at, DEPTH)
    }

    fn inner(
        &mut self,
        types: &'p Types,
        which: Which,
        name: &'p str,
        at: &mut Bits<'p>,
        depth: usize,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.steps += 1;
        if self.steps > MOST_VALUES {
            return None;
        }
        match types.kind(which) {
            Kind::Integer { bits, align, signed, big, clock, .. } => {
                at.align(*align)?;
                let raw = at.number(*bits, big.unwrap_or(types.big))?;
                if *clock {
                    self.clock = Some((raw, *bits));
                }
                let shift = 64 - *bits;
                let number = if *signed { (raw as i64) << shift >> shift } else { raw as i64 };
                self.values.push((name, Value::Number(number)));
            }
            Kind::Skipped { bits, align } => {
                at.align(*align)?;
                at.skip(u64::from(*bits))?;
            }
            Kind::Text => {
                at.align(8)?;
                let text = at.text()?;
                self.values.push((name, Value::Text(text)));
            }
            Kind::Enum { of, .. } => {
                self.inner(types, *of, name, at, depth)?;
                self.enums.push((name, which));
            }
            Kind::Struct { fields, .. } => {
                at.align(types.align(which))?;
                for (field, which) in fields {
                    self.inner(types, *which, field, at, depth)?;
                }
            }
            Kind::Variant { tag, options } => {
                let (_, of) = self.enums.iter().rev().find(|(name, _)| name == tag)?;
                let label = types.label(*of, self.number(tag)?)?;
                let (_, which) = options.iter().find(|(option, _)| option == label)?;
                self.inner(types, *which, name, at, depth)?;
            }
            Kind::Array { of, length } => self.elements(types, *of, name, u64::from(*length), at, depth)?,
            Kind::Sequence { of, length } => {
                let length = u64::try_from(self.number(length)?).ok()?;
                self.elements(types, *of, name, length, at, depth)?;
            }
        }
        Some(())
    }

    /// Reads elements: a text if they are characters; others are passed over.
    fn elements(
        &mut self,
        types: &'p Types,
        of: Which,
        name: &'p str,
        length: u64,
        at: &mut Bits<'p>,
        depth: usize,
    ) -> Option<()> {
        if let Kind::Integer { bits: 8, align: 8, is_text, .. } = types.kind(of) {
            at.align(8)?;
            let bytes = at.bytes(length)?;
            if *is_text {
                let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
                self.values.push((name, Value::Text(&bytes[..end])));
            }
            return Some(());
        }
        let (held, enums, steps) = (self.values.len(), self.enums.len(), self.steps);
        for _ in 0..length {
            let before = at.at();
            self.inner(types, of, name, at, depth)?;
            // Elements count by the bits that they take, not as fields.
            if at.at() == before {
                return None;
            }
            self.values.truncate(held);
            self.enums.truncate(enums);
            self.steps = steps;
        }
        Some(())
    }
}

/// A place in a packet, in bits.
#[derive(Clone, Copy)]
pub struct Bits<'p> {
    bytes: &'p [u8],
    at: u64,
    end: u64,
}

impl<'p> Bits<'p> {
    /// The first `end` bits of a packet, from `at` on.
    pub fn of(bytes: &'p [u8], at: u64, end: u64) -> Bits<'p> {
        Bits { bytes, at, end: end.min(8 * bytes.len() as u64) }
    }
    /// The place, in bits.
    pub fn at(&self) -> u64 {
        self.at
    }
    fn align(&mut self, to: u32) -> Option<()> {
        let to = u64::from(to.max(1));
        self.at = self.at.div_ceil(to) * to;
        (self.at <= self.end).then_some(())
    }
    fn skip(&mut self, bits: u64) -> Option<()> {
        self.at = self.at.checked_add(bits)?;
        (self.at <= self.end).then_some(())
    }
    fn number(&mut self, bits: u32, big: bool) -> Option<u64> {
        let from = self.at;
        self.skip(u64::from(bits))?;
        let mut all = 0_u64;
        if from.is_multiple_of(8) && bits.is_multiple_of(8) {
            let bytes = &self.bytes[(from / 8) as usize..(self.at / 8) as usize];
            let next = |all: u64, b: &u8| all << 8 | u64::from(*b);
            return Some(if big { bytes.iter().fold(0, next) } else { bytes.iter().rev().fold(0, next) });
        }
        // Bits fill bytes from the lowest on; with the other byte order, from the highest.
        for n in 0..u64::from(bits) {
            let (byte, bit) = (self.bytes[((from + n) / 8) as usize], (from + n) % 8);
            if big {
                all = all << 1 | u64::from(byte >> (7 - bit) & 1);
            } else {
                all |= u64::from(byte >> bit & 1) << n;
            }
        }
        Some(all)
    }
    fn bytes(&mut self, n: u64) -> Option<&'p [u8]> {
        let from = (self.at / 8) as usize;
        self.skip(n.checked_mul(8)?)?;
        Some(&self.bytes[from..(self.at / 8) as usize])
    }
    fn text(&mut self) -> Option<&'p [u8]> {
        let rest = self.bytes.get((self.at / 8) as usize..(self.end / 8) as usize)?;
        let length = memchr::memchr(0, rest)?;
        self.skip(8 * (length as u64 + 1))?;
        Some(&rest[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_few_bits_are_read_in_both_orders() {
        // 5 bits of id and 27 of time, as LTTng packs them.
        let word = (123_456_789_u32 << 5 | 17).to_le_bytes();
        let mut at = Bits::of(&word, 0, 32);
        assert_eq!((at.number(5, false), at.number(27, false), at.at()), (Some(17), Some(123_456_789), 32));
        let big = [0b1000_1000, 0b0000_0001];
        let mut at = Bits::of(&big, 0, 16);
        assert_eq!((at.number(5, true), at.number(11, true)), (Some(0b10001), Some(1)));
        assert_eq!(at.number(1, true), None);
    }
}
