//! Makes docs/metrics.md from the table.

use super::{METRICS, Metric};
use crate::Observe;
use std::fmt::Write;

const HEAD: &str = "# Metrics

Made from the table in `crates/record/src/metric/table.rs`; change that, then run
`SCHEDLAB_BLESS=1 cargo test -p schedlab-record metrics_page`.

Values are integers of the unit given; times are nanoseconds and are rounded only when printed. `<stat>` is `mean`,
`min`, `max`, `count`, or a percentile between 0 and 100 with at most three decimals (`p50`, `p99.9`). Mean, min,
max and count are exact; a percentile is nearest-rank and known to one part in a thousand. A percentile above 50
with fewer than 10 samples beyond it is missing. A metric that a backend does not measure is missing, too, never 0.

Names that end in `<counter>` ask for a counter of /proc/schedstat over the measured time: as the simulator keeps
it, or the whole machine's live, where the kernel has it; of whatever task. Times among them are ns, shares %, all
else counts.

\"Better\" is the direction a comparison calls `better`; where it says neither, a change is only `changed`.

`perf.*` are the kernel's performance counters of the workload's tasks, or of a command and its children, over the
measured time ([live.md](live.md#performance-counters)); one that the machine does not have is missing, with the reason.

Deterministic guests of the vm backend count instructions, which all their CPUs execute in turns, and call that
time: rates and the time that work took (`*.rate`, `*.elapsed`, `perf.cpus_used`, a command's own times and rates)
are missing there.

host (counters), host (caches): live only where an experiment asks for it, or with `--counters` or `--counters=caches`,
because it makes switches longer;
host (events): live with `--events` only, which records every switch, wakeup and migration ([live.md](live.md)).

Metrics are of the workload's tasks only, not of the machine's own (kworkers and the like). The exceptions are
`balance.*`, `idle.*` and `sim.*`, and definitions that say otherwise.

| metric | unit | better | backends | definition |
| --- | --- | --- | --- | --- |
";

pub fn page() -> String {
    let mut text = HEAD.to_owned();
    for m in METRICS {
        let backends = m.backends.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
        let backends = match m.watched {
            Observe::Accounts => backends,
            Observe::Stays | Observe::Counters => backends.replace("host", "host (counters)"),
            Observe::Caches => backends.replace("host", "host (caches)"),
            Observe::Events => backends.replace("host", "host (events)"),
        };
        let unit = match (m.unit, m.name) {
            ("", super::PROGRAM_SERIES) => "declared",
            ("", _) => "count",
            (unit, _) => unit,
        };
        let better = if m.name == super::PROGRAM_SERIES { "declared" } else { m.better.name() };
        // Writing to a String can't fail.
        let _ = writeln!(text, "| `{}` | {unit} | {better} | {backends} | {} |", m.name, m.about);
    }
    METRICS.iter().for_each(|m| choices(m, &mut text));
    text
}

/// The names that can fill a row's placeholder. Rows with the same names are listed with the first.
fn choices(metric: &Metric, text: &mut String) {
    let Some(choices) = metric.choices else { return };
    let words = choices();
    let same: Vec<&str> =
        METRICS.iter().filter(|m| m.choices.is_some_and(|c| c() == words)).map(|m| m.name).collect();
    if same[0] != metric.name {
        return;
    }
    let names: Vec<String> = same.iter().map(|n| format!("`{n}`")).collect();
    let _ = writeln!(text, "\n## {}\n\n| name | meaning |\n| --- | --- |", names.join(", "));
    for (word, about) in words {
        let _ = writeln!(text, "| `{word}` | {about} |");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_metrics_page_agrees_with_the_table() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        if std::env::var_os("SCHEDLAB_BLESS").is_some() {
            std::fs::write(&file, super::page()).unwrap();
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(stored == super::page(), "docs/metrics.md is stale: run this test with SCHEDLAB_BLESS=1");
    }
}
