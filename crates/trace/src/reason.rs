//! The reasons that decisions carry. Each is one row: a name in metrics (`placement.<name>`) and a sentence for people.
//!
//! A new wakeup mechanism adds its reasons here; metrics, `explain` and docs derive from the rows.

macro_rules! reasons {
    ($(#[$doc:meta])* $enum:ident { $($variant:ident = $name:literal, $about:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $enum { $(#[doc = $about] $variant,)* }

        impl $enum {
            /// Every reason, in the order of the table.
            pub const ALL: &'static [$enum] = &[$($enum::$variant,)*];

            /// The name in metrics and JSON.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$variant => $name,)* }
            }
            /// One sentence for people.
            pub const fn about(self) -> &'static str {
                match self { $($enum::$variant => $about,)* }
            }
        }
    };
}

reasons! {
    /// Why a task was put on a CPU at wakeup, fork or exec.
    PlaceReason {
        OnlyAllowed = "only_allowed", "the task may run on this CPU only";
        TargetIdle = "target_idle", "the target CPU (waker's or previous) was idle";
        PrevIdle = "prev_idle", "the previous CPU was idle and shares the cache with the target";
        RecentIdle = "recent_idle", "the CPU used before the previous one was idle";
        IdleCore = "idle_core", "a core with all threads idle was found";
        IdleCpu = "idle_cpu", "an idle CPU was found by scanning";
        IdleSibling = "idle_sibling", "an idle thread of the target's own core was found";
        IdleGroup = "idle_group", "a group whose CPUs were all idle was found";
        OwnGroupWentIdle = "own_group_went_idle", "the target's own group went idle while it was being scanned";
        FirstIdle = "first_idle", "the lowest-numbered idle CPU of the cache domain";
        TargetBusy = "target_busy", "no idle CPU was seen: the task stays on the busy target";
        ScanSkipped = "scan_skipped", "the scan was not worth its cost or had no budget: the task stays on the target";
        IdlestFork = "idlest_fork", "the idlest CPU of the idlest group, chosen at fork or exec";
        WakeAffine = "wake_affine", "wake_affine chose the waker's CPU, without a search for an idle one (before 2.6.32)";
        WakeBalance = "wake_balance", "the waker's CPU was the idler one, without a further search (before 2.6.32)";
        RtStays = "rt_stays", "real-time: the task's own CPU runs nothing that it should not preempt, or no other is better";
        RtLowest = "rt_lowest", "real-time: the nearest of the CPUs that run the least important work";
        StillQueued = "still_queued", "the task had not left its CPU yet and was queued there";
    }
}

reasons! {
    /// The reason why a task's stay on a CPU ended.
    SwitchReason {
        Blocked = "blocked", "the task went to sleep";
        Exited = "exited", "the task ended";
        Yielded = "yielded", "the task gave way by sched_yield";
        WakeupPreempt = "wakeup", "a waking task preempted it";
        TickSlice = "slice", "its slice was used up";
        TickBehind = "behind", "at a tick another task was more than a slice behind it";
        Preempted = "preempted", "it was still runnable; a live trace does not tell why it left";
        Throttled = "throttled", "the real-time tasks of its CPU had used up their share of the period (before 6.12)";
        FairServer = "fair_server", "the fair server stepped in for tasks that real-time ones had kept waiting (6.12 and later)";
        PolicyChanged = "policy", "its policy or priority changed, and another task ranked above it";
        Moved = "moved", "the balancer or an affinity change moved it off";
        Arrived = "arrived", "a task that arrived by balancing or fork preempted it";
        FromIdle = "idle", "the CPU was idle";
    }
}

reasons! {
    /// Why a task changed its CPU.
    MoveReason {
        Wakeup = "wakeup", "placed elsewhere when it woke up";
        Fork = "fork", "placed elsewhere when it was created";
        Newidle = "newidle", "pulled by a CPU about to go idle";
        Periodic = "periodic", "pulled by the periodic balance of a busy CPU";
        Idle = "idle", "pulled by the periodic balance of an idle CPU";
        NohzIdle = "nohz_idle", "pulled on behalf of a tickless idle CPU";
        Active = "active", "pushed while running, by active balance";
        RtPush = "rt_push", "real-time: pushed by its CPU, where a task as important ran";
        RtPull = "rt_pull", "real-time: pulled by a CPU that had only less important work";
        Affinity = "affinity", "its allowed CPUs changed";
        Moved = "moved", "by a balancer, at exec, or because its allowed CPUs changed; a live trace does not tell which";
    }
}

reasons! {
    /// The trigger of a balance pass.
    BalanceTrigger {
        Newidle = "newidle", "the CPU was about to go idle";
        Idle = "idle", "periodic, on an idle CPU";
        Busy = "busy", "periodic, on a busy CPU";
        Nohz = "nohz", "for a tickless idle CPU, by another one";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_a_metric() {
        let mut names: Vec<&str> = PlaceReason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PlaceReason::ALL.len());
        assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
    }
}
