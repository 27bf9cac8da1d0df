//! Converts units of commands to those of records: times to ns, rates to 1/s, others unchanged.

use schedlab_record::Better;

/// The unit in records, and the factor from the given unit to it.
pub fn canonical(unit: &str) -> (&str, f64) {
    match unit {
        "s" | "sec" | "secs" | "second" | "seconds" => ("ns", 1e9),
        "ms" | "msec" | "msecs" => ("ns", 1e6),
        "us" | "usec" | "usecs" | "µs" => ("ns", 1e3),
        "ns" | "nsec" | "nsecs" => ("ns", 1.0),
        _ => match unit.strip_suffix("/s").or_else(|| unit.strip_suffix("/sec")) {
            Some("" | "1" | "op" | "ops" | "req" | "requests" | "events" | "transactions" | "trans") => {
                ("1/s", 1.0)
            }
            _ => (unit, 1.0),
        },
    }
}

/// The default good direction of a unit: short times, high rates.
pub fn better(unit: &str) -> Better {
    match canonical(unit).0 {
        "ns" => Better::Lower,
        u if u.ends_with("/s") || u.ends_with("/sec") => Better::Higher,
        _ => Better::Neither,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ns_and_rates_per_second() {
        assert_eq!(
            (canonical("sec"), canonical("usecs"), canonical("ops/sec")),
            (("ns", 1e9), ("ns", 1e3), ("1/s", 1.0))
        );
        assert_eq!((canonical("MB/s"), canonical("")), (("MB/s", 1.0), ("", 1.0)));
        assert_eq!(
            (better("ms"), better("MB/s"), better("KB")),
            (Better::Lower, Better::Higher, Better::Neither)
        );
    }
}
