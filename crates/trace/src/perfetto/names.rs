//! Names of events on tracks. Each is written once; events bear its number.

use crate::{BalanceReason, BalanceTrigger, KickReason, MoveReason, PlaceReason, SkipReason, SwitchReason};
use std::collections::BTreeSet;

/// A name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Warmup,
    Measured,
    /// On the waker's thread.
    Wakes,
    /// On the woken thread, when it runs.
    Woken,
    Placed(PlaceReason),
    GivesWay(SwitchReason),
    Moved(MoveReason),
    Balance(BalanceTrigger, BalanceReason),
    Skip(SkipReason),
    Kick(KickReason),
}

impl Name {
    /// Its number, never 0.
    pub(super) fn iid(self) -> u64 {
        let (kind, number) = match self {
            Name::Warmup => (1, 0),
            Name::Measured => (2, 0),
            Name::Wakes => (3, 0),
            Name::Woken => (4, 0),
            Name::Placed(why) => (5, why as u64),
            Name::GivesWay(why) => (6, why as u64),
            Name::Moved(why) => (7, why as u64),
            Name::Balance(trigger, why) => (8, (trigger as u64) << 8 | why as u64),
            Name::Skip(why) => (9, why as u64),
            Name::Kick(why) => (10, why as u64),
        };
        kind << 16 | number
    }
    /// Its words.
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
        }
    }
}

/// The names that the file has.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeSet<u64>);

impl Told {
    /// Whether a name is new to the file, which has it from now on.
    pub(super) fn is_new(&mut self, iid: u64) -> bool {
        self.0.insert(iid)
    }
    /// Whether the file has no names yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
