//! Names of events on tracks. Each is written once; events refer to its number.

use crate::{
    BalanceReason, BalanceTrigger, ExtOp, ExtQueue, KickReason, MoveReason, PlaceReason, SkipReason,
    SwitchReason,
};

/// Reasons of the balancer's passes.
const BALANCE: u64 = BalanceReason::ALL.len() as u64;
const QUEUES: u64 = ExtQueue::ALL.len() as u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Warmup,
    Measured,
    /// An event on the waker's thread.
    Wakes,
    /// An event on the woken thread, when it runs.
    Woken,
    Placed(PlaceReason),
    GivesWay(SwitchReason),
    Moved(MoveReason),
    Balance(BalanceTrigger, BalanceReason),
    Skip(SkipReason),
    Kick(KickReason),
    Decided(ExtOp, ExtQueue),
}

impl Name {
    /// The number, never 0, and small because every event has it.
    #[inline]
    pub(super) fn iid(self) -> u64 {
        let (kind, number) = match self {
            Name::Warmup => (1, 0),
            Name::Measured => (2, 0),
            Name::Wakes => (3, 0),
            Name::Woken => (4, 0),
            Name::Placed(why) => (5, why as u64),
            Name::GivesWay(why) => (6, why as u64),
            Name::Moved(why) => (7, why as u64),
            Name::Balance(trigger, why) => (8, (trigger as u64) * BALANCE + why as u64),
            Name::Skip(why) => (9, why as u64),
            Name::Kick(why) => (10, why as u64),
            Name::Decided(by, to) => (11, (by as u64) * QUEUES + to as u64),
        };
        number << 4 | kind
    }
    pub(super) fn text(self) -> String {
        match self {
            Name::Warmup => "warm-up".to_owned(),
            Name::Measured => "measured".to_owned(),
            Name::Wakes => "wakes".to_owned(),
            Name::Woken => "woken".to_owned(),
            Name::Placed(why) => format!("placed: {}", why.name()),
            Name::GivesWay(why) => format!("gives way: {}", why.name()),
            Name::Moved(why) => format!("moved: {}", why.name()),
            Name::Balance(trigger, why) => format!("{}: {}", trigger.name(), why.name()),
            Name::Skip(why) => format!("no pass: {}", why.name()),
            Name::Kick(why) => format!("kick: {}", why.name()),
            Name::Decided(by, ExtQueue::Held) => format!("{}: no DSQ", by.name()),
            Name::Decided(by, ExtQueue::Kicked) => format!("{}: kick", by.name()),
            Name::Decided(by, to) => format!("{}: {} DSQ", by.name(), to.name()),
        }
    }
}

/// The names written so far, by number.
#[derive(Debug, Default)]
pub(super) struct WrittenNames(Vec<bool>);

impl WrittenNames {
    /// Whether a name is not in the file yet; marks it as written.
    #[inline]
    pub(super) fn is_new(&mut self, iid: u64) -> bool {
        let at = iid as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, false);
        }
        !std::mem::replace(&mut self.0[at], true)
    }
}

/// The name of an argument of an event. The file has these names from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArgName {
    Task,
    To,
    Cpu,
    Probes,
    From,
    Level,
    Moved,
    Visited,
    BusiestCpu,
    HaveNs,
    NeedNs,
    DelayNs,
    Dsq,
}

impl ArgName {
    /// In the order of the enum.
    pub(super) const WORDS: [&str; 13] = [
        "task",
        "to",
        "cpu",
        "probes",
        "from",
        "level",
        "moved",
        "visited",
        "busiest_cpu",
        "have_ns",
        "need_ns",
        "delay_ns",
        "dsq",
    ];
    /// The number, never 0.
    #[inline]
    pub(super) fn iid(self) -> u64 {
        self as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_names_have_one_number() {
        let balance = BalanceTrigger::ALL
            .iter()
            .flat_map(|t| BalanceReason::ALL.iter().map(|why| Name::Balance(*t, *why)));
        let mut all = vec![Name::Warmup, Name::Measured, Name::Wakes, Name::Woken];
        all.extend(balance);
        all.extend(PlaceReason::ALL.iter().map(|why| Name::Placed(*why)));
        all.extend(SwitchReason::ALL.iter().map(|why| Name::GivesWay(*why)));
        all.extend(MoveReason::ALL.iter().map(|why| Name::Moved(*why)));
        all.extend(SkipReason::ALL.iter().map(|why| Name::Skip(*why)));
        all.extend(KickReason::ALL.iter().map(|why| Name::Kick(*why)));
        all.extend(ExtOp::ALL.iter().flat_map(|by| ExtQueue::ALL.iter().map(|to| Name::Decided(*by, *to))));
        let mut told = WrittenNames::default();
        assert!(all.iter().all(|n| n.iid() > 0 && told.is_new(n.iid())));
        assert_eq!((ArgName::Task.iid(), ArgName::Dsq.iid()), (1, ArgName::WORDS.len() as u64));
    }
}
