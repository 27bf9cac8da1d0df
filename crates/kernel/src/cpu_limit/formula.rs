//! How container runtimes make a `cpu.weight` of shares.

use crate::group::shares_of_weight;

/// A conversion of `cpu.shares` (cgroup v1, and the words of OCI and Kubernetes) to what a group gets.
#[derive(Debug)]
pub struct Formula {
    pub name: &'static str,
    /// The conversion, as a reader would write it.
    pub text: &'static str,
    /// Who converts so, with versions.
    pub who: &'static str,
    /// The weight that it makes; `None`: the group gets the shares themselves.
    pub weight: Option<fn(u64) -> u64>,
    /// The shares with which the group runs, where a weight of 100 is 1024.
    pub shares_as_run: fn(u64) -> u64,
}

/// The conversions; the first is the default.
pub const FORMULAS: &[Formula] = &[
    Formula {
        name: "quadratic",
        text: "10 ^ ((l * l + 125 * l) / 612 - 7 / 34), rounded up, with l = log2(shares)",
        who: "opencontainers/cgroups 0.0.3 and later (runc 1.3.2, 1.4.0-rc.1), crun 1.23, containerd/cgroups 3.1.0",
        weight: Some(quadratic),
        shares_as_run: |shares| shares_of_weight(quadratic(shares)),
    },
    Formula {
        name: "linear",
        text: "1 + (shares - 2) * 9999 / 262142",
        who: "opencontainers/cgroups up to 0.0.2 (runc up to 1.3.1), crun up to 1.22, containerd/cgroups up to 3.0.5; kubelet \
              itself, for pods and classes of pods",
        weight: Some(linear),
        shares_as_run: |shares| shares_of_weight(linear(shares)),
    },
    Formula {
        name: "systemd",
        text: "shares * 100 / 1024, from 1 to 10000",
        who: "systemd, of CPUShares=",
        weight: Some(systemd),
        shares_as_run: |shares| shares_of_weight(systemd(shares)),
    },
    Formula {
        name: "v1",
        text: "shares, as they are",
        who: "every runtime under cgroup v1",
        weight: None,
        shares_as_run: |shares| shares,
    },
];

fn quadratic(shares: u64) -> u64 {
    match shares {
        0..=2 => 1,
        262_144.. => 10_000,
        _ => {
            let l = libm::log2(shares as f64);
            libm::ceil(libm::pow(10.0, (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0)) as u64
        }
    }
}

fn linear(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

fn systemd(shares: u64) -> u64 {
    (shares * 100 / 1024).clamp(1, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_and_the_default_are_as_published() {
        let shares = [2, 102, 1024, 4096, 262_144];
        assert_eq!(shares.map(quadratic), [1, 17, 100, 303, 10_000]);
        assert_eq!(shares.map(linear), [1, 4, 39, 157, 10_000]);
        assert_eq!(shares.map(systemd), [1, 9, 100, 400, 10_000]);
        assert_eq!((FORMULAS[0].shares_as_run)(1024), 1024);
        // `--cpu-shares 2000` gave 77 with runc 1.3.1 and gives 170 with 1.4.0-rc.1 (opencontainers/runc issue 4896).
        assert_eq!((linear(2000), quadratic(2000)), (77, 170));
    }
}
