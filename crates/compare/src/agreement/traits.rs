//! Agreement by trait of a case: kernel, SMT or not, caches, nodes, workload.
//!
//! It shows where disagreements come from, which a share by class of metric does not: from one kind of machine, or from
//! one benchmark. Negative controls are left out.

use super::result::{AgreementShare, CaseResult};
use super::wrong::Discriminating;
use schedlab_machine::Topology;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MachineCounts {
    pub cpus: usize,
    /// Whether a core has several threads.
    pub smt: bool,
    /// Last-level caches.
    pub llcs: usize,
    /// NUMA nodes.
    pub nodes: usize,
}

impl MachineCounts {
    /// The counts of a topology; `None` if it has no CPU.
    pub fn of(topology: &Topology) -> Option<MachineCounts> {
        let units = |unit: fn(&schedlab_machine::Cpu) -> u32| {
            topology.cpus.iter().map(unit).collect::<BTreeSet<u32>>().len()
        };
        let cpus = topology.nr_cpus();
        let counts = MachineCounts {
            cpus,
            smt: units(|c| c.core) < cpus,
            llcs: units(|c| c.llc),
            nodes: units(|c| c.node),
        };
        (cpus > 0).then_some(counts)
    }
}

/// A trait: its name, and its value in a case, if known.
type Trait = (&'static str, fn(&CaseResult) -> Option<String>);

const TRAITS: &[Trait] = &[
    ("kernel", |c| c.simulated.as_ref().map(|s| s.kernel.clone())),
    ("SMT", |c| c.counts.map(|m| if m.smt { "yes" } else { "no" }.to_owned())),
    ("LLCs", |c| c.counts.map(|m| m.llcs.to_string())),
    ("nodes", |c| c.counts.map(|m| m.nodes.to_string())),
    ("workload", |c| Some(c.workload.clone())),
];

/// The agreement of all cases with one value of a trait.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TraitAgreement {
    /// The trait's name.
    #[serde(rename = "trait")]
    pub name: Cow<'static, str>,
    pub value: String,
    pub cases: usize,
    #[serde(flatten)]
    pub share: AgreementShare,
    /// The same without metrics that wrong schedulers pass; `None` if none was tried.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none")]
    pub discriminating: Option<Discriminating>,
}

/// The agreement by every trait and value. Numbers are in their order, words by the alphabet.
pub fn of(cases: &[CaseResult]) -> Vec<TraitAgreement> {
    let judged = || cases.iter().filter(|c| c.control.is_none());
    let mut all = Vec::new();
    for (name, value_of) in TRAITS {
        let key = |value: String| (value.parse::<u64>().ok(), value);
        let values: BTreeSet<_> = judged().filter_map(value_of).map(key).collect();
        for (_, value) in values {
            let mine: Vec<&CaseResult> = judged().filter(|c| value_of(c).as_ref() == Some(&value)).collect();
            let share = AgreementShare::of(mine.iter().flat_map(|c| &c.metrics));
            let discriminating = Discriminating::of(mine.iter().flat_map(|c| c.rows()));
            all.push(TraitAgreement {
                name: (*name).into(),
                value,
                cases: mine.len(),
                share,
                discriminating,
            });
        }
    }
    all
}
