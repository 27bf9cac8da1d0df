//! Reads tables of mmtests (`compare-mmtests.pl`, `compare-kernels.sh`) in mails, even quoted: a title, the names of
//! the columns in one line or two, then lines of a statistic, an operation, and for each column a value and its change,
//! in brackets or, if mmtests calls it significant, in stars.
//!
//! A column is a variant and has one value, a mean over mmtests' iterations; its spread, if given, is in other lines.
//! Units are unknown. An unknown statistic is kept without a direction.

use super::mail::{self, unquoted};
use super::text::{missing, whole};
use super::tool::{BLANK, FigureRow, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower, Neither};

/// mmtests' tables are only read; it is never started because it installs the programs that it runs.
pub const TOOL: Tool = Tool {
    name: "mmtests",
    about: "tables of mmtests' comparisons; each column is a variant",
    figures: &[
        FigureRow(
            "<operation>.amean",
            "",
            Lower,
            "arithmetic mean, which mmtests takes of what should be small",
        ),
        FigureRow("<operation>.hmean", "", Higher, "harmonic mean, which mmtests takes of rates"),
        FigureRow("<operation>.gmean", "", Neither, "geometric mean"),
        FigureRow("<operation>.bamean", "", Lower, "arithmetic mean of the best part"),
        FigureRow("<operation>.bhmean", "", Higher, "harmonic mean of the best part"),
        FigureRow("<operation>.min", "", Neither, "smallest value"),
        FigureRow("<operation>.max", "", Neither, "largest value"),
        FigureRow("<operation>.stddev", "", Neither, "standard deviation"),
        FigureRow("<operation>.coeffvar", "", Neither, "standard deviation in per cent of the mean"),
        FigureRow("<row>", "", Neither, "any other statistic, by mmtests' name of it"),
    ],
    knows: |text| mail::lines(text).iter().any(|(_, l)| !matches!(row(l, false), Ok(None))),
    read,
    ..BLANK
};

/// mmtests' names of statistics, with which lines begin.
const STATISTICS: &[&str] =
    &["amean", "hmean", "gmean", "bamean", "bhmean", "min", "max", "stddev", "coeffvar"];

/// The lines before a table's rows, newest last, each with whether it is indented: names of columns are, titles are
/// not.
#[derive(Default)]
struct Above<'a>(Vec<(bool, Vec<&'a str>)>);

impl Above<'_> {
    /// Whether the last line can be the name of a single column.
    fn has_one_head(&self) -> bool {
        self.0.last().is_some_and(|(indented, words)| *indented && words.len() == 1)
    }

    /// The columns' names, and the title above them.
    fn names(&self, columns: usize) -> (Vec<String>, Option<String>) {
        let named = |(indented, words): &&(bool, Vec<&str>)| *indented && words.len() == columns;
        let heads = self.0.iter().rev().take(2).take_while(named).count();
        let (above, heads) = self.0.split_at(self.0.len() - heads);
        let name = |column: usize| match heads
            .iter()
            .map(|(_, words)| words[column])
            .collect::<Vec<_>>()
            .join("-")
        {
            none if none.is_empty() => format!("column {}", column + 1),
            name => name,
        };
        let mut names: Vec<String> = Vec::new();
        for name in (0..columns).map(name) {
            let same = names.iter().filter(|n| **n == name || n.starts_with(&format!("{name} #"))).count();
            names.push(if same == 0 { name } else { format!("{name} #{}", same + 1) });
        }
        let title = above.last().filter(|(indented, words)| !indented && words.len() <= 4);
        (names, title.map(|(_, words)| words.join(" ")))
    }
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    // Index of the current table's first reading.
    let mut table: Option<usize> = None;
    let mut above = Above::default();
    let lines = mail::lines(text);
    for (at, line) in &lines {
        // In a table of one column, a row with an unknown statistic is recognised by the lines above it.
        let single = table.map_or_else(|| above.has_one_head(), |first| all.len() - first == 1);
        let found =
            row(line, single).map_err(|e| e.context(format!("can't read mmtests' table, line {at}")))?;
        let Some((name, values)) = found else {
            let words: Vec<&str> = unquoted(line).split_whitespace().collect();
            // Lines under a title have no words.
            if words.iter().any(|w| w.chars().any(char::is_alphanumeric)) {
                table = None;
                above.0.push((indented(line), words));
            }
            continue;
        };
        let same = |first: &usize| {
            all.len() - first == values.len() && !all[*first..].iter().any(|r| r.values.contains_key(&name))
        };
        let first = table.filter(same).unwrap_or_else(|| {
            let (names, load) = above.names(values.len());
            let start = all.len();
            all.extend(names.into_iter().map(|variant| Reading {
                load: load.clone(),
                variant: Some(variant),
                means: Some("mmtests' iterations".to_owned()),
                ..Reading::default()
            }));
            start
        });
        table = Some(first);
        for (reading, value) in all[first..].iter_mut().zip(values) {
            reading.values.extend(value.map(|value| (name.clone(), value)));
        }
    }
    all.retain(|r| !r.values.is_empty());
    if all.is_empty() {
        Err(missing("mmtests", "line 'Amean OPERATION VALUE ( CHANGE%) ...'"))
    } else {
        Ok(all)
    }
}

/// Whether a line begins with more than the single blank after a quotation mark.
fn indented(line: &str) -> bool {
    let own = line.trim_start_matches("> ").trim_start_matches('>');
    own.starts_with([' ', '\t'])
}

/// A row's figure and its value in each column; `None` where mmtests printed "nan". `single`: a row of one column is
/// expected here.
fn row(line: &str, single: bool) -> Result<Option<(String, Vec<Option<f64>>)>> {
    let plain = unquoted(line).replace(['(', ')', '*'], " ");
    let words: Vec<&str> = plain.split_whitespace().collect();
    // Each value is followed by its change, unlike in prose that begins with "Max".
    let numeric = |w: &str| w.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) || is_nan(w);
    let pairs = words.rchunks(2).take_while(|pair| match pair {
        [value, change] => change.ends_with('%') && !value.ends_with('%') && numeric(value),
        _ => false,
    });
    let columns = pairs.count();
    let (labels, pairs) = words.split_at(words.len() - 2 * columns);
    let is_row = |known: bool| known || (columns > 1 || single) && is_first_unchanged(pairs);
    let Some((name, _)) = name(labels).filter(|(_, known)| columns > 0 && is_row(*known)) else {
        return Ok(None);
    };
    let value = |w: &&str| if is_nan(w) { Ok(None) } else { whole(w).map(Some) };
    let values: Vec<Option<f64>> = pairs.iter().step_by(2).map(value).collect::<Result<_>>()?;
    Ok(Some((name, values)))
}

/// A row's figure, by the words before its values, and whether its statistic is known.
fn name(labels: &[&str]) -> Option<(String, bool)> {
    let (first, operation) = labels.split_first()?;
    let statistic = first.to_ascii_lowercase();
    // "BAmean-50" is the best half. "Max-95" is a statistic other than the largest value.
    let (word, part) = statistic.split_once('-').unwrap_or((&statistic, ""));
    let best = matches!(word, "bamean" | "bhmean") && !part.is_empty();
    match operation {
        [] => Some(((*first).to_owned(), false)),
        [operation] if best => Some((format!("{operation}.best{part}.{word}"), true)),
        _ => Some((
            format!("{}.{statistic}", operation.join("_")),
            operation.len() == 1 && STATISTICS.contains(&statistic.as_str()),
        )),
    }
}

/// Whether values and changes are a table's and not a sentence's: the first column is the base of the others, so
/// nothing has changed in it.
fn is_first_unchanged(pairs: &[&str]) -> bool {
    let first = pairs.get(1).map(|change| change.trim_end_matches('%'));
    first.is_some_and(|c| is_nan(c) || c.parse::<f64>().is_ok_and(|c| c == 0.0))
}

/// mmtests' sign for a row that a column lacks.
fn is_nan(word: &str) -> bool {
    word.trim_start_matches('-').eq_ignore_ascii_case("nan")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Load, variant, values by name.
    type ReadColumn = (String, String, Vec<(String, f64)>);

    fn read_columns(text: &str) -> Vec<ReadColumn> {
        let all = read(text).unwrap().into_iter();
        all.map(|r| (r.load.unwrap_or_default(), r.variant.unwrap(), r.values.into_iter().collect()))
            .collect()
    }

    #[test]
    fn quoted_tables_without_names_are_read_and_prose_is_not() {
        let text = "> Max latency went down (see below)\n> \n> Hmean     send-64   100.5 (   0.00%)  90 * -10.45%*\n\
                    > BAmean-50 4  2.0 ( 0.00%)   1.0 ( 50.00%)\n";
        let all = read_columns(text);
        assert_eq!(all[0].1, "column 1");
        let want = [("4.best50.bamean".to_owned(), 1.0), ("send-64.hmean".to_owned(), 90.0)];
        assert_eq!((all[1].1.as_str(), &all[1].2[..]), ("column 2", &want[..]));
    }

    #[test]
    fn rows_of_unknown_statistics_are_read() {
        let text = "schbench\n                 vanilla           patched\n\
                    Lat 50.0th-qrtle-1    5.00 (   0.00%)    6.00 ( -20.00%)\n\
                    50.0th-qrtle-2        7.00 (   0.00%)    7.00 (   0.00%)\n\
                    1st-qrtle 4           8.00 (   0.00%)    9.00 * -12.50%*\n\
                    Success 1 Min        66.00 (   0.00%)   65.00 (  -1.52%)\n\
                    TPut      2         100.00 (   0.00%)  110.00 (  10.00%)\n\
                    Max-95    4           3.00 (   0.00%)    2.00 (  33.33%)\n\
                    Amean     4           1.50 (   0.00%)    1.25 (  16.67%)\n\
                    gained 12 (5.00%) 13 (6.00%)\n";
        let all = read_columns(text);
        let want = [
            "1_Min.success",
            "2.tput",
            "4.1st-qrtle",
            "4.amean",
            "4.max-95",
            "50.0th-qrtle-1.lat",
            "50.0th-qrtle-2",
        ];
        assert_eq!(all[1].2.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), want);
        assert_eq!(
            (all.len(), all[1].0.as_str(), all[1].1.as_str(), all[1].2[1].1),
            (2, "schbench", "patched", 110.0)
        );
        assert!(all[1].2.iter().all(|(name, _)| TOOL.row(name).is_some()));
    }

    #[test]
    fn a_table_of_one_column_keeps_its_unknown_statistics() {
        let rows = ["Amean     1        1.00 (   0.00%)", "Lat 50.0th-qrtle-1 5.00 (   0.00%)"];
        let want = vec![("1.amean".to_owned(), 1.0), ("50.0th-qrtle-1.lat".to_owned(), 5.0)];
        let prose = "gained 12 (5.00%)\nwith 12 (0.00%)";
        for [one, other] in [rows, [rows[1], rows[0]]] {
            let text = format!("schbench\n                vanilla\n{one}\n{other}\n{prose}\n");
            assert_eq!(
                read_columns(&text),
                [("schbench".to_owned(), "vanilla".to_owned(), want.clone())],
                "{text}"
            );
        }
        let headless = format!("{}\n{}\n{prose}\n", rows[0], rows[1]);
        assert_eq!(read_columns(&headless), [(String::new(), "column 1".to_owned(), want)]);
        assert!(!(TOOL.knows)(prose));
    }

    #[test]
    fn rows_of_encoded_mails_are_read_whole() {
        let text = "one\n     a        b\nAmean     1        1.00 (   0.00%)        =\n2.00 * -100.00%*\nM=C3=BCller\n";
        assert_eq!(read_columns(text)[1].2, [("1.amean".to_owned(), 2.0)]);
    }

    #[test]
    fn a_missing_value_does_not_break_the_table() {
        let text = "one\n  a b\nAmean 1 nan (0.00%) 2.0 (-nan%)\nAmean 2 nan (nan%) -nan (nan%)\nAmean 3 3.0 (0.00%) 4.0 (-33.33%)\n";
        let all = read_columns(text);
        let value = |name: &str, v| (name.to_owned(), v);
        assert_eq!(
            all,
            [
                ("one".to_owned(), "a".to_owned(), vec![value("3.amean", 3.0)]),
                ("one".to_owned(), "b".to_owned(), vec![value("1.amean", 2.0), value("3.amean", 4.0)]),
            ]
        );
    }

    #[test]
    fn each_table_has_its_own_title_and_columns_of_one_name_are_numbered() {
        let text = "one\n  6.1  6.1  6.1\n  a b b\nAmean 1 1.0 (0.00%) 2.0 (-100.00%) 3.0 (-200.00%)\n\ntwo\n x y\n\
                    Amean 1 4.0 (0.00%) 5.0 (-25.00%)\n";
        let all: Vec<(String, String)> =
            read_columns(text).into_iter().map(|(load, variant, _)| (load, variant)).collect();
        let want = [("one", "6.1-a"), ("one", "6.1-b"), ("one", "6.1-b #2"), ("two", "x"), ("two", "y")];
        assert_eq!(all, want.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
