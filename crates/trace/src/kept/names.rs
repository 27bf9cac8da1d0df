//! Reasons by number and name: a file stores numbers, and its header says which names they had when it was written.

use crate::{BalanceReason, BalanceTrigger, KickReason, MoveReason, PlaceReason, SkipReason, SwitchReason};
use serde::{Deserialize, Serialize};

/// A kind of reasons.
pub(super) trait Reason: Copy + 'static {
    /// All of them, by number.
    const ALL: &'static [Self];
    fn name(self) -> &'static str;
}

macro_rules! kinds {
    ($($field:ident: $reason:ident,)*) => {
        $(impl Reason for $reason {
            const ALL: &'static [Self] = $reason::ALL;
            fn name(self) -> &'static str {
                $reason::name(self)
            }
        })*

        /// The names of all reasons, by number.
        #[derive(Serialize, Deserialize)]
        pub(super) struct Names {
            $($field: Vec<String>,)*
        }

        impl Names {
            /// This build's names.
            pub(super) fn of_this_build() -> Names {
                Names { $($field: $reason::ALL.iter().map(|r| r.name().to_owned()).collect(),)* }
            }
        }

        /// This build's reasons by the numbers of a file; `None`: this build does not have that one.
        pub(super) struct ReasonTables {
            $(pub(super) $field: Vec<Option<$reason>>,)*
        }

        impl ReasonTables {
            /// The reasons of a file with these names.
            pub(super) fn of(names: &Names) -> ReasonTables {
                ReasonTables { $($field: known(&names.$field),)* }
            }
        }
    };
}

kinds! {
    place: PlaceReason,
    switch: SwitchReason,
    migrate: MoveReason,
    trigger: BalanceTrigger,
    balance: BalanceReason,
    skip: SkipReason,
    kick: KickReason,
}

fn known<R: Reason>(names: &[String]) -> Vec<Option<R>> {
    names.iter().map(|name| R::ALL.iter().copied().find(|r| r.name() == name)).collect()
}
