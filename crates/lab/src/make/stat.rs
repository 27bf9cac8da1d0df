//! Counted commands as records, so that the comparison of experiments also compares two commands and the
//! repeats of one.
//!
//! A run of `schedlab stat` has none of our workloads. Its record holds the command under the name of a
//! variant. Two commands are then variants of one load, and comparison and tables work as for experiments.

use crate::make::plan;
use schedlab_base::{Backend, Ns, Result, Warning};
use schedlab_kernel::{Variant, variant::RUNNING};
use schedlab_machine::Machine;
use schedlab_native::counters::watch;
use schedlab_native::probe::counting;
use schedlab_record::metric::{COUNTING, NOT_WATCHED};
use schedlab_record::{Findings, Observe, RECORD_SCHEMA, Record, WATCHING, environment};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

pub use schedlab_native::counters::Width;
pub use schedlab_native::counters::watch::{Output, WatchOptions, Watched};

/// The order of the commands' runs: A B B A, so that drift affects all alike, or A B A B.
///
/// # Errors
/// No runs, or too many.
pub fn order(commands: usize, runs: u64, repeat: bool) -> Result<Vec<plan::Run>> {
    let mut order = plan::order(commands, runs, 1)?;
    if repeat {
        order.sort_by_key(|run| (run.seed, run.cell));
    }
    Ok(order)
}

/// Runs a command and counts, and estimates the cost of counting (`perf.counting`).
///
/// # Errors
/// As the watch.
pub fn command(argv: &[String], how: WatchOptions, stop: &AtomicBool) -> Result<Watched> {
    // Counters of whole CPUs stay on them at a switch.
    let per_switch_ns = if how.system { None } else { counting::per_switch_ns(how.width) };
    let mut watched = watch::command(argv, how, stop)?;
    watched.counts.uncounted.extend(not_asked(how.width));
    let counters = &mut watched.counts.counters;
    let switches = counters.get("perf.context_switches").copied();
    let counting_ns = per_switch_ns.zip(switches).map(|(each, switches)| each * switches);
    counters.extend(counting_ns.map(|ns| (COUNTING.to_owned(), ns)));
    Ok(watched)
}

/// Counts the whole system for a time, or until `stop` becomes true.
///
/// # Errors
/// As the watch.
pub fn system(length: Option<Ns>, width: Width, stop: &AtomicBool) -> Result<Watched> {
    let mut watched = watch::system(length, width, stop)?;
    watched.counts.uncounted.extend(not_asked(width));
    Ok(watched)
}

fn not_asked(width: Width) -> impl Iterator<Item = (String, String)> {
    width.beyond().map(|name| (name.to_owned(), format!("{NOT_WATCHED}: add -d")))
}

/// The command of each variant, in words, by the variant's name; records keep them as parameters.
pub type Commands = BTreeMap<String, String>;

/// One counted run.
///
/// # Errors
/// When this machine can't be read.
pub fn record(seen: Watched, commands: &Commands, variant: &str, number: u64) -> Result<Record> {
    let code = seen.code();
    let mut found = Findings {
        duration: seen.elapsed,
        counters: [("command.elapsed".to_owned(), seen.elapsed.0)].into(),
        environment: environment::capture(),
        ..Findings::default()
    };
    if seen.status.is_some() {
        let own = [("user_time", seen.user.0), ("system_time", seen.system.0), ("exit_status", code.into())];
        found.counters.extend(own.map(|(name, n)| (format!("command.{name}"), n)));
    }
    seen.counts.join(&mut found);
    if code != 0 {
        let line = commands.get(variant).map_or("", String::as_str);
        let text = format!("'{line}' ended with exit code {code}");
        found.warnings.push(Warning::new("command.exit_status", text));
    }
    let release = found.environment.get("kernel.release");
    let kernel = release.cloned().unwrap_or_else(|| RUNNING.to_owned());
    Ok(Record {
        schema: RECORD_SCHEMA.to_owned(),
        model: WATCHING,
        backend: Backend::Host.into(),
        machine: Machine::load("host")?,
        drawn: Vec::new(),
        kernel,
        resolved: None,
        guest: None,
        code: None,
        observe: Some(Observe::Counters),
        variant: Variant { name: variant.to_owned(), ..Variant::plain(RUNNING) },
        workload: "stat".to_owned(),
        spec: serde_json::json!({ "kind": "stat", "params": commands }),
        load: commands.keys().cloned().collect::<Vec<_>>().join("/"),
        seed: number,
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_compare::command_counters::{Over, over};
    use schedlab_native::counters::Counts;

    fn seen(ms: u64, switches: u64) -> Watched {
        let counters = BTreeMap::from([
            ("perf.task_clock".to_owned(), ms * 500_000),
            ("perf.context_switches".to_owned(), switches),
        ]);
        let uncounted = BTreeMap::from([("perf.cycles".to_owned(), "none here".to_owned())]);
        let counts = Counts { counters, uncounted, warnings: Vec::new() };
        Watched { counts, elapsed: Ns::ms(ms), user: Ns(1), system: Ns(2), status: None }
    }

    #[test]
    fn runs_of_one_command_have_a_mean_a_spread_and_an_interval() {
        let commands = BTreeMap::from([("A".to_owned(), "true".to_owned())]);
        let runs: Vec<Record> = [(8, 10), (10, 10), (12, 10)]
            .map(|(ms, n)| record(seen(ms, n), &commands, "A", ms).unwrap())
            .into();
        let Over::Counted { mean, std_pct, ci95: Some([low, high]), .. } = over(&runs, "command.elapsed")
        else {
            panic!("it was counted")
        };
        assert_eq!((mean, std_pct), (10e6, Some(20.0)));
        // t(0.975; 2) = 4.3027: 2 ms / sqrt 3 times that.
        assert!((low - 5.0317e6).abs() < 100.0 && (high - 14.9683e6).abs() < 100.0, "{low} {high}");
        let Over::Counted { values, .. } = over(&runs, "perf.cpus_used") else { panic!("it follows") };
        assert_eq!(values, [0.5, 0.5, 0.5]);
        assert_eq!(over(&runs, "perf.ipc"), Over::Missing { missing: "none here".into() });
        let Over::Counted { ci95, .. } = over(&runs[..1], "perf.context_switches") else { panic!() };
        assert_eq!(ci95, None);
    }

    #[test]
    fn the_order_alternates_unless_it_has_to_repeat() {
        let cells = |repeat| order(2, 3, repeat).unwrap().iter().map(|r| r.cell).collect::<Vec<_>>();
        assert_eq!(cells(false), [0, 1, 1, 0, 0, 1]);
        assert_eq!(cells(true), [0, 1, 0, 1, 0, 1]);
        assert!(order(2, 0, false).is_err());
    }
}
