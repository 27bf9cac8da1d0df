//! Statistics of a series, by name: `mean`, `min`, `max`, `count`, `p50`, `p99.9`.

use super::Value;
use schedlab_stats::series::Series;

/// A statistic of one run's series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stat {
    /// Arithmetic mean, exact.
    Mean,
    /// Smallest value, exact.
    Min,
    /// Largest value, exact.
    Max,
    Count,
    /// Percentile in thousandths of a per cent: 99 900 is p99.9.
    Percentile(u32),
}

impl Stat {
    /// The statistics that are usually asked for.
    pub const USUAL: &'static [&'static str] =
        &["p50", "p75", "p90", "p95", "p99", "p99.5", "p99.9", "mean", "min", "max", "count"];

    /// Reads a statistic's name. Percentiles lie between 0 and 100, with at most three decimals.
    pub fn parse(text: &str) -> Option<Stat> {
        match text {
            "mean" => return Some(Stat::Mean),
            "min" => return Some(Stat::Min),
            "max" => return Some(Stat::Max),
            "count" => return Some(Stat::Count),
            _ => {}
        }
        let number = text.strip_prefix('p')?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let digits =
            |t: &str, most: usize| (1..=most).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole, 2) || !digits(decimals, 3) {
            return None;
        }
        let milli = whole.parse::<u32>().ok()? * 1000 + format!("{decimals:0<3}").parse::<u32>().ok()?;
        (milli > 0).then_some(Stat::Percentile(milli))
    }
    /// The statistic in words.
    pub fn about(self) -> String {
        match self {
            Stat::Mean => "mean".into(),
            Stat::Min => "smallest value".into(),
            Stat::Max => "largest value".into(),
            Stat::Count => "number of values".into(),
            Stat::Percentile(milli) => format!("percentile {}", f64::from(milli) / 1000.0),
        }
    }
    pub fn of(self, series: &Series) -> Value {
        let number = match self {
            Stat::Mean => series.mean(),
            Stat::Min => series.min().map(|v| v as f64),
            Stat::Max => series.max().map(|v| v as f64),
            Stat::Count => Some(series.count() as f64),
            Stat::Percentile(milli) => return series.percentile(f64::from(milli) / 1000.0),
        };
        number.map_or_else(|| Value::Missing("no samples".to_owned()), Value::Number)
    }
}

/// Splits "schbench.latency.p99.9" into series and statistic; the error is a last word that is not a statistic.
pub(super) fn split(name: &str) -> (&str, Result<Stat, &str>) {
    let is_number =
        |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(char::is_alphabetic);
    let percentile = name.rfind(".p").filter(|at| is_number(&name[at + 2..]));
    let at = percentile.or_else(|| name.rfind('.'));
    match at {
        Some(at) => (&name[..at], Stat::parse(&name[at + 1..]).ok_or(&name[at + 1..])),
        None => (name, Err("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_within_a_percentile_is_not_a_separator() {
        assert_eq!(split("a.b.p99.9"), ("a.b", Ok(Stat::Percentile(99_900))));
        assert_eq!(split("a.b.mean"), ("a.b", Ok(Stat::Mean)));
        assert_eq!(split("a.pairs"), ("a", Err("pairs")));
        assert_eq!(split("group./a.p1.busy.max"), ("group./a.p1.busy", Ok(Stat::Max)));
        assert_eq!(split("word"), ("word", Err("")));
    }

    #[test]
    fn percentiles_lie_between_0_and_100() {
        assert_eq!(Stat::parse("p0.001"), Some(Stat::Percentile(1)));
        for text in ["p0", "p100", "p101", "p", "p9.", "p.9", "p1.2345", "p-1", "P50", "median"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
    }
}
