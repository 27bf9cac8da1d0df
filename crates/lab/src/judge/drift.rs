//! Differences between a simulated kernel and the real one that it stands for, from the real one's own description.
//!
//! A live record's environment holds the kernel's own description (`record::scheduler`). This module compares
//! a profile and the domains derived for a machine with it. No difference means that the readable values
//! agree, not that the code does. Values that could not be read are not compared; [`compared`] returns whether
//! there are any. Checked with the descriptions of 6.1.192 and 7.3.4.

use schedlab_base::CpuId;
use schedlab_kernel::feature::FEATURES;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Feature, Kernel};
use schedlab_machine::{DomainParams, Domains, Machine};
use schedlab_record::scheduler::DOMAINS;
use std::collections::{BTreeMap, BTreeSet};

/// One difference between simulation and kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The environment's key.
    pub key: String,
    /// A sentence without its full stop.
    pub text: String,
}

/// Features of real kernels without a row in the simulator's table, each with the reason why it needs none.
const ELSEWHERE: &[&str] = &[
    // Here the capacity taken by real-time classes can't be switched; interrupts are charged to tasks.
    "NONTASK_CAPACITY",
    // Here every task's averages are updated when it is attached.
    "ATTACH_AGE_LOAD",
    // Part of UTIL_EST here.
    "UTIL_EST_FASTUP",
    // Deadline tasks are not simulated.
    "HRTICK_DL",
    // Warnings in the kernel's log.
    "LATENCY_WARN",
    "WARN_DOUBLE_CLOCK",
];

/// Whether the environment holds anything that [`drift`] compares.
pub fn compared(environment: &BTreeMap<String, String>) -> bool {
    environment.contains_key("sched.features")
}

/// The differences between the simulated `kernel` on `machine` and the kernel that the environment describes.
pub fn drift(kernel: &Kernel, machine: &Machine, environment: &BTreeMap<String, String>) -> Vec<Difference> {
    let mut found = ProfileDrift { profile: kernel.version.to_string(), all: Vec::new() };
    if let Some(text) = environment.get("sched.features") {
        features(kernel, text, &mut found);
    }
    tunables(kernel, machine.topology.nr_cpus(), environment, &mut found);
    preemption(kernel, environment, &mut found);
    domains(&Domains::build(&machine.topology, kernel.version), environment, &mut found);
    let driver = environment.get("cpu.idle_driver").map(String::as_str);
    let states = machine.idle_states.len();
    if driver == Some("none") && states > 1 {
        found.add(
            "cpu.idle_driver",
            format!("kernel has no idle driver, machine {} has {states} idle states", machine.name),
        );
    }
    found.all
}

struct ProfileDrift {
    profile: String,
    all: Vec<Difference>,
}

impl ProfileDrift {
    fn add(&mut self, key: &str, text: String) {
        self.all.push(Difference { key: key.to_owned(), text });
    }
    /// Adds a number or word of the kernel that is different in the profile.
    fn other(&mut self, key: &str, what: &str, real: &str, simulated: &str) {
        let profile = &self.profile;
        self.add(key, format!("kernel has {what} {real}, profile {profile} {simulated}"));
    }
}

fn features(kernel: &Kernel, text: &str, found: &mut ProfileDrift) {
    let key = "sched.features";
    let mut known = BTreeSet::new();
    let profile = found.profile.clone();
    for word in text.split_whitespace() {
        let (name, on) = word.strip_prefix("NO_").map_or((word, true), |name| (name, false));
        known.insert(name);
        match Feature::parse(name) {
            Ok(f) if kernel.features.has(f) == on => {}
            Ok(_) if on => found.add(key, format!("kernel has {name}, profile {profile} not")),
            Ok(_) => found.add(key, format!("kernel has {name} off, profile {profile} on")),
            Err(_) if on && !ELSEWHERE.contains(&name) => {
                found.add(key, format!("kernel has {name}, which is not modelled"));
            }
            Err(_) => {}
        }
    }
    let own = FEATURES.iter().filter(|r| !r.source.is_ours() && kernel.features.has(r.feature));
    for row in own.filter(|r| !known.contains(r.name)) {
        found.add(key, format!("profile {profile} has {}, which the kernel does not know", row.name));
    }
}

fn tunables(
    kernel: &Kernel,
    nr_cpus: usize,
    environment: &BTreeMap<String, String>,
    found: &mut ProfileDrift,
) {
    let t = &kernel.tunables;
    let scaled = |ns: u64| ns * t.factor(nr_cpus);
    let rows = [
        ("latency_ns", scaled(t.sched_latency_ns)),
        ("min_granularity_ns", scaled(t.min_granularity_ns)),
        ("wakeup_granularity_ns", scaled(t.wakeup_granularity_ns)),
        ("base_slice_ns", scaled(t.base_slice_ns)),
        ("migration_cost_ns", t.migration_cost_ns),
        ("nr_migrate", t.nr_migrate),
        ("tunable_scaling", t.scale_by_cpus),
    ];
    for (name, simulated) in rows {
        let key = format!("sched.{name}");
        if let Some(real) = environment.get(&key).filter(|real| **real != simulated.to_string()) {
            found.other(&key, name, real, &simulated.to_string());
        }
    }
}

/// Compares the model in brackets.
fn preemption(kernel: &Kernel, environment: &BTreeMap<String, String>, found: &mut ProfileDrift) {
    let Some(text) = environment.get("sched.preempt") else { return };
    let Some(model) = text.split_whitespace().find_map(|w| w.strip_prefix('(')?.strip_suffix(')')) else {
        return;
    };
    let simulated = Preempt::of(kernel).word();
    if model != simulated {
        found.other("sched.preempt", "preemption model", model, simulated);
    }
}

fn domains(simulated: &Domains, environment: &BTreeMap<String, String>, found: &mut ProfileDrift) {
    for (key, real) in environment.iter().filter(|(key, _)| key.starts_with(DOMAINS)) {
        let Ok(cpu) = key[DOMAINS.len()..].parse::<u32>() else { continue };
        let Some(own) = simulated.of_cpu.get(CpuId(cpu).index()) else {
            found.add(key, format!("kernel has a cpu{cpu}, the simulated machine has not"));
            continue;
        };
        let real: Vec<&str> = real.split("; ").filter(|d| !d.is_empty()).collect();
        let name = |d: &&str| d.split(' ').next().unwrap_or_default().to_owned();
        let names: Vec<String> = real.iter().map(name).collect();
        let ours: Vec<&str> = own.iter().map(|d| d.name).collect();
        if names != ours {
            found.other(key, &format!("domains of cpu{cpu}:"), &names.join(" "), &ours.join(" "));
            continue;
        }
        for (text, domain) in real.iter().zip(own) {
            params(key, domain.name, text, &domain.params, found);
        }
    }
}

fn params(key: &str, name: &str, text: &str, ours: &DomainParams, found: &mut ProfileDrift) {
    let rows = [
        ("min_interval", ours.min_interval_ms),
        ("max_interval", ours.max_interval_ms),
        ("busy_factor", ours.busy_factor),
        ("imbalance_pct", ours.imbalance_pct),
        ("cache_nice_tries", ours.cache_nice_tries),
    ];
    let value =
        |of: &str| text.split(' ').filter_map(|w| w.split_once('=')).find(|(k, _)| *k == of).map(|(_, v)| v);
    for (of, simulated) in rows {
        if let Some(real) = value(of).filter(|real| *real != simulated.to_string()) {
            found.other(key, &format!("{name} {of}"), real, &simulated.to_string());
        }
    }
    let real: BTreeSet<&str> = value("flags").unwrap_or_default().split('|').collect();
    for (flag, names, simulated) in flags(ours) {
        let has = names.iter().any(|n| real.contains(n));
        match (has, simulated) {
            (true, false) => found.add(key, format!("kernel's {name} has {flag}, the simulated one not")),
            (false, true) => found.add(key, format!("the simulated {name} has {flag}, the kernel's not")),
            _ => {}
        }
    }
}

/// Flags that are simulated: name, the names it has had, and whether the domain has it.
fn flags(p: &DomainParams) -> [(&'static str, &'static [&'static str], bool); 10] {
    [
        ("SD_BALANCE_NEWIDLE", &["SD_BALANCE_NEWIDLE"], p.balance_newidle),
        ("SD_BALANCE_EXEC", &["SD_BALANCE_EXEC"], p.balance_exec),
        ("SD_BALANCE_FORK", &["SD_BALANCE_FORK"], p.balance_fork),
        ("SD_WAKE_AFFINE", &["SD_WAKE_AFFINE"], p.wake_affine),
        ("SD_SHARE_CPUCAPACITY", &["SD_SHARE_CPUCAPACITY", "SD_SHARE_CPUPOWER"], p.share_capacity),
        ("SD_SHARE_LLC", &["SD_SHARE_LLC", "SD_SHARE_PKG_RESOURCES"], p.share_llc),
        ("SD_PREFER_SIBLING", &["SD_PREFER_SIBLING"], p.prefer_sibling),
        ("SD_SERIALIZE", &["SD_SERIALIZE"], p.serialize),
        ("SD_NUMA", &["SD_NUMA"], p.numa),
        // A flag of kernels on asymmetric hardware; never simulated.
        ("SD_ASYM_PACKING", &["SD_ASYM_PACKING", "SD_ASYM_CPUCAPACITY"], false),
    ]
}
