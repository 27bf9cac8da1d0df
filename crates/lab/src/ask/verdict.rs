//! What kernels have said about sched_ext schedulers: accepted, or refused by the verifier.
//!
//! Backend `code` has no verifier, so a program that a kernel would refuse runs there. A kernel in a guest has one: a
//! run of a scheduler's program there leaves its verdict in the cache, by the program's bytes, its arguments and the
//! kernel's version. It stands beside the records of runs by that version's own code, not in them: a record is what its
//! inputs give. Whoever shows such runs looks it up ([`of`], [`refusals`]).

use crate::ask::code::Driven;
use schedlab_base::temp::write_whole;
use schedlab_base::{Backend, Error, Result, Version, Warning, content_hash};
use schedlab_kernel::{Scx, Variant};
use schedlab_kernels::{Image, cache};
use schedlab_record::Record;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The fact of a guest's record, and of those that are shown; the warning.
pub const FACT: &str = "scx.verifier";
/// The folder in the cache.
const FOLDER: &str = "verdicts";
/// Words of libbpf and of scx's programs when the kernel has not taken a program.
const NOT_LOADED: &str = "failed to load";
/// Lines kept of a refusal.
const MOST_LINES: usize = 6;

/// A kernel's verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The kernel's release.
    pub kernel: String,
    /// The last lines of what the scheduler's program said when its load failed; `None`: it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Verdict {
    /// What a run in a guest of that kernel says: it took the scheduler, or its load `failed`. Another failure says
    /// nothing about the scheduler.
    pub(crate) fn of(image: &Image, failed: Option<&Error>) -> Option<Verdict> {
        let refused = failed.map(refusal);
        if refused == Some(None) {
            return None;
        }
        Some(Verdict { kernel: image.release.clone(), refused: refused.flatten() })
    }
    pub fn words(&self) -> String {
        match &self.refused {
            None => format!("accepted by {}", self.kernel),
            Some(said) => format!("refused by {}: {said}", self.kernel),
        }
    }
}

/// Keeps the verdict of an image's kernel. It is a help: a cache that can't be written loses it.
pub(crate) fn keep(scx: &Scx, image: &Image, verdict: &Verdict) {
    drop(cache::folder(None).and_then(|cache| write(&cache, (scx, image.version), verdict)));
}

/// What is known of the schedulers of a run by the kernel's own code, each with its name if there are several; `None`:
/// it is not such a run.
pub fn of(record: &Record) -> Option<String> {
    let version = Version::parse(&record.kernel).ok().filter(|_| record.backend == Backend::Code)?;
    let cache = cache::folder(None).ok()?;
    let said = |scx: &Scx| {
        read(&cache, (scx, version)).map_or_else(|| "not asked".to_owned(), |verdict| verdict.words())
    };
    match schedulers(&record.variant)[..] {
        [] => None,
        [one] => Some(said(one)),
        ref several => {
            let named = several.iter().map(|scx| format!("{}: {}", scx.name(), said(scx)));
            Some(named.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Warnings of schedulers that are about to run by the kernel's own code, and that a kernel of the version refuses.
pub(crate) fn refusals(variants: &[Driven]) -> Vec<Warning> {
    let Ok(cache) = cache::folder(None) else { return Vec::new() };
    let all = variants.iter().flat_map(|d| schedulers(&d.variant).into_iter().map(move |scx| (d, scx)));
    let refused = all.filter_map(|(driven, scx)| {
        let verdict =
            read(&cache, (scx, driven.image.version)).filter(|verdict| verdict.refused.is_some())?;
        Some(format!("{}: scheduler {} is {}", driven.variant.name, scx.name(), verdict.words()))
    });
    refused.map(|text| Warning::new(FACT, text)).collect()
}

/// The schedulers of a variant, in their order in time.
fn schedulers(variant: &Variant) -> Vec<&Scx> {
    let later = variant.at.iter().filter_map(|change| change.scx.as_ref());
    variant.scx.iter().chain(later).filter(|scx| !scx.is_none()).collect()
}

fn file(cache: &Path, (scx, version): (&Scx, Version)) -> Option<PathBuf> {
    let (_, arguments) = scx.words()?;
    let key = format!("{}\n{}\n{version}", scx.hash.as_ref()?, arguments.join(" "));
    Some(cache.join(FOLDER).join(format!("{}.json", content_hash(key.as_bytes()))))
}

fn write(cache: &Path, of: (&Scx, Version), verdict: &Verdict) -> Result<()> {
    let Some(path) = file(cache, of) else { return Ok(()) };
    let folder = cache.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "create", &e))?;
    let text = serde_json::to_vec(verdict).map_err(|e| Error::internal(format!("a verdict: {e}")))?;
    write_whole(&path, &text)
}

fn read(cache: &Path, of: (&Scx, Version)) -> Option<Verdict> {
    serde_json::from_slice(&std::fs::read(file(cache, of)?).ok()?).ok()
}

/// What a scheduler's program said last, if its load failed.
fn refusal(e: &Error) -> Option<String> {
    let said = e.remedy()?;
    if !said.to_lowercase().contains(NOT_LOADED) {
        return None;
    }
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Some(lines[lines.len().saturating_sub(MOST_LINES)..].join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Change;

    fn scx(command: &str, hash: &str) -> Scx {
        Scx { command: command.to_owned(), hash: Some(hash.to_owned()) }
    }

    #[test]
    fn a_verdict_is_of_a_program_its_arguments_and_a_version() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, version) = (folder.path(), Version::new(7, 3));
        let verdict = Verdict { kernel: "7.3.4".to_owned(), refused: None };
        write(cache, (&scx("/a/scx_mine -s 5", "h"), version), &verdict).unwrap();
        let of = |command: &str, hash: &str, version| read(cache, (&scx(command, hash), version));
        assert_eq!(of("/b/scx_mine  -s 5", "h", version), Some(verdict), "wherever it lies");
        assert_eq!(of("/a/scx_mine -s 6", "h", version), None);
        assert_eq!(of("/a/scx_mine -s 5", "i", version), None);
        assert_eq!(of("/a/scx_mine -s 5", "h", Version::new(7, 2)), None);
    }

    #[test]
    fn all_schedulers_of_a_variant_are_asked_for() {
        let changes = ["none", "/b/scx_other"]
            .map(|command| Change { scx: Some(scx(command, "h")), ..Change::default() });
        let variant =
            Variant { scx: Some(scx("/a/scx_mine -s 5", "h")), at: changes.to_vec(), ..Variant::plain("7") };
        let names: Vec<&str> = schedulers(&variant).into_iter().map(Scx::name).collect();
        assert_eq!(names, ["scx_mine", "scx_other"]);
    }

    #[test]
    fn only_a_failed_load_is_a_refusal() {
        let said = |words: &str| refusal(&Error::machine("it ended before it had the tasks").help(words));
        let log = "it said: R8 invalid\nprocessed 71 insns\n-- END PROG LOAD LOG --\n\
                   libbpf: prog 'd': failed to load: -EACCES\n";
        let words = said(log).unwrap();
        assert!(words.starts_with("it said: R8") && words.ends_with("-EACCES"), "{words}");
        assert_eq!(
            said("Error: Failed to load BPF program").as_deref(),
            Some("Error: Failed to load BPF program")
        );
        assert_eq!(said("it said: unknown option -z"), None);
        assert_eq!(refusal(&Error::machine("no memory")), None);
        let verdict = Verdict { kernel: "7.3.4".to_owned(), refused: Some(words) };
        assert!(verdict.words().starts_with("refused by 7.3.4: it said"));
    }
}
