//! Rare Protobuf messages as structs: written field by field, and read back by tests.
//!
//! [`messages`] makes a struct with its tags. An absent field is not written, as in proto2 and proto3. Reading ignores
//! fields that the struct does not have, as Protobuf readers do to stay compatible.

use super::wire::Wire;

pub trait Message: Default {
    /// Writes the present fields in the order of the struct.
    fn write(&self, out: &mut Vec<u8>);
    /// Stores one field.
    fn take(&mut self, tag: u32, value: Value<'_>);

    /// Reads a message; `None` if the bytes are not complete fields.
    fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut message = Self::default();
        while !bytes.is_empty() {
            let head = varint(&mut bytes)?;
            let value = match head & 7 {
                0 => Value::Number(varint(&mut bytes)?),
                1 => Value::Number(u64::from_le_bytes(split(&mut bytes, 8)?.try_into().ok()?)),
                2 => {
                    let length = varint(&mut bytes)?.try_into().ok()?;
                    Value::Bytes(split(&mut bytes, length)?)
                }
                5 => Value::Number(u32::from_le_bytes(split(&mut bytes, 4)?.try_into().ok()?).into()),
                _ => return None,
            };
            message.take((head >> 3) as u32, value);
        }
        Some(message)
    }
}

/// A field's value in a file.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Number(u64),
    /// A text, a message, or packed numbers.
    Bytes(&'a [u8]),
}

fn split<'a>(bytes: &mut &'a [u8], at: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(at)?;
    *bytes = rest;
    Some(first)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let byte = split(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A field's type.
pub trait Field {
    /// Writes the field, if present.
    fn put(&self, tag: u32, out: &mut Vec<u8>);
    /// Stores a value in the field.
    fn accept(&mut self, value: Value<'_>);
}

/// Writes a message as a field, with the shortest length prefix.
pub(super) fn put_message(message: &impl Message, tag: u32, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    message.write(&mut inner);
    out.bytes(tag, &inner);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for Option<$number> {
            fn put(&self, tag: u32, out: &mut Vec<u8>) {
                if let Some(number) = *self {
                    out.int(tag, number as i64);
                }
            }
            fn accept(&mut self, value: Value<'_>) {
                if let Value::Number(number) = value {
                    *self = Some(number as $number);
                }
            }
        }
        /// Numbers in one packed field.
        impl Field for Vec<$number> {
            fn put(&self, tag: u32, out: &mut Vec<u8>) {
                if !self.is_empty() {
                    let mut inner = Vec::new();
                    self.iter().for_each(|number| inner.varint(*number as i64 as u64));
                    out.bytes(tag, &inner);
                }
            }
            fn accept(&mut self, value: Value<'_>) {
                match value {
                    Value::Number(number) => self.push(number as $number),
                    Value::Bytes(mut bytes) => {
                        while let Some(number) = varint(&mut bytes) {
                            self.push(number as $number);
                        }
                    }
                }
            }
        }
    )*};
}
numbers!(i32, i64, u32, u64);

impl Field for Option<bool> {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        self.map(u32::from).put(tag, out);
    }
    fn accept(&mut self, value: Value<'_>) {
        if let Value::Number(number) = value {
            *self = Some(number != 0);
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Field for Option<String> {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        self.iter().for_each(|text| out.bytes(tag, text.as_bytes()));
    }
    fn accept(&mut self, value: Value<'_>) {
        if let Value::Bytes(bytes) = value {
            *self = Some(text(bytes));
        }
    }
}

impl Field for Vec<String> {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        self.iter().for_each(|text| out.bytes(tag, text.as_bytes()));
    }
    fn accept(&mut self, value: Value<'_>) {
        if let Value::Bytes(bytes) = value {
            self.push(text(bytes));
        }
    }
}

impl<M: Message> Field for Option<M> {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        self.iter().for_each(|message| put_message(message, tag, out));
    }
    fn accept(&mut self, value: Value<'_>) {
        if let Value::Bytes(bytes) = value {
            *self = M::read(bytes);
        }
    }
}

impl<M: Message> Field for Vec<M> {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        self.iter().for_each(|message| put_message(message, tag, out));
    }
    fn accept(&mut self, value: Value<'_>) {
        if let Value::Bytes(bytes) = value {
            self.extend(M::read(bytes));
        }
    }
}

/// Numbers of 8 bytes, each in its own field.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fixed(pub Vec<u64>);

impl Field for Fixed {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        self.0.iter().for_each(|number| out.fixed(tag, *number));
    }
    fn accept(&mut self, value: Value<'_>) {
        if let Value::Number(number) = value {
            self.0.push(number);
        }
    }
}

/// Structs for messages: `TAG NAME: TYPE` for each field, by ascending tag.
macro_rules! messages {
    ($($(#[$about:meta])* pub struct $name:ident {
        $($(#[$of_field:meta])* $tag:literal $field:ident: $kind:ty,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $name {
            $($(#[$of_field])* pub $field: $kind,)*
        }
        impl Message for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.put($tag, out);)*
            }
            fn take(&mut self, tag: u32, value: Value<'_>) {
                match tag {
                    $($tag => self.$field.accept(value),)*
                    _ => {}
                }
            }
        }
    )*};
}
pub(super) use messages;

#[cfg(test)]
mod tests {
    use super::*;

    messages! {
        pub struct Inner {
            1 number: Option<i32>,
        }
        pub struct Outer {
            1 signed: Option<i64>,
            2 names: Vec<String>,
            3 inner: Vec<Inner>,
            4 packed: Vec<i32>,
            5 fixed: Fixed,
            6 flag: Option<bool>,
        }
    }

    fn sample() -> Outer {
        Outer {
            signed: Some(-3),
            names: vec!["a".to_owned(), String::new()],
            inner: vec![Inner { number: Some(i32::MIN) }, Inner::default()],
            packed: vec![-1, 0, 300],
            fixed: Fixed(vec![u64::MAX, 7]),
            flag: Some(false),
        }
    }

    #[test]
    fn a_message_comes_back_and_unknown_fields_are_left_out() {
        let mut bytes = Vec::new();
        sample().write(&mut bytes);
        bytes.uint(99, 5);
        bytes.bytes(98, b"later");
        assert_eq!(Outer::read(&bytes), Some(sample()));
    }

    #[test]
    fn a_cut_message_is_not_read() {
        let mut bytes = Vec::new();
        bytes.uint(1, 300);
        bytes.bytes(2, b"name");
        let whole: Vec<usize> =
            (0..=bytes.len()).filter(|end| Outer::read(&bytes[..*end]).is_some()).collect();
        assert_eq!(whole, [0, 3, bytes.len()], "only where a field ends");
    }
}
