//! CSV (RFC 4180), read with the place of each field; commas, semicolons or tabs between fields.

use schedlab_base::{Error, Result, Spot};
use std::path::Path;

/// A field and where it begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Field {
    pub text: String,
    /// Offset in the file's text.
    pub offset: usize,
}

/// A file's text in lines of fields. Empty lines and lines that begin with `#` are left out.
pub(super) struct Table<'a> {
    pub file: &'a Path,
    pub text: &'a str,
    pub lines: Vec<Vec<Field>>,
}

impl<'a> Table<'a> {
    /// # Errors
    /// When a quoted field does not end.
    pub fn of(file: &'a Path, text: &'a str) -> Result<Table<'a>> {
        let begin = text.strip_prefix('\u{feff}').map_or(0, |_| '\u{feff}'.len_utf8());
        let first = text[begin..].lines().find(|l| !is_left_out(l)).unwrap_or_default();
        let separator = [',', ';', '\t'].into_iter().max_by_key(|s| (first.matches(*s).count(), *s == ','));
        let separator = separator.unwrap_or(',');
        let mut table = Table { file, text, lines: Vec::new() };
        let mut at = begin;
        while at < text.len() {
            let line = text[at..].split('\n').next().unwrap_or_default();
            if is_left_out(line) {
                at += line.len() + 1;
                continue;
            }
            let mut fields = Vec::new();
            loop {
                let (field, next) = table.field(at, separator)?;
                fields.push(field);
                at = next + 1;
                if !text[next..].starts_with(separator) {
                    break;
                }
            }
            table.lines.push(fields);
        }
        Ok(table)
    }

    /// The field that begins at an offset, and the offset of what ends it.
    fn field(&self, offset: usize, separator: char) -> Result<(Field, usize)> {
        let rest = &self.text[offset..];
        let ends = |c: char| c == separator || c == '\n';
        let Some(quoted) = rest.strip_prefix('"') else {
            let length = rest.find(ends).unwrap_or(rest.len());
            let text = rest[..length].trim_end_matches('\r').trim().to_owned();
            return Ok((Field { text, offset }, offset + length));
        };
        let (mut text, mut inside) = (String::new(), quoted);
        loop {
            let Some((part, behind)) = inside.split_once('"') else {
                return Err(self.error(offset, "the quotation mark has no partner"));
            };
            text.push_str(part);
            let Some(more) = behind.strip_prefix('"') else {
                let next = self.text.len() - behind.trim_start_matches('\r').len();
                return if behind.trim_start_matches('\r').starts_with(ends) || next == self.text.len() {
                    Ok((Field { text, offset }, next))
                } else {
                    Err(self.error(next, "text behind the closing quotation mark"))
                };
            };
            text.push('"');
            inside = more;
        }
    }

    pub fn error(&self, offset: usize, what: impl Into<String>) -> Error {
        Error::input(what).at(Spot::at_offset(self.file, self.text, offset))
    }
}

/// Whether a line is empty or a comment.
pub(super) fn is_left_out(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// A field as it is written.
pub(super) fn quoted(field: &str) -> String {
    let needs =
        field.contains([',', ';', '\t', '"', '\n', '\r']) || field.starts_with('#') || field != field.trim();
    if needs { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Vec<String>> {
        let table = Table::of(Path::new("x.csv"), text).unwrap();
        table.lines.into_iter().map(|l| l.into_iter().map(|f| f.text).collect()).collect()
    }

    #[test]
    fn fields_are_read_and_written_back() {
        assert_eq!(
            read("a,b\r\n# note\n\n1,\"x, \"\"y\"\"\nz\"\n,"),
            [["a", "b"], ["1", "x, \"y\"\nz"], ["", ""]]
        );
        assert_eq!(read("a;b\n1,5;2"), [["a", "b"], ["1,5", "2"]]);
        for field in ["plain", "a,b", "say \"x\"", "#1", " x", "two\nlines", ""] {
            assert_eq!(read(&format!("h,i\n{},1\n", quoted(field)))[1], [field, "1"]);
        }
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let error = |text: &str| Table::of(Path::new("x.csv"), text).err().unwrap().to_string();
        assert!(error("a,b\n1,\"x").contains("x.csv:2:3"), "{}", error("a,b\n1,\"x"));
        assert!(error("a,b\n\"x\"y,1").contains("x.csv:2:4"));
    }
}
