//! Knees as data: a knee is the largest load that keeps a metric under a limit.

use crate::uncertainty::Sway;
use schedlab_base::{Error, Ns, Origin, Result, Warning};
use schedlab_record::{Metric, Stat};
use schedlab_workload::{Benchmark, Built, Params, Spec};
use serde::{Deserialize, Serialize};

/// A limit on a metric, such as "p99 < 2ms".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The metric; without a dot it is a statistic of the workload's own first series.
    pub metric: String,
    /// Whether values below the limit are good; otherwise values above are.
    pub below: bool,
    /// The limit, in the metric's unit (times in ns).
    pub value: f64,
}

impl Limit {
    /// Reads "p99 < 2ms", "schbench.latency.p99 < 2ms", "work > 1000".
    ///
    /// # Errors
    /// When the text is something else.
    pub fn parse(text: &str) -> Result<Limit> {
        let wrong = || {
            Error::input(format!("'{text}' is not a limit"))
                .help("write it as \"p99 < 2ms\" or \"schbench.latency.p99 < 2ms\"")
        };
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (metric, value) = (text[..at].trim(), text[at + 1..].trim_start_matches('=').trim());
        if metric.is_empty() || value.is_empty() {
            return Err(wrong());
        }
        let plain = value.parse::<f64>().ok().filter(|v| v.is_finite());
        let value = match plain {
            Some(v) => v,
            None => Ns::parse(value, "").map_err(|e| e.context(format!("limit '{text}'")))?.0 as f64,
        };
        Ok(Limit { metric: metric.to_owned(), below: &text[at..=at] == "<", value })
    }
    /// The limit with the full name of a workload's metric: "p99" becomes "schbench.latency.p99".
    ///
    /// # Errors
    /// When the workload has no such metric.
    pub fn for_workload(&self, bench: &Benchmark) -> Result<Limit> {
        let first = bench.headline.iter().find_map(|h| Metric::find(h).ok()?.series().map(str::to_owned));
        let full = match first {
            Some(series) if Metric::find(&self.metric).is_err() => format!("{series}.{}", self.metric),
            _ => self.metric.clone(),
        };
        Metric::find(&full)?;
        // A benchmark that shows a series by its mean has one value in each run.
        let percentile_of = |series: &&str| full.strip_prefix(*series).is_some_and(|s| s.starts_with(".p"));
        let mut means = bench.headline.iter().filter_map(|h| h.strip_suffix(".mean"));
        if let Some(series) = means.find(percentile_of) {
            let text = format!("a run of {} has one value of {series}, and no percentiles", bench.name);
            return Err(Error::input(text).help("write the limit as \"mean < 2ms\""));
        }
        Ok(Limit { metric: full, ..self.clone() })
    }
    /// The default limit, which is schbench's for `-a`.
    pub fn usual(bench: &Benchmark) -> &'static str {
        let Some(series) = bench.headline.first().and_then(|h| h.strip_suffix(".mean")) else {
            return "p99 < 2ms";
        };
        let built = Spec::bench(bench.name, &Params::default()).and_then(|spec| spec.build(1));
        let higher = |b: Built| b.series.iter().any(|s| s.name == series && s.better == "higher");
        if built.is_ok_and(higher) { "mean > 2ms" } else { "mean < 2ms" }
    }
    /// Whether it names only a statistic of the workload's first series.
    pub fn is_bare(&self) -> bool {
        Stat::parse(&self.metric).is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    pub variant: String,
    /// The largest load that met the limit, by seed; 0 if none did.
    pub knees: Vec<u64>,
    /// Mean over the seeds.
    pub mean: f64,
    /// 95 % interval of the mean over the seeds (t); `None` for one seed.
    pub ci95: Option<[f64; 2]>,
    /// Number of seeds whose knee is the cap: the true one may be higher.
    pub at_cap: usize,
    /// Number of seeds without a knee, because the metric was missing where it mattered.
    #[serde(default)]
    pub unknown: usize,
    /// Number of loads above a seed's knee that could not be judged, because the metric was missing: the true knee may
    /// be higher.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub unjudged: usize,
    /// The drawn costs that affect the knee; `None` if none were drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<Sway>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knees {
    /// "schedlab/knee/1".
    pub schema: String,
    pub workload: String,
    pub parameter: String,
    pub backend: Origin,
    pub machine: String,
    pub limit: Limit,
    /// The largest load tried.
    pub cap: u64,
    pub seeds: Vec<u64>,
    pub variants: Vec<Knee>,
    /// Unit of the limit's metric; "" for counts.
    #[serde(default)]
    pub unit: String,
    /// Every load tried, by variant and load.
    #[serde(default)]
    pub tried: Vec<TriedLoad>,
    /// Whether the search was interrupted. Unfinished seeds are left out.
    pub interrupted: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// A load tried under a variant, with the results by seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedLoad {
    pub variant: String,
    /// The value of the parameter.
    pub load: u64,
    /// The limit's metric, by ascending seed, in [`Knees::unit`].
    pub values: Vec<f64>,
    /// Number of seeds in which it was missing.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub missing: usize,
}

pub const KNEE_SCHEMA: &str = "schedlab/knee/1";
