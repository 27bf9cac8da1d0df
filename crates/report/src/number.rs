//! Numbers for people: three significant digits, a unit that fits, signs on changes.

use schedlab_workload::param::ParamKind;

/// A value with its unit, about three significant digits: "4.68ms", "50.0us", "12345", "425/s".
pub fn value(v: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(v),
        "" => count(v),
        "%" => format!("{}%", three(v)),
        _ => match unit.strip_prefix("1/") {
            Some(per) => format!("{}/{per}", count(v)),
            None => format!("{} {unit}", count(v)),
        },
    }
}

/// A time given in nanoseconds.
pub fn duration(ns: f64) -> String {
    let v = round3(ns);
    let size = v.abs();
    let (scale, unit) = match () {
        () if size >= 1e9 => (1e9, "s"),
        () if size >= 1e6 => (1e6, "ms"),
        () if size >= 1e3 => (1e3, "us"),
        () => (1.0, "ns"),
    };
    if scale == 1.0 && v == v.trunc() { format!("{v:.0}ns") } else { format!("{}{unit}", three(v / scale)) }
}

/// A plain number: whole where it is, in thousands or millions only when long.
pub fn count(v: f64) -> String {
    let size = v.abs();
    match () {
        () if size >= 1e10 => format!("{}G", three(v / 1e9)),
        () if size >= 1e7 => format!("{}M", three(v / 1e6)),
        () if size >= 1e5 => format!("{}k", three(v / 1e3)),
        () if v == v.trunc() || size >= 1e3 => format!("{v:.0}"),
        () => three(v),
    }
}

/// A change in percent with its sign: "+4.2%", "-97.9%", "+1230%".
pub fn percent(v: f64) -> String {
    format!("{}%", signed(v))
}

/// A change without the percent sign, for intervals.
pub fn signed(v: f64) -> String {
    if v.abs() >= 99.95 { format!("{v:+.0}") } else { format!("{:+.1}", v + 0.0) }
}

/// A workload parameter's value, times with their unit.
pub fn parameter(workload: &str, name: &str, v: &serde_json::Value) -> String {
    let kind = schedlab_workload::spec::find(workload).and_then(|b| b.param(name)).map(|p| p.kind);
    match (kind, v.as_u64()) {
        (Ok(ParamKind::Time(_)), Some(ns)) => schedlab_base::Ns(ns).to_string(),
        _ => v.to_string(),
    }
}

/// Three significant digits of a number below 1000.
fn three(v: f64) -> String {
    match v.abs() {
        s if s >= 99.95 => format!("{v:.0}"),
        s if s >= 9.995 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

/// Rounded to three significant digits, so that 999.7 us is printed as 1.00 ms.
fn round3(v: f64) -> f64 {
    // The text form rounds exactly; arithmetic with powers of ten would not.
    format!("{v:.2e}").parse().unwrap_or(v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_fitting_unit() {
        for (ns, text) in [
            (0.0, "0ns"),
            (999.0, "999ns"),
            (50_000.0, "50.0us"),
            (4_680_000.0, "4.68ms"),
            (999_700.0, "1.00ms"),
            (12.5, "12.5ns"),
            (103_400.0, "103us"),
            (1.5e9, "1.50s"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn counts_and_rates() {
        for (v, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (7.25, "7.25"),
            (12_345.4, "12345"),
            (123_456.0, "123k"),
            (2.5e10, "25.0G"),
        ] {
            assert_eq!(count(v), text);
        }
        assert_eq!(
            (value(425.3, "1/s"), value(12.0, "%"), value(3.0, "KB")),
            ("425/s".into(), "12.0%".into(), "3 KB".into())
        );
    }

    #[test]
    fn changes_bear_their_sign() {
        for (v, text) in
            [(0.0, "+0.0%"), (4.21, "+4.2%"), (-97.9, "-97.9%"), (1234.0, "+1234%"), (-0.0, "+0.0%")]
        {
            assert_eq!(percent(v), text);
        }
    }
}
