//! Checks the structure of a schedstat from any source: CPUs, domains, names.

use super::model::{CpuStat, Schedstat};
use schedlab_base::cpuset::MAX_CPUS;
use schedlab_base::{CpuId, CpuSet, Error, Result};

/// More levels than any topology has; limits foreign files.
pub const MAX_DOMAINS: usize = 64;
/// Longer than any level's name; limits foreign files.
const MAX_NAME: usize = 32;

/// Checks that CPUs ascend, that domains nest and contain their CPU, and that all CPUs of a domain exist and have
/// domains themselves.
///
/// # Errors
/// The first rule that does not hold.
pub fn check(stat: &Schedstat) -> Result<()> {
    let rises = |pair: &[CpuStat]| pair[0].id < pair[1].id;
    if !stat.cpus.windows(2).all(rises) || stat.cpus.iter().any(|c| c.id.0 >= MAX_CPUS) {
        return Err(Error::input(format!("CPUs do not rise, or pass {}", MAX_CPUS - 1)));
    }
    stat.cpus.iter().try_for_each(|cpu| nested(cpu, stat.layout.version))?;
    whole(&stat.cpus)
}

fn nested(cpu: &CpuStat, version: u32) -> Result<()> {
    let id = cpu.id;
    if cpu.domains.len() > MAX_DOMAINS {
        return Err(Error::input(format!("{id} has more than {MAX_DOMAINS} domains")));
    }
    for (level, domain) in cpu.domains.iter().enumerate() {
        if !domain.span.contains(id) {
            return Err(Error::input(format!("domain{level} of {id} does not hold {id}")));
        }
        if level > 0 && !cpu.domains[level - 1].span.is_subset(&domain.span) {
            return Err(Error::input(format!(
                "domain{level} of {id} does not hold all of domain{}",
                level - 1
            )));
        }
        if version >= 17 && !is_name(&domain.name) {
            return Err(Error::input(format!("domain{level} of {id} has no name, which layout 17 gives")));
        }
    }
    Ok(())
}

/// Whether a word can be the name of a level.
pub(super) fn is_name(word: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    (1..=MAX_NAME).contains(&word.len()) && word.bytes().all(letter)
}

/// Recognises a file that was cut between two lines: other CPUs' domains name CPUs or domains that are missing.
fn whole(cpus: &[CpuStat]) -> Result<()> {
    let top = |c: &CpuStat| c.domains.last().map(|d| d.span.clone());
    let in_domains: CpuSet = cpus.iter().filter(|c| !c.domains.is_empty()).map(|c| c.id).collect();
    for cpu in cpus {
        let Some(span) = top(cpu) else { continue };
        if let Some(other) = span.iter().find(|other| !in_domains.contains(*other)) {
            return Err(Error::input(format!(
                "{} shares a domain with {other}, of which there is none",
                cpu.id
            ))
            .help("the file was cut short, or CPUs came or went while it was read; take it again"));
        }
    }
    let Some((last, before)) = cpus.split_last() else { return Ok(()) };
    let own = top(last).unwrap_or_default();
    let apart = |c: &&CpuStat| top(c).is_some_and(|span| span.contains(last.id)) && !own.contains(c.id);
    match before.iter().find(apart) {
        Some(cpu) => Err(lacks(last.id, cpu.id)),
        None => Ok(()),
    }
}

fn lacks(last: CpuId, other: CpuId) -> Error {
    Error::input(format!("{last} lacks the domain that it shares with {other}"))
        .help("the file was cut short; take it again")
}
