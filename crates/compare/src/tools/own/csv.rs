//! The CSV of comparisons: a line for each cell and metric, of which the mean is read.

use super::super::number::whole;
use super::{Run, some};
use schedlab_base::{Error, Result};
use schedlab_record::{Better, Figure};

/// Columns that are read; others may come and go.
const COLUMNS: [&str; 12] = [
    "experiment",
    "backend",
    "machine",
    "kernel",
    "workload",
    "load",
    "variant",
    "runs",
    "metric",
    "unit",
    "better",
    "mean",
];

/// Stands before a name in CSV that a spreadsheet would take for a formula.
pub const GUARD: char = '\'';
/// How such names begin.
pub const FORMULAS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// A field's name, without the guard.
pub fn as_named(field: &str) -> &str {
    let guarded = field.trim_start_matches(GUARD).starts_with(FORMULAS);
    field.strip_prefix(GUARD).filter(|_| guarded).unwrap_or(field)
}

/// Whether a text begins with the head of schedlab's CSV.
pub fn knows(text: &str) -> bool {
    places(text).is_ok()
}

/// Where each column stands.
fn places(text: &str) -> Result<Vec<usize>> {
    let head = records(text.lines().next().unwrap_or_default());
    let head = head.first().map_or(&[][..], Vec::as_slice);
    let place = |name: &&str| {
        let found = head.iter().position(|h| h == name);
        found.ok_or_else(|| Error::input(format!("its head has no column '{name}'")))
    };
    COLUMNS.iter().map(place).collect()
}

/// The cells of a text, each as the mean of its runs.
pub fn read(text: &str) -> Result<Vec<Run>> {
    let places = places(text)?;
    let mut all: Vec<Run> = Vec::new();
    for (number, row) in records(text).into_iter().enumerate().skip(1) {
        let field = |i: usize| {
            row.get(places[i]).map(|f| as_named(f).replace(char::is_control, " ")).unwrap_or_default()
        };
        let cell = Run {
            backend: field(1),
            machine: field(2),
            kernel: field(3),
            workload: field(4),
            load: field(5),
            variant: field(6),
            mean_of: field(7).parse().unwrap_or(0),
            ..Run::default()
        };
        let mean = field(11);
        let value = if mean.is_empty() { None } else { Some(whole(&mean)) };
        let figure = match value {
            None => None,
            Some(Ok(value)) => {
                let better = Better::parse(&field(10)).unwrap_or(Better::Neither);
                Some((field(8), Figure { value, unit: field(9), better }))
            }
            Some(Err(e)) => return Err(e.context(format!("record {}: the mean '{mean}'", number + 1))),
        };
        let same = |r: &&mut Run| Run { figures: [].into(), ..(*r).clone() } == cell;
        match all.iter_mut().find(same) {
            Some(known) => known.figures.extend(figure),
            None => all.push(Run { figures: figure.into_iter().collect(), ..cell }),
        }
    }
    some(all, "line with a mean")
}

/// The records of a CSV text (RFC 4180): fields with commas, quotes and line ends stand in quotes.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        all.push(row);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_put_together_from_their_lines() {
        let head = COLUMNS.join(",");
        let text = format!(
            "{head},std_pct\r\ne,sim,m,v4.5,pipe,\"a,\"\"b\"\"\",v4.5,3,x.time,ns,lower,1.5,0\r\n\
             e,sim,m,v4.5,pipe,\"a,\"\"b\"\"\",v4.5,3,rate,1/s,higher,2,0\r\ne,sim,m,v4.5,pipe,other,v4.5,3,rate,,,,0\r\n"
        );
        assert!(knows(&text) && !knows("1,,context-switches,5,100.00,,\n"));
        let all = read(&text).unwrap();
        assert_eq!((all.len(), all[0].load.as_str(), all[0].mean_of), (2, "a,\"b\"", 3));
        assert_eq!((all[0].figures["x.time"].value, all[0].figures["rate"].better), (1.5, Better::Higher));
        assert!(all[1].figures.is_empty());
        let e = read(&text.replace("1.5", "1.x")).unwrap_err().to_string();
        assert!(e.contains("record 2") && e.contains("1.x"), "{e}");
    }
}
