//! TOML with places: typed access to tables where every error names file, line and column.
//!
//! Unknown keys are errors that offer the nearest known one. The list of known keys stands next to the code that reads
//! them, because the caller that knows a key reads its value exactly once.

use schedlab_base::{Error, Ns, Result, Spot, printable};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its place.
pub type Value<'d> = Spanned<DeValue<'d>>;

/// The text to read.
#[derive(Clone, Copy)]
pub struct Source<'s> {
    /// The file, as the user named it.
    pub file: &'s Path,
    pub text: &'s str,
}

impl<'s> Source<'s> {
    /// Parses the text.
    ///
    /// # Errors
    /// When it is not TOML. The error has the place.
    pub fn parse(self) -> Result<Spanned<DeTable<'s>>> {
        DeTable::parse(self.text).map_err(|e| {
            let what = Error::input(e.message().to_string());
            let help = match e.message().contains("duplicate key") {
                true => "a key stands once in its table; several tables of one name are written [[name]]",
                false => "text stands in quotes (\"30us\", \"{cpus}\", [\"a\", \"b\"]), numbers do not",
            };
            what.help(help).at(self.spot(e.span().unwrap_or(0..0)))
        })
    }
    fn spot(self, span: Range<usize>) -> Spot {
        Spot::at_offset(self.file, self.text, span.start)
    }
    pub fn error(self, span: Range<usize>, what: impl Into<String>) -> Error {
        Error::input(what).at(self.spot(span))
    }
}

/// One table of the text.
pub struct Table<'t> {
    source: Source<'t>,
    /// The name in messages: "[topology]".
    name: String,
    span: Range<usize>,
    entries: &'t DeTable<'t>,
}

impl<'t> Table<'t> {
    /// A table that may have only the keys `known`.
    ///
    /// # Errors
    /// For an unknown key; the error offers the nearest known one. All readers below give errors for values of another
    /// type.
    pub fn new(
        source: Source<'t>,
        name: &str,
        span: Range<usize>,
        entries: &'t DeTable<'t>,
        known: &[&str],
    ) -> Result<Table<'t>> {
        let table = Table::open(source, name, span, entries);
        table.only(&format!("key in {name}"), known, |_| None)?;
        Ok(table)
    }
    /// A table whose keys the caller checks ([`Table::only`]).
    pub fn open(source: Source<'t>, name: &str, span: Range<usize>, entries: &'t DeTable<'t>) -> Table<'t> {
        Table { source, name: name.to_string(), span, entries }
    }
    /// Checks the keys. `elsewhere` gives the help for a key that belongs in another table.
    ///
    /// # Errors
    /// For a key not in `known`. Messages call it `what`, and name its right place or the nearest key.
    pub fn only(&self, what: &str, known: &[&str], elsewhere: impl Fn(&str) -> Option<String>) -> Result<()> {
        let strange = self.entries.keys().find(|k| !known.contains(&k.get_ref().as_ref()));
        strange.map_or(Ok(()), |key| {
            let error = Error::unknown(what, key.get_ref(), known.iter().copied());
            let error = match elsewhere(key.get_ref()) {
                Some(place) => error.help(place),
                None => error,
            };
            Err(error.at(self.source.spot(key.span())))
        })
    }

    /// An error at the whole table.
    pub fn error(&self, what: impl Into<String>) -> Error {
        self.source.error(self.span.clone(), what)
    }
    /// An error at the value of `key`, or at the table if the key is absent.
    pub fn error_at(&self, key: &str, what: impl Into<String>) -> Error {
        let span = self.entries.get(key).map_or(self.span.clone(), Spanned::span);
        self.source.error(span, what)
    }
    /// Places an error at `key`'s value.
    pub fn place(&self, key: &str, error: Error) -> Error {
        let span = self.entries.get(key).map_or(self.span.clone(), Spanned::span);
        error.at(self.source.spot(span))
    }
    fn wrong(&self, key: &str, wanted: &str, value: &Value<'_>) -> Error {
        let what = match value.get_ref().type_str() {
            "integer" if wanted == WHOLE => format!("{key} in {} is out of range", self.name),
            found => format!("{key} in {} must be {wanted}; this is of type {found}", self.name),
        };
        match (wanted, value.get_ref().type_str()) {
            (TABLES, "table") => {
                self.error_at(key, what).help(format!("write [[{key}]], also where there is only one"))
            }
            (TABLES, _) => self.error_at(key, what).help(format!("write [[{key}]] on a line of its own")),
            ("a string", _) => self.error_at(key, what).help(format!("{key} = \"...\", in quotes")),
            _ => self.error_at(key, what),
        }
    }
    fn value<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'t DeValue<'t>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        read(value.get_ref()).map(Some).ok_or_else(|| self.wrong(key, wanted, value))
    }
    /// The value of a mandatory key.
    pub fn required<T>(&self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.error(format!("{} has no {key}", self.name)))
    }

    /// All readers from here on return `None` for an absent key.
    pub fn string(&self, key: &str) -> Result<Option<&'t str>> {
        self.value(key, "a string", DeValue::as_str)
    }
    /// A name that appears in results. It must be visible and on one line, because tables, exports and terminals show
    /// it.
    pub fn label(&self, key: &str) -> Result<Option<&'t str>> {
        match self.string(key)? {
            Some(name) if printable::unfit(name).is_some() => {
                let what = printable::unfit(name).unwrap_or_default();
                Err(self.error_at(key, format!("{key} {what}")))
            }
            name => Ok(name),
        }
    }
    pub fn boolean(&self, key: &str) -> Result<Option<bool>> {
        self.value(key, "true or false", DeValue::as_bool)
    }
    /// A whole number that fits `T`.
    pub fn number<T: TryFrom<i64>>(&self, key: &str) -> Result<Option<T>> {
        self.value(key, WHOLE, whole)
    }
    /// A time with its unit.
    pub fn time(&self, key: &str) -> Result<Option<Ns>> {
        let Some(text) = self.value(key, "a time such as \"30us\"", DeValue::as_str)? else {
            return Ok(None);
        };
        Ns::parse(text, "").map(Some).map_err(|e| self.place(key, e))
    }
    pub fn numbers<T: TryFrom<i64>>(&self, key: &str) -> Result<Option<Vec<T>>> {
        let Some(list) = self.value(key, "a list of whole numbers", DeValue::as_array)? else {
            return Ok(None);
        };
        let read = |item: &Spanned<DeValue<'_>>| {
            let wanted =
                || self.source.error(item.span(), format!("{key} holds a number that does not fit it"));
            whole(item.get_ref()).ok_or_else(wanted)
        };
        list.iter().map(read).collect::<Result<Vec<T>>>().map(Some)
    }
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&'t str>>> {
        self.value(key, "a list of strings", |v| {
            v.as_array()?.iter().map(|item| item.get_ref().as_str()).collect()
        })
    }
    /// Two times with their units, lowest and highest.
    pub fn times(&self, key: &str) -> Result<Option<(Ns, Ns)>> {
        let wanted = "two times such as [\"20us\", \"40us\"]";
        let texts = self.value(key, wanted, |v| match &v.as_array()?[..] {
            [low, high] => Some((low.get_ref().as_str()?, high.get_ref().as_str()?)),
            _ => None,
        })?;
        let Some((low, high)) = texts else { return Ok(None) };
        let read = |text| Ns::parse(text, "").map_err(|e| self.place(key, e));
        Ok(Some((read(low)?, read(high)?)))
    }
    /// A list of lists of whole numbers, with the spans of the inner items.
    #[allow(clippy::type_complexity)]
    pub fn matrix(&self, key: &str) -> Result<Option<(Vec<Vec<u32>>, Vec<Vec<Range<usize>>>)>> {
        let rows: Option<Vec<&[Value<'_>]>> = self.value(key, "a list of lists of numbers", |v| {
            v.as_array()?.iter().map(|row| row.get_ref().as_array().map(|r| &r[..])).collect()
        })?;
        let Some(rows) = rows else { return Ok(None) };
        let spans = rows.iter().map(|row| row.iter().map(Spanned::span).collect()).collect();
        let number = |item: &Value<'_>| {
            whole(item.get_ref())
                .ok_or_else(|| self.source.error(item.span(), format!("{key} holds whole numbers")))
        };
        let read = |row: &&[Value<'_>]| row.iter().map(number).collect::<Result<Vec<u32>>>();
        Ok(Some((rows.iter().map(read).collect::<Result<_>>()?, spans)))
    }
    pub fn table(&self, key: &str, known: &[&str]) -> Result<Option<Table<'t>>> {
        let table = self.open_table(key)?;
        if let Some(table) = &table {
            table.only(&format!("key in {}", table.name), known, |_| None)?;
        }
        Ok(table)
    }
    /// The tables of an array `[[key]]`; empty if it is absent.
    pub fn tables(&self, key: &str, known: &[&str]) -> Result<Vec<Table<'t>>> {
        let all = self.open_tables(key)?;
        all.iter().try_for_each(|t| t.only(&format!("key in {}", t.name), known, |_| None))?;
        Ok(all)
    }
    /// As [`Table::tables`]; the caller checks the keys later ([`Table::only`]).
    pub fn open_tables(&self, key: &str) -> Result<Vec<Table<'t>>> {
        let items = self.value(key, TABLES, DeValue::as_array)?;
        let table = |item: &'t Value<'t>| {
            let entries = item.get_ref().as_table().ok_or_else(|| self.wrong(key, TABLES, item))?;
            Ok(Table { source: self.source, name: format!("[[{key}]]"), span: item.span(), entries })
        };
        items.into_iter().flatten().map(table).collect()
    }
    /// A nested table whose keys the caller checks.
    pub fn open_table(&self, key: &str) -> Result<Option<Table<'t>>> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        let entries = value.get_ref().as_table().ok_or_else(|| self.wrong(key, "a table", value))?;
        Ok(Some(Table { source: self.source, name: format!("[{key}]"), span: value.span(), entries }))
    }
    /// The unread value of a key, with its place.
    pub fn get(&self, key: &str) -> Option<&'t Value<'t>> {
        self.entries.get(key)
    }
    /// An error at a value from [`Table::get`].
    pub fn error_on(&self, value: &Value<'_>, error: Error) -> Error {
        error.at(self.source.spot(value.span()))
    }
    /// The keys in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &'t str> {
        self.entries.keys().map(|k| &**k.get_ref())
    }
}

/// The type read by [`Table::tables`], for messages.
const TABLES: &str = "an array of tables";
/// The type read by [`Table::number`], for messages.
const WHOLE: &str = "a whole number";

fn whole<T: TryFrom<i64>>(value: &DeValue<'_>) -> Option<T> {
    let number = value.as_integer()?;
    let read = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
    T::try_from(read).ok()
}
