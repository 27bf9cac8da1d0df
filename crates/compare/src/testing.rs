//! Handmade records, for tests of this crate and of those above it.

use schedlab_base::{Backend, Ns};
use schedlab_kernel::Variant;
use schedlab_record::{Better, MODEL, RECORD_SCHEMA, Record, Series, environment};

pub fn record(counters: &[(&str, u64)]) -> Record {
    let json = serde_json::json!({
        "schema": RECORD_SCHEMA, "model": MODEL, "backend": "sim", "kernel": "v6.5", "resolved": null,
        "machine": { "name": "tiny", "about": "", "costs": {}, "idle_states": [], "background": [],
                     "topology": { "cpus": [], "node_distance": [] } },
        "variant": Variant::plain("v6.5"), "workload": "slice", "spec": {}, "load": "default", "seed": 1,
        "duration": Ns::secs(1), "series": {}, "counters": {}, "waits": [],
        "environment": environment::simulated(), "warnings": [],
    });
    let mut record: Record = serde_json::from_value(json).unwrap();
    record.found.counters = counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    record
}

pub fn with_series(name: &str, values: &[u64]) -> Record {
    let mut series = Series::new("ns", Better::Neither);
    values.iter().for_each(|v| series.record(*v));
    let mut record = record(&[]);
    record.found.series.insert(name.to_owned(), series);
    record
}

/// Four runs of a backend and a variant, with seeds 1 to 4 and these values of a counter.
pub fn switched(
    backend: Backend,
    variant: &str,
    counter: &str,
    values: [u64; 4],
) -> impl Iterator<Item = Record> {
    values.into_iter().zip(1..).map(move |(n, seed)| {
        let mut r = record(&[(counter, n)]);
        (r.backend, r.variant.name, r.seed) = (backend.into(), variant.to_owned(), seed);
        r
    })
}
