//! Rows of timehist, written without the machinery of formats: a recording has millions of them, and formats took half
//! of the time.

use schedlab_base::Ns;
use std::collections::BTreeMap;

/// Columns of the task's name.
pub const NAME: usize = 30;
/// Columns of a time in ms.
const TIME: usize = 10;
/// Digits of a number.
const DIGITS: usize = 20;

/// A task's name in its column, and what it was made of.
struct Known {
    name: String,
    process: u32,
    cell: Vec<u8>,
}

/// The row that is being written, and the names by thread.
#[derive(Default)]
pub struct RowText {
    bytes: Vec<u8>,
    known: BTreeMap<u32, Known>,
}

impl RowText {
    /// Begins a row.
    pub fn begin(&mut self) {
        self.bytes.clear();
    }
    /// The row by now.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// A text as it is.
    pub fn text(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
    }
    /// A number in at least `width` columns, filled up with `fill` from the left.
    pub fn number(&mut self, mut number: u64, width: usize, fill: u8) {
        let mut digits = [fill; DIGITS];
        let mut at = DIGITS;
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.bytes.extend_from_slice(&digits[at.min(DIGITS - width)..]);
    }
    /// Milliseconds with three digits, or a dash.
    pub fn ms(&mut self, time: Option<Ns>) {
        match time {
            Some(Ns(ns)) => {
                let us = ns.saturating_add(500) / 1000;
                self.number(us / 1000, TIME - 4, b' ');
                self.bytes.push(b'.');
                self.number(us % 1000, 3, b'0');
            }
            None => self.text(b"         -"),
        }
    }
    /// A task's name in its column; `make` is asked when it is not known, or has changed.
    pub fn task(&mut self, tid: u32, name: &str, process: u32, make: impl FnOnce() -> String) {
        let known = self.known.entry(tid).or_insert_with(|| Known {
            name: String::new(),
            process: 0,
            cell: Vec::new(),
        });
        if known.cell.is_empty() || known.process != process || known.name != name {
            let cell = format!("{:<NAME$}", make()).into_bytes();
            *known = Known { name: name.to_owned(), process, cell };
        }
        self.bytes.extend_from_slice(&known.cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_formats() {
        let mut row = RowText::default();
        for n in [0, 7, 999, 123_456, u64::MAX] {
            row.begin();
            row.number(n, 8, b' ');
            row.number(n, 6, b'0');
            assert_eq!(row.bytes(), format!("{n:>8}{n:06}").as_bytes());
        }
        for ns in [0, 499, 500, 1_234_567, 999_999_999_999_999, u64::MAX] {
            row.begin();
            row.ms(Some(Ns(ns)));
            let us = ns.saturating_add(500) / 1000;
            assert_eq!(row.bytes(), format!("{:>10}", format!("{}.{:03}", us / 1000, us % 1000)).as_bytes());
        }
        row.begin();
        row.ms(None);
        row.task(7, "a", 0, || "a[7]".into());
        row.task(7, "a", 0, || panic!("it is known"));
        row.task(7, "b", 0, || "b[7]".into());
        assert_eq!(row.bytes(), format!("{:>10}{:<30}{:<30}{:<30}", "-", "a[7]", "a[7]", "b[7]").as_bytes());
    }
}
