//! The readers of limits and requests.

use super::formula::Formula;
use crate::group::{DEFAULT_PERIOD, DEFAULT_SHARES, Limit, shares_of_weight};
use schedlab_base::{Error, Ns, Result};

/// The least quota and the least period that kernels take (`min_cfs_quota_period`; read in 6.12 and 7.3).
const MIN_QUOTA: Ns = Ns::ms(1);
/// The longest period (`max_cfs_quota_period`).
const MAX_PERIOD: Ns = Ns::ms(1000);
/// More CPUs than that are a quota in microseconds that was taken for a number of CPUs.
const MOST_CPUS: u64 = 16_384;
/// The word of a group without a limit.
const NONE: &str = "none";

/// A way to write a limit.
pub struct LimitForm {
    /// The tool whose words these are.
    pub whose: &'static str,
    pub example: &'static str,
    /// What the tool makes of it, and in which source that was read.
    pub makes: &'static str,
    pub read_in: &'static str,
    /// The limit; `None`: the text is of another form.
    read: fn(&str) -> Option<Result<Limit>>,
}

/// A share of the CPUs that a group asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `cpu.shares`; a container runtime makes a weight of it, by its [`Formula`].
    Shares(u64),
    /// `cpu.weight`.
    Weight(u64),
}

/// A way to write a request.
pub struct RequestForm {
    pub whose: &'static str,
    pub example: &'static str,
    pub makes: &'static str,
    pub read_in: &'static str,
    read: fn(&str) -> Option<Result<Request>>,
}

/// The ways to write a limit, in the order in which they are tried.
pub const LIMITS: &[LimitForm] = &[
    LimitForm {
        whose: "any",
        example: "none",
        makes: "no quota; also `max`, as in `cpu.max`, and `-1`, as in `cpu.cfs_quota_us`",
        read_in: "kernel/sched/core.c of 6.12 and 7.3",
        read: |text| {
            let word = text.split([' ', '/']).next().unwrap_or_default();
            [NONE, "max", "-1"].contains(&word).then(|| Ok(Limit::default()))
        },
    },
    LimitForm {
        whose: "cgroup v2, `cpu.max`",
        example: "50000 100000",
        makes: "quota and period in microseconds",
        read_in: "cpu_period_quota_parse of 6.12 and 7.3: digits are read, and what stands behind them is dropped",
        read: |text| text.split_once(' ').map(|(quota, period)| in_us(text, quota, period)),
    },
    LimitForm {
        whose: "cgroup v1, `cpu.cfs_quota_us` and `cpu.cfs_period_us`",
        example: "50000/100000",
        makes: "quota and period in microseconds",
        read_in: "kernel/sched/core.c of 6.12",
        read: |text| text.split_once('/').map(|(quota, period)| in_us(text, quota, period)),
    },
    LimitForm {
        whose: "systemd",
        example: "CPUQuota=150%",
        makes: "per cent of a CPU, in a period of 100 ms; also `150%`",
        read_in: "systemd.resource-control(5) of 252",
        read: |text| {
            let number = text.strip_prefix("CPUQuota=").unwrap_or(text).strip_suffix('%')?;
            Some(thousandths(text, number).and_then(|n| of_per_cent(text, n)))
        },
    },
    LimitForm {
        whose: "Docker",
        example: "cpus=1.5",
        makes: "CPUs, in a period of 100 ms; also `--cpus=1.5`",
        read_in: "docker-run(1); NanoCPUs of moby",
        read: |text| text.trim_start_matches('-').strip_prefix("cpus=").map(|number| in_cpus(text, number)),
    },
    LimitForm {
        whose: "Kubernetes",
        example: "1500m",
        makes: "thousandths of a CPU, or CPUs (`2`, `1.5`), in a period of 100 ms: a quota of 1 ms at least",
        read_in: "MilliCPUToQuota of kubelet, pkg/kubelet/cm/helpers_linux.go",
        read: |text| match text.strip_suffix('m') {
            Some(milli) => Some(thousandths(text, milli).and_then(|n| of_milli(text, n / 1000))),
            None => text.starts_with(|c: char| c.is_ascii_digit() || c == '.').then(|| in_cpus(text, text)),
        },
    },
];

/// The ways to write a request, in the order in which they are tried.
pub const REQUESTS: &[RequestForm] = &[
    RequestForm {
        whose: "cgroup v2, `cpu.weight`",
        example: "weight=50",
        makes: "the weight, 1 to 10000",
        read_in: "kernel/sched/core.c of 6.12",
        read: |text| Some(weight(text, text.strip_prefix("weight=")?)),
    },
    RequestForm {
        whose: "systemd",
        example: "CPUWeight=50",
        makes: "the weight, 1 to 10000",
        read_in: "systemd.resource-control(5) of 252",
        read: |text| Some(weight(text, text.strip_prefix("CPUWeight=")?)),
    },
    RequestForm {
        whose: "cgroup v1, `cpu.shares`, and Docker",
        example: "shares=512",
        makes: "shares, 2 to 262144; also `--cpu-shares=512`",
        read_in: "docker-run(1)",
        read: |text| {
            let number = text
                .strip_prefix("shares=")
                .or_else(|| text.trim_start_matches('-').strip_prefix("cpu-shares="))?;
            Some(bounded(text, number, "shares", (2, 262_144)).map(Request::Shares))
        },
    },
    RequestForm {
        whose: "Kubernetes",
        example: "250m",
        makes: "1024 shares for each CPU, at least 2; also CPUs (`1`, `0.5`)",
        read_in: "MilliCPUToShares of kubelet, pkg/kubelet/cm/helpers_linux.go",
        read: |text| {
            text.starts_with(|c: char| c.is_ascii_digit() || c == '.').then(|| {
                let milli = match text.strip_suffix('m') {
                    Some(milli) => thousandths(text, milli)? / 1000,
                    None => thousandths(text, text)?,
                };
                Ok(Request::Shares((milli * DEFAULT_SHARES / 1000).clamp(2, 262_144)))
            })
        },
    },
];

/// Reads a limit: the word of any tool in [`LIMITS`], and behind a plus sign the burst, in the same words ("2+1").
///
/// # Errors
/// When the text is of no form, or has a value that no kernel takes.
pub fn limit(text: &str) -> Result<Limit> {
    let text = text.trim();
    if let Some((quota, burst)) = text.split_once('+') {
        let (limit, burst) = (limit(quota)?, limit(burst)?);
        return match (limit.quota, burst.quota) {
            (Some(quota), Some(burst)) if burst <= quota => Ok(Limit { burst, ..limit }),
            (Some(_), Some(_)) => Err(Error::input(format!("'{text}': a burst is at most the quota"))
                .help("the kernel refuses a larger cpu.max.burst")),
            _ => Err(Error::input(format!("'{text}': a burst goes with a quota")).help("write it as 2+1")),
        };
    }
    let number = text.trim_start_matches('-');
    let digits = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    if let (true, Some(unit)) = (digits > 0, Some(&number[digits..]).filter(|u| is_time(u))) {
        let number = &number[..digits];
        let text = format!(
            "the limit '{text}' has the unit '{unit}', and no tool takes a time there: cpu.max takes microseconds and drops \
             what stands behind the digits, so {number}{unit} would be {number} us"
        );
        let help = match Ns::parse(&format!("{number}{unit}"), "") {
            Ok(time) => format!("write \"{} 100000\" for {time} in each 100 ms", time.0 / 1000),
            Err(_) => "write quota and period in microseconds: \"50000 100000\"".to_owned(),
        };
        return Err(Error::input(text).help(help));
    }
    let found = LIMITS.iter().find_map(|form| (form.read)(text));
    found.unwrap_or_else(|| Err(unknown("limit", text, LIMITS.iter().map(|f| f.example))))
}

/// The limit of so many CPUs.
pub fn limit_of(cpus: f64) -> Limit {
    Limit { quota: Some(Ns((cpus * DEFAULT_PERIOD.0 as f64) as u64).max(MIN_QUOTA)), ..Limit::default() }
}

/// Reads a request: the word of any tool in [`REQUESTS`].
///
/// # Errors
/// When the text is of no form, or out of range.
pub fn request(text: &str) -> Result<Request> {
    let text = text.trim();
    let found = REQUESTS.iter().find_map(|form| (form.read)(text));
    found.unwrap_or_else(|| Err(unknown("request", text, REQUESTS.iter().map(|f| f.example))))
}

impl Request {
    /// What Kubernetes makes of a request of so much CPU time in a period.
    pub fn of_cpus(time: Ns, period: Ns) -> Request {
        Request::Shares((time.0 * DEFAULT_SHARES / period.0).clamp(2, 262_144))
    }
    /// The shares of a task group, in which a weight of 100 is 1024.
    pub fn shares(self, formula: &Formula) -> u64 {
        match self {
            Request::Weight(weight) => shares_of_weight(weight),
            Request::Shares(shares) => (formula.shares_as_run)(shares),
        }
    }
}

/// A limit in CPUs: "1.5", "none", with a burst "2+1".
pub fn cpus_in_words(limit: &Limit) -> String {
    let cpus = |time: Ns| {
        let text = format!("{:.3}", time.0 as f64 / limit.period.0 as f64);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let Some(quota) = limit.quota else { return NONE.to_owned() };
    let period = if limit.period == DEFAULT_PERIOD { String::new() } else { format!(" in {}", limit.period) };
    let burst = if limit.burst == Ns::ZERO { String::new() } else { format!("+{}", cpus(limit.burst)) };
    format!("{}{burst}{period}", cpus(quota))
}

fn is_time(unit: &str) -> bool {
    ["ns", "us", "µs", "usec", "ms", "msec", "s", "sec", "min"].contains(&unit.trim())
}

fn unknown<'a>(what: &str, text: &str, examples: impl Iterator<Item = &'a str>) -> Error {
    let examples: Vec<String> = examples.map(|e| format!("'{e}'")).collect();
    Error::input(format!("'{text}' is not a {what}"))
        .help(format!("write it as one of {}", examples.join(", ")))
}

/// A decimal number in thousandths, with what lies beyond them dropped.
fn thousandths(whole: &str, number: &str) -> Result<u64> {
    let bad = || {
        Error::input(format!("'{number}' in '{whole}' is not a number")).help("write it as 2, 1.5 or 500m")
    };
    let plain =
        number.chars().all(|c| c.is_ascii_digit() || c == '.') && number.chars().any(|c| c.is_ascii_digit());
    if !plain {
        return Err(bad());
    }
    Ns::parse(number, "us").map(|n| n.0).map_err(|_| bad())
}

fn in_cpus(whole: &str, number: &str) -> Result<Limit> {
    of_milli(whole, thousandths(whole, number)?)
}

fn of_milli(whole: &str, milli: u64) -> Result<Limit> {
    if milli == 0 {
        return Err(Error::input(format!("'{whole}' limits to 0 CPUs"))
            .help("kubelet and Docker take 0 for no limit: write none"));
    }
    let help = || format!("a quota in microseconds has its period behind it: \"{whole} 100000\"");
    within_most(whole, milli / 1000, help)?;
    quota_of(whole, milli * (DEFAULT_PERIOD.0 / 1000))
}

/// A limit of thousandths of a per cent.
fn of_per_cent(whole: &str, n: u64) -> Result<Limit> {
    within_most(whole, n / 100_000, || "200% are two CPUs; write none for no limit".to_owned())?;
    quota_of(whole, n * (DEFAULT_PERIOD.0 / 100_000))
}

fn within_most(whole: &str, cpus: u64, help: impl Fn() -> String) -> Result<()> {
    if cpus > MOST_CPUS {
        return Err(Error::input(format!(
            "'{whole}' is a limit of {cpus} CPUs, and at most {MOST_CPUS} can be"
        ))
        .help(help()));
    }
    Ok(())
}

/// A quota in the usual period. One that is too short is raised, as kubelet does.
fn quota_of(whole: &str, ns: u64) -> Result<Limit> {
    if ns == 0 {
        return Err(Error::input(format!("'{whole}' limits to 0 CPUs")).help("write none for no limit"));
    }
    Ok(Limit { quota: Some(Ns(ns).max(MIN_QUOTA)), ..Limit::default() })
}

fn in_us(whole: &str, quota: &str, period: &str) -> Result<Limit> {
    let us = |text: &str| {
        match text.trim().parse::<u64>() {
        Ok(us) => Ok(Ns(us.saturating_mul(1000))),
        Err(_) => Err(Error::input(format!("'{text}' in '{whole}' is not a number of microseconds")).help(
            "digits only: cpu.max drops what stands behind them, so 50ms would be 50 us; write \"50000 100000\"",
        )),
    }
    };
    let (quota, period) = (us(quota)?, us(period)?);
    if quota < MIN_QUOTA {
        return Err(Error::input(format!("a quota of {quota} in '{whole}' is too short"))
            .help("the kernel takes 1000 us at least"));
    }
    if !(MIN_QUOTA..=MAX_PERIOD).contains(&period) {
        return Err(Error::input(format!("a period of {period} in '{whole}'"))
            .help("the kernel takes 1000 to 1000000 us"));
    }
    let help =
        || "write quota and period in microseconds: \"50000 100000\"; for no limit write none".to_owned();
    within_most(whole, quota.0 / period.0, help)?;
    Ok(Limit { quota: Some(quota), period, burst: Ns::ZERO })
}

fn weight(whole: &str, number: &str) -> Result<Request> {
    bounded(whole, number, "a weight", (1, 10_000)).map(Request::Weight)
}

fn bounded(whole: &str, number: &str, what: &str, (low, high): (u64, u64)) -> Result<u64> {
    let value = number.parse::<u64>().ok().filter(|n| (low..=high).contains(n));
    value.ok_or_else(|| {
        Error::input(format!("'{number}' in '{whole}': {what} is a number from {low} to {high}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_limit::FORMULAS;

    fn quota(text: &str) -> Option<u64> {
        limit(text).unwrap_or_else(|e| panic!("{text}: {e}")).quota.map(|q| q.0 / 1000)
    }

    #[test]
    fn every_tools_words_give_the_quota_that_the_tool_sets() {
        for (text, us) in [
            ("2", 200_000),
            ("1.5", 150_000),
            ("500m", 50_000),
            ("5m", 1_000), // kubelet's least quota is 1 ms
            ("50000 100000", 50_000),
            ("50000/100000", 50_000),
            ("cpus=1.5", 150_000),
            ("--cpus=0.25", 25_000),
            ("150%", 150_000),
            ("CPUQuota=20%", 20_000),
        ] {
            assert_eq!(quota(text), Some(us), "{text}");
        }
        assert_eq!(["none", "max", "max 100000", "-1/100000"].map(quota), [None; 4]);
        let limit = limit("10000 20000").unwrap();
        assert_eq!((limit.period, cpus_in_words(&limit)), (Ns::ms(20), "0.5 in 20ms".to_owned()));
    }

    #[test]
    fn bursts_stand_behind_a_plus_sign() {
        let two = limit("2+1").unwrap();
        assert_eq!(
            (two.quota, two.burst, cpus_in_words(&two)),
            (Some(Ns::ms(200)), Ns::ms(100), "2+1".to_owned())
        );
        assert!(limit("1+2").unwrap_err().to_string().contains("at most the quota"));
        assert!(limit("none+1").is_err());
    }

    #[test]
    fn a_time_is_refused_with_its_unit_since_the_kernel_would_drop_it() {
        let e = limit("50ms").unwrap_err();
        assert!(e.message().contains("'ms'") && e.message().contains("50 us"), "{e}");
        assert_eq!(e.remedy(), Some("write \"50000 100000\" for 50ms in each 100 ms"));
        let e = limit("50ms 100ms").unwrap_err();
        assert!(e.message().contains("'50ms'") && e.remedy().unwrap().contains("50 us"), "{e}");
    }

    #[test]
    fn what_no_kernel_or_tool_takes_is_refused() {
        for (text, part) in [
            ("0", "0 CPUs"),
            ("0m", "0 CPUs"),
            ("100000", "100000 CPUs"),
            ("18446744073709551615 100000", "a limit of 184467440737 CPUs, and at most 16384"),
            ("1638500000/100000", "a limit of 16385 CPUs"),
            ("999999999999%", "a limit of 9999999999 CPUs"),
            ("500 100000", "too short"),
            ("50000 2000000", "period"),
            ("half", "not a limit"),
            ("1.5.2", "not a number"),
            ("", "not a limit"),
        ] {
            let e = limit(text).unwrap_err().to_string();
            assert!(e.contains(part), "{text}: {e}");
        }
        for text in ["weight=0", "shares=1", "CPUWeight=10001", "much"] {
            assert!(request(text).is_err(), "{text}");
        }
    }

    #[test]
    fn requests_are_shares_or_weights() {
        let read = |text: &str| request(text).unwrap();
        assert_eq!([read("1"), read("250m"), read("1m")], [1024, 256, 2].map(Request::Shares));
        assert_eq!(read("--cpu-shares=512"), Request::Shares(512));
        assert_eq!([read("weight=50"), read("CPUWeight=50")], [Request::Weight(50); 2]);
        let v1 = FORMULAS.iter().find(|f| f.name == "v1").unwrap();
        assert_eq!((read("1").shares(v1), read("weight=100").shares(v1)), (1024, 1024));
    }

    #[test]
    fn every_form_reads_its_own_example() {
        for form in LIMITS {
            assert!((form.read)(form.example).is_some_and(|r| r.is_ok()), "{}", form.example);
        }
        for form in REQUESTS {
            assert!((form.read)(form.example).is_some_and(|r| r.is_ok()), "{}", form.example);
        }
    }
}
