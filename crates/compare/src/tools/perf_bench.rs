//! Reads lines of `perf bench futex`, `epoll`, `mem` and `numa`, as perf 5 and 6 print them.
//!
//! futex wake and similar ones repeat their measurement and print each: these are repeats of one reading. Under one
//! head, mem measures several functions and numa several set-ups.

use super::text::{number, scaled, whole};
use super::tool::{FigureValues, Reading};
use schedlab_base::Result;

/// Reads a line's figures into the last reading, or into a new one if the line begins another set-up. `function` is the
/// function that mem is measuring.
///
/// # Errors
/// When a number is not written as under `LC_ALL=C`.
pub fn line(line: &str, function: &mut String, all: &mut Vec<Reading>) -> Result<()> {
    if let Some(name) = line.strip_prefix("# function '").and_then(|rest| rest.split_once('\'')) {
        *function = name.0.replace(|c: char| c.is_whitespace() || c.is_control(), "_");
        return Ok(());
    }
    if let Some((setup, name, value)) = numa(line)? {
        set_up(all, setup).insert(name.to_owned(), value);
        return Ok(());
    }
    let Some(last) = all.last_mut() else { return Ok(()) };
    if let Some(rest) = line.strip_prefix("Averaged ").filter(|rest| rest.contains(" operations/sec")) {
        last.values.extend(number(rest)?.map(|v| ("rate".to_owned(), v)));
    }
    if let Some((_, rest)) = line.split_once(" threads) in ").or_else(|| line.split_once(" threads in "))
        && rest.contains(" ms")
        && let Some(ms) = number(rest)?
    {
        let value = ("latency".to_owned(), scaled(ms, 1e6));
        if line.starts_with("[Run ") {
            last.repeats.push([value].into())
        } else {
            last.values.extend([value])
        }
    }
    last.values.extend(memory(line, function)?);
    Ok(())
}

/// "28.224350 GB/sec", "0.053 cycles/byte"
fn memory(line: &str, function: &str) -> Result<Option<(String, f64)>> {
    let mut words = line.split_whitespace();
    let (Some(value), Some(unit), None) = (words.next(), words.next(), words.next()) else { return Ok(None) };
    let (name, factor) = match unit.to_ascii_lowercase().as_str() {
        "bytes/sec" | "b/sec" => ("throughput", 1.0),
        "kb/sec" => ("throughput", 1024.0),
        "mb/sec" => ("throughput", 1024.0 * 1024.0),
        "gb/sec" => ("throughput", 1024.0 * 1024.0 * 1024.0),
        "cycles/byte" => ("cycles_per_byte", 1.0),
        _ => return Ok(None),
    };
    let function = if function.is_empty() { "default" } else { function };
    Ok(Some((format!("{function}.{name}"), scaled(whole(value)?, factor))))
}

/// "main,   2.032, secs,   runtime-max/thread": set-up, figure, value.
fn numa(line: &str) -> Result<Option<(&str, &'static str, f64)>> {
    const FIGURES: &[(&str, &str, f64)] = &[
        ("runtime-max/thread", "runtime_max", 1e9),
        ("runtime-min/thread", "runtime_min", 1e9),
        ("runtime-avg/thread", "runtime_avg", 1e9),
        ("spread-runtime/thread", "runtime_spread", 1.0),
        ("data/thread", "data_per_thread", 1.0),
        ("data-total", "data_total", 1.0),
        ("runtime/byte/thread", "time_per_byte", 1.0),
        ("thread-speed", "thread_speed", 1.0),
        ("total-speed", "total_speed", 1.0),
    ];
    let Some((setup, rest)) = line.split_once(',') else { return Ok(None) };
    let known = FIGURES.iter().find(|(word, ..)| rest.trim_end().rsplit(' ').next() == Some(word));
    let Some((_, name, factor)) = known else { return Ok(None) };
    Ok(number(rest)?.map(|v| (setup.trim(), *name, scaled(v, *factor))))
}

/// The values of a set-up: those of the last reading, or of a new one. A reading's load is "numa/mem SET-UP".
fn set_up<'a>(all: &'a mut Vec<Reading>, setup: &str) -> &'a mut FigureValues {
    let setup = setup.replace(char::is_control, " ");
    let of = |load: &Option<String>| load.clone().unwrap_or_default();
    let last = all.last().map(|r| of(&r.load)).unwrap_or_default();
    let head = last.split(' ').next().unwrap_or_default().to_owned();
    let load = format!("{head} {setup}");
    let fresh = all.last().is_none_or(|r| !r.values.is_empty() && last != load);
    if fresh {
        all.push(Reading::default());
    }
    let at = all.len() - 1;
    all[at].load = Some(load);
    &mut all[at].values
}
