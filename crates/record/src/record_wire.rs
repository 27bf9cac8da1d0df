//! A record's form in JSON, for the reader: the findings' fields stand next to those that describe the run.
//!
//! All fields are in one struct, so that one pass reads them and errors have their place; a derived reader of
//! [`Record`] would first copy what it flattens. An outline skips the longest lists.

use crate::{
    CodeSetup, Cycles, Delays, Figure, Findings, GuestSetup, Interval, Observe, Record, Schedstat, Series,
    Stays, TaskAccount, Wait,
};
use memchr::memmem;
use schedlab_base::{Ns, Origin, Warning};
use schedlab_kernel::{Kernel, Variant};
use schedlab_machine::{Drawn, Machine};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// A record, with `L` in place of its waits and `I` in place of its intervals.
#[derive(Deserialize)]
pub struct Wire<L, I> {
    schema: String,
    model: u32,
    backend: Origin,
    machine: Machine,
    #[serde(default)]
    drawn: Vec<Drawn>,
    kernel: String,
    resolved: Option<Kernel>,
    #[serde(default)]
    guest: Option<GuestSetup>,
    #[serde(default)]
    code: Option<CodeSetup>,
    variant: Variant,
    workload: String,
    spec: serde_json::Value,
    load: String,
    #[serde(default)]
    observe: Option<Observe>,
    seed: u64,
    duration: Ns,
    series: BTreeMap<String, Series>,
    counters: BTreeMap<String, u64>,
    #[serde(default)]
    schedstat: Option<Schedstat>,
    #[serde(default)]
    cycles: Option<Cycles>,
    #[serde(default)]
    figures: BTreeMap<String, Figure>,
    #[serde(default)]
    tasks: Vec<TaskAccount>,
    #[serde(default)]
    stays: Vec<Stays>,
    #[serde(default)]
    delays: Vec<Delays>,
    #[serde(default)]
    intervals: I,
    waits: L,
    environment: BTreeMap<String, String>,
    warnings: Vec<Warning>,
}

impl<L, I> Wire<L, I> {
    fn record(self, waits: fn(L) -> Vec<Wait>, intervals: fn(I) -> Vec<Interval>) -> Record {
        Record {
            schema: self.schema,
            model: self.model,
            backend: self.backend,
            machine: self.machine,
            drawn: self.drawn,
            kernel: self.kernel,
            resolved: self.resolved,
            guest: self.guest,
            code: self.code,
            variant: self.variant,
            workload: self.workload,
            spec: self.spec,
            load: self.load,
            observe: self.observe,
            seed: self.seed,
            found: Findings {
                duration: self.duration,
                series: self.series,
                counters: self.counters,
                schedstat: self.schedstat,
                cycles: self.cycles,
                figures: self.figures,
                tasks: self.tasks,
                stays: self.stays,
                delays: self.delays,
                intervals: intervals(self.intervals),
                waits: waits(self.waits),
                environment: self.environment,
                warnings: self.warnings,
            },
        }
    }
}

impl From<Wire<Vec<Wait>, Vec<Interval>>> for Record {
    fn from(wire: Wire<Vec<Wait>, Vec<Interval>>) -> Record {
        wire.record(|waits| waits, |intervals| intervals)
    }
}

/// Reads a part of a record that needs no waits. They are most of the text, so they are cut out unread: up to the first
/// end of a list of objects that another key follows. If that is the end of another list or within a name, what is left
/// is no JSON; then the whole text is read, as it is where something else is wrong, for the place of the error.
pub fn without_waits<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let short = || {
        let from = memmem::find(text.as_bytes(), b"\"waits\":[{")? + 8;
        let until = from + memmem::find(text.as_bytes().get(from..)?, b"}],\"")? + 2;
        Some([text.get(..from)?, "null", text.get(until..)?].concat())
    };
    let read = short().and_then(|short| serde_json::from_str(&short).ok());
    read.map_or_else(|| serde_json::from_str(text), Ok)
}

/// The record without waits and intervals.
///
/// # Errors
/// When any other part is wrong.
pub fn outline(text: &str) -> serde_json::Result<Record> {
    let wire: Wire<IgnoredAny, Option<IgnoredAny>> = without_waits(text)?;
    Ok(wire.record(|_| Vec::new(), |_| Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::record;
    use crate::{Better, Interval};

    /// A record with something in every field.
    fn full() -> Record {
        let mut r = record(7);
        r.guest = serde_json::from_value(serde_json::json!({
            "image": "i", "mode": "deterministic", "qemu": "10", "accelerator": "tcg", "memory_mb": 1, "boot_options": [],
        }))
        .unwrap();
        r.resolved = Some(Kernel::profile("v6.5").unwrap());
        r.drawn = Machine::load("smp-2").unwrap().draw(1, None);
        r.observe = Some(Observe::Stays);
        let found = &mut r.found;
        found.counters.insert("migrations".into(), 3);
        found.schedstat = Some(Schedstat::new([Vec::new()]));
        found.cycles = Cycles::of(&[("schedule".to_owned(), 2)].into(), &["idle".to_owned()]);
        let figure = Figure { value: 1.0 / 3.0, unit: "ns".into(), better: Better::Lower };
        found.figures.insert("a.time".into(), figure);
        found.tasks = serde_json::from_value(serde_json::json!([
            { "name": "t", "cpu_time": 5, "voluntary": 1, "involuntary": 2 },
        ]))
        .unwrap();
        let series = |values: [u64; 2]| {
            let mut series = crate::Series::new("ns", Better::Lower);
            values.into_iter().for_each(|value| series.record(value));
            series
        };
        found.delays =
            vec![Delays { group: "t".into(), wakeup_delay: series([5, 70_000]), run_delay: series([9, 1]) }];
        found.intervals = vec![Interval { start: Ns(1), length: Ns(2), values: BTreeMap::new() }];
        found.warnings = vec![Warning::new("w", "text")];
        r
    }

    #[test]
    fn an_outline_lacks_waits_and_intervals_only() {
        let text = serde_json::to_string(&full()).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), full());
        let mut without = full();
        without.found.waits.clear();
        without.found.intervals.clear();
        assert_eq!(outline(&text).unwrap(), without);
        let mut made = full();
        made.found.outline();
        assert_eq!(made, without, "an outline of a record is the one read of it");
        // Ends of lists within names and lists, and fields in another order.
        let empty = "\"waits\":[],";
        let filled = |wait: &str| text.replacen(empty, &format!("\"waits\":[{{}},{{{wait}}}],"), 1);
        for wait in ["", r#""a":"}],","b":1"#, r#""a":[{}],"environment":{}"#, r#""waits":[{}],"a":1"#] {
            assert!(filled(wait) != text && outline(&filled(wait)).unwrap() == without, "{wait}");
        }
        let moved = text.replacen(empty, "", 1).replacen("\"tasks\":[{", &format!("{empty}\"tasks\":[{{"), 1);
        assert!(moved != text && outline(&moved).unwrap() == without);
        let old = serde_json::to_string(&record(1)).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&old).unwrap(), record(1), "fields that may be missing");
    }

    #[test]
    fn a_damaged_part_is_refused_with_its_place() {
        let text = serde_json::to_string(&full()).unwrap();
        for (from, to) in
            [("\"seed\":7", "\"seed\":-7"), ("\"counters\":{", "\"counters\":{}, \"counters\":{")]
        {
            let damaged = text.replacen(from, to, 1);
            assert!(damaged != text && outline(&damaged).is_err(), "{from}");
            assert_ne!(serde_json::from_str::<Record>(&damaged).unwrap_err().column(), 0, "{from}");
        }
    }
}
