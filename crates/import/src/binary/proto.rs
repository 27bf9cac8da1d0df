//! Decodes Protocol Buffers as far as needed: fields, one after the other.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    Number(u64),
    /// Bytes: a text, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number, or 0.
    #[inline]
    pub fn number(self) -> u64 {
        if let Value::Number(n) = self { n } else { 0 }
    }
    /// The bytes, or none.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        if let Value::Bytes(b) = self { b } else { &[] }
    }
    /// The numbers of a repeated field, packed or single.
    pub fn numbers(self) -> Numbers<'a> {
        match self {
            Value::Number(n) => Numbers { one: Some(n), rest: &[] },
            Value::Bytes(rest) => Numbers { one: None, rest },
        }
    }
}

/// Packed numbers; they end at the first one that can't be read.
pub struct Numbers<'a> {
    one: Option<u64>,
    rest: &'a [u8],
}

impl Iterator for Numbers<'_> {
    type Item = u64;
    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.one.take().or_else(|| varint(&mut self.rest))
    }
}

/// Takes a number of variable length: seven bits in each byte, lowest first.
#[inline]
pub fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (at, byte) in from.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at as u32).min(63);
        if byte & 0x80 == 0 {
            *from = &from[at + 1..];
            return Some(number);
        }
    }
    None
}

/// The fields of a message: number and value. They end at the first one that can't be read; then `broken` is set.
pub struct Fields<'a> {
    rest: &'a [u8],
    /// Whether the fields ended before the message did.
    pub broken: bool,
}

impl<'a> Fields<'a> {
    #[inline]
    pub fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message, broken: false }
    }
    #[inline]
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = varint(&mut self.rest)?;
        let mut fixed = |n| {
            let (bytes, rest) = self.rest.split_at_checked(n)?;
            self.rest = rest;
            Some(bytes)
        };
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.rest)?),
            1 => Value::Number(u64::from_le_bytes(fixed(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Number(u32::from_le_bytes(fixed(4)?.try_into().ok()?).into()),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);
    #[inline]
    fn next(&mut self) -> Option<(u64, Value<'a>)> {
        if self.rest.is_empty() || self.broken {
            return None;
        }
        let field = self.field();
        self.broken = field.is_none();
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_kinds_are_read_and_broken_ones_end() {
        // 1: 300; 2: "ab"; 3: fixed64 1; 4: fixed32 2; 5: packed 1, 128.
        let message = [
            8, 0xac, 2, 0x12, 2, b'a', b'b', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 2, 0, 0, 0, 0x2a, 3, 1,
            0x80, 1,
        ];
        let all: Vec<_> = Fields::of(&message).collect();
        let packed = Value::Bytes(&[1, 0x80, 1]);
        let want =
            [(1, Value::Number(300)), (2, Value::Bytes(b"ab")), (3, Value::Number(1)), (4, Value::Number(2))];
        assert_eq!((&all[..4], all[4]), (&want[..], (5, packed)));
        assert_eq!(packed.numbers().collect::<Vec<_>>(), [1, 128]);
        assert_eq!(Value::Number(7).numbers().collect::<Vec<_>>(), [7]);
        for end in 0..message.len() {
            let mut fields = Fields::of(&message[..end]);
            let n = fields.by_ref().count();
            assert_eq!(fields.broken, ![0, 3, 7, 16, 21].contains(&end), "{end}: {n}");
        }
        assert_eq!(varint(&mut &[0xff; 12][..]), None);
        assert_eq!(
            varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..]),
            Some(u64::MAX)
        );
    }
}
