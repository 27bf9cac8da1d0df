//! Cells of timehist's rows, of which a recording has millions: times, and names that are made once.

use schedlab_base::{Ns, TextRow};
use std::collections::BTreeMap;

/// Columns of the task's name.
pub const NAME: usize = 30;
/// Columns of a time in ms.
const TIME: usize = 10;

/// A task's name in its column, and the values it was made from.
struct TaskCell {
    name: String,
    process: u32,
    cell: Vec<u8>,
}

/// The row that is being written, and the names by thread.
#[derive(Default)]
pub struct RowText {
    pub row: TextRow,
    known: BTreeMap<u32, TaskCell>,
}

impl RowText {
    /// Milliseconds with three digits, or a dash.
    pub fn ms(&mut self, time: Option<Ns>) {
        match time {
            Some(Ns(ns)) => {
                let us = ns.saturating_add(500) / 1000;
                self.row.right(TIME - 4, us / 1000).text(b".").zeros::<3>(us % 1000)
            }
            None => self.row.text(b"         -"),
        };
    }
    /// A task's name in its column; `make` is asked when it is not known, or has changed.
    pub fn task(&mut self, tid: u32, name: &str, process: u32, make: impl FnOnce() -> String) {
        let known = self.known.entry(tid).or_insert_with(|| TaskCell {
            name: String::new(),
            process: 0,
            cell: Vec::new(),
        });
        if known.cell.is_empty() || known.process != process || known.name != name {
            let cell = format!("{:<NAME$}", make()).into_bytes();
            *known = TaskCell { name: name.to_owned(), process, cell };
        }
        self.row.text(&known.cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_equal_the_output_of_format() {
        let mut text = RowText::default();
        for ns in [0, 499, 500, 1_234_567, 999_999_999_999_999, u64::MAX] {
            text.row.clear();
            text.ms(Some(Ns(ns)));
            let us = ns.saturating_add(500) / 1000;
            let expected = format!("{:>10}", format!("{}.{:03}", us / 1000, us % 1000));
            assert_eq!(text.row.bytes(), expected.as_bytes());
        }
        text.row.clear();
        text.ms(None);
        text.task(7, "a", 0, || "a[7]".into());
        text.task(7, "a", 0, || panic!("it is known"));
        text.task(7, "b", 0, || "b[7]".into());
        let expected = format!("{:>10}{:<30}{:<30}{:<30}", "-", "a[7]", "a[7]", "b[7]");
        assert_eq!(text.row.bytes(), expected.as_bytes());
    }
}
