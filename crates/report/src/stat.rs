//! The counters of one command, or of the whole system: as text of at most 78 columns, and as JSON.

use crate::number;
use crate::text::wrap;
use schedlab_base::Warning;
use schedlab_compare::command_counters::{COUNTERS, COUNTING, Over, beside, metrics, over};
use schedlab_record::Record;
use schedlab_record::metric::NOT_WATCHED;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The schema of a counted command.
pub const STAT_SCHEMA: &str = "schedlab/stat/1";

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountedCommand {
    /// [`STAT_SCHEMA`].
    pub schema: &'static str,
    /// The command in one line; "" if there is none.
    pub command: String,
    pub whole_system: bool,
    /// The running kernel.
    pub kernel: String,
    pub runs: usize,
    pub metrics: BTreeMap<String, Over>,
    /// Each only once.
    pub warnings: Vec<Warning>,
}

impl CountedCommand {
    pub fn of(records: &[Record], command: &str, whole_system: bool) -> CountedCommand {
        let mut names = metrics();
        names.extend(COUNTERS.iter().filter_map(|(name, _)| Some(beside(name)?.0)));
        let mut warnings: Vec<Warning> = Vec::new();
        for w in records.iter().flat_map(|r| &r.found.warnings) {
            if !warnings.contains(w) {
                warnings.push(w.clone());
            }
        }
        CountedCommand {
            schema: STAT_SCHEMA,
            command: command.to_owned(),
            whole_system,
            kernel: records.first().map_or_else(String::new, |r| r.kernel.clone()),
            runs: records.len(),
            metrics: names.into_iter().map(|name| (name.clone(), over(records, &name))).collect(),
            warnings,
        }
    }

    /// Writes the counters as text.
    pub fn export(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", wrap("", &self.head()))?;
        if self.runs > 1 {
            writeln!(out, "{:>16}  {:<16} {:>12} {:>6}  95% of the mean", "mean", "", "", "std")?;
        }
        for (name, title) in COUNTERS {
            match &self.metrics[*name] {
                Over::Counted { mean, unit, std_pct, ci95, .. } => {
                    let value = exact(*mean, unit);
                    write!(out, "{value:>16}  {:<16} {:>12}", title, self.beside(name))?;
                    if let (Some(std), Some([low, high])) = (std_pct, ci95) {
                        let ends = [low, high].map(|v| number::value(*v, unit));
                        write!(out, " {:>6}  [{}, {}]", number::spread(*std), ends[0], ends[1])?;
                    }
                    writeln!(out)?;
                }
                Over::Missing { missing } if missing.starts_with(NOT_WATCHED) => {}
                Over::Missing { .. } => writeln!(out, "{:>16}  {}", "not counted", title)?,
            }
        }
        self.counting(out)?;
        self.missing(out)?;
        self.warnings.iter().try_for_each(|w| write!(out, "{}", wrap("warning: ", &w.message)))
    }

    fn head(&self) -> String {
        let what = match (self.whole_system, self.command.as_str()) {
            (true, "") => "the whole system".to_owned(),
            (true, command) => format!("the whole system during: {command}"),
            (false, command) => command.to_owned(),
        };
        let time = |name: &str| match &self.metrics[name] {
            Over::Counted { mean, unit, .. } => Some(number::value(*mean, unit)),
            Over::Missing { .. } => None,
        };
        let times = [
            ("command.elapsed", "elapsed"),
            ("command.user_time", "user"),
            ("command.system_time", "system"),
        ];
        let times: Vec<String> =
            times.iter().filter_map(|(name, word)| Some(format!("{} {word}", time(name)?))).collect();
        let runs = if self.runs > 1 { format!(", mean of {} runs", self.runs) } else { String::new() };
        format!("{what}: {}{runs}", times.join(", "))
    }

    fn beside(&self, counter: &str) -> String {
        let Some((name, words)) = beside(counter) else { return String::new() };
        match self.metrics.get(&name) {
            Some(Over::Counted { mean, unit, .. }) if words == "CPUs" => {
                format!("{} {words}", number::value(*mean, unit))
            }
            Some(Over::Counted { mean, unit, .. }) => format!("{}{words}", number::value(*mean, unit)),
            _ => String::new(),
        }
    }

    /// Writes the time spent on counting itself, which is a part of the task clock.
    fn counting(&self, out: &mut dyn Write) -> io::Result<()> {
        let mean = |name: &str| match self.metrics.get(name) {
            Some(Over::Counted { mean, .. }) => Some(*mean),
            _ => None,
        };
        let (Some(took), Some(clock)) = (mean(COUNTING), mean("perf.task_clock")) else { return Ok(()) };
        let share = if clock > 0.0 { 100.0 * took / clock } else { 0.0 };
        let text = format!(
            "counting itself took about {}, {share:.1}% of the task clock",
            number::value(took, "ns")
        );
        write!(out, "{}", wrap("", &text))
    }

    /// Writes which counters are missing, by reason.
    fn missing(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, title) in COUNTERS {
            let Over::Missing { missing } = &self.metrics[*name] else { continue };
            if missing.starts_with(NOT_WATCHED) {
                continue;
            }
            match reasons.iter_mut().find(|(why, _)| why == missing) {
                Some((_, titles)) => titles.push(title),
                None => reasons.push((missing, vec![*title])),
            }
        }
        reasons.iter().try_for_each(|(why, titles)| {
            write!(out, "{}", wrap("not counted: ", &format!("{}: {why}", titles.join(", "))))
        })
    }
}

/// A whole count, or a time in milliseconds to the microsecond, comparable with other tools' output.
fn exact(mean: f64, unit: &str) -> String {
    match unit {
        "ns" => format!("{:.3} ms", mean / 1e6),
        _ if mean == mean.trunc() => format!("{mean:.0}"),
        _ => format!("{mean:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Ns;
    use schedlab_compare::testing;
    use schedlab_record::metric::perf::UNCOUNTED;

    fn runs(ms: &[u64]) -> Vec<Record> {
        let run = |ms: &u64| {
            let counters = [
                ("command.elapsed", ms * 1_000_000),
                ("perf.task_clock", ms * 740_000),
                ("perf.context_switches", 2001),
                ("perf.migrations", 1),
                ("perf.page_faults", 1070),
                ("perf.cycles", ms * 2_400_000),
                ("perf.instructions", ms * 1_200_000),
                ("perf.counting", ms * 74_000),
            ];
            let none = ["cache_references", "cache_misses", "branches", "branch_misses"];
            let mut record = testing::record(&counters);
            record.found.duration = Ns::ms(*ms);
            for name in none {
                let key = format!("{UNCOUNTED}perf.{name}");
                record.found.environment.insert(key, "this machine has no such counter".to_owned());
            }
            record
        };
        ms.iter().map(run).collect()
    }

    fn text(records: &[Record]) -> String {
        let mut out = Vec::new();
        CountedCommand::of(records, "pipe -l 1000", false).export(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_run_shows_counters_with_their_rates() {
        let text = text(&runs(&[20]));
        let want = "\
pipe -l 1000: 20.0ms elapsed
       14.800 ms  task clock          0.74 CPUs
            2001  context switches       135k/s
               1  migrations             67.6/s
            1070  page faults           72297/s
        48000000  cycles               3.24 GHz
        24000000  instructions       0.50/cycle
     not counted  branches
     not counted  branch misses
     not counted  cache references
     not counted  cache misses
counting itself took about 1.48ms, 10.0% of the task clock
not counted: branches, branch misses, cache references, cache misses: this
             machine has no such counter
";
        assert_eq!(text, want);
    }

    #[test]
    fn several_runs_show_spread_and_interval_within_the_width() {
        let text = text(&runs(&[20, 22, 24]));
        assert!(text.starts_with("pipe -l 1000: 22.0ms elapsed, mean of 3 runs\n"), "{text}");
        assert!(text.contains("2001  context switches") && text.contains("0.0%  [2001, 2001]"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
    }

    #[test]
    fn the_json_has_values_and_reasons() {
        let json = serde_json::to_value(CountedCommand::of(&runs(&[20, 24]), "x", false)).unwrap();
        assert_eq!(json["metrics"]["perf.page_faults"]["values"], serde_json::json!([1070.0, 1070.0]));
        assert_eq!(json["metrics"]["perf.branches"]["missing"], "this machine has no such counter");
        assert_eq!((json["schema"].as_str(), json["runs"].as_u64()), (Some(STAT_SCHEMA), Some(2)));
    }
}
