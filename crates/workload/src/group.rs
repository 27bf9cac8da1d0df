//! Task groups of a workload (control groups with the cpu controller): a tree by path, with shares.
//!
//! Shares are those of cgroup v1 (`cpu.shares`, 1024 by default). A cgroup v2 weight (`cpu.weight`, 100 by default) is
//! the same in another unit. A limit (`cpu.max`, `cpu.max.burst`; `cpu.cfs_quota_us` etc. in v1) is a quota of CPU time
//! in each period. A group exists while the workload runs.

use schedlab_base::{Error, GroupId, Ns, Result};
use serde::{Deserialize, Serialize};

pub use schedlab_kernel::group::{DEFAULT_PERIOD, DEFAULT_SHARES, GroupSpec, shares_of_weight};

/// The root group: tasks without another group are in it.
pub const ROOT_GROUP: GroupId = GroupId(0);
/// Shares that kernels accept (`MIN_SHARES`, `MAX_SHARES`; read in 6.1).
pub const SHARES: std::ops::RangeInclusive<u64> = 2..=262_144;
/// cgroup v2 weights that kernels accept.
pub const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=10_000;
/// Periods that kernels accept (`min_cfs_quota_period`, `max_cfs_quota_period`; read in 6.1).
pub const PERIODS: std::ops::RangeInclusive<Ns> = Ns::ms(1)..=Ns::ms(1000);
/// The least quota that kernels accept (`min_cfs_quota_period`; read in 6.1).
pub const MIN_QUOTA: Ns = Ns::ms(1);
/// Levels below the root; a deeper tree counts as a mistake.
const MAX_DEPTH: usize = 16;
/// The most groups of one workload.
const MAX_GROUPS: usize = 1024;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupDecl {
    /// Path from the root; "/" is the root itself.
    pub path: String,
    /// The group one level up; `None` for the root.
    pub parent: Option<GroupId>,
    /// 1024 by default.
    pub shares: u64,
    /// CPU time per period, over all CPUs; `None`: not limited.
    pub quota: Option<Ns>,
    pub period: Ns,
    /// Unused CPU time that it may save for later periods (5.14).
    pub burst: Ns,
    /// Its tasks give way to those of other groups (`cpu.idle`, 5.15); its shares do not matter then.
    pub idle: bool,
}

impl GroupDecl {
    pub fn root() -> GroupDecl {
        GroupDecl {
            path: "/".to_owned(),
            parent: None,
            shares: DEFAULT_SHARES,
            quota: None,
            period: DEFAULT_PERIOD,
            burst: Ns::ZERO,
            idle: false,
        }
    }
}

/// Checks a limit like a kernel (`tg_set_cfs_bandwidth`; read in 6.1). The error names the wrong key.
///
/// # Errors
/// When the quota or the period is out of range, or the burst exceeds the quota.
pub fn check_limit(
    quota: Option<Ns>,
    period: Ns,
    burst: Ns,
) -> std::result::Result<(), (&'static str, Error)> {
    let wrong = |key, text: String| Err((key, Error::input(text)));
    if !PERIODS.contains(&period) {
        return wrong("period", "a period is 1 ms to 1 s; the default is 100 ms".to_owned());
    }
    match quota {
        Some(quota) if quota < MIN_QUOTA => wrong("quota", "a quota is at least 1 ms".to_owned()),
        Some(quota) if burst > quota => {
            wrong("burst", format!("a burst is at most the quota, which is {quota}"))
        }
        None if burst > Ns::ZERO => wrong("burst", "a burst goes with a quota".to_owned()),
        _ => Ok(()),
    }
}

/// The group with that path in `groups`; missing groups are added with their ancestors.
///
/// # Errors
/// When the path does not begin at the root, has an empty or special part, or is too deep; and for too many groups.
pub fn find_or_declare(groups: &mut Vec<GroupDecl>, path: &str) -> Result<GroupId> {
    let wrong = |what: &str| {
        Err(Error::input(format!("'{path}' is not a group's path: {what}"))
            .help("write it like \"/vm/small\""))
    };
    let Some(rest) = path.strip_prefix('/') else { return wrong("it does not begin with '/'") };
    if rest.is_empty() {
        return Ok(ROOT_GROUP);
    }
    let parts: Vec<&str> = rest.split('/').collect();
    if parts.len() > MAX_DEPTH {
        return wrong(&format!("it has more than {MAX_DEPTH} levels"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if let Some(odd) =
        parts.iter().find(|p| p.is_empty() || **p == "." || **p == ".." || !p.chars().all(plain))
    {
        return wrong(&format!("'{odd}' is not a name"));
    }
    let mut at = ROOT_GROUP;
    let mut so_far = String::new();
    for part in parts {
        so_far.push('/');
        so_far.push_str(part);
        at = match groups.iter().position(|g| g.path == so_far) {
            Some(known) => GroupId::from(known),
            None if groups.len() >= MAX_GROUPS => {
                return Err(Error::input(format!("more than {MAX_GROUPS} groups")));
            }
            None => {
                let parent = Some(at);
                groups.push(GroupDecl { path: so_far.clone(), parent, ..GroupDecl::root() });
                GroupId::from(groups.len() - 1)
            }
        };
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_declares_its_ancestors_once() {
        let mut groups = vec![GroupDecl::root()];
        let vm = find_or_declare(&mut groups, "/libvirt/qemu/vm").unwrap();
        let hog = find_or_declare(&mut groups, "/libvirt/qemu/hog").unwrap();
        let paths: Vec<&str> = groups.iter().map(|g| g.path.as_str()).collect();
        assert_eq!(paths, ["/", "/libvirt", "/libvirt/qemu", "/libvirt/qemu/vm", "/libvirt/qemu/hog"]);
        assert_eq!(groups[vm.index()].parent, groups[hog.index()].parent);
        assert_eq!(find_or_declare(&mut groups, "/libvirt/qemu/vm").unwrap(), vm);
        assert_eq!(find_or_declare(&mut groups, "/").unwrap(), ROOT_GROUP);
    }

    #[test]
    fn odd_paths_are_refused_with_the_odd_part() {
        for (path, part) in
            [("vm", "begin"), ("/a//b", "''"), ("/a/../b", "'..'"), ("/a b", "'a b'"), ("/é", "'é'")]
        {
            let error = find_or_declare(&mut vec![GroupDecl::root()], path).unwrap_err().to_string();
            assert!(error.contains(part), "{path}: {error}");
        }
        let deep = "/a".repeat(17);
        assert!(find_or_declare(&mut vec![GroupDecl::root()], &deep).is_err());
    }

    #[test]
    fn limits_are_refused_as_kernels_refuse_them() {
        let (ms, quota) = (Ns::ms, Some(Ns::ms(20)));
        for (quota, period, burst, key) in [
            (Some(Ns(999_999)), ms(100), Ns::ZERO, "quota"),
            (quota, Ns(999_999), Ns::ZERO, "period"),
            (None, ms(1001), Ns::ZERO, "period"),
            (quota, ms(100), ms(21), "burst"),
            (None, ms(100), ms(1), "burst"),
        ] {
            assert_eq!(check_limit(quota, period, burst).unwrap_err().0, key, "{quota:?} {period} {burst}");
        }
        assert!(check_limit(quota, ms(1), ms(20)).is_ok(), "a quota may be several CPUs'");
        assert!(check_limit(None, ms(1000), Ns::ZERO).is_ok());
    }

    #[test]
    fn a_weight_of_100_is_1024_shares() {
        assert_eq!([1, 50, 100, 10_000].map(shares_of_weight), [10, 512, 1024, 102_400]);
    }
}
