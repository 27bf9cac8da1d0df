//! A JSON reader for people's files: it keeps the order of members and the place of each value, and tolerates
//! everything that rt-app's readers tolerate.
//!
//! json-c, rt-app's library, accepts `/* */` and `//` comments, a comma after the last element, strings in single
//! quotes, and `True`/`FALSE` in any case. The script `workgen` of rt-app, which prepares files for it, does two more
//! things: it numbers repeated keys of an object, and adds a value to a `suspend` without one. This reader does both in
//! the same way. Later readers know which keys are events, and judge whether a repeated key makes sense
//! ([`Member::repeats`]).
//!
//! Order matters because a phase's events run in the order of the file. Places matter because later errors have a line
//! and column. Numbers stay text until a reader asks for one with a range, so that none is rounded. Depth is limited,
//! so that no input overflows the stack. The work is linear in the length of the text (times a logarithm for keys).

use schedlab_base::{Error, Result, Spot};
use std::collections::BTreeMap;
use std::path::Path;

/// The deepest nesting that is read.
const MAX_DEPTH: usize = 32;

/// A text and its file.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    file: &'a Path,
    text: &'a str,
}

impl<'a> Source<'a> {
    /// `file` is the name in messages.
    pub fn new(file: &'a str, text: &'a str) -> Source<'a> {
        Source { file: Path::new(file), text }
    }
    /// An error at byte `at` of the text.
    pub fn error(&self, at: usize, message: impl Into<String>) -> Error {
        Error::input(message).at(self.spot(at))
    }
    /// The place of byte `at`.
    pub fn spot(&self, at: usize) -> Spot {
        Spot::at_offset(self.file, self.text, at)
    }
}

/// A value with its byte offset.
#[derive(Clone, Debug)]
pub struct Value {
    /// Byte offset of the first character.
    pub at: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Null,
    Bool(bool),
    Number(String),
    /// A string, unescaped.
    Text(String),
    List(Vec<Value>),
    /// Members are in the order of the file.
    Object(Vec<Member>),
}

#[derive(Clone, Debug)]
pub struct Member {
    pub key: String,
    /// Byte offset of the key.
    pub at: usize,
    /// Set if the object has the same key earlier.
    pub repeats: Option<Repeat>,
    pub value: Value,
}

/// The first place of a repeated key, and its number.
#[derive(Clone, Copy, Debug)]
pub struct Repeat {
    /// Byte offset of the first one.
    pub first: usize,
    /// The number that `workgen` would append.
    pub number: usize,
}

impl Member {
    /// The key after `workgen`, unique in its object.
    pub fn name(&self) -> String {
        self.repeats.map_or_else(|| self.key.clone(), |r| format!("{}{}", self.key, r.number))
    }
}

impl Kind {
    /// The kind's name with an article, for messages.
    pub fn noun(&self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a string",
            Kind::List(_) => "an array",
            Kind::Object(_) => "an object",
        }
    }
}

/// Reads one JSON value that is the whole text.
///
/// # Errors
/// When the text is malformed or nested deeper than 32. The error has line and column.
pub fn parse(source: Source<'_>) -> Result<Value> {
    let mut reader = Reader { source, bytes: source.text.as_bytes(), at: 0 };
    reader.blank()?;
    let value = reader.value(0)?;
    reader.blank()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.unexpected("the end of the file")),
    }
}

/// The places of an object's keys, and the numbers that repeated keys get.
#[derive(Default)]
struct Names {
    seen: BTreeMap<String, usize>,
    /// The last number. All keys of the object share one count, as in `workgen`.
    number: usize,
}

impl Names {
    /// Notes the key at `at`; returns whether it repeats an earlier one.
    fn note(&mut self, key: &str, at: usize) -> Option<Repeat> {
        let Some(first) = self.seen.get(key).copied() else {
            self.seen.insert(key.to_owned(), at);
            return None;
        };
        self.number = self.number.max(1);
        while self.seen.contains_key(&format!("{key}{}", self.number)) {
            self.number += 1;
        }
        self.seen.insert(format!("{key}{}", self.number), at);
        Some(Repeat { first, number: self.number })
    }
}

struct Reader<'a> {
    source: Source<'a>,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
    /// Consumes `c` if it is next; returns whether it was.
    fn eat(&mut self, c: u8) -> bool {
        let hit = self.peek() == Some(c);
        self.at += usize::from(hit);
        hit
    }
    fn unexpected(&self, wanted: &str) -> Error {
        let found = match self.source.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) if c.is_control() => format!("'{}'", c.escape_default()),
            Some(c) => format!("'{c}'"),
            None => "the end of the file".to_owned(),
        };
        self.source.error(self.at, format!("expected {wanted}, found {found}"))
    }

    /// Skips white space and comments.
    fn blank(&mut self) -> Result<()> {
        loop {
            let rest = &self.bytes[self.at..];
            match rest {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => self.at += 1,
                [b'/', b'/', ..] => self.at += rest.iter().position(|c| *c == b'\n').unwrap_or(rest.len()),
                [b'/', b'*', body @ ..] => match body.windows(2).position(|w| w == b"*/") {
                    Some(length) => self.at += length + 4,
                    None => return Err(self.source.error(self.at, "this comment is never closed")),
                },
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(self.source.error(self.at, format!("nested more than {MAX_DEPTH} deep")));
        }
        let at = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"' | b'\'') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word()?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Value { at, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Kind> {
        let (mut members, mut names) = (Vec::new(), Names::default());
        self.at += 1;
        loop {
            self.blank()?;
            if self.eat(b'}') {
                return Ok(Kind::Object(members));
            }
            let at = self.at;
            if !matches!(self.peek(), Some(b'"' | b'\'')) {
                return Err(self.unexpected("a key in quotes or '}'"));
            }
            let key = self.string()?;
            self.blank()?;
            let value = self.member_value(&key, at, depth)?;
            let repeats = names.note(&key, at);
            members.push(Member { key, at, repeats, value });
            self.blank()?;
            if !self.eat(b',') && self.peek() != Some(b'}') {
                return Err(self.unexpected("',' or '}'"));
            }
        }
    }

    /// The value of a key. A `suspend` may have none: `workgen` gives it the task's name, which an empty value also
    /// means.
    fn member_value(&mut self, key: &str, at: usize, depth: usize) -> Result<Value> {
        if self.eat(b':') {
            self.blank()?;
            return self.value(depth + 1);
        }
        match self.peek() {
            Some(b',' | b'}') if key.starts_with("suspend") => {
                Ok(Value { at, kind: Kind::Text(String::new()) })
            }
            _ => Err(self.unexpected("':'")),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Kind> {
        let mut values = Vec::new();
        self.at += 1;
        loop {
            self.blank()?;
            if self.eat(b']') {
                return Ok(Kind::List(values));
            }
            values.push(self.value(depth + 1)?);
            self.blank()?;
            if !self.eat(b',') && self.peek() != Some(b']') {
                return Err(self.unexpected("',' or ']'"));
            }
        }
    }

    fn word(&mut self) -> Result<Kind> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|c| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let kind = match rest[..length].to_ascii_lowercase().as_slice() {
            b"true" => Kind::Bool(true),
            b"false" => Kind::Bool(false),
            b"null" => Kind::Null,
            _ => return Err(self.unexpected("a value (strings need quotes)")),
        };
        self.at += length;
        Ok(kind)
    }

    fn number(&mut self) -> Result<Kind> {
        let start = self.at;
        self.eat(b'-');
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits()?;
        if leading_zero && whole > 1 {
            return Err(self.source.error(start, "a number can't start with 0"));
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(Kind::Number(self.source.text[start..self.at].to_owned()))
    }

    /// Skips digits and returns their number: at least one.
    fn digits(&mut self) -> Result<usize> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected("a digit")) } else { Ok(self.at - start) }
    }

    fn string(&mut self) -> Result<String> {
        let open = self.at;
        let quote = self.bytes[open];
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.bytes[self.at..];
            let ends = |c: &u8| *c == quote || matches!(c, b'\\' | 0..=0x1f);
            let plain = rest.iter().position(ends).unwrap_or(rest.len());
            // Both ends are at ASCII characters or at an end of the text, so the slice has whole characters.
            text.push_str(&self.source.text[self.at..self.at + plain]);
            self.at += plain;
            match self.peek() {
                Some(c) if c == quote => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(self.source.error(open, "this string is not closed on its line")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        self.at += 2;
        let c = match self.bytes.get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(start),
            _ => return Err(self.source.error(start, "unknown escape in a string")),
        };
        Ok(c)
    }

    /// A `\uXXXX` escape, or two that form a surrogate pair; `start` is the backslash.
    fn unicode(&mut self, start: usize) -> Result<char> {
        let bad = |r: &Self| r.source.error(start, "not a valid \\u escape");
        let high = self.hex().ok_or_else(|| bad(self))?;
        let code = if (0xd800..0xdc00).contains(&high) {
            let low = if self.eat(b'\\') && self.eat(b'u') { self.hex() } else { None };
            let low = low.filter(|l| (0xdc00..0xe000).contains(l)).ok_or_else(|| bad(self))?;
            0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).ok_or_else(|| bad(self))
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        let code = digits.iter().try_fold(0, |n, d| Some(n * 16 + char::from(*d).to_digit(16)?))?;
        self.at += 4;
        Some(code)
    }
}
