//! The surroundings of a specimen's tasks: a tree of task groups, sessions, changes in mid-run, and a storm of forks.
//! All of them are expressed in an experiment's own words: groups and changes belong to a variant, forks are a
//! benchmark next to the rt-app tasks.

use super::space::Words;
use super::specimen::{Cpus, Dice, name};
use schedlab_base::Ns;
use schedlab_kernel::Limit;
use schedlab_kernel::group::DEFAULT_SHARES;

/// Most task groups of a specimen.
pub const MAX_GROUPS: usize = 4;
/// Most changes in mid-run.
const MAX_CHANGES: usize = 4;
/// Shares for draws: the least, the usual ones, and the most (a weight of 10,000).
const SHARES: &[u64] = &[2, 10, 102, 512, 1024, 1024, 2048, 3072, 8192, 102_400];
/// Periods of quotas, us.
const PERIODS_US: &[u32] = &[5_000, 10_000, 20_000, 50_000, 100_000];
/// The times of changes, ms. Runs on large machines end before the last ones.
const CHANGES_MS: &[u32] = &[2, 5, 10, 20, 30, 40, 60, 80, 120, 200];

/// The surroundings of the tasks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Around {
    /// Attributes of task groups by their numbers; a missing group is a plain one below the root.
    pub groups: Vec<Group>,
    /// Whether tasks without a group are in the group of their session.
    pub autogroup: bool,
    /// Changes in mid-run.
    pub changes: Vec<ChangeAt>,
    pub forks: Option<Forks>,
}

/// Attributes of a task group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Group {
    /// The group above it, of a lower number; `None`: the root group.
    pub within: Option<u8>,
    pub shares: u64,
    /// Whether it is an idle group, whose shares have no effect.
    pub idle: bool,
    pub quota: Option<Quota>,
}

/// A limit of CPU time, us.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Quota {
    pub quota: u32,
    pub period: u32,
    pub burst: u32,
}

/// A change in mid-run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChangeAt {
    /// Its time, us.
    pub at: u32,
    pub what: What,
}

/// The change itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    Shares(u8, u64),
    Quota(u8, Option<Quota>),
    /// A kind's tasks move to another group; `None`: to the root group.
    Move(usize, Option<u8>),
    /// A kind's tasks get other CPUs.
    Cpus(usize, Cpus),
}

/// Tasks that start others, wait for their end and start the next.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Forks {
    pub parents: u32,
    /// Computing of a started task, us.
    pub work: u32,
    /// Whether it begins with exec(2).
    pub exec: bool,
}

impl Group {
    /// A new group.
    pub const PLAIN: Group = Group { within: None, shares: DEFAULT_SHARES, idle: false, quota: None };

    fn draw(dice: Dice, number: usize, words: Words) -> Group {
        Group {
            within: (number > 0 && dice.chance("nested", 40)).then(|| dice.below("within", number) as u8),
            shares: dice.pick("shares", SHARES),
            idle: words.idle_groups && dice.chance("idle", 12),
            quota: None,
        }
    }
    fn words(&self, number: usize, all: &[Group]) -> String {
        let mut words = vec![format!("group {}", path(number as u8, all))];
        words
            .extend((self.shares != DEFAULT_SHARES && !self.idle).then(|| format!("shares {}", self.shares)));
        words.extend(self.idle.then(|| "idle".to_owned()));
        words.extend(self.quota.map(|quota| quota.words()));
        words.join(", ")
    }
}

impl Quota {
    fn draw(dice: Dice, cpus: u32, words: Words) -> Quota {
        let period = dice.pick("period", PERIODS_US);
        // Per cent of a CPU, up to three quarters of all CPUs.
        let part = dice.pick("part", &[30, 70, 25 * cpus, 50 * cpus, 75 * cpus]);
        let quota = (u64::from(period) * u64::from(part) / 100).clamp(1_000, 50_000_000) as u32;
        let burst = if words.bursts && dice.chance("burst", 35) { dice.pick("saved", &[4, 2, 1]) } else { 0 };
        Quota { quota, period, burst: quota.checked_div(burst).unwrap_or(0) }
    }
    pub(super) fn limit(self) -> Limit {
        let [quota, period, burst] = [self.quota, self.period, self.burst].map(|us| Ns::us(us.into()));
        Limit { quota: Some(quota), period, burst }
    }
    fn words(self) -> String {
        let Limit { period, burst, .. } = self.limit();
        let quota = Ns::us(self.quota.into());
        let saved = if self.burst > 0 { format!(" with burst {burst}") } else { String::new() };
        format!("quota {quota} in {period}{saved}")
    }
}

/// The path of a group.
pub fn path(group: u8, all: &[Group]) -> String {
    let above = all.get(usize::from(group)).and_then(|of| of.within).filter(|above| *above < group);
    format!("{}/g{group}", above.map_or_else(String::new, |above| path(above, all)))
}

impl Around {
    /// Draws groups, with nesting, weights and sessions.
    pub fn draw_groups(&mut self, dice: Dice, words: Words) {
        let many = dice.pick("groups", &[1, 2, 2, 3, MAX_GROUPS]);
        self.groups = (0..many).map(|i| Group::draw(dice.number(i as u64), i, words)).collect();
        self.autogroup = dice.chance("autogroup", 25);
    }
    /// Gives some groups quotas.
    pub fn draw_quotas(&mut self, dice: Dice, cpus: u32, words: Words) {
        if self.groups.is_empty() {
            self.groups = vec![Group::PLAIN; dice.pick("groups", &[1, 2])];
        }
        for (i, group) in self.groups.iter_mut().enumerate() {
            let dice = dice.number(i as u64);
            group.quota = (i == 0 || dice.chance("limited", 50)).then(|| Quota::draw(dice, cpus, words));
        }
    }
    /// Draws changes, for this many kinds of tasks.
    pub fn draw_changes(&mut self, dice: Dice, kinds: usize, cpus: u32, words: Words) {
        let many = dice.pick("changes", &[1, 2, 2, 3, MAX_CHANGES]);
        self.changes = (0..many as u64)
            .map(|i| {
                let dice = dice.number(i);
                let group = dice.below("group", self.groups.len()) as u8;
                let what = match dice.below("what", 4) {
                    0 if !self.groups.is_empty() => What::Shares(group, dice.pick("shares", SHARES)),
                    1 if !self.groups.is_empty() && words.quotas => {
                        let some = dice.chance("limited", 70).then(|| Quota::draw(dice, cpus, words));
                        What::Quota(group, some)
                    }
                    2 if !self.groups.is_empty() => {
                        What::Move(dice.below("kind", kinds), dice.chance("into", 70).then_some(group))
                    }
                    _ => What::Cpus(dice.below("kind", kinds), dice.pick("cpus", Cpus::SOME)),
                };
                // Round times meet the times of timers and ticks.
                let at = 1_000 * dice.pick("time", CHANGES_MS) + dice.below("within", 997) as u32;
                ChangeAt { at, what }
            })
            .collect();
        self.changes.sort_by_key(|change| change.at);
    }
    /// Draws a storm of forks.
    pub fn draw_forks(&mut self, dice: Dice, cpus: u32) {
        self.forks = dice.chance("storm", 50).then(|| Forks {
            parents: dice.pick("parents", &[1, 2, (cpus / 2).max(1)]),
            work: dice.pick("work", &[53, 211, 1_013, 4_019]),
            exec: dice.chance("exec", 50),
        });
    }
    /// Restores the invariants for this many kinds of tasks: removes references to others.
    pub fn mend(&mut self, kinds: usize) {
        self.groups.truncate(MAX_GROUPS);
        for (i, group) in self.groups.iter_mut().enumerate() {
            group.within = group.within.filter(|above| usize::from(*above) < i);
        }
        let groups = self.groups.len();
        self.changes.retain(|change| match change.what {
            What::Shares(group, _) | What::Quota(group, _) => usize::from(group) < groups,
            What::Move(kind, group) => kind < kinds && group.is_none_or(|g| usize::from(g) < groups),
            What::Cpus(kind, _) => kind < kinds,
        });
        // The shares of an idle group do not change.
        let idle = |group: u8| self.groups.get(usize::from(group)).is_some_and(|group| group.idle);
        self.changes.retain(|change| !matches!(change.what, What::Shares(group, _) if idle(group)));
    }
    /// Adapts to the removal of a kind.
    pub fn without(&mut self, gone: usize) {
        self.changes.retain_mut(|change| match &mut change.what {
            What::Move(kind, _) | What::Cpus(kind, _) => {
                let stays = *kind != gone;
                *kind -= usize::from(*kind > gone);
                stays
            }
            _ => true,
        });
    }
    /// A size, to order by.
    pub fn size(&self) -> u32 {
        let of = |group: &Group| {
            let set = [group.within.is_some(), group.shares != DEFAULT_SHARES, group.idle];
            let burst = group.quota.is_some_and(|quota| quota.burst > 0);
            set.into_iter().filter(|set| *set).count() as u32
                + u32::from(group.quota.is_some())
                + u32::from(burst)
        };
        let forks = self.forks.as_ref().map_or(0, |f| f.parents + 1 + u32::from(f.exec));
        self.groups.iter().map(|group| 1 + of(group)).sum::<u32>()
            + u32::from(self.autogroup)
            + self.changes.len() as u32
            + forks
    }
    /// Simpler surroundings.
    pub fn simpler(&self) -> Vec<Around> {
        let mut all = Vec::new();
        let mut add = |edit: &dyn Fn(&mut Around)| {
            let mut changed = self.clone();
            edit(&mut changed);
            if changed != *self {
                all.push(changed);
            }
        };
        add(&|around| *around = Around::default());
        add(&|around| around.forks = None);
        add(&|around| around.changes.clear());
        for i in 0..self.changes.len() {
            add(&|around| {
                around.changes.remove(i);
            });
        }
        add(&|around| around.autogroup = false);
        add(&|around| {
            around.groups.pop();
        });
        for i in 0..self.groups.len() {
            add(&|around| around.groups[i].quota = None);
            add(&|around| around.groups[i].idle = false);
            add(&|around| around.groups[i].within = None);
            add(&|around| around.groups[i].shares = DEFAULT_SHARES);
            add(&|around| around.groups[i].quota.iter_mut().for_each(|quota| quota.burst = 0));
        }
        add(&|around| around.forks.iter_mut().for_each(|forks| forks.parents = 1));
        add(&|around| around.forks.iter_mut().for_each(|forks| forks.exec = false));
        all
    }
    /// A line for each thing.
    pub fn words(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.groups.iter().enumerate().map(|(i, group)| group.words(i, &self.groups)).collect();
        all.extend(self.autogroup.then(|| "tasks in no group are in that of their session".to_owned()));
        let path = |group: u8| path(group, &self.groups);
        all.extend(self.changes.iter().map(|change| {
            let at = Ns::us(change.at.into());
            match &change.what {
                What::Shares(group, shares) => format!("at {at} group {} has shares {shares}", path(*group)),
                What::Quota(group, None) => format!("at {at} group {} has no quota", path(*group)),
                What::Quota(group, Some(q)) => format!("at {at} group {} has {}", path(*group), q.words()),
                What::Move(kind, None) => format!("at {at} {} moves to the root group", name(*kind)),
                What::Move(kind, Some(group)) => format!("at {at} {} moves to {}", name(*kind), path(*group)),
                What::Cpus(kind, cpus) => format!("at {at} {} is {}", name(*kind), cpus.words()),
            }
        }));
        all.extend(self.forks.as_ref().map(|forks| {
            let execs = if forks.exec { ", by exec" } else { "" };
            format!("{} parents fork tasks that run {}{execs}", forks.parents, Ns::us(forks.work.into()))
        }));
        all
    }
}
