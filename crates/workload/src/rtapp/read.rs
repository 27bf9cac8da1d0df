//! Typed access to JSON values: errors have key, place, expected type and range.

use super::json::{Kind, Member, Source, Value};
use schedlab_base::cpuset::MAX_CPUS;
use schedlab_base::{CpuId, CpuSet, Error, Ns, Result};
use schedlab_kernel::Policy;
use schedlab_kernel::policy::SLICES;

/// The longest time in a file, us: an hour. rt-app's own limit is 2^31 us, 36 minutes.
const MAX_US: i64 = 3_600_000_000;

fn expected(source: Source<'_>, member: &Member, wanted: &str) -> Error {
    source
        .error(member.value.at, format!("'{}' takes {wanted}, not {}", member.key, member.value.kind.noun()))
}

pub fn object<'a>(source: Source<'_>, member: &'a Member) -> Result<&'a [Member]> {
    match &member.value.kind {
        Kind::Object(members) => Ok(members),
        _ => Err(expected(source, member, "an object")),
    }
}

pub fn text<'a>(source: Source<'_>, member: &'a Member) -> Result<&'a str> {
    match &member.value.kind {
        Kind::Text(text) => Ok(text),
        _ => Err(expected(source, member, "a string")),
    }
}

/// A non-empty string.
pub fn name(source: Source<'_>, member: &Member) -> Result<String> {
    match text(source, member)? {
        "" => Err(source.error(member.value.at, format!("'{}' needs a name", member.key))),
        name => Ok(name.to_owned()),
    }
}

/// A whole number in a range.
pub fn whole(source: Source<'_>, member: &Member, low: i64, high: i64) -> Result<i64> {
    match &member.value.kind {
        Kind::Number(_) => number(source, &member.key, &member.value, low, high),
        _ => Err(expected(source, member, "a whole number")),
    }
}

fn number(source: Source<'_>, key: &str, value: &Value, low: i64, high: i64) -> Result<i64> {
    let Kind::Number(digits) = &value.kind else {
        return Err(source.error(value.at, format!("'{key}' takes whole numbers, not {}", value.kind.noun())));
    };
    let in_range = digits.parse::<i64>().ok().filter(|n| (low..=high).contains(n));
    in_range.ok_or_else(|| {
        source
            .error(value.at, format!("{key} = {digits} is not a whole number in range"))
            .help(format!("it takes {low} to {high}"))
    })
}

/// A time in us, from `low` us to an hour.
pub fn time_us(source: Source<'_>, member: &Member, low: i64) -> Result<Ns> {
    whole(source, member, low, MAX_US).map(|us| Ns::us(us.unsigned_abs()))
}

/// A number of bytes; rt-app stores it in an int.
pub fn bytes(source: Source<'_>, member: &Member, low: i64) -> Result<u64> {
    whole(source, member, low, i64::from(i32::MAX)).map(i64::unsigned_abs)
}

/// The slice that a task of this policy asks for, clamped to the kernels' range.
pub fn slice(source: Source<'_>, member: &Member, policy: Policy) -> Result<Ns> {
    if !matches!(policy, Policy::Other | Policy::Batch) {
        let text = format!("'{}' sets a slice, but policy {policy} has none", member.key);
        return Err(source.error(member.at, text).help("kernels take one for SCHED_OTHER and SCHED_BATCH"));
    }
    time_us(source, member, 0).map(|asked| match asked {
        Ns::ZERO => Ns::ZERO,
        some => some.clamp(*SLICES.start(), *SLICES.end()),
    })
}

/// A loop count; `None` for -1, endless.
pub fn loops(source: Source<'_>, member: &Member) -> Result<Option<u32>> {
    match whole(source, member, -1, i64::from(i32::MAX))? {
        -1 => Ok(None),
        0 => Err(source
            .error(member.value.at, "a loop of 0 does nothing")
            .help("write a count, or -1 for ever; leave the phase out to skip it")),
        n => Ok(u32::try_from(n).ok()),
    }
}

pub fn policy(source: Source<'_>, member: &Member) -> Result<Policy> {
    Policy::parse(text(source, member)?).map_err(|e| e.at(source.spot(member.value.at)))
}

pub fn cpus(source: Source<'_>, member: &Member) -> Result<CpuSet> {
    let Kind::List(values) = &member.value.kind else {
        return Err(expected(source, member, "an array of CPU numbers"));
    };
    if values.is_empty() {
        return Err(source.error(member.value.at, "a task needs at least one CPU"));
    }
    let cpu = |v| number(source, &member.key, v, 0, i64::from(MAX_CPUS) - 1).map(|n| CpuId::from(n as usize));
    values.iter().map(cpu).collect()
}
