//! Splits a description into words, each with its line.

/// The magic number of a description in packets.
const MAGIC: u32 = 0x75d1_1d57;
/// Bytes of a packet's head: magic, UUID, checksum, two lengths, three schemes, version.
const HEAD: usize = 4 + 16 + 4 + 4 + 4 + 3 + 2;

/// The text of a description; `None` if it is not a description, or is compressed or encrypted.
pub fn text(bytes: &[u8]) -> Option<String> {
    let magic = |bytes: &[u8]| bytes.first_chunk().map(|b| u32::from_le_bytes(*b));
    if magic(bytes)? != MAGIC {
        return (!bytes.contains(&0)).then(|| String::from_utf8_lossy(bytes).into_owned());
    }
    let (mut rest, mut all) = (bytes, Vec::new());
    while !rest.is_empty() {
        let length = |at: usize| {
            let bits = u32::from_le_bytes(rest.get(at..at + 4)?.try_into().ok()?);
            Some(bits as usize / 8)
        };
        let (content, packet) = (length(24)?, length(28)?);
        if magic(rest)? != MAGIC || rest.get(32..35)? != [0; 3] || packet < HEAD {
            return None;
        }
        all.extend(rest.get(HEAD..content)?);
        rest = rest.get(packet..)?;
    }
    Some(String::from_utf8_lossy(&all).into_owned())
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// A name, path or keyword; a path contains dots.
    Name(String),
    Number(i64),
    Quoted(String),
    /// Anything else: one character, `:=` or `...`.
    Mark(&'static str),
}

const MARKS: [&str; 14] = ["...", ":=", "{", "}", "[", "]", "<", ">", "(", ")", "=", ";", ",", ":"];

/// The words of a text, each with its line; or the line of the first text that is not a word.
pub fn words(text: &str) -> Result<Vec<(Word, usize)>, usize> {
    let (mut all, mut line, mut rest) = (Vec::new(), 1, text);
    loop {
        let blank = rest.len() - rest.trim_start().len();
        line += rest[..blank].matches('\n').count();
        rest = &rest[blank..];
        let Some(first) = rest.chars().next() else { return Ok(all) };
        let length = if rest.starts_with("/*") {
            let length = rest.find("*/").ok_or(line)? + 2;
            line += rest[..length].matches('\n').count();
            length
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' {
            let (text, length) = quoted(rest).ok_or(line)?;
            all.push((Word::Quoted(text), line));
            length
        } else if first.is_ascii_alphabetic() || first == '_' {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            all.push((Word::Name(rest[..length].to_owned()), line));
            length
        } else if first.is_ascii_digit() || first == '-' {
            let digits = &rest[usize::from(first == '-')..];
            let length = digits.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(digits.len());
            let n = number(&digits[..length]).ok_or(line)?;
            all.push((Word::Number(if first == '-' { n.wrapping_neg() } else { n }), line));
            length + usize::from(first == '-')
        } else {
            let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark)).ok_or(line)?;
            all.push((Word::Mark(mark), line));
            mark.len()
        };
        rest = &rest[length..];
    }
}

/// A number as written in C, with its suffix.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(&text[1..], 8),
        None => text.parse(),
    };
    parsed.ok().map(|n| n as i64)
}

/// A text in quotes, and its length with them.
fn quoted(text: &str) -> Option<(String, usize)> {
    let (mut all, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => {
                all.push(if c == 'n' { '\n' } else { c });
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((all, at + 1)),
            _ => all.push(c),
        }
    }
    None
}
