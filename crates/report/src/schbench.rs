//! A run as schbench prints it today (2023 and later): blocks of percentiles, each with its samples.
//!
//! schbench-modern has the original's three blocks and its average. The workload schbench is the program of 2016: it
//! has wakeup latencies but no requests. Blocks without figures are left out; [`left_out`] names them for the caller.

use crate::usec::Usec;
use schedlab_base::Result;
use schedlab_compare::metrics;
use schedlab_record::Record;

/// A block of the original's text.
struct Block {
    title: &'static str,
    unit: &'static str,
    /// Its name in [`left_out`].
    name: &'static str,
    /// The series that may have its figures, one for each program.
    series: &'static [&'static str],
    /// Units of the series in a printed unit: 1000 for us, else 1.
    scale: u64,
    /// Percentiles in thousandths of a percent. Those below `printed_from` are used for counting and not printed.
    percentiles: &'static [u64],
    printed_from: u64,
    headline: u64,
}

const LATENCIES: Block = Block {
    title: "",
    unit: "usec",
    name: "",
    series: &[],
    scale: 1000,
    percentiles: &[20_000, 50_000, 90_000, 99_000, 99_900],
    printed_from: 50_000,
    headline: 99_000,
};

const BLOCKS: &[Block] = &[
    Block {
        title: "Wakeup Latencies",
        name: "Wakeup Latencies",
        series: &["schbench.latency", "schbench-modern.wakeup_latency"],
        ..LATENCIES
    },
    Block {
        title: "Request Latencies",
        name: "Request Latencies",
        series: &["schbench-modern.request_latency"],
        ..LATENCIES
    },
    Block {
        title: "RPS",
        unit: "requests",
        name: "RPS",
        series: &["schbench-modern.rps"],
        scale: 1,
        percentiles: &[20_000, 50_000, 90_000],
        printed_from: 0,
        headline: 50_000,
    },
];

/// The metric printed as "average rps".
const AVERAGE: &str = "schbench-modern.average_rps";

/// Whether runs of a workload can be printed in this layout.
pub fn prints(workload: &str) -> bool {
    ["schbench", "schbench-modern"].contains(&workload)
}

/// The parts of the original's text for which a run has no figures.
pub fn left_out(record: &Record) -> Vec<&'static str> {
    let blocks = BLOCKS.iter().filter(|b| b.of(record).is_none()).map(|b| b.name);
    let average = average(record).is_none().then_some("average rps");
    blocks.chain(average).chain(["sched delay"]).collect()
}

/// A run in today's layout. The samples of a percentile are those above the previous percentile of the original's
/// internal list.
///
/// # Errors
/// When the run is not of schbench.
pub fn text(record: &Record) -> Result<String> {
    let blocks: Vec<String> = BLOCKS
        .iter()
        .filter_map(|b| Some(b.text(&b.of(record)?, record.found.duration.0 / 1_000_000_000)))
        .collect();
    if blocks.is_empty() {
        return Err(crate::usec::none_in(&record.workload));
    }
    let average = average(record).map_or_else(String::new, |rps| format!("average rps: {rps:.2}\n"));
    Ok(blocks.concat() + &average)
}

fn average(record: &Record) -> Option<f64> {
    metrics::evaluate(record, AVERAGE).value.number()
}

impl Block {
    fn of(&self, record: &Record) -> Option<Usec> {
        let series = self.series.iter().find_map(|name| record.found.series.get(*name));
        series.map(|s| Usec::from_series(s, self.scale))
    }

    fn text(&self, u: &Usec, seconds: u64) -> String {
        let Block { title, unit, .. } = self;
        let mut out =
            format!("{title} percentiles ({unit}) runtime {seconds} (s) ({} total samples)\n", u.samples);
        let mut before = 0;
        for milli in self.percentiles {
            let (value, reached) = u.percentile(*milli);
            if *milli >= self.printed_from {
                let mark = if *milli == self.headline { "* " } else { "  " };
                let name = format!("{}.{}th", milli / 1000, milli % 1000 / 100);
                out.push_str(&format!("\t{mark}{name}: {value:<10} ({} samples)\n", reached - before));
            }
            before = reached;
        }
        out.push_str(&format!("\t  min={}, max={}\n", u.min, u.max));
        out
    }
}
