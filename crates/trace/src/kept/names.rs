//! Reasons by number and name. A file stores numbers; its header has the names that they had when it was written.

use crate::{
    BalanceReason, BalanceTrigger, ExtOp, ExtQueue, KickReason, MoveReason, PlaceReason, SkipReason,
    SwitchReason,
};
use serde::{Deserialize, Serialize};

pub(super) trait Reason: Copy + 'static {
    /// By number.
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

        #[derive(Serialize, Deserialize)]
        pub(super) struct Names {
            // A file of a version without these reasons has none.
            $(#[serde(default)] $field: Vec<String>,)*
        }

        impl Names {
            pub(super) fn of_this_build() -> Names {
                Names { $($field: $reason::ALL.iter().map(|r| r.name().to_owned()).collect(),)* }
            }
        }

        /// This build's reasons by a file's numbers; `None` for a reason that this build lacks.
        pub(super) struct ReasonTables {
            $(pub(super) $field: Vec<Option<$reason>>,)*
        }

        impl ReasonTables {
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
    ext_op: ExtOp,
    ext_queue: ExtQueue,
}

fn known<R: Reason>(names: &[String]) -> Vec<Option<R>> {
    names.iter().map(|name| R::ALL.iter().copied().find(|r| r.name() == name)).collect()
}
