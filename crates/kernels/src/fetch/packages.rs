//! Chooses packages: finds a kernel's among names of packages, and lists those that an installation of QEMU would
//! bring. Pure.
//!
//! Debian's kernel packages: up to 6.18 `linux-image-RELEASE` holds image, configuration and modules; since 6.19
//! `linux-binary-RELEASE` holds the image, and since 7.2 `linux-base-RELEASE` the configuration. The lists also have
//! unsigned builds, debug symbols, real-time flavours, and packages of a series that only depend on others.

use crate::images::starts;
use schedlab_base::natural;

const IMAGE: &str = "linux-image-";
const BINARY: &str = "linux-binary-";
const BASE: &str = "linux-base-";
pub const SOURCE_PACKAGE: &str = "linux-source-";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelPackages {
    /// uname's release.
    pub release: String,
    pub image: String,
    /// The package with the configuration, where it is not the image's.
    pub config: Option<String>,
}

/// The newest kernel of a series ("6.1", "7", "6.12.57") among package names; small builds for VMs are preferred.
pub fn newest<N: AsRef<str>>(names: &[N], series: &str) -> Option<KernelPackages> {
    let releases = names.iter().filter_map(|n| release(n.as_ref())).filter(|r| starts(series, r));
    let newest = releases.max_by(|a, b| small(a).cmp(&small(b)).then_with(|| natural(a, b)))?;
    let named =
        |prefix: &str| Some(format!("{prefix}{newest}")).filter(|n| names.iter().any(|m| m.as_ref() == n));
    let image = named(BINARY).or_else(|| named(IMAGE))?;
    Some(KernelPackages { release: newest.to_owned(), image, config: named(BASE) })
}

/// The series among package names, oldest first, for an error.
pub fn series<N: AsRef<str>>(names: &[N]) -> Vec<String> {
    let of = |release: &str| release.split('.').take(2).collect::<Vec<_>>().join(".");
    let mut all: Vec<String> = names.iter().filter_map(|n| release(n.as_ref())).map(of).collect();
    all.sort_by(|a, b| natural(a, b));
    all.dedup();
    all
}

/// The series with source packages, oldest first.
pub fn sources(names: &[String]) -> Vec<String> {
    let of = names.iter().filter_map(|n| n.strip_prefix(SOURCE_PACKAGE));
    let mut all: Vec<String> =
        of.filter(|s| s.bytes().all(|b| b.is_ascii_digit() || b == b'.')).map(str::to_owned).collect();
    all.sort_by(|a, b| natural(a, b));
    all
}

/// The release of a package that holds a bootable kernel.
fn release(package: &str) -> Option<&str> {
    let release = package.strip_prefix(BINARY).or_else(|| package.strip_prefix(IMAGE))?;
    let other = ["-dbg", "-unsigned", "-template"].iter().any(|end| release.ends_with(end));
    let real_time = ["-rt-", "-realtime", "-lowlatency"].iter().any(|part| release.contains(part));
    // Packages of a whole series ("6.12-amd64") only depend on a kernel.
    let numbers = release.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
    (numbers.split('.').filter(|n| !n.is_empty()).count() == 3 && !other && !real_time).then_some(release)
}

fn small(release: &str) -> bool {
    release.contains("-cloud-")
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Package {
    pub name: String,
    pub version: String,
}

/// The packages that an installation would unpack, from the client's simulation of it: lines `Inst NAME [OLD] (NEW
/// ORIGIN [ARCH])`.
pub fn closure(simulation: &str) -> Vec<Package> {
    let one = |line: &str| {
        let rest = line.strip_prefix("Inst ")?;
        let (name, rest) = rest.split_once(' ')?;
        let version = rest.split_once('(')?.1.split([' ', ')']).next()?;
        Some(Package { name: name.to_owned(), version: version.to_owned() })
    };
    simulation.lines().filter_map(one).collect()
}

/// The upstream part of a package's version: "10.0.2" of "1:10.0.2+ds-2+deb13u1~bpo12+1".
pub fn upstream(version: &str) -> &str {
    let rest = version.split_once(':').map_or(version, |(_, rest)| rest);
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &[
        "linux-image-6.1.0-9-cloud-amd64",
        "linux-image-6.1.0-56-amd64",
        "linux-image-6.1.0-56-cloud-amd64",
        "linux-image-6.1.0-56-cloud-amd64-dbg",
        "linux-image-6.1.0-56-cloud-amd64-unsigned",
        "linux-image-6.1.0-57-rt-amd64",
        "linux-image-6.12-cloud-amd64",
        "linux-image-6.12.107+deb12-cloud-amd64",
        "linux-image-6.12.90+deb12.1-cloud-amd64",
        "linux-image-6.19.14+deb13-cloud-amd64",
        "linux-binary-6.19.14+deb13-cloud-amd64",
        "linux-base-7.3.4+deb13-cloud-amd64",
        "linux-binary-7.3.4+deb13-cloud-amd64",
        "linux-binary-unsigned-7.3.4+deb13-cloud-amd64",
        "linux-image-7.3.4+deb13-cloud-amd64",
        "linux-image-5.10.0-1-amd64",
        "linux-image-amd64",
    ];

    #[test]
    fn the_newest_signed_small_build_of_a_series() {
        let image = |series| newest(NAMES, series).map(|k| k.image);
        assert_eq!(image("6.1").as_deref(), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(image("6.12").as_deref(), Some("linux-image-6.12.107+deb12-cloud-amd64"));
        assert_eq!(image("6.12.90").as_deref(), Some("linux-image-6.12.90+deb12.1-cloud-amd64"));
        assert_eq!(image("6.19").as_deref(), Some("linux-binary-6.19.14+deb13-cloud-amd64"));
        assert_eq!(
            image("5.10").as_deref(),
            Some("linux-image-5.10.0-1-amd64"),
            "where there is no small one"
        );
        assert_eq!(image("6.18"), None);
        let seven = newest(NAMES, "7").unwrap();
        assert_eq!(seven.config.as_deref(), Some("linux-base-7.3.4+deb13-cloud-amd64"));
        assert_eq!(seven.release, "7.3.4+deb13-cloud-amd64");
        assert_eq!(series(NAMES), ["5.10", "6.1", "6.12", "6.19", "7.3"]);
    }

    #[test]
    fn the_packages_of_an_installation_are_read_from_its_simulation() {
        let told = "Reading package lists...\nThe following packages will be upgraded:\n  qemu-system-x86\n\
            Inst libslirp0 (4.7.0-1 Debian:12/oldstable [amd64])\n\
            Inst qemu-system-x86 [1:7.2+dfsg-7] (1:10.0.2+ds-2~bpo12+1 Debian Backports:x [amd64]) []\n\
            Inst odd (1.0)\nConf libslirp0 (4.7.0-1 Debian:12/oldstable [amd64])\n";
        let found = closure(told);
        let words: Vec<String> = found.iter().map(|p| format!("{}={}", p.name, p.version)).collect();
        assert_eq!(words, ["libslirp0=4.7.0-1", "qemu-system-x86=1:10.0.2+ds-2~bpo12+1", "odd=1.0"]);
        assert_eq!(upstream(&found[1].version), "10.0.2");
        assert_eq!(upstream("7.2+dfsg-7"), "7.2");
        assert!(closure("0 upgraded, 0 newly installed").is_empty());
    }
}
