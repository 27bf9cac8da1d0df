//! How often the lines of a patch were reached, as text.

use crate::number::count;
use crate::text::wrap;
use schedlab_compare::trial::{Reached, Visits};
use schedlab_kernel::Level;
use std::io::{self, Write};

/// The most places that are listed.
const PLACES: usize = 12;
/// The most loads that are named for a place.
const LOADS: usize = 3;

/// Writes the section: nothing if no backend can tell, and the reason if visits were not counted. `level` is that of
/// the runs.
pub fn text(found: Result<&[Reached], &str>, level: Option<Level>, out: &mut dyn Write) -> io::Result<()> {
    let all = match found {
        Ok(all) => all,
        Err(why) => {
            let text = format!("Visits of the lines that the patch changes were not counted: {why}.");
            return write!(out, "\n{}", wrap("", &text));
        }
    };
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nLines that the patch changes, visits in one run of each load:\n")?;
    for one in all.iter().take(PLACES) {
        write!(out, "{}", wrap("  ", &words(one)))?;
    }
    if all.len() > PLACES {
        writeln!(out, "  and {} more places", all.len() - PLACES)?;
    }
    write!(out, "\n{}", wrap("", &verdict(all, level)))
}

/// A conclusion from all places together.
pub fn verdict(all: &[Reached], level: Option<Level>) -> String {
    let visits = all.iter().flat_map(|one| &one.visits).map(|v| v.times).sum::<u64>();
    if all.iter().all(|one| one.functions.is_empty()) {
        return "None of the patch's lines has code here: they are not compiled with this configuration, or only \
                declare; --config FRAGMENT switches options on."
            .to_owned();
    }
    if visits == 0 {
        return "The patch's lines were never reached in these loads: no figure on this page is of them."
            .to_owned();
    }
    match level {
        Some(Level::Free) => "These lines ran, and at level free the kernel's code takes no time: neither what they cost nor a gate by \
                              the time that code takes (as newidle balance has) can show. --level woven charges it."
            .to_owned(),
        Some(Level::Counted) => {
            "At level counted the code's time passes at the end of a verb; --level woven lets others act meanwhile.".to_owned()
        }
        _ => "Their cost is part of all figures.".to_owned(),
    }
}

/// "kernel/sched/fair.c:12918 (sched_balance_newidle): 1,203 in hackbench process-socket, ...; never in pipe pairs".
fn words(one: &Reached) -> String {
    if one.functions.is_empty() {
        return format!("{}: no code of its own", one.place);
    }
    let functions: Vec<&str> =
        one.functions.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let within = if functions.is_empty() { String::new() } else { format!(" ({})", functions.join(", ")) };
    let several = one.visits.iter().any(|v| v.machine != one.visits[0].machine);
    let name = |v: &Visits| {
        let machine = if several { format!(" on {}", v.machine) } else { String::new() };
        format!("{} {}{machine}", v.workload, v.load)
    };
    let mut seen: Vec<&Visits> = one.visits.iter().filter(|v| v.times > 0).collect();
    seen.sort_by_key(|v| std::cmp::Reverse(v.times));
    let never: Vec<String> = one.visits.iter().filter(|v| v.times == 0).map(name).collect();
    if seen.is_empty() {
        return format!("{}{within}: never reached", one.place);
    }
    let times = |v: &Visits| {
        let least = if v.times >= Visits::MOST { "at least " } else { "" };
        format!("{least}{} in {}", count(v.times as f64), name(v))
    };
    let mut parts: Vec<String> = seen.iter().take(LOADS).map(|v| times(v)).collect();
    if seen.len() > LOADS {
        let rest = &seen[LOADS..];
        let (most, least) = (rest.first().map_or(0, |v| v.times), rest.last().map_or(0, |v| v.times));
        let range = if most == least { String::new() } else { format!(" to {}", count(most as f64)) };
        parts.push(format!("{}{range} in {} more", count(least as f64), rest.len()));
    }
    let never = match never.len() {
        0 => String::new(),
        n if n > LOADS => format!("; never in {}, and {} more", never[..LOADS].join(", "), n - LOADS),
        _ => format!("; never in {}", never.join(", ")),
    };
    format!("{}{within}: {}{never}", one.place, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(functions: &[&str], times: &[u64]) -> Reached {
        let visits = |(at, times): (usize, &u64)| Visits {
            machine: "smp-8".to_owned(),
            workload: "pipe".to_owned(),
            load: format!("load{at}"),
            times: *times,
        };
        Reached {
            place: "kernel/sched/fair.c:12918".to_owned(),
            functions: functions.iter().map(|f| (*f).to_owned()).collect(),
            visits: times.iter().enumerate().map(visits).collect(),
        }
    }

    #[test]
    fn loads_are_named_by_their_visits() {
        let one = reached(&["sched_balance_newidle"], &[0, 12, 1203, 100_000, 7, 3]);
        assert_eq!(
            words(&one),
            "kernel/sched/fair.c:12918 (sched_balance_newidle): at least 100k in pipe load3, 1203 in pipe load2, \
             12 in pipe load1, 3 to 7 in 2 more; never in pipe load0"
        );
        assert!(words(&reached(&["f"], &[0, 0])).ends_with("(f): never reached"));
        assert!(words(&reached(&[], &[0])).ends_with(":12918: no code of its own"));
    }

    #[test]
    fn visits_that_were_not_counted_are_a_sentence() {
        let mut out = Vec::new();
        text(Err("there was no time"), None, &mut out).unwrap();
        text(Ok(&[]), None, &mut out).unwrap();
        let said = String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said, "Visits of the lines that the patch changes were not counted: there was no time.");
    }

    #[test]
    fn the_conclusion_names_the_level_that_shows_a_cost() {
        let ran = [reached(&["f"], &[1])];
        assert!(verdict(&ran, Some(Level::Free)).contains("--level woven charges it"));
        assert!(!verdict(&ran, Some(Level::Woven)).contains("--level"));
        assert!(verdict(&[reached(&["f"], &[0])], Some(Level::Free)).contains("never reached"));
        assert!(verdict(&[reached(&[], &[0])], None).contains("None of the patch's lines has code"));
    }
}
