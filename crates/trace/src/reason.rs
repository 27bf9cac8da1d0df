//! The reasons of decisions. Each is one row: a name in metrics (`placement.<name>`) and a sentence for people.
//!
//! A new mechanism adds its reasons here; metrics, `explain` and docs are made from the rows.

/// Makes an enum of rows: variant, name, sentence.
#[macro_export]
macro_rules! reasons {
    ($(#[$doc:meta])* $enum:ident { $($variant:ident = $name:literal, $about:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $enum { $(#[doc = $about] $variant,)* }

        impl $enum {
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
    /// Why a wakeup, fork or exec placed a task on a CPU.
    PlaceReason {
        OnlyAllowed = "only_allowed", "the task may run on this CPU only";
        TargetIdle = "target_idle", "the target CPU (waker's or previous) was idle";
        PrevIdle = "prev_idle", "the previous CPU was idle and shares the cache with the target";
        RecentIdle = "recent_idle", "the CPU used before the previous one was idle";
        SchedIdle = "sched_idle", "a CPU was found that ran SCHED_IDLE tasks only, which give way (5.4 and later)";
        IdleCore = "idle_core", "a core with all threads idle was found";
        IdleCpu = "idle_cpu", "an idle CPU was found by scanning";
        IdleSibling = "idle_sibling", "an idle thread of the target's own core was found";
        IdleGroup = "idle_group", "a group whose CPUs were all idle was found";
        OwnGroupWentIdle = "own_group_went_idle", "the target's own group went idle while it was being scanned";
        FirstIdle = "first_idle", "the lowest-numbered idle CPU of the cache domain";
        GroupAbsent = "group_absent", "no idle CPU was seen: a CPU of the cache where the task's group has nothing queued";
        TargetBusy = "target_busy", "no idle CPU was seen: the task stays on the busy target";
        ScanSkipped = "scan_skipped", "the scan was not worth its cost or had no budget: the task stays on the target";
        IdlestFork = "idlest_fork", "the idlest CPU of the idlest group, chosen at fork or exec";
        WakeAffine = "wake_affine", "wake_affine chose the waker's CPU, without a search for an idle one (before 2.6.32)";
        NoAffineDomain = "no_affine_domain", "no domain for affine wakeups has waker's and previous CPU, or the task may not run on the waker's: the previous CPU, unsearched (2.6.32 to 4.2)";
        WakeBalance = "wake_balance", "the waker's CPU was the idler one, without a further search (before 2.6.32)";
        RtStays = "rt_stays", "real-time: the task's own CPU runs nothing that it should not preempt, or no other is better";
        RtLowest = "rt_lowest", "real-time: the nearest of the CPUs that run the least important work";
        StillQueued = "still_queued", "the task had not left its CPU yet and was queued there";
        IdleFits = "idle_fits", "CPUs differ in capacity: an idle one was found that the task fits (5.7 and later)";
        IdleFastest = "idle_fastest", "CPUs differ in capacity, and the task fits no idle one: the fastest idle one (5.7 and later)";
        NotShared = "not_shared", "the kernel's own code chose it, and our rules would have chosen another CPU";
        Unexplained = "unexplained", "the kernel's own code chose it, and our rules could not be asked";
        ExtIdle = "ext_idle", "sched_ext: its select_cpu chose it (the kernel's default, if it has none), and it was idle";
        ExtStays = "ext_stays", "sched_ext: its select_cpu left the task at its previous CPU, which was busy";
        ExtBusy = "ext_busy", "sched_ext: its select_cpu chose it, though it was busy";
        KthreadStacks = "kthread_stacks", "the kernel's own code chose it: a kernel thread of this CPU woke the task, which was there before, and nothing else waited (5.6 and later)";
    }
}

impl PlaceReason {
    /// Whether only a kernel's own code has it: our rules are asked for the reason, or a sched_ext scheduler has it.
    pub const fn is_of_code(self) -> bool {
        matches!(self, PlaceReason::NotShared | PlaceReason::Unexplained | PlaceReason::KthreadStacks)
            || self.is_of_ext()
    }
    /// Whether a sched_ext scheduler chose the CPU.
    pub const fn is_of_ext(self) -> bool {
        matches!(self, PlaceReason::ExtIdle | PlaceReason::ExtStays | PlaceReason::ExtBusy)
    }
}

reasons! {
    /// Why a task left a CPU.
    SwitchReason {
        Blocked = "blocked", "the task went to sleep";
        Exited = "exited", "the task ended";
        Yielded = "yielded", "the task gave way by sched_yield";
        WakeupPreempt = "wakeup", "a waking task preempted it";
        TickSlice = "slice", "its slice was used up";
        TickBehind = "behind", "at a tick another task was more than a slice behind it";
        Preempted = "preempted", "it was still runnable; the trace does not show why it left";
        Throttled = "throttled", "its group had used up its quota, or the real-time tasks of its CPU their share of the period (before 6.12)";
        FairServer = "fair_server", "the fair server stepped in for tasks that real-time ones had kept waiting (6.12 and later)";
        PolicyChanged = "policy", "its policy or priority changed, and another task ranked above it";
        Moved = "moved", "the balancer or an affinity change moved it off";
        Arrived = "arrived", "a task that arrived by balancing or fork preempted it";
        FromIdle = "idle", "the CPU was idle";
        Kicked = "kicked", "sched_ext: its scheduler took its CPU away (SCX_KICK_PREEMPT or SCX_ENQ_PREEMPT)";
    }
}

reasons! {
    /// Why a task changed its CPU.
    MoveReason {
        Wakeup = "wakeup", "placed elsewhere when it woke up";
        Fork = "fork", "placed elsewhere when it was created";
        Exec = "exec", "placed elsewhere at exec";
        Newidle = "newidle", "pulled by a CPU about to go idle";
        Periodic = "periodic", "pulled by the periodic balance of a busy CPU";
        Idle = "idle", "pulled by the periodic balance of an idle CPU";
        NohzIdle = "nohz_idle", "pulled on behalf of a tickless idle CPU";
        Active = "active", "pushed while running, by active balance";
        RtPush = "rt_push", "real-time: pushed by its CPU, where a task as important ran";
        RtPull = "rt_pull", "real-time: pulled by a CPU that had only less important work";
        Affinity = "affinity", "its allowed CPUs changed";
        ExtTaken = "ext_taken", "sched_ext: a CPU that looked for work took it (dispatch), or the kernel did for that CPU";
        ExtSent = "ext_sent", "sched_ext: another CPU put it into this one's local DSQ";
        Moved = "moved", "by a balancer, at exec, or because its allowed CPUs changed; the trace does not show which";
    }
}

impl MoveReason {
    /// Whether a sched_ext scheduler moved the task.
    pub const fn is_of_ext(self) -> bool {
        matches!(self, MoveReason::ExtTaken | MoveReason::ExtSent)
    }
}

reasons! {
    /// Which operation of a sched_ext scheduler has decided about a task (`enum img_step_by`, in its order).
    ExtOp {
        Other = "other", "another operation, a timer or a program of the scheduler";
        SelectCpu = "select_cpu", "the scheduler's choice of a CPU at a wakeup or fork";
        Enqueue = "enqueue", "the scheduler was handed a runnable task";
        Dispatch = "dispatch", "a CPU asked the scheduler for work";
        Kernel = "kernel", "the kernel itself, which did not ask the scheduler";
    }
}

reasons! {
    /// Where a sched_ext scheduler has put a task (`enum img_step_to`, in its order). A DSQ is a dispatch queue.
    ExtQueue {
        Local = "local", "the local DSQ of a CPU, from which it takes its next task";
        Global = "global", "the global DSQ, from which any CPU takes tasks when its local one is empty";
        User = "user", "a DSQ that the scheduler made, from which its dispatch moves tasks";
        Builtin = "builtin", "another DSQ of the kernel's own, as that of bypass mode";
        Held = "held", "no DSQ: the scheduler keeps the task itself until it inserts it";
        Kicked = "kicked", "nowhere: a CPU was kicked for the task";
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

reasons! {
    /// The unit in which a balance pass moves load (`enum migration_type`, in the kernel's order).
    MigrationType {
        Load = "load", "load averages";
        Util = "util", "utilisation";
        Task = "task", "a number of tasks";
        Misfit = "misfit", "a task too large for its CPU (4.20 and later)";
    }
}

reasons! {
    /// The end of a balance pass over one domain: it pulled tasks, or why it pulled none.
    BalanceReason {
        Moved = "moved", "it took tasks";
        NotOurTurn = "not_our_turn", "another CPU of the local group balances the domain";
        Locked = "locked", "another CPU was balancing a domain that is balanced by one at a time (SD_SERIALIZE, 6.19 and later)";
        WorkCame = "work_came", "the CPU about to go idle had got work by then (5.5 and later)";
        NoBusiest = "no_busiest", "no other group had a task to give";
        LocalFuller = "local_fuller", "the CPU's own group was of a fuller kind than the busiest (5.5 and later)";
        LocalBusier = "local_busier", "the CPU's own group was as loaded as the busiest";
        LocalAboveAverage = "local_above_average", "the CPU's own group was as loaded as the domain on average, or more";
        WithinPct = "within_pct", "the busiest group's load exceeded the local one's by no more than imbalance_pct";
        EnoughIdle = "enough_idle", "the busiest group was not overloaded and had about as many idle CPUs";
        BusyCpu = "busy_cpu", "the busiest group was not overloaded, and this CPU was busy itself (5.5 and later)";
        SingleTask = "single_task", "the busiest group was not overloaded and had one task, which ran (5.5 and later)";
        OneTask = "one_task", "the busiest group had no more than one task's load (before 2.6.32)";
        NumaTolerated = "numa_tolerated", "the difference between nodes was too small for leaving one (5.5 and later)";
        SmallDifference = "small_difference", "half the difference in tasks, or in idle CPUs, was none (5.5 and later)";
        NoRoom = "no_room", "the CPU's own group had no room left by utilisation (5.5 and later)";
        TooLittle = "too_little", "the load to be moved rounded to nothing (5.5 and later)";
        NoQueue = "no_queue", "no queue of the busiest group had a task to give when it was read again";
        Emptied = "emptied", "the busiest queue had at most one task left when it was locked";
        NothingWanted = "nothing_wanted", "the amount to be moved was nothing (before 5.5)";
        Delayed = "delayed", "the tasks of the busiest queue were asleep, and queued only to work off their debt (6.14 and later)";
        Running = "running", "only the running task of the busiest queue, or kernel threads of its CPU, were looked at";
        Pinned = "pinned", "the tasks of the busiest queue may not run on this CPU";
        Ineligible = "ineligible", "a task of the busiest queue had had more than its share there, and would wait here (6.14 and later)";
        Hot = "hot", "a task of the busiest queue had run there too recently: it was cache-hot";
        TooHeavy = "too_heavy", "a task of the busiest queue was larger than what should move";
    }
}

reasons! {
    /// Why a balance pass was not begun.
    SkipReason {
        ShortIdle = "short_idle", "about to go idle, but idle for less than a migration costs on average (2.6.32 to 5.15)";
        NoOverload = "no_overload", "about to go idle, but no CPU was known to have two runnable tasks (3.12 and later)";
        TooDear = "too_dear", "about to go idle, but idle on average for less than the pass has cost (3.12 and later)";
        WakeupPending = "wakeup_pending", "about to go idle, but a wakeup was on its way to it (5.16 and later)";
        NoNewidle = "no_newidle", "about to go idle, but CPUs that are do not balance the domain (SD_BALANCE_NEWIDLE)";
        Dice = "dice", "about to go idle, but dice refused, since few passes pulled a task (NI_RANDOM)";
        NotDue = "not_due", "the domain, or for a tickless CPU all its domains, had been balanced too recently";
        Locked = "locked", "another CPU was balancing a domain that is balanced by one at a time (SD_SERIALIZE)";
        HelperBusy = "helper_busy", "the CPU that balanced for tickless ones had got work of its own";
        AveragesOnly = "averages_only", "the CPU that helped tickless ones was asked to age their averages only (5.5 and later)";
    }
}

impl SkipReason {
    /// Whether the reason belongs to a CPU that is about to go idle and does not look for work.
    pub const fn of_newidle(self) -> bool {
        use SkipReason::*;
        matches!(self, ShortIdle | NoOverload | TooDear | WakeupPending | NoNewidle | Dice)
    }
}

reasons! {
    /// A tick's decision about balancing for tickless CPUs (`nohz_balancer_kick`).
    KickReason {
        TwoTasks = "two_tasks", "asked: the CPU had a task to give";
        BusyCache = "busy_cache", "asked: more than one CPU of the cache, or of the core, was busy";
        ReducedCapacity = "reduced_capacity", "asked: the CPU had a task and was disturbed by others than fair tasks (4.2 and later)";
        AveragesOnly = "averages_only", "asked, but only to age averages (5.5 and later)";
        NextBalance = "next_balance", "asked, but only to find out when balancing is due next (5.15 and later)";
        Asked = "asked", "not asked again: the CPU chosen had been asked and had not ended";
        NobodyIdle = "nobody_idle", "nobody to ask: the tickless CPU to choose was no longer idle";
        Idle = "idle", "not asked: the tick found its CPU idle";
        NobodyTickless = "nobody_tickless", "not asked: no CPU's tick was stopped";
        TooEarly = "too_early", "not asked: balancing for tickless CPUs was not due";
        NothingToGive = "nothing_to_give", "not asked: one task here, and no other CPU of the cache, or of the core, busy";
        Misfit = "misfit", "asked: the CPU's task was too large for it, and a faster CPU exists (4.20 and later)";
    }
}

reasons! {
    /// Why a pass that moved nothing pushed the busiest queue's running task (active balance).
    ActiveReason {
        Failures = "failures", "too many passes had failed";
        ReducedCapacity = "reduced_capacity", "the source was disturbed, and the idle destination could do more (4.2 and later)";
        Misfit = "misfit", "the task was too large for the source, and the idle destination is faster (4.20 and later)";
    }
}

reasons! {
    /// Why `wake_affine` chose the waker's or the previous CPU.
    AffineReason {
        WakerLight = "waker_light", "waker's: it stayed about as loaded as the previous one (before 4.14)";
        HalfEmpty = "half_empty", "waker's: both CPUs together held no more than one task's load (before 3.18)";
        WakerLoaded = "waker_loaded", "previous: the waker's was more loaded (before 4.14)";
        BothIdle = "both_idle", "previous: both were idle and shared their cache (WA_IDLE)";
        WakerIdle = "waker_idle", "waker's: it was idle and shared the previous one's cache (WA_IDLE)";
        WakerAlone = "waker_alone", "waker's: the waker was alone there and about to sleep (WA_IDLE)";
        PrevIdle = "prev_idle", "previous: it was idle (WA_IDLE)";
        WakerIsLoad = "waker_is_load", "waker's: the waker, about to sleep, was all of its load (WA_WEIGHT)";
        WakerLighter = "waker_lighter", "waker's: with the task it was less loaded than the previous one (WA_WEIGHT)";
        CacheCold = "cache_cold", "waker's: the task had not run for so long that its cache was cold (before 2.6.13)";
        CacheHot = "cache_hot", "previous: the task had run there too recently (before 2.6.13)";
        Neither = "neither", "previous: neither idleness nor load spoke for the waker's (4.14 and later)";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_a_metric() {
        let names = |all: Vec<&'static str>| {
            let once: std::collections::BTreeSet<&str> = all.iter().copied().collect();
            assert_eq!(once.len(), all.len(), "{all:?}");
            assert!(all.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '_')), "{all:?}");
        };
        names(PlaceReason::ALL.iter().map(|r| r.name()).collect());
        names(BalanceReason::ALL.iter().map(|r| r.name()).collect());
        names(SkipReason::ALL.iter().map(|r| r.name()).collect());
        names(KickReason::ALL.iter().map(|r| r.name()).collect());
        names(ActiveReason::ALL.iter().map(|r| r.name()).collect());
        names(ExtOp::ALL.iter().map(|r| r.name()).collect());
        names(ExtQueue::ALL.iter().map(|r| r.name()).collect());
        names(AffineReason::ALL.iter().map(|r| r.name()).collect());
    }
}
