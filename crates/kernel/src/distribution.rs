//! Defaults in which a distribution's kernels differ from the kernel.org tree, by `uname -r`.
//!
//! The profiles have the tree's defaults, but a guest or host runs a distribution's build; users compare the two here.
//! Debian's values were read in the source packages and configurations of 5.10.262, 6.1.192, 6.12.117 and 7.3.4.

use crate::origin::Span;
use schedlab_base::Version;
use serde::Serialize;

/// A default that differs, in some releases.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Parting {
    pub name: &'static str,
    pub tree: &'static str,
    pub debian: &'static str,
    /// Its effect: a sentence without the full stop.
    pub about: &'static str,
    #[serde(skip)]
    releases: Span,
}

const fn row(
    name: &'static str,
    releases: Span,
    [tree, debian]: [&'static str; 2],
    about: &'static str,
) -> Parting {
    Parting { name, tree, debian, about, releases }
}

/// From one series on, until another.
const fn from(major: u16, minor: u16, before: [u16; 2]) -> Span {
    Span::between(Version::new(major, minor), Version::new(before[0], before[1]))
}

/// The releases read are 5.10, 6.1, 6.12 and 7.3. Series between them are not known, so a span covers only series read.
const PARTINGS: &[Parting] = &[
    row("autogroup", from(5, 10, [5, 11]), ["1", "0"], AUTOGROUP),
    row("autogroup", from(6, 1, [6, 2]), ["1", "0"], AUTOGROUP),
    row("preempt", from(5, 10, [5, 11]), ["none", "voluntary"], PREEMPT),
    row("preempt", from(6, 1, [6, 2]), ["none", "voluntary"], PREEMPT),
    row("preempt", from(6, 12, [6, 13]), ["none", "voluntary"], PREEMPT),
    row(
        "CONFIG_UCLAMP_TASK",
        from(7, 3, [7, 4]),
        ["n", "y"],
        "tasks and groups may clamp the utilisation that chooses a CPU; Debian's 6.12 and earlier have it not",
    ),
    row(
        "CONFIG_SCHED_CLASS_EXT",
        from(7, 3, [7, 4]),
        ["n", "y"],
        "schedulers in BPF can be loaded; Debian's 6.12 has it not",
    ),
];

const AUTOGROUP: &str =
    "the tasks of each session are a group of their own; Debian's 6.12 and later have 1, as the tree";
const PREEMPT: &str = "where a task in the kernel gives way";

/// The differing defaults of a release.
pub fn of(version: Version) -> Vec<Parting> {
    PARTINGS.iter().filter(|p| p.releases.has(version)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_has_its_own_rows_and_no_default_is_listed_that_is_the_same() {
        let names = |major, minor| of(Version::new(major, minor)).iter().map(|p| p.name).collect::<Vec<_>>();
        assert_eq!(names(6, 1), ["autogroup", "preempt"]);
        assert_eq!(names(6, 12), ["preempt"]);
        assert_eq!(names(7, 3), ["CONFIG_UCLAMP_TASK", "CONFIG_SCHED_CLASS_EXT"]);
        assert!(names(6, 5).is_empty());
        assert!(PARTINGS.iter().all(|p| p.tree != p.debian));
    }
}
