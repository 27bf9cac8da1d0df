//! Formats numbers for readers: three significant digits, a unit that fits, signs on changes.

use schedlab_workload::param::ParamKind;

/// A value with its unit, with about three significant digits: "4.68ms", "50.0us", "12345", "425/s".
pub fn value(v: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(v),
        "" => count(v),
        "%" => format!("{}%", three(v)),
        "ns/s" => format!("{}/s", duration(v)),
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

/// A plain number: whole numbers have no decimals, long ones are in thousands or millions.
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
    match v.abs() {
        s if s >= POWERS_FROM => format!("{v:+.2e}"),
        s if s >= 99.95 => format!("{v:+.0}"),
        _ => format!("{:+.1}", v + 0.0),
    }
}

/// From this change on a factor is printed, because it is easier to read than the percentage.
pub const FACTOR_FROM_PCT: f64 = 900.0;

/// A change in at most six characters: "+0.4%", "-37%", "-99.6%", "x23.8"; "0.0%" has no sign.
pub fn change(pct: f64) -> String {
    match pct {
        p if p.abs() < 0.05 => "0.0%".to_owned(),
        p if p <= -POWERS_FROM => percent(p),
        p if p.abs() < 9.95 || p <= -99.0 => format!("{p:+.1}%"),
        p if p < FACTOR_FROM_PCT => format!("{p:+.0}%"),
        p => format!("x{}", three(1.0 + p / 100.0)),
    }
}

/// A spread in percent, two digits: "0.3%", "12%", "170%".
pub fn spread(pct: f64) -> String {
    match pct.abs() {
        p if p < 9.95 => format!("{pct:.1}%"),
        p if p < POWERS_FROM => format!("{pct:.0}%"),
        _ => format!("{pct:.2e}%"),
    }
}

/// A workload's parameters as "name=value", in the order of the benchmark's table, times with their unit.
pub fn parameters(workload: &str, params: &serde_json::Value) -> Vec<String> {
    let table = schedlab_workload::spec::find(workload).map_or(&[][..], |b| b.params);
    let row = |name: &str| table.iter().position(|p| p.name == name);
    let mut all: Vec<(&String, &serde_json::Value)> = params.as_object().into_iter().flatten().collect();
    all.sort_by_key(|(name, _)| row(name));
    let text = |name: &str, v: &serde_json::Value| match (row(name).map(|at| table[at].kind), v.as_u64()) {
        (Some(kind @ ParamKind::Time(_)), Some(value)) => kind.show(value),
        _ => v.as_str().map_or_else(|| v.to_string(), str::to_owned),
    };
    all.iter().map(|(name, v)| format!("{name}={}", text(name, v))).collect()
}

/// From here on numbers are written with a power of ten, so that a value such as 1e308 does not widen a table.
const POWERS_FROM: f64 = 1e7;

/// A number below 1000 with three significant digits; larger ones whole, the largest as "1.00e299".
pub fn three(v: f64) -> String {
    match v.abs() {
        s if s >= POWERS_FROM => format!("{v:.2e}"),
        s if s >= 99.95 => format!("{v:.0}"),
        s if s >= 9.995 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

/// Rounded to three significant digits, so that 999.7 us is printed as 1.00 ms.
fn round3(v: f64) -> f64 {
    // Formatting rounds exactly; arithmetic with powers of ten would not.
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
    fn no_number_is_wide() {
        for v in [1e7, 1e12, 1e17, 1e308, -1e308, f64::MAX] {
            for text in [duration(v), count(v), percent(v), change(v), spread(v), value(v, "KB")] {
                assert!(text.len() <= 13, "{text}");
            }
        }
        assert_eq!((duration(1e308), change(1e308)), ("1.00e299s".into(), "x1.00e306".into()));
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
        assert_eq!(value(125.25e6, "ns/s"), "125ms/s");
    }

    #[test]
    fn changes_bear_their_sign() {
        for (v, text) in
            [(0.0, "+0.0%"), (4.21, "+4.2%"), (-97.9, "-97.9%"), (1234.0, "+1234%"), (-0.0, "+0.0%")]
        {
            assert_eq!(percent(v), text);
        }
    }

    #[test]
    fn changes_in_a_matrix_are_short() {
        for (v, text) in [
            (-0.04, "0.0%"),
            (0.36, "+0.4%"),
            (9.96, "+10%"),
            (-98.2, "-98%"),
            (-99.62, "-99.6%"),
            (899.0, "+899%"),
            (2282.0, "x23.8"),
        ] {
            assert_eq!(change(v), text);
        }
        assert_eq!((spread(0.0), spread(0.34), spread(169.7)), ("0.0%".into(), "0.3%".into(), "170%".into()));
    }
}
