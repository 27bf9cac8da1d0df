//! Patches that are compiled in, by name and kernel series: the mechanisms of the documents D000 to D004, and published
//! changes whose figures are at hand.
//!
//! Their text is in `patches/SERIES/NAME.patch` of the project.

use crate::diff::{Patch, parse};
use schedlab_base::{Error, Result};

macro_rules! patch_files {
    ($($series:literal / $name:literal)*) => {
        /// Series, name and text of every patch.
        pub const PATCHES: &[(&str, &str, &str)] = &[$((
            $series,
            $name,
            include_str!(concat!("../../../patches/", $series, "/", $name, ".patch")),
        ),)*];
    };
}

patch_files! {
    "6.1" / "fair-sleepers"
    "6.1" / "first-idle"
    "6.1" / "idle-cfs-rq"
    "6.1" / "migration-cost"
    "6.1" / "newidle-1-sg-scan"
    "6.1" / "newidle-2-features"
    "6.1" / "newidle-3-snapshot"
    "6.1" / "newidle-4-util-fast"
    "6.1" / "newidle-cost-old"
    "6.1" / "sis-node"
    "6.1" / "tg-load-avg-ratelimit"
    "6.1" / "wakelist-busy-only"
    "6.12" / "migrate-delayed"
    "6.12" / "rq-order"
    "6.12" / "sched-balance-running"
    "7.3" / "first-idle"
    "7.3" / "idle-cfs-rq"
}

/// Whether a word must be a path.
pub fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".patch") || word.ends_with(".diff") || word.ends_with(".mbox")
}

/// The patch of a name for a kernel ("6.1", "v6.1", "6.1.192").
///
/// # Errors
/// When there is no patch of that name, or none for that kernel.
pub fn find(name: &str, kernel: &str) -> Result<Vec<Patch>> {
    let kernel = kernel.strip_prefix('v').unwrap_or(kernel);
    let named: Vec<_> = PATCHES.iter().filter(|(_, n, _)| *n == name).collect();
    if named.is_empty() {
        let error = Error::unknown("patch", name, PATCHES.iter().map(|(_, n, _)| *n));
        return Err(match error.remedy() {
            Some(help) => Error::input(error.message())
                .help(format!("{help}; a file is named with its ending or a slash")),
            None => error,
        });
    }
    let is_of =
        |series: &str| kernel == series || kernel.strip_prefix(series).is_some_and(|r| r.starts_with('.'));
    // A user's tree does not name its series: the newest patch is tried.
    let own = kernel.contains('/');
    match named.iter().rfind(|(series, ..)| own || is_of(series) || series.starts_with(&format!("{kernel}.")))
    {
        Some((series, _, text)) => parse(&format!("{name} for {series}"), text.as_bytes()),
        None => {
            let has: Vec<&str> = named.iter().map(|(series, ..)| *series).collect();
            Err(Error::input(format!("there is no patch '{name}' for kernel {kernel}"))
                .help(format!("it is there for {}", has.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_of_the_folder_ships_and_reads() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../patches"));
        let mut files = Vec::new();
        for series in std::fs::read_dir(folder).into_iter().flatten().flatten().filter(|e| e.path().is_dir())
        {
            for file in std::fs::read_dir(series.path()).unwrap().flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                files.extend(
                    name.strip_suffix(".patch")
                        .map(|n| format!("{}/{n}", series.file_name().to_string_lossy())),
                );
            }
        }
        files.sort();
        let mut shipped: Vec<String> = PATCHES.iter().map(|(s, n, _)| format!("{s}/{n}")).collect();
        shipped.sort();
        assert_eq!(shipped, files);
        for (series, name, _) in PATCHES {
            assert_eq!(find(name, series).unwrap().len(), 1, "{series}/{name}");
        }
    }

    #[test]
    fn unknown_patches_are_refused() {
        assert!(find("nonsense", "6.1").unwrap_err().to_string().contains("unknown patch 'nonsense'"));
        assert!(is_path("mine.patch") && is_path("a/b") && !is_path("first-idle"));
    }
}
