//! Sums of samples: kernel functions by total and self, and user mode by object.
//!
//! A function's *self* is the samples in it; its *total* also includes functions that it called. Each sample counts
//! once, even if the chain has the function several times. User mode is known only by the mapped file's name.

use super::perf_record::Record;
use super::stacks::{SampledTask, Stacks};
use super::symbols::Symbols;
use std::collections::{BTreeMap, BTreeSet};

/// Functions in which an idle CPU waits, by endings or beginnings of their names.
const IDLE_ENDS: &[&str] = &["_safe_halt"];
const IDLE_BEGINS: &[&str] =
    &["mwait_idle", "intel_idle", "default_idle", "cpuidle_", "poll_idle", "acpi_idle"];
/// Kernel addresses in no known function.
const NAMELESS: &str = "[kernel]";
/// User addresses in no known mapping.
const NOWHERE: &str = "[unknown]";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Including called functions.
    pub total: u64,
    pub own: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Samples of CPUs that were not idle.
    pub busy: u64,
    /// Samples of CPUs that waited for work.
    pub idle: u64,
    /// Busy samples in the kernel.
    pub kernel: u64,
    /// Number of records that did not fit.
    pub lost: u64,
    /// How often the kernel slowed sampling down.
    pub throttled: u64,
    /// Kernel functions by name.
    pub functions: BTreeMap<String, Share>,
    /// User mode by object: the last part of the file's path.
    pub objects: BTreeMap<String, u64>,
    /// Busy samples by call chain, `comm;frame;frame`; empty unless chains were requested.
    pub stacks: BTreeMap<String, u64>,
}

/// Adds up samples.
pub struct Tally {
    symbols: Symbols,
    profile: Profile,
    /// Samples in user mode by process and address; resolved at the end, when all mappings are known.
    user: BTreeMap<(u32, u64), u64>,
    /// Mapped code by process and first address: end and object.
    maps: BTreeMap<(u32, u64), (u64, String)>,
    parents: BTreeMap<u32, u32>,
    /// Call chains, if requested.
    stacks: Option<Stacks>,
}

impl Tally {
    /// With `chains`, it keeps whole call chains.
    pub fn new(symbols: Symbols, chains: bool) -> Tally {
        Tally {
            symbols,
            profile: Profile::default(),
            user: BTreeMap::new(),
            maps: BTreeMap::new(),
            parents: BTreeMap::new(),
            stacks: chains.then(Stacks::default),
        }
    }

    pub fn add(&mut self, record: Record) {
        match record {
            Record::Sample { process, thread, at, kernel: false, chain: _, user } => {
                self.profile.busy += 1;
                if let Some(stacks) = &mut self.stacks {
                    stacks.add(SampledTask { process, thread }, Vec::new(), with_own(user, at));
                }
                *self.user.entry((process, at)).or_default() += 1;
            }
            Record::Sample { process, thread, at, kernel: true, chain, user } => {
                if self.in_kernel(process, at, &chain)
                    && let Some(stacks) = &mut self.stacks
                {
                    stacks.add(SampledTask { process, thread }, with_own(chain, at), user);
                }
            }
            Record::Named { thread, name } => self.named(thread, &name),
            Record::Mapped { process, start, length, object } => self.mapped(process, start, length, &object),
            Record::Forked { process, parent, thread, by } => {
                if process != parent {
                    self.parents.insert(process, parent);
                }
                if let Some(stacks) = &mut self.stacks {
                    stacks.forked(thread, by);
                }
            }
            Record::Lost(n) => self.profile.lost += n,
            Record::Throttled => self.profile.throttled += 1,
            Record::Other => {}
        }
    }

    /// Notes code that a process maps.
    pub fn mapped(&mut self, process: u32, start: u64, length: u64, object: &str) {
        let name = object.rsplit('/').next().unwrap_or(object).to_owned();
        self.maps.insert((process, start), (start.saturating_add(length), name));
    }

    pub fn named(&mut self, thread: u32, name: &str) {
        if let Some(stacks) = &mut self.stacks {
            stacks.named(thread, name);
        }
    }

    /// Counts a sample in the kernel; returns whether its CPU was busy.
    fn in_kernel(&mut self, process: u32, at: u64, chain: &[u64]) -> bool {
        let name = |address: u64| self.symbols.find(address).unwrap_or(NAMELESS);
        let own = name(at);
        if process == 0 && is_idle(own) {
            self.profile.idle += 1;
            return false;
        }
        let mut all: BTreeSet<&str> = chain.iter().map(|a| name(*a)).collect();
        all.insert(own);
        self.profile.busy += 1;
        self.profile.kernel += 1;
        for function in all {
            let share = match self.profile.functions.get_mut(function) {
                Some(share) => share,
                None => self.profile.functions.entry(function.to_owned()).or_default(),
            };
            share.total += 1;
            share.own += u64::from(function == own);
        }
        true
    }

    /// Adds up all samples; resolves user mode by the mappings known now.
    pub fn finish(mut self) -> Profile {
        for ((process, at), n) in std::mem::take(&mut self.user) {
            let object = self.object(process, at).unwrap_or(NOWHERE).to_owned();
            *self.profile.objects.entry(object).or_default() += n;
        }
        if let Some(stacks) = &self.stacks {
            let kernel = |at| self.symbols.find(at).unwrap_or(NAMELESS).to_owned();
            let user = |process, at| self.object(process, at).unwrap_or(NOWHERE).to_owned();
            self.profile.stacks = stacks.fold(kernel, user);
        }
        self.profile
    }

    /// The object at an address of a process, mapped by the process itself or by an ancestor.
    fn object(&self, process: u32, at: u64) -> Option<&str> {
        let mut process = process;
        // A chain of forks is short. The limit stops cycles due to reused ids.
        for _ in 0..64 {
            let before = self.maps.range((process, 0)..=(process, at)).next_back();
            if let Some((_, (end, name))) = before
                && at < *end
            {
                return Some(name);
            }
            process = *self.parents.get(&process)?;
        }
        None
    }
}

/// A chain that begins with the sample's own address, as all but those of some interrupts do.
fn with_own(mut chain: Vec<u64>, at: u64) -> Vec<u64> {
    if chain.first() != Some(&at) {
        chain.insert(0, at);
    }
    chain
}

fn is_idle(function: &str) -> bool {
    IDLE_ENDS.iter().any(|e| function.ends_with(e)) || IDLE_BEGINS.iter().any(|b| function.starts_with(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        Tally::new(
            Symbols::parse(
                "100 T schedule\n200 t newidle_balance\n300 t update_sd_lb_stats\n400 t pv_native_safe_halt\n",
            ),
            true,
        )
    }
    fn sample(process: u32, at: u64, kernel: bool, chain: &[u64]) -> Record {
        Record::Sample { process, thread: process, at, kernel, chain: chain.to_vec(), user: vec![] }
    }

    #[test]
    fn a_function_counts_once_for_each_sample_below_it() {
        let mut t = tally();
        t.add(sample(1, 0x310, true, &[0x310, 0x220, 0x120]));
        t.add(sample(1, 0x220, true, &[0x220, 0x120, 0x130]));
        t.add(sample(1, 0x110, true, &[0x110]));
        t.add(sample(0, 0x401, true, &[0x401]));
        t.add(sample(0, 0x201, true, &[0x201]));
        t.add(sample(1, 0x10, true, &[]));
        let p = t.finish();
        assert_eq!((p.busy, p.idle, p.kernel), (5, 1, 5));
        assert_eq!(p.functions["schedule"], Share { total: 3, own: 1 });
        assert_eq!(p.functions["newidle_balance"], Share { total: 3, own: 2 });
        assert_eq!(p.functions["update_sd_lb_stats"], Share { total: 1, own: 1 });
        assert_eq!(p.functions[NAMELESS], Share { total: 1, own: 1 });
        assert_eq!(p.functions.values().map(|s| s.own).sum::<u64>(), p.kernel);
        assert_eq!(p.stacks.values().sum::<u64>(), p.busy, "an idle CPU is in no chain: {:?}", p.stacks);
        assert_eq!(p.stacks["[unknown];schedule;newidle_balance;update_sd_lb_stats"], 1);
    }

    #[test]
    fn user_mode_is_known_by_the_object_also_of_a_forked_process() {
        let mut t = tally();
        t.add(sample(9, 0x1500, false, &[]));
        t.add(Record::Mapped { process: 7, start: 0x1000, length: 0x1000, object: "/usr/bin/x".into() });
        t.add(Record::Forked { process: 9, parent: 7, thread: 9, by: 7 });
        t.add(Record::Forked { process: 7, parent: 9, thread: 7, by: 9 });
        t.add(sample(7, 0x1fff, false, &[]));
        t.add(sample(7, 0x2000, false, &[]));
        t.add(Record::Lost(3));
        t.add(Record::Throttled);
        let p = t.finish();
        assert_eq!((p.busy, p.kernel, p.lost, p.throttled), (3, 0, 3, 1));
        assert_eq!(p.objects, BTreeMap::from([("x".to_owned(), 2), (NOWHERE.to_owned(), 1)]));
    }
}
