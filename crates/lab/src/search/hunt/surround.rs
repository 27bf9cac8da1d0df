//! The surroundings of a specimen's tasks, as parts of a variant and a workload.

use super::around::{Forks, Quota, What, path};
use super::specimen::{Specimen, name};
use schedlab_base::{Ns, Result};
use schedlab_kernel::group::DEFAULT_SHARES;
use schedlab_kernel::{Change, GroupChange, GroupSpec, Limit, TaskChange, Variant};
use schedlab_workload::together::Beside;
use schedlab_workload::{Params, Spec};

/// Time for which each parent starts tasks, us.
const FORKED_US: u64 = 250_000;
/// Most tasks that a parent starts.
const MOST_FORKS: u64 = 300;

impl Specimen {
    /// The variant with the specimen's groups, sessions and changes.
    pub fn in_variant(&self, of: &Variant, cpus: u32) -> Variant {
        let (mut variant, around) = (of.clone(), &self.around);
        if around.autogroup {
            variant.tunables.insert("autogroup".to_owned(), 1);
        }
        let path = |group: u8| path(group, &around.groups);
        variant.groups.extend(around.groups.iter().enumerate().map(|(i, group)| {
            let limit = group.quota.map_or_else(Limit::default, Quota::limit);
            let Limit { quota, period, burst } = limit;
            let shares = if group.idle { DEFAULT_SHARES } else { group.shares };
            GroupSpec { shares, idle: group.idle, quota, period, burst, ..GroupSpec::at(&path(i as u8)) }
        }));
        variant.at.extend(around.changes.iter().map(|change| {
            let group = |group: u8| GroupChange { path: path(group), ..GroupChange::default() };
            let task = |kind: usize| TaskChange { name: name(kind), ..TaskChange::default() };
            let (group, task) = match &change.what {
                What::Shares(of, shares) => (Some(GroupChange { shares: Some(*shares), ..group(*of) }), None),
                What::Quota(of, quota) => {
                    let limit = Some(quota.map_or_else(Limit::default, Quota::limit));
                    (Some(GroupChange { limit, ..group(*of) }), None)
                }
                What::Move(kind, to) => {
                    let group = Some(to.map_or_else(|| "/".to_owned(), path));
                    (None, Some(TaskChange { group, ..task(*kind) }))
                }
                What::Cpus(kind, to) => (None, Some(TaskChange { cpus: Some(to.set(cpus)), ..task(*kind) })),
            };
            Change { time: Ns::us(change.at.into()), group, task, ..Change::default() }
        }));
        variant
    }
    /// The parameters of the benchmark that forks. It is the workload, and the specimen's tasks are its neighbours:
    /// otherwise they would be threads, which can't do exec(2).
    pub fn forking(&self) -> Option<Vec<(&'static str, u64)>> {
        let Forks { parents, work, exec } = self.around.forks.clone()?;
        let each = (FORKED_US / u64::from(work)).clamp(20, MOST_FORKS);
        Some(vec![
            ("parents", parents.into()),
            ("forks", each),
            ("work", u64::from(work)),
            ("exec", exec.into()),
        ])
    }
    /// The workload: its tasks, from an rt-app text, and the forks.
    ///
    /// # Errors
    /// As the readers.
    pub fn spec(&self, text: String, runtime: Ns) -> Result<Spec> {
        let file = "hunt.json".to_owned();
        let Some(forking) = self.forking() else {
            return Ok(Spec::RtApp { file, text, runtime: Some(runtime) });
        };
        let mut params = Params::default();
        for (key, value) in forking {
            params.0.insert(key.to_owned(), if key == "work" { 1_000 * value } else { value });
        }
        params.0.insert("runtime".to_owned(), runtime.0);
        let beside = Beside { name: file, params: Params::default(), rtapp: Some(text), called: None };
        Spec::bench("forks", &params)?.together(vec![beside], Vec::new(), (Vec::new(), Vec::new()))
    }
}
