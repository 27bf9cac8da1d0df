//! The studies that ship with schedlab: experiments compiled in, so that the binary needs no files.

use crate::ask::experiment::{Experiment, parse};
use crate::ask::here;
use schedlab_base::{Error, Result};
use std::path::Path;

macro_rules! study_files {
    ($($name:literal)*) => {
        /// Name and text of every study, in the order of the list.
        pub const STUDIES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../studies/", $name, ".toml"))),)*];
    };
}

study_files! { "idle-sibling" "newidle" "fair-sleepers" "idle-cfs-rq" "idle-cfs-rq-readings" "migration-cost" "cache-aware" }

/// The name that stands for the published figures of all reports, in addition to the studies.
pub const REPORTS: &str = "reports";

/// The name that stands for the posted series and their published changes.
pub const PUBLISHED: &str = "published";

/// The study of that name.
///
/// # Errors
/// When there is none; the error offers the nearest name.
pub fn find(name: &str) -> Result<Experiment> {
    let known = STUDIES.iter().map(|(name, _)| *name).chain([REPORTS, PUBLISHED]);
    let found = STUDIES.iter().find(|(n, _)| *n == name);
    let (name, text) = found.ok_or_else(|| {
        let e = Error::unknown("study", name, known);
        if name.ends_with(".toml") {
            Error::input(e.message()).help("experiments of your own: schedlab run FILE")
        } else {
            e
        }
    })?;
    parse(Path::new(&format!("studies/{name}.toml")), text, here::cpus())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_is_compiled_in_and_reads_under_its_own_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .map(|entries| entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
            .unwrap_or_default();
        files.retain(|f| f.ends_with(".toml"));
        files.sort();
        let mut known: Vec<String> = STUDIES.iter().map(|(n, _)| format!("{n}.toml")).collect();
        known.sort();
        assert_eq!(known, files);
        for (name, _) in STUDIES {
            let study = find(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(study.name, *name);
            assert!(!study.about.is_empty(), "{name} says what it asks");
        }
    }

    #[test]
    fn a_file_is_sent_to_the_right_command() {
        assert!(find("mine.toml").unwrap_err().to_string().contains("schedlab run"));
    }
}
