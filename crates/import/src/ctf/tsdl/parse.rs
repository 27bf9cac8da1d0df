//! Parses a description: from words to types.

use super::words::{Word, words};
use super::{Clock, Description, EventClass, Kind, StreamClass, Types, Which};
use schedlab_base::{Error, Result};
use std::collections::BTreeMap;

/// The deepest nesting of types.
const DEPTH: u32 = 24;
const MOST_TYPES: usize = 1 << 18;

/// Reads a description's text.
///
/// # Errors
/// The first part that can't be read, with its line.
pub fn description(text: &str) -> Result<Description> {
    let wrong = |line: usize, what: &str| {
        Error::input(format!("the trace's description has {what} in line {line}"))
            .help("babeltrace2 FOLDER reads it, or names what is wrong with it")
    };
    let all = words(text).map_err(|line| wrong(line, "what is not a word"))?;
    let mut reader = Reader { words: &all, at: 0, named: BTreeMap::new(), made: Description::default() };
    while reader.at < all.len() {
        if reader.statement().is_none() {
            let line = all.get(reader.at.min(all.len() - 1)).map_or(0, |(_, line)| *line);
            return Err(wrong(line, "a declaration that can't be read"));
        }
    }
    if reader.made.streams.is_empty() {
        reader.made.streams.insert(0, StreamClass::default());
    }
    Ok(reader.made)
}

enum Value {
    Number(i64),
    Text(String),
    Type(Which),
}

impl Value {
    fn number(&self) -> Option<u64> {
        match self {
            Value::Number(n) => u64::try_from(*n).ok(),
            Value::Text(_) | Value::Type(_) => None,
        }
    }
    fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            Value::Number(_) | Value::Type(_) => "",
        }
    }
    fn which(&self) -> Option<Which> {
        match self {
            Value::Type(which) => Some(*which),
            Value::Number(_) | Value::Text(_) => None,
        }
    }
}

type Attributes = BTreeMap<String, Value>;

struct Reader<'w> {
    words: &'w [(Word, usize)],
    at: usize,
    /// Types by name; that of `struct x` is stored as "struct x".
    named: BTreeMap<String, Which>,
    made: Description,
}

impl Reader<'_> {
    fn types(&mut self) -> &mut Types {
        &mut self.made.types
    }
    fn peek(&self) -> Option<&Word> {
        self.words.get(self.at).map(|(word, _)| word)
    }
    fn next(&mut self) -> Option<&Word> {
        self.at += 1;
        self.words.get(self.at - 1).map(|(word, _)| word)
    }
    fn is(&mut self, mark: &'static str) -> bool {
        let is = self.peek() == Some(&Word::Mark(mark));
        self.at += usize::from(is);
        is
    }
    fn must(&mut self, mark: &'static str) -> Option<()> {
        self.is(mark).then_some(())
    }
    fn is_name(&mut self, name: &str) -> bool {
        let is = matches!(self.peek(), Some(Word::Name(word)) if word == name);
        self.at += usize::from(is);
        is
    }
    fn name(&mut self) -> Option<String> {
        match self.next() {
            Some(Word::Name(name)) => Some(name.clone()),
            _ => None,
        }
    }
    fn number(&mut self) -> Option<i64> {
        match self.next() {
            Some(Word::Number(n)) => Some(*n),
            _ => None,
        }
    }

    /// A declaration at the outermost level, or of a type within a block.
    fn statement(&mut self) -> Option<()> {
        for block in ["trace", "env", "clock", "stream", "event", "callsite"] {
            if self.is_name(block) {
                let attributes = self.block()?;
                let _ = self.is(";");
                return self.keep(block, &attributes);
            }
        }
        self.declaration()
    }

    /// `typealias X := Y;`, or a type with a name that declares no field.
    fn declaration(&mut self) -> Option<()> {
        let is_alias = self.is_name("typealias") || self.is_name("typedef");
        let which = self.kind(DEPTH)?;
        if is_alias {
            let by_sign = self.is(":=");
            let name = self.type_name()?;
            let which = if by_sign { which } else { self.lengths(which)? };
            self.named.insert(name, which);
        }
        self.must(";")
    }

    /// The words of a type's name, such as `unsigned long`.
    fn type_name(&mut self) -> Option<String> {
        let mut all = self.name()?;
        while let Some(Word::Name(word)) = self.peek() {
            all = format!("{all} {word}");
            self.at += 1;
        }
        Some(all)
    }

    /// `{ a = 1; b := struct { ... }; ... }`.
    fn block(&mut self) -> Option<Attributes> {
        self.must("{")?;
        let mut all = Attributes::new();
        while !self.is("}") {
            let is_attribute = matches!(self.words.get(self.at + 1), Some((Word::Mark("=" | ":="), _)));
            if !is_attribute {
                self.declaration()?;
                continue;
            }
            let name = self.name()?;
            let value = if self.is(":=") { Value::Type(self.kind(DEPTH)?) } else { self.value()? };
            self.must(";")?;
            all.insert(name, value);
        }
        Some(all)
    }

    fn value(&mut self) -> Option<Value> {
        self.must("=")?;
        let value = match self.next()? {
            Word::Number(n) => Value::Number(*n),
            Word::Name(text) | Word::Quoted(text) => Value::Text(text.clone()),
            Word::Mark(_) => return None,
        };
        Some(value)
    }

    fn keep(&mut self, block: &str, attributes: &Attributes) -> Option<()> {
        let which = |name: &str| attributes.get(name).and_then(Value::which);
        let number = |name: &str| attributes.get(name).and_then(Value::number);
        let signed = |name: &str| match attributes.get(name) {
            Some(Value::Number(n)) => *n,
            _ => 0,
        };
        match block {
            "trace" => {
                self.types().big = attributes.get("byte_order").is_some_and(|v| v.text() == "be");
                self.made.packet_header = which("packet.header");
            }
            "env" => {
                let release = attributes.get("kernel_release").map(|v| v.text().to_owned());
                self.made.release = release.filter(|r| !r.is_empty());
            }
            "clock" => {
                self.made.clock = Clock {
                    frequency: number("freq").unwrap_or(1_000_000_000).max(1),
                    offset: signed("offset"),
                    offset_s: signed("offset_s"),
                };
            }
            "stream" => {
                let class = StreamClass {
                    packet_context: which("packet.context"),
                    event_header: which("event.header"),
                    event_context: which("event.context"),
                };
                self.made.streams.insert(number("id").unwrap_or(0), class);
            }
            "event" => {
                let name = attributes.get("name").map(|v| v.text().to_owned()).unwrap_or_default();
                let class = EventClass { name, context: which("context"), fields: which("fields") };
                let id = (number("stream_id").unwrap_or(0), number("id").unwrap_or(0));
                self.made.events.insert(id, class);
            }
            _ => {}
        }
        Some(())
    }

    fn kind(&mut self, depth: u32) -> Option<Which> {
        let depth = depth.checked_sub(1)?;
        if self.made.types.kinds.len() > MOST_TYPES {
            return None;
        }
        let kind = match self.name()?.as_str() {
            "integer" => self.integer()?,
            "floating_point" => {
                let of = self.block()?;
                let bits = |name: &str| of.get(name).and_then(Value::number).unwrap_or(0) as u32;
                let bits_in_all = bits("exp_dig").checked_add(bits("mant_dig"))?;
                Kind::Skipped { bits: bits_in_all, align: bits("align").max(1) }
            }
            "string" => {
                if self.peek() == Some(&Word::Mark("{")) {
                    self.block()?;
                }
                Kind::Text
            }
            "struct" => return self.structure(depth),
            "variant" => self.variant(depth)?,
            "enum" => return self.enumeration(depth),
            first => {
                // The type's name is the longest run of words that names a type; the next word is a field's name.
                let (mut name, from) = (first.to_owned(), self.at);
                let mut found = self.named.get(&name).map(|which| (*which, from));
                while let Some(Word::Name(word)) = self.peek() {
                    name = format!("{name} {word}");
                    self.at += 1;
                    if let Some(which) = self.named.get(&name) {
                        found = Some((*which, self.at));
                    }
                }
                let (which, at) = found?;
                self.at = at;
                return Some(which);
            }
        };
        Some(self.types().add(kind))
    }

    fn integer(&mut self) -> Option<Kind> {
        let of = self.block()?;
        let number = |name: &str| of.get(name).and_then(Value::number);
        let bits = u32::try_from(number("size")?).ok().filter(|n| (1..=64).contains(n))?;
        let default = if bits % 8 == 0 { 8 } else { 1 };
        let align = number("align").map_or(Some(default), |n| u32::try_from(n).ok())?;
        let text = |name: &str| of.get(name).map_or("", Value::text);
        Some(Kind::Integer {
            bits,
            align: align.clamp(1, 4096),
            signed: number("signed").map_or(matches!(text("signed"), "true" | "TRUE"), |n| n != 0),
            big: match text("byte_order") {
                "be" | "network" => Some(true),
                "le" => Some(false),
                _ => None,
            },
            is_text: matches!(text("encoding"), "UTF8" | "utf8" | "UTF-8" | "utf-8" | "ASCII" | "ascii"),
            clock: text("map").starts_with("clock."),
        })
    }

    fn structure(&mut self, depth: u32) -> Option<Which> {
        let name = match self.peek() {
            Some(Word::Name(_)) => Some(format!("struct {}", self.name()?)),
            _ => None,
        };
        if !self.is("{") {
            return self.named.get(&name?).copied();
        }
        let mut fields = Vec::new();
        while !self.is("}") {
            if self.is_name("typealias") || self.is_name("typedef") {
                self.at -= 1;
                self.declaration()?;
                continue;
            }
            fields.push(self.field(depth)?);
        }
        let mut align = 1;
        if self.is_name("align") {
            self.must("(")?;
            align = u32::try_from(self.number()?).ok()?.clamp(1, 4096);
            self.must(")")?;
        }
        let which = self.types().add(Kind::Struct { align, fields });
        if let Some(name) = name {
            self.named.insert(name, which);
        }
        Some(which)
    }

    /// `TYPE name;`, with lengths in brackets behind the name.
    fn field(&mut self, depth: u32) -> Option<(String, Which)> {
        let which = self.kind(depth)?;
        let name = self.name()?;
        let which = self.lengths(which)?;
        self.must(";")?;
        let name = name.strip_prefix('_').map_or(name.clone(), str::to_owned);
        Some((name, which))
    }

    fn lengths(&mut self, mut which: Which) -> Option<Which> {
        while self.is("[") {
            let kind = match self.next()? {
                Word::Number(n) => Kind::Array { of: which, length: u32::try_from(*n).ok()? },
                Word::Name(name) => Kind::Sequence { of: which, length: last(name) },
                Word::Quoted(_) | Word::Mark(_) => return None,
            };
            self.must("]")?;
            which = self.types().add(kind);
        }
        Some(which)
    }

    fn variant(&mut self, depth: u32) -> Option<Kind> {
        if let Some(Word::Name(_)) = self.peek() {
            self.at += 1;
        }
        let mut tag = String::new();
        if self.is("<") {
            tag = last(&self.name()?);
            self.must(">")?;
        }
        self.must("{")?;
        let mut options = Vec::new();
        while !self.is("}") {
            options.push(self.field(depth)?);
        }
        Some(Kind::Variant { tag, options })
    }

    fn enumeration(&mut self, depth: u32) -> Option<Which> {
        let name = match self.peek() {
            Some(Word::Name(_)) => Some(format!("enum {}", self.name()?)),
            _ => None,
        };
        let of = if self.is(":") { Some(self.kind(depth)?) } else { self.named.get("int").copied() };
        if !self.is("{") {
            return self.named.get(&name?).copied();
        }
        let (mut labels, mut value) = (Vec::new(), 0);
        while !self.is("}") {
            let label = match self.next()? {
                Word::Name(label) | Word::Quoted(label) => label.clone(),
                Word::Number(_) | Word::Mark(_) => return None,
            };
            let (mut from, mut to) = (value, value);
            if self.is("=") {
                from = self.number()?;
                to = if self.is("...") { self.number()? } else { from };
            }
            value = to.wrapping_add(1);
            let label = label.strip_prefix('_').map_or(label.clone(), str::to_owned);
            labels.push((from, to, label));
            let _ = self.is(",");
        }
        let kind = Kind::Enum { of: of?, labels };
        let which = self.types().add(kind);
        if let Some(name) = name {
            self.named.insert(name, which);
        }
        Some(which)
    }
}

/// The last part of a path, without the underscore that field names begin with.
fn last(path: &str) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    name.strip_prefix('_').unwrap_or(name).to_owned()
}
