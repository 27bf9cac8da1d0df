//! Takes figures out of any command's output: by a regular expression with one group, or by a JSON pointer.

use super::{text, units};
use regex_lite::Regex;
use schedlab_base::{Error, Result};
use schedlab_record::{Better, Figure, Findings, Metric, Series};
use schedlab_workload::CommandOutput;
use schedlab_workload::command::{Extract, Place, Source, Take};

/// Whether it gives a series, which has statistics, rather than a figure.
pub fn is_series(wanted: &Extract) -> bool {
    wanted.take == Take::All
}

/// Compiles a regular expression and checks that it has one group.
fn regex(pattern: &str) -> Result<Regex> {
    let regex = Regex::new(pattern).map_err(|e| Error::input(format!("not a regular expression: {e}")))?;
    match regex.captures_len() - 1 {
        1 => Ok(regex),
        n => Err(Error::input(format!(
            "the regular expression has {}; it takes one, around the number",
            schedlab_base::counted(n, "group")
        ))
        .help("write Time: ([0-9.]+), and (?:...) for groups that only group")),
    }
}

/// Checks that a figure can be found in some output.
///
/// # Errors
/// When the regular expression is invalid or has not exactly one group, the pointer has no slash, or the name is taken.
pub fn check(wanted: &Extract) -> Result<()> {
    match &wanted.place {
        Place::Regex(pattern) => regex(pattern).map(|_| ())?,
        Place::JsonPointer(p) if p.is_empty() || p.starts_with('/') => {}
        Place::JsonPointer(p) => {
            return Err(
                Error::input(format!("'{p}' is not a JSON pointer")).help("write it as /results/0/mean")
            );
        }
    }
    Better::parse(&wanted.better)?;
    let (_, last) = wanted.name.rsplit_once('.').unwrap_or(("", &wanted.name));
    if last.is_empty() || wanted.name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Error::input(format!(
            "'{}' is not the name of a metric: a word without blanks",
            wanted.name
        )));
    }
    match Metric::find(&wanted.name) {
        Ok(found) if found.row.name == found.name => {
            Err(Error::input(format!("'{}' is measured already: name it otherwise", wanted.name)))
        }
        _ => Ok(()),
    }
}

/// Reads the command line's `NAME[UNIT,BETTER,TAKE,SOURCE]=PLACE`. The words in brackets are optional and in any order,
/// because no two kinds share a word.
///
/// # Errors
/// When the text has another form, and when [`check`] fails.
pub fn metric_option(workload: &str, text: &str, place: fn(String) -> Place) -> Result<Extract> {
    let wrong = || {
        Error::input(format!("'{text}' is not a metric with its place"))
            .help("write NAME=PLACE or NAME[UNIT,lower,last,stderr]=PLACE, as in 'time[s]=Time: ([0-9.]+)'")
    };
    let head = text.find('[').filter(|at| text.find('=').is_none_or(|eq| *at < eq));
    let (name, words, rest) = match head {
        Some(at) => {
            let (words, rest) = text[at + 1..].split_once("]=").ok_or_else(wrong)?;
            (&text[..at], words, rest)
        }
        None => text.split_once('=').map(|(name, rest)| (name, "", rest)).ok_or_else(wrong)?,
    };
    if name.trim().is_empty() {
        return Err(wrong());
    }
    let (mut unit, mut better, mut take, mut source) = (None, None, None, None);
    for word in words.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        let (what, before) = match word {
            "lower" | "higher" | "neither" => ("direction", better.replace(word).is_some()),
            "stdout" => ("source", source.replace(Source::Stdout).is_some()),
            "stderr" => ("source", source.replace(Source::Stderr).is_some()),
            "first" => ("take", take.replace(Take::First).is_some()),
            "last" => ("take", take.replace(Take::Last).is_some()),
            "all" => ("take", take.replace(Take::All).is_some()),
            other => ("unit", unit.replace(other).is_some()),
        };
        if before {
            let error = Error::input(format!("'{text}': '{word}' is a second {what}"));
            return Err(error.help(
                "words are lower, higher, neither, first, last, all, stdout, stderr; any other is the unit",
            ));
        }
    }
    let (unit, take, source) =
        (unit.unwrap_or(""), take.unwrap_or(Take::Only), source.unwrap_or(Source::Stdout));
    let better = better.unwrap_or(units::better(unit).name()).to_owned();
    let name = format!("{workload}.{}", name.trim());
    let wanted = Extract { name, place: place(rest.to_owned()), source, take, unit: unit.to_owned(), better };
    check(&wanted).map(|()| wanted)
}

pub fn default_better(unit: &str) -> &'static str {
    units::better(unit).name()
}

/// Takes a figure out of a command's output into `found`.
///
/// # Errors
/// When it is missing, is not a number, or occurs several times and no choice was given.
pub fn extract(wanted: &Extract, said: &CommandOutput, found: &mut Findings) -> Result<()> {
    let (text, source) = match wanted.source {
        Source::Stdout => (&said.stdout, "standard output"),
        Source::Stderr => (&said.stderr, "standard error"),
    };
    let name = &wanted.name;
    let (values, place) = match &wanted.place {
        Place::Regex(pattern) => (matches(&regex(pattern)?, text), format!("nothing matches '{pattern}'")),
        Place::JsonPointer(pointer) => {
            let json = text::json("the command", text).map_err(|e| e.context(format!("metric '{name}'")))?;
            (at_pointer(&json, pointer), format!("nothing is at '{pointer}'"))
        }
    };
    let values = values.map_err(|e| e.context(format!("metric '{name}' in {source}")))?;
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return Err(Error::input(format!("metric '{name}': {place} in {source}")));
    };
    let (unit, factor) = units::canonical(&wanted.unit);
    let better = Better::parse(&wanted.better)?;
    let value = match wanted.take {
        Take::Only if values.len() > 1 => {
            let text = format!("metric '{name}' is found {} times in {source}", values.len());
            let help = "say which counts: take = \"first\", \"last\" or \"all\", or NAME[first]=...";
            return Err(Error::input(text).help(help));
        }
        Take::Only | Take::First => *first,
        Take::Last => *last,
        Take::All => {
            found.series.insert(name.clone(), series(name, &values, (unit, factor), better)?);
            return Ok(());
        }
    };
    let figure = Figure { value: text::scaled(value, factor), unit: unit.to_owned(), better };
    found.figures.insert(name.clone(), figure);
    Ok(())
}

/// All values matched by the group.
fn matches(regex: &Regex, text: &str) -> Result<Vec<f64>> {
    let groups = regex.captures_iter(text).filter_map(|c| c.get(1));
    groups.map(|group| text::whole(group.as_str())).collect()
}

/// The number at a pointer, or the numbers of the array there.
fn at_pointer(json: &serde_json::Value, pointer: &str) -> Result<Vec<f64>> {
    use serde_json::Value;
    let one = |v: &Value| match v {
        Value::Number(n) => text::whole(&n.to_string()),
        Value::String(s) => text::whole(s),
        other => text::whole(&other.to_string()),
    };
    match json.pointer(pointer) {
        None => Ok(Vec::new()),
        Some(Value::Array(all)) => all.iter().map(one).collect(),
        Some(value) => one(value).map(|v| vec![v]),
    }
}

/// Values as a series, which holds whole numbers: times are rounded to ns, other values must be whole.
fn series(name: &str, values: &[f64], (unit, factor): (&str, f64), better: Better) -> Result<Series> {
    let mut series = Series::new(unit, better);
    for value in values {
        let scaled = (value * factor).round();
        let whole = unit == "ns" || scaled == *value;
        if !(0.0..1.8e19).contains(&scaled) || !whole {
            let text = format!("metric '{name}': {value} is neither a time nor a whole number above 0");
            return Err(Error::input(text)
                .help("take = \"all\" keeps a histogram of whole numbers; give the unit of a time"));
        }
        series.record(scaled as u64);
    }
    Ok(series)
}
