//! The control groups whose limits a recording kept (`schedlab record --cgroup`), as a replay's task groups.

use super::lower::plain;
use crate::stored::rerun::spec_of;
use schedlab_base::{Ns, Result};
use schedlab_kernel::cpu_limit::{self, FORMULAS, Formula, Request};
use schedlab_kernel::{GroupSpec, Limit};
use schedlab_record::{Findings, Record};
use schedlab_workload::GroupDecl;
use std::collections::BTreeMap;

/// The beginning of a group's facts in a record's environment: `cgroup./web.cpu.max`.
const STATED: &str = "cgroup.";
/// The warning that a group's files said something else at the recording's beginning than at its end.
pub const LIMIT_CHANGED: &str = "record.limit_changed";

/// A recorded group with what its files said.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptGroup {
    /// Its path in the replay.
    pub path: String,
    pub limit: Limit,
    /// Its weight; `None` if it was not kept.
    pub request: Option<Request>,
    /// Whether its request is the shares themselves, as in version 1.
    pub is_v1: bool,
    /// Whether it got another limit meanwhile, in words.
    pub changed: Option<String>,
}

impl KeptGroup {
    /// How a weight is made of its shares.
    pub fn formula(&self) -> &'static Formula {
        FORMULAS.iter().find(|f| self.is_v1 && f.weight.is_none()).unwrap_or(&FORMULAS[0])
    }
    /// Its limit and weight, in words.
    pub fn words(&self) -> String {
        let limit = match self.limit.quota {
            None => "no limit".to_owned(),
            Some(_) => format!("limit {} CPUs", cpu_limit::cpus_in_words(&self.limit)),
        };
        match self.request {
            None => limit,
            Some(Request::Weight(weight)) => format!("{limit}, cpu.weight {weight}"),
            Some(Request::Shares(shares)) => format!("{limit}, cpu.shares {shares}"),
        }
    }
    /// The group as it was.
    pub fn spec(&self) -> GroupSpec {
        let Limit { quota, period, burst } = self.limit;
        let usual = GroupSpec { quota, period, burst, ..GroupSpec::at(&self.path) };
        match self.request {
            Some(request) => GroupSpec { shares: request.shares(self.formula()), ..usual },
            None => usual,
        }
    }
}

/// The groups that a run kept: a recording those of `record --cgroup`, a simulated run those with a quota.
///
/// # Errors
/// When a file's text is not a limit, or a simulated run's workload can't be built.
pub fn groups_of(record: &Record) -> Result<Vec<KeptGroup>> {
    if !record.backend.is_simulated() {
        return kept_groups(&record.found);
    }
    let built = spec_of(record)?.with_groups(&record.variant.groups)?.build(record.seed)?;
    let limited = built.groups.into_iter().filter(|group| group.quota.is_some());
    let one = |GroupDecl { path, shares, quota, period, burst, .. }| KeptGroup {
        path,
        limit: Limit { quota, period, burst },
        request: Some(Request::Shares(shares)),
        is_v1: true,
        changed: None,
    };
    Ok(limited.map(one).collect())
}

/// The groups that a recording kept.
///
/// # Errors
/// When a file's text is not a limit.
fn kept_groups(found: &Findings) -> Result<Vec<KeptGroup>> {
    let mut groups: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for (key, text) in &found.environment {
        let fact = key.strip_prefix(STATED).filter(|rest| rest.starts_with('/'));
        let Some((path, file)) = fact.and_then(|rest| Some((rest, rest.rfind(".cpu.")?))) else { continue };
        groups.entry(&path[..file]).or_default().insert(&path[file + 1..], text);
    }
    let changes = found.warnings.iter().filter(|w| w.code == LIMIT_CHANGED);
    let changes: Vec<&str> = changes.map(|w| w.message.as_str()).collect();
    let one = |(path, files): (&str, BTreeMap<&str, &str>)| {
        let at = plain(path)?;
        let changed = changes.iter().find(|words| words.starts_with(&format!("{path}: ")));
        Some(
            kept(at, &files, changed.map(|words| (*words).to_owned()))
                .map_err(|e| e.context(format!("group {path}"))),
        )
    };
    groups.into_iter().filter_map(one).collect()
}

/// One group of its files.
fn kept(path: String, files: &BTreeMap<&str, &str>, changed: Option<String>) -> Result<KeptGroup> {
    let us = |name: &str| files.get(name).and_then(|text| text.parse::<u64>().ok());
    let text = match (files.get("cpu.max"), files.get("cpu.cfs_quota_us"), files.get("cpu.cfs_period_us")) {
        (Some(max), _, _) => (*max).to_owned(),
        (None, Some(quota), Some(period)) => format!("{quota} {period}"),
        _ => "none".to_owned(),
    };
    let limit = cpu_limit::limit(&text)?;
    let burst = us("cpu.max.burst").or_else(|| us("cpu.cfs_burst_us")).filter(|_| limit.quota.is_some());
    let weight = us("cpu.weight").map(Request::Weight);
    Ok(KeptGroup {
        path,
        limit: Limit { burst: burst.map_or(Ns::ZERO, |us| Ns(us * 1000)), ..limit },
        request: weight.or_else(|| us("cpu.shares").map(Request::Shares)),
        is_v1: files.contains_key("cpu.shares"),
        changed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Warning;

    fn recorded(facts: &[(&str, &str)]) -> Findings {
        let environment = facts.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        Findings { environment, ..Findings::default() }
    }

    #[test]
    fn files_of_both_versions_are_limits_with_their_weights() {
        let found = recorded(&[
            ("cgroup./a.b.cpu.max", "50000 100000"),
            ("cgroup./a.b.cpu.max.burst", "20000"),
            ("cgroup./a.b.cpu.weight", "50"),
            ("cgroup./v1.cpu.cfs_quota_us", "-1"),
            ("cgroup./v1.cpu.cfs_period_us", "100000"),
            ("cgroup./v1.cpu.shares", "512"),
            ("cgroup.version", "2"),
        ]);
        let all = kept_groups(&found).unwrap();
        let [two, one] = &all[..] else { panic!("{all:?}") };
        assert_eq!(
            (two.path.as_str(), two.limit.quota, two.limit.burst),
            ("/a.b", Some(Ns::ms(50)), Ns::ms(20))
        );
        assert_eq!((two.request, two.is_v1, two.spec().shares), (Some(Request::Weight(50)), false, 512));
        assert_eq!(two.words(), "limit 0.5+0.2 CPUs, cpu.weight 50");
        assert_eq!(one.words(), "no limit, cpu.shares 512");
        assert_eq!((one.path.as_str(), one.limit, one.spec().shares), ("/v1", Limit::default(), 512));
    }

    #[test]
    fn a_limit_that_changed_meanwhile_says_so_and_a_wrong_one_names_its_group() {
        let mut found = recorded(&[("cgroup./web.cpu.max", "max 100000")]);
        found.warnings = vec![Warning::new(LIMIT_CHANGED, "/web: cpu.max was 1 2".to_owned())];
        assert!(kept_groups(&found).unwrap()[0].changed.is_some());
        let wrong = kept_groups(&recorded(&[("cgroup./web.cpu.max", "half")])).unwrap_err();
        assert!(wrong.to_string().contains("/web"), "{wrong}");
    }
}
