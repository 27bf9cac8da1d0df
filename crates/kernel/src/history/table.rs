//! The rows of the chronology, in order of time within each subject.

use super::Read::{Memory, Source};
use super::{Mechanism, Subject, any, between, kebab, since, text, until};
use schedlab_base::Version;

macro_rules! mechanisms {
    ($($subject:ident {
        $($flag:ident $(in $within:literal)?: $spans:expr, $function:literal, $read:expr,
            with $with:literal without $without:literal)*
    })*) => {
        /// Every mechanism that only some versions have.
        pub const HISTORY: &[Mechanism] = &[$($(Mechanism {
            name: {
                const NAME: [u8; stringify!($flag).len()] = kebab(stringify!($flag));
                text(&NAME)
            },
            subject: Subject::$subject,
            within: [$(Some($within),)? None][0],
            spans: &$spans,
            function: $function,
            read: $read,
            with: $with,
            without: $without,
        },)*)*];

        /// The mechanisms of one version.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct History { $($(#[doc = $with] pub $flag: bool,)*)* }

        impl History {
            pub const fn of(version: Version) -> History {
                History { $($($flag: any(&$spans, version),)*)* }
            }
        }
    };
}

#[rustfmt::skip]
mechanisms! {
    O1 {
        cold_wakes_affine in "o1": [until("2.6.13")], "try_to_wake_up()", Source("2.6.12, 2.6.18; the release is from memory"),
            with "A task that is cache cold in a domain with SD_WAKE_AFFINE wakes on the waker's CPU, unless that would move it from an idle CPU to a busy one."
            without "A task wakes on the waker's CPU if that is not made busier than the previous one."
        idle_pulls_hot in "o1": [until("2.6.13")], "can_migrate_task(), find_busiest_group()", Source("2.6.12, 2.6.18; the release is from memory"),
            with "A CPU whose core is idle takes cache-hot tasks, too, and a CPU that goes idle tries for one task of a balanced domain; a group may be the busiest with any load."
            without "Hot tasks stay until passes have failed; a group with no more tasks than its capacity is not the busiest."
        quiet_pipes in "o1": [between("2.6.14", "2.6.23")], "pipe_wait(), TASK_NONINTERACTIVE", Source("2.6.18; the release is from memory"),
            with "Sleep in a pipe earns as little bonus as sleep for a disk."
            without "Sleep in a pipe earns bonus like any other."
        o1_batch in "o1": [between("2.6.16", "2.6.23")], "__activate_task(), recalc_task_prio()", Source("2.6.12, 2.6.18; the release is from memory"),
            with "A SCHED_BATCH task wakes into the expired array, and its sleep earns nothing."
            without "There is no SCHED_BATCH; such a task is taken as an ordinary one."
        exit_gives_anywhere in "o1": [until("2.6.17")], "sched_exit()", Source("2.6.12, 2.6.18; the release is from memory"),
            with "A task that exits in its first slice gives the rest back to its parent, wherever that is."
            without "A task that exits in its first slice gives the rest back to a parent on the same CPU."
        credit_multiplied in "o1": [until("2.6.17")], "recalc_task_prio()", Source("2.6.12, 2.6.18; the release is from memory"),
            with "Sleep counts up to ten times, the more the lower the average is; a long sleep sets the average to 900 ms."
            without "Sleep counts once; a long sleep lifts the average to what makes the task interactive, and no higher."
        picked_goes_last in "o1": [until("2.6.17")], "schedule()", Source("2.6.12, 2.6.18; the release is from memory"),
            with "A task that is picked after it woke goes to the end of its list."
            without "A task that is picked after it woke goes to the end of a list if its priority has changed."
        delta_rounds_to_zero in "o1": [until("2.6.18")], "DELTA()", Source("2.6.12, 2.6.18; the release is from memory"),
            with "The bonus that makes a task interactive depends on a quarter of its nice value, rounded towards 0."
            without "The bonus that makes a task interactive depends on a quarter of its nice value, rounded down."
        tasks_are_load in "o1": [until("2.6.18")], "source_load(), target_load(), move_tasks()", Source("2.6.12, 2.6.18; the release is from memory"),
            with "A CPU's load is the number of its tasks, and a pass moves a number of tasks."
            without "A CPU's load is the sum of its tasks' slices (smpnice), and a pass moves load."
        o1: [until("2.6.23")], "schedule(), scheduler_tick(), recalc_task_prio()", Source("2.6.12, 2.6.18; 2.6.26 has it not"),
            with "The O(1) scheduler: two arrays of priority lists for each CPU; who sleeps gets a bonus, who has used its slice waits in the expired array."
            without "A fair class orders tasks by virtual time."
    }
    Fair {
        fork_charges_parent: [between("2.6.23", "6.12")], "task_fork_fair()", Source("6.1.192 has it, 6.12.117 and 7.3.4 have it not; the release is from memory"),
            with "A fork charges the parent, which may then notice that its slice is over."
            without "A fork does not charge the parent."
        task_groups: [since("2.6.24")], "sched_create_group(), CONFIG_FAIR_GROUP_SCHED", Memory("2.6.26 has it"),
            with "Tasks of a group share the weight of the group."
            without "There are no groups of tasks."
        idle_weighs_three: [since("2.6.29")], "set_load_weight()", Memory("2.6.30 has it"),
            with "A SCHED_IDLE task weighs 3."
            without "A SCHED_IDLE task weighs 2."
        migrated_is_cold: [since("3.18")], "migrate_task_rq_fair()", Memory("3.18 and 4.4 have it"),
            with "A task that has just been moved is not cache hot for a balancer."
            without "A task that has just been moved is as hot as its last turn makes it."
        picked_is_newest: [since("4.15")], "pick_next_task_fair(), detach_tasks()", Source("4.4 to 4.15; 4.15 is a commit's"),
            with "A task that is picked becomes the newest of the CPU's list, from which a balancer takes the oldest."
            without "The CPU's list keeps the order in which tasks came, and a balancer takes the newest."
        unrun_is_cold: [since("5.10")], "task_hot()", Source("5.10, 6.1.192, 6.12.117, 7.3.4; so it is since 2.6.23: profiles before 5.10 count from the run's start"),
            with "A task that has not run yet is not cache hot, at the start of a run either."
            without "A task that has not run yet has last run when the run began."
        eevdf: [since("6.6")], "pick_eevdf()", Source("6.1 to 6.6"),
            with "EEVDF: of the entities that have not had more than their share, the earliest virtual deadline runs."
            without "CFS: the smallest vruntime runs, sleepers are credited, the tick ends slices."
    }
    Cfs {
        vruntime_by_share in "early-cfs": [between("2.6.23", "2.6.28")], "calc_delta_fair(), __update_curr()", Memory("2.6.26 and 2.6.30 were read, and the commit that changed it"),
            with "Virtual time runs at the queue's weight over the task's: with n equal tasks n times as fast as the clock; credit, granularity and new tasks' slices are counted in it."
            without "Virtual time runs at 1024 over the task's weight."
        granularity_by_runner in "early-cfs": [between("2.6.23", "2.6.28")], "wakeup_gran(), calc_delta_asym()", Memory("2.6.26 and 2.6.30 were read"),
            with "The running task's weight scales the wakeup granularity; with ASYM_GRAN a light one counts as nice 0."
            without "ASYM_GRAN decides whether the wakee's or the running task's weight scales the wakeup granularity."
        placed_at_leftmost in "early-cfs": [between("2.6.23", "2.6.28")], "place_entity()", Memory("2.6.26 was read"),
            with "A sleeper or new task is placed by the leftmost queued task, if that is left of min_vruntime."
            without "A sleeper or new task is placed by min_vruntime."
        min_vruntime_of_tree in "early-cfs": [between("2.6.23", "2.6.28")], "__enqueue_entity(), __dequeue_entity()", Memory("2.6.26 was read"),
            with "min_vruntime follows the leftmost queued task only."
            without "min_vruntime follows the lesser of the running task and the leftmost queued one."
        next_buddy_only in "early-cfs": [between("2.6.23", "2.6.28")], "check_preempt_wakeup(), pick_next_entity()", Memory("2.6.27 was not read"),
            with "Every wakee becomes the `next` buddy and runs in turn with the running task for the length of a slice; SCHED_IDLE tasks are treated like the others."
            without "A buddy is picked while it is near enough to the leftmost entity; SCHED_IDLE tasks do not become buddies."
        early_cfs: [between("2.6.23", "2.6.32")], "check_preempt_wakeup(), pick_next_entity(), yield_task_fair()", Memory("2.6.30 has it"),
            with "A wakeup makes both tasks buddies before it compares them, at every level; a yield leaves the task where it is, or last under compat_yield."
            without "A wakeup compares the two entities at the level they share, then makes buddies; a yield sets the skip buddy."
        overlap_averages: [between("2.6.23", "2.6.32")], "enqueue_task(), dequeue_task()", Memory("2.6.30 has it"),
            with "Each task has averages of its run time up to a wakeup that it makes and after it; preemption and sync wakeups use them."
            without "No such averages are kept."
        slice_only_tick: [between("2.6.23", "2.6.32")], "check_preempt_tick()", Memory("2.6.30 has it, 6.1 has not"),
            with "A tick ends a task's turn when its slice is used up, and for no other reason."
            without "A tick also ends a turn of at least min_granularity when the task is a slice ahead of the leftmost one."
        overlap_grows in "overlap-averages": [between("2.6.30", "2.6.32")], "put_prev_task()", Memory("2.6.32 was read"),
            with "A turn that a preemption ends counts as overlap, two migration costs of it at most."
            without "Only a task that sleeps after it has woken another changes its overlap."
        child_inherits_vruntime: [since("2.6.32")], "task_new_fair(), task_fork_fair()", Memory(""),
            with "A new task starts from its parent's vruntime where the two share a queue."
            without "A new task starts from the queue's min_vruntime."
        credits_sleepers: [since("2.6.39")], "place_entity()", Source("2.6.35 to 3.0"),
            with "A task that wakes is always credited for its sleep."
            without "The feature NEW_FAIR_SLEEPERS decides whether a sleep is credited."
        relative_before_min: [since("2.6.39")], "dequeue_entity()", Memory(""),
            with "A moved task's vruntime is made relative to min_vruntime before min_vruntime moves on without the task."
            without "min_vruntime moves on first, so the moved task is ahead of its next queue by as much."
        stay_is_no_pick: [since("3.15")], "pick_next_task_fair()", Memory("4.4 has it"),
            with "A task or group that is picked again at once continues its slice, and keeps its buddy marks."
            without "A task or group that is picked again at once starts a slice anew, without buddy marks."
        relative_after_charge: [since("4.7")], "enqueue_entity()", Source("4.4 to 4.15; 4.7 is from memory"),
            with "A task that comes from another queue is placed by min_vruntime as it is once the running task is charged."
            without "A task that comes from another queue is placed by min_vruntime as it was before the running task is charged."
        dequeued_curr_ignored: [since("4.9")], "update_min_vruntime()", Source("4.4 to 4.15; 4.9 is from memory"),
            with "min_vruntime leaves the running entity out once it is dequeued."
            without "min_vruntime counts the running entity even while it is being dequeued."
        same_prio_stays in "relative-before-min": [since("5.10")], "__sched_setscheduler(), DEQUEUE_MOVE", Source("5.10.262, 6.1.192; the release is that of the oldest source read"),
            with "A queued task that gets another policy and keeps its nice value keeps its place."
            without "A queued task that gets another policy falls behind by what min_vruntime moves without it."
        delta_by_inverse: [between("5.10", "7.3")], "__calc_delta(), __update_inv_weight()", Source("5.10.262, 6.1.192 and 6.12.117 have it, 7.3.4 has it not; older releases have it, too: profiles before 5.10 keep the quotient"),
            with "Virtual time, and before 6.6 a task's share of the period, is counted with the inverse of a whole weight in 32 bits, rounded down: three equal tasks get 3,999,999 ns of 12 ms, which a tick at 4 ms ends."
            without "Virtual time is the quotient by a weight 1024 times as fine; a task's share of the period is the quotient, too."
        idle_credit_small: [since("5.16")], "place_entity()", Source("5.10.262 has it not, 6.1.192 has it; 5.16 is from memory"),
            with "A SCHED_IDLE task that wakes is credited min_granularity at most."
            without "A SCHED_IDLE task that wakes is credited as any other."
    }
    Eevdf {
        reweight_keeps_time: [between("6.6", "6.13")], "reweight_eevdf()", Source("6.12.117 has it, 7.3.4 has it not for groups; it is commit eab03c23c2a1's, 6d71a9c61604 ends it; 6.6 and 6.13 are from memory"),
            with "A change of a group's weight moves its entity around the queue's virtual time; a running group loses its protection."
            without "A change of a group's weight places its entity anew by its lag."
        reweight_charges: [since("6.9")], "reweight_entity()", Source("6.1.192 has it not, 6.12.117 has it; it is commit 1560d1f6eb6b's, 6.9 is from memory"),
            with "The running entity is charged before a group's entity on its queue gets another weight."
            without "Only a running group's entity is charged before it gets another weight."
        custom_slices: [since("6.12")], "sched_setattr(), update_deadline()", Source("6.11 to 6.12.117"),
            with "A task can ask for a slice of its own."
            without "Every task has the base slice."
        idle_by_level: [since("6.12")], "check_preempt_wakeup_fair()", Source("6.1.192 has it not, 6.12.117 has it; it is commit faa42d29419d's, of 6.12"),
            with "At a wakeup the entities that share a queue are compared by idleness: a SCHED_IDLE task of a group gives way to tasks of the group only."
            without "A SCHED_IDLE task gives way to every task that is not, whatever their groups are; then idle groups give way."
        yield_forfeits: [between("6.12", "6.13"), since("6.18")], "yield_task_fair()", Source("6.17 has it not, 6.12.117 and 7.0 have it; 6.12.0 is said to move the deadline alone, and 6.18 to be the first"),
            with "sched_yield moves an eligible task to its deadline; its next deadline is a slice later."
            without "sched_yield moves the task's deadline a slice on, and leaves the task where it is."
        pick_buddy: [between("6.12", "6.13"), since("6.14")], "pick_next_entity()", Source("6.11 has it not, 6.14 has it, and 6.12.117 by backport"),
            with "The feature PICK_BUDDY decides whether the `next` buddy is picked."
            without "The feature NEXT_BUDDY decides whether the `next` buddy is picked, and which task becomes it."
        protects_shortest: [since("6.17")], "set_protect_slice(), update_curr()", Source("6.14 has it not, 6.17 has it"),
            with "The running task is protected for the queue's shortest slice; the end of the protection asks for a switch."
            without "The running task is protected until its deadline."
        judges_wakees_apart: [since("6.18")], "check_preempt_wakeup_fair(), wakeup_preempt_fair()", Source("6.17 has it not, 7.0 has it; it is said to have come with 6.19, and to stable 6.18"),
            with "A new task preempts only with a shorter slice; delayed entities that would be picked are taken off; NEXT_BUDDY goes to the earlier deadline."
            without "New tasks compete like woken ones; a delayed entity may be picked in a wakee's place; the last wakee is the buddy."
        lag_by_longest: [since("7.0")], "update_entity_lag()", Source("6.17 has it not, 7.0 has it"),
            with "Lag is limited to the queue's longest slice and a tick."
            without "Lag is limited to two slices or a tick, whichever is more."
        keeps_protection: [since("7.0")], "reweight_entity()", Source("6.17 has it not, 7.0 has it"),
            with "A change of weight leaves the running task's protection as it is."
            without "A change of weight protects the running task as if it had just been picked."
        debt_shrinks: [since("7.1")], "requeue_delayed_entity(), update_entity_lag()", Source("7.0 has it not, 7.2.12 has it"),
            with "A delayed entity has no more debt when it is woken or taken off than it fell asleep with."
            without "A delayed entity's debt is what it is at that moment."
        charges_before_requeue: [since("7.1")], "requeue_delayed_entity(), update_curr_eevdf()", Source("7.0 has it not, 7.2.12 has it"),
            with "The running entity is charged before a delayed one is queued again."
            without "The running entity's time since its last charge is a credit for the delayed one."
        hrtick_stays: [since("7.1")], "hrtick_start_fair(), set_next_task_fair()", Source("7.0 has it not, 7.2.12 and 7.3.4 have it"),
            with "The slice timer stays armed, and is moved only if the slice ends at another time."
            without "The slice timer is armed anew at every switch, and whenever a task comes or goes."
        short_buddies: [since("7.3")], "wakeup_preempt_fair(), set_short_buddy(), update_protect_slice()", Source("7.2.12 to 7.3.4; wakees that may not preempt bound protection in 7.0, too"),
            with "An eligible wakee with a shorter slice preempts and is picked next; wakees that may not preempt bound protection too."
            without "A wakee with a shorter slice preempts only where it has the earliest deadline."
    }
    Groups {
        autogroup: [since("2.6.38")], "autogroup_task_group()", Source("6.1.192, 7.3.4; the release is from memory"),
            with "Tasks that are in no group may be in one of their session's (the tunable autogroup)."
            without "Tasks that are in no group are the root group's."
        bandwidth: [since("3.2")], "tg_set_cfs_bandwidth(), throttle_cfs_rq(), do_sched_cfs_period_timer()", Source("6.1.192, 6.12.117, 7.2.12, 7.3.4; the release is from memory"),
            with "A group may have a quota of CPU time in each period."
            without "Groups have shares only."
        bandwidth_expires in "bandwidth": [between("3.2", "5.4")], "expire_cfs_rq_runtime(), __return_cfs_rq_runtime()", Source("4.4, 4.15 and 4.19 have it, 5.4 has it not; 3.2 is from memory"),
            with "A slice of quota ends with the period in which it was taken: a CPU loses the rest, and does not give it back."
            without "A CPU keeps its rest of a slice of quota over the ends of periods, and gives it back at any time."
        bandwidth_slack_waits in "bandwidth": [between("3.2", "5.3")], "start_cfs_slack_bandwidth()", Source("4.4, 4.15 and 4.19 have it, 5.4 has it not; 5.3 is a commit's, 3.2 from memory"),
            with "Quota that is given back is handed out once nothing more has come for 5 ms."
            without "Quota that is given back is handed out 5 ms after the first of it."
        bandwidth_rests_stay in "bandwidth-expires": [between("3.16", "4.18")], "expire_cfs_rq_runtime()", Source("4.4 and 4.15 have it, 4.19 has it not; 3.16 is from memory, 4.18 a commit's"),
            with "A CPU keeps the rest of a slice of an earlier period, but not in the period in which the timer starts after it stood still: then each charge loses what is left."
            without "A CPU loses the rest of a slice of an earlier period."
        bandwidth_newest_first in "bandwidth": [between("3.17", "4.19")], "throttle_cfs_rq(), distribute_cfs_runtime()", Source("4.4 and 4.15 have it, 4.19 has it not; 3.17 is a report's"),
            with "The queue that was throttled last is given new quota first."
            without "The queue that was throttled first is given new quota first."
        bandwidth_newest_meanwhile in "bandwidth": [between("4.19", "5.8")], "throttle_cfs_rq(), distribute_running", Source("4.15 has it not, 4.19 and 5.4 have it, 5.10 has it not; 5.8 is a report's"),
            with "A queue that is throttled while quota is handed out is first the next time."
            without "It does not matter whether quota is being handed out as a queue is throttled."
        bandwidth_asks_again in "bandwidth": [since("5.8")], "throttle_cfs_rq(), __assign_cfs_rq_runtime()", Source("5.4 has it not, 5.10 has it; 5.8 is a report's"),
            with "A queue about to be throttled first takes what has come into the pool since its last charge."
            without "A queue whose last charge found the pool empty is throttled."
        bandwidth_bursts in "bandwidth": [since("5.14")], "__refill_cfs_bandwidth_runtime()", Source("5.11 has it not, 5.14 has it"),
            with "A group may save up unused quota, up to its burst."
            without "Unused quota is lost when a period ends, except the CPUs' rests of slices."
        idle_groups: [since("5.15")], "sched_group_set_idle(), se_is_idle(), cfs_rq_is_idle()", Source("5.14 to 5.15"),
            with "A group may be idle: it weighs 3, gives way to the others, and its tasks count as SCHED_IDLE ones where CPUs are chosen."
            without "SCHED_IDLE is a policy of tasks only."
        bandwidth_by_ipi in "bandwidth": [since("6.3")], "unthrottle_cfs_rq_async(), __cfsb_csd_unthrottle()", Source("6.1.192 has it not, 6.5 has it; the release is from memory"),
            with "The timer's CPU gives quota to throttled queues, and each CPU unthrottles its own by an interrupt."
            without "The timer's CPU unthrottles the queues of all CPUs itself."
        bandwidth_out_of_step in "bandwidth": [since("6.4")], "init_cfs_bandwidth()", Source("6.1.192 has it not, 6.5 has it; the release is from memory"),
            with "A group's periods begin at a random offset."
            without "The periods of all groups begin at multiples of their length."
        empty_throttled_free in "bandwidth": [since("6.6")], "throttle_cfs_rq(), enqueue_entity(), record_throttle_clock()", Source("6.1.192 has it not, 6.12.117 and 7.3.4 have it; 6.6 is commit 79462e8c879a's"),
            with "The time of a throttled queue (`throttled_time`) counts from the first task that waits there."
            without "The time of a throttled queue counts whether tasks wait there or not."
        empty_keeps_weight: [since("6.12")], "update_cfs_group()", Source("6.1.192 has it not, 6.12.117 and 7.3.4 have it; it is commit 66951e4860d3's, of 6.13, and in 6.12 by backport"),
            with "A group whose queue becomes empty keeps its weight while it is delayed or gone."
            without "A group whose queue becomes empty gets the least weight, or what its load average gives."
        bandwidth_of_tasks in "bandwidth": [since("6.18")], "throttle_cfs_rq_work(), task_throttle_setup_work()", Source("6.17 has it not, 7.0 has it; 6.18 is from memory"),
            with "A task of a group without quota runs on to its return to user mode, and is taken off there by itself; its group's entities are reweighed all the while."
            without "A group without quota is taken off its CPU as a whole, whatever its tasks are doing; its entities keep their weights meanwhile."
        moved_task_preempts: [since("7.1")], "sched_move_task()", Source("6.12.117 has it not, 7.3.4 has it; it is commit e34881c84c25's; 7.1 is its mail's"),
            with "A queued task that moves to another group may preempt, and wakes an idle CPU, as one that has just come."
            without "Only a running task that moves to another group has its CPU choose anew; a queued one waits for the next choice."
        flat_pick in "eevdf": [since("7.3")], "pick_next_entity(), enqueue_hierarchy(), __calc_prop_weight()", Source("7.2.12 has it not, 7.3.4 has it"),
            with "Tasks of all groups compete on one timeline, each with its weight as its groups divide it; groups' entities are there for accounts."
            without "A pick goes down from the root, level by level, each with a timeline of its own."
        requeue_ages_root in "flat-pick": [since("7.3")], "requeue_delayed_entity()", Source("7.2.12 has it not, 7.3.4 has it"),
            with "The wakeup of a delayed task ages the root's load averages instead of its group's: its group counts as runnable while it slept."
            without "The wakeup of a delayed task ages the load averages of its own queue."
        shares_by_concurrency in "shares-by-average": [since("7.3")], "calc_concur_shares(), tg_tasks()", Source("7.2.12 has it not, 7.3.4 has it"),
            with "A group's shares count once for each task that it can run at the same time: the whole part of its average number of runnable tasks, at least 1, and the number of CPUs at most."
            without "A group's shares count once, however many tasks it has."
    }
    Load {
        per_entity_load: [since("3.8")], "update_entity_load_avg()", Memory("3.18 and 4.4 have it"),
            with "Each entity's load is a decaying average; a CPU's load is made of these averages."
            without "A CPU's load is the sum of its tasks' weights."
        runnable_load in "per-entity-load": [between("3.8", "5.5")], "weighted_cpuload(), cpu_runnable_load()", Source("4.4, 4.15 and 5.4 have it, 5.10 has it not; 3.8 and 5.5 are from memory"),
            with "Runnable entities' averages are summed apart; that sum is the CPU's load."
            without "A CPU's load is the average of its whole queue."
        new_task_util: [since("4.7")], "post_init_entity_util_avg()", Source("4.4 to 4.15; 4.7 is from memory"),
            with "A new task's utilisation is its queue's in proportion to its weight, at most half the room left."
            without "A new task has the utilisation of a task that always runs."
        new_util_by_fine_weight in "new-task-util": [between("4.7", "6.10")], "post_init_entity_util_avg()", Source("6.1.192 has it, mainline after 6.8 has it not; the releases are from memory"),
            with "The weight in a new task's utilisation is the fine one, 1024 times as large: on any queue that was used it gets half the room left."
            without "A new task's utilisation is its queue's in proportion to its weight."
        fine_weights: [since("4.7")], "scale_load()", Source("6.1.192; the release from memory"),
            with "Weights are kept 1024 times as fine, so a group's part on one of many CPUs is not rounded to a whole weight."
            without "A group's part on a CPU is a whole weight, at least 2."
        attached_load_unlisted in "per-entity-load": [between("4.8", "5.13")], "propagate_entity_cfs_rq(), update_blocked_averages()", Memory("6.1.192 has it not; the releases are the mending commit's (0258bdfaff5b)"),
            with "A sleeping task that joins a group adds its load to a cfs_rq that may be on no list of those to be aged; if the task then wakes up elsewhere, the group counts that load for ever, and its entities get too small a part of its shares."
            without "A cfs_rq that a load is attached to is on the list, and loads that leave it are forgotten."
        exit_moves_task in "per-entity-load": [between("4.9", "6.4"), since("6.12")], "sched_autogroup_exit_task()", Source("5.10.262, 6.1.192, 6.12.117 and 7.3.4; 4.9 and 6.4 are from memory, and so is that 6.12 to 6.14 have it by an update only"),
            with "A task that ends joins its own group once more: it is taken off and put back, and the sums of its load follow from the averages."
            without "A task that ends keeps the sums of its load."
        group_load_follows in "per-entity-load": [since("4.10")], "propagate_entity_load_avg()", Source("4.4 to 4.15; 4.10 is from memory"),
            with "A group's entity follows at once when a task's load comes to the group or leaves it."
            without "A group's entity follows only as its own average does."
        reweight_at_once: [since("4.15")], "reweight_entity()", Source("4.4 to 4.15; 4.15 is from memory"),
            with "The load of a task follows a change of its weight at once."
            without "The load of a task follows a change of its weight as the average does."
        shares_by_average in "per-entity-load": [since("4.15")], "calc_group_shares()", Source("4.4 to 4.15; 4.15 is from memory"),
            with "A group's part on a CPU is the greater of its weight there and its load average, which sleeping tasks keep up."
            without "A group's part on a CPU is the weight that is runnable there."
        new_task_by_capacity in "new-task-util": [since("4.19")], "post_init_entity_util_avg()", Memory("6.1.192 has it"),
            with "A new task's utilisation is at most half the room left of its CPU's capacity."
            without "A new task's utilisation is at most half the room left of a fastest CPU's capacity."
        whole_threads: [since("5.0")], "arch_scale_cpu_capacity()", Source("4.15 has it not, 5.4 has it; 5.0 is from memory"),
            with "Each thread of a core has the capacity of a whole CPU."
            without "The threads of a core share 1178/1024 of a CPU (smt_gain)."
        pelt_scales_time in "per-entity-load": [since("5.1")], "update_rq_clock_pelt(), update_idle_rq_clock_pelt()", Memory("6.1.192 has it"),
            with "Load averages count the time of a CPU by its capacity, and catch up when it goes idle."
            without "Utilisation counts the time of a CPU by its capacity; load does not."
        contributes_when_asked in "per-entity-load": [since("5.10")], "update_load_avg(), UPDATE_TG", Source("5.10.262, 6.1.192, 6.12.117 and 7.3.4; so it is since 4.3: profiles before 5.10 contribute at every update"),
            with "A CPU renews its contribution to a group's load when entities come, go and begin a turn, and at the tick, but not at the end of a turn, nor for a task whose dequeue is delayed."
            without "A CPU renews its contribution to a group's load at every update of the averages."
        load_sum_unweighted in "per-entity-load": [since("5.10")], "enqueue_load_avg(), attach_entity_load_avg()", Source("5.10.262, 6.1.192, 6.12.117 and 7.3.4; so it is since 4.15: profiles before 5.10 keep the weight in the sum"),
            with "The sum behind an entity's load leaves its weight out; a queue adds it times the weight, without what the division by the weight cut off."
            without "The sum behind an entity's load has its weight in it."
        sums_from_averages in "per-entity-load": [between("5.10", "5.17")], "detach_entity_load_avg(), update_cfs_rq_load_avg()", Source("5.10.262 has it, 6.1.192 has it not; 5.17 is from memory; profiles before 5.10 have the rule of 5.17"),
            with "When an entity leaves a queue, or a group's entity changes, the queue's sums follow from the averages at this point of the period, but for the load that an entity takes along and the utilisation that a woken task has left behind."
            without "When an entity leaves a queue, or a group's entity changes, the queue's sums lose or gain the entity's, and are at least what the averages make at the start of a period."
        root_load_divided: [since("5.10")], "task_h_load()", Source("5.10.262, 6.1.192, 6.12.117 and 7.3.4; earlier releases were not read"),
            with "A task of the root group weighs its part of the queue's load of this tick, so mostly one less than its own."
            without "A task of the root group weighs its own load."
        sums_bound_in_32_bits in "per-entity-load": [between("5.17", "7.3")], "dequeue_load_avg(), update_cfs_rq_load_avg()", Source("5.10.262 has it not, 6.1.192 and 6.12.117 have it, 7.3.4 has it not; 5.17 is from memory"),
            with "A queue's sums are bound by its averages in 32 bits: if a load of more than about 90000 remains, as of two tasks of nice -20, when an entity leaves or a group's entity changes, its sum loses its upper bits."
            without "A queue's sums are bound by its averages in 64 bits."
        woken_load_catches_up in "per-entity-load": [since("6.0")], "migrate_se_pelt_lag()", Source("6.1.192; the release is from memory"),
            with "A task that wakes up away from an idle CPU is aged up to now, however long ago its queue there was updated."
            without "A task that wakes up on another CPU is as old as the last update of its queue, and so has more load than its sleep has left it."
        contributes_each_ms in "per-entity-load": [since("6.7")], "update_tg_load_avg()", Source("6.5 has it not, 6.8 has it; 6.7 is from memory"),
            with "A CPU renews its contribution to a group's load at most once a millisecond."
            without "A CPU renews its contribution to a group's load whenever it has changed by more than 1/64."
        util_est_alone in "per-entity-load": [since("6.8")], "util_est_update()", Source("6.1.192 has it not, 6.12.117 has it; 6.8 is from memory"),
            with "A task's estimated utilisation is the average of its sleeps, and a task that also waited does not lower it."
            without "A task's estimated utilisation is the average of its sleeps or that of the last one, whichever is larger."
        util_est_before_dequeue in "per-entity-load": [between("6.12", "7.3")], "dequeue_task_fair(), util_est_update()", Source("6.1.192 has it not, 6.12.117 has it, 7.3.4 has it not; other releases were not read"),
            with "The estimate of a task that goes to sleep takes the averages as they were at the last update."
            without "The estimate of a task that goes to sleep takes the averages of this instant."
        added_load_bounded in "per-entity-load": [since("7.3")], "__update_sa(), enqueue_load_avg()", Source("6.12.117 has it not, 7.3.4 has it"),
            with "A queue's load sum is at least what its average makes at the start of a period, also when an entity comes."
            without "A load that comes is added without a bound."
        util_est_on_any_cpu in "util-est-alone": [since("7.3")], "util_est_update()", Source("6.12.117 has it not, 7.3.4 has it"),
            with "A task's estimate falls also on a CPU that has less capacity than the task uses."
            without "A task's estimate does not fall on a CPU that has less capacity than the task uses."
    }
    Clock {
        clock_kept: [since("2.6.37")], "check_preempt_curr()", Memory(""),
            with "schedule() uses the clock of the wakeup that asked for it, so the preemptor is charged from that time on."
            without "schedule() always updates the clock."
        kept_clock_moves in "clock-kept": [since("4.0")], "rq_clock_skip_update()", Memory("4.4 has it"),
            with "Clock updates between such a wakeup and schedule() still count."
            without "The clock stands still from such a wakeup to schedule()."
    }
    Affine {
        half_empty_affine: [between("2.6.13", "3.18")], "wake_affine(), before 2.6.23 try_to_wake_up()", Source("2.6.12 has it not, 2.6.18 and 2.6.30 have it, 3.18 has it not; 3.18 is from memory"),
            with "The waker's CPU is also taken if both CPUs together hold no more than one task's load."
            without "The waker's CPU is refused if it would be the more loaded one."
        passive_wakeups: [between("2.6.23", "2.6.32")], "select_task_rq_fair()", Memory("2.6.30 has it"),
            with "The lowest domain with both CPUs is asked, whatever its flags; passive balancing (SD_WAKE_BALANCE) may choose the waker's CPU, which is then final."
            without "The lowest domain with SD_WAKE_AFFINE is asked; an idle CPU is looked for near the CPU chosen."
        sync_by_overlap: [between("2.6.29", "2.6.32")], "wake_affine()", Memory("2.6.30 has it"),
            with "A waker that says it is about to sleep is believed only if both tasks' overlap is short."
            without "A waker that says it is about to sleep is believed."
        prev_unsearched: [between("2.6.32", "3.18")], "select_task_rq_fair()", Source("3.4 has it, 3.18 has it not; the releases are from memory"),
            with "Without a domain for affine wakeups the task goes to its previous CPU, idle or not."
            without "Without a domain for affine wakeups an idle CPU is looked for near the previous one."
        affine_by_capacity: [since("2.6.32")], "wake_affine()", Memory("2.6.30 has it not, 3.19 has it"),
            with "Each CPU's load is scaled by the other's capacity, and a waker's CPU without load is taken."
            without "Loads are compared as they are."
        wake_wide: [since("3.12")], "wake_wide()", Memory("3.18 and 4.4 have it"),
            with "A waker with many wakees does not pull them to its own CPU."
            without "The number of a waker's wakees does not matter."
        counts_sync_affine: [since("3.18")], "wake_affine()", Memory("3.18 and 4.4 have it"),
            with "Every affine wakeup is counted in ttwu_move_affine."
            without "Affine wakeups by a waker that is about to sleep are not counted."
        always_affine: [since("3.18")], "select_task_rq_fair()", Source("3.0 has it not, 3.18 has it"),
            with "wake_affine() is always asked."
            without "The feature AFFINE_WAKEUPS decides whether wake_affine() is asked."
        symmetric_wake_wide in "wake-wide": [since("4.3")], "wake_wide()", Source("3.18 has it not, 4.4 has it; 4.3 is from memory"),
            with "Waker or wakee may be the one with many partners; the smaller count must reach the cache's size."
            without "Only the waker may be the one with many partners; the wakee's count must exceed the cache's size."
        wake_cap: [between("4.10", "5.7")], "wake_cap()", Memory("5.6 has it, 5.10 and 6.1.192 have it not"),
            with "A task too large for the smaller of the waker's and the previous CPU gets no affine wakeup, on machines whose CPUs differ in capacity."
            without "Affine wakeups do not ask whether a task fits a CPU."
        affine_by_idleness: [since("4.14")], "wake_affine_idle(), wake_affine_weight()", Source("4.4 has it not, 4.15 has it; 4.14 is from memory"),
            with "An idle CPU is preferred (WA_IDLE), then load averages are compared (WA_WEIGHT, WA_BIAS)."
            without "Estimates of cpu_load[] at the domain's wake_idx are compared."
        affine_idle_near in "affine-by-idleness": [since("4.16")], "wake_affine_idle()", Source("4.15 has it not, 5.4 has it; 4.16 is from memory"),
            with "WA_IDLE takes an idle CPU of the waker only if it shares a cache with the previous one, and that is not idle."
            without "WA_IDLE takes an idle CPU of the waker, wherever it is, and whatever the previous one does."
        affine_ties_stay in "affine-by-idleness": [since("4.17")], "wake_affine_weight()", Source("4.15 has it not, 5.4 has it; 4.17 is from memory"),
            with "WA_WEIGHT takes the waker's CPU if it is less loaded, or as loaded while the waker is about to sleep."
            without "WA_WEIGHT takes the waker's CPU if it is less or as loaded."
        affine_idle_prev in "affine-by-idleness": [since("5.11")], "wake_affine_idle()", Source("5.10 to 5.11"),
            with "WA_IDLE takes the previous CPU if it is idle and the waker's is not."
            without "WA_IDLE says nothing of an idle previous CPU where the waker's is not idle."
    }
    Wakeup {
        reads_previous_cpu: [since("3.9")], "select_idle_sibling()", Source("3.4 has it not, 3.18 has it; 3.9 is from memory"),
            with "The target is read first, then the previous CPU if it shares the target's cache."
            without "Only the target is read before the search, if it is the waker's or the previous CPU."
        core_search: [since("4.9")], "select_idle_core(), select_idle_cpu(), select_idle_smt()", Source("3.19 to 4.9"),
            with "The search looks for an idle core, then for an idle CPU, then for an idle sibling."
            without "The search goes group by group for one whose CPUs are all idle."
        scan_always_tried in "core-search": [since("4.13")], "select_idle_cpu()", Source("4.15 has it; 4.9 has it not; 4.13 is from memory"),
            with "The CPU scan is always made, however short the CPU's idle periods are; SIS_PROP or SIS_UTIL bound it."
            without "The CPU scan is left out if average idle / 512 is less than a scan's average cost."
        recent_used_cpu: [since("4.16")], "select_idle_sibling()", Source("4.15 has it not, 5.4 has it; 4.16 is from memory"),
            with "The CPU that the task used before its previous one is read, too."
            without "A task remembers its previous CPU only."
        reads_sched_idle in "core-search": [since("5.4")], "select_idle_sibling(), find_idlest_group_cpu(), sched_idle_cpu()", Source("6.1.192, 6.12.117, 7.2.12, 7.3.4; the release is from memory"),
            with "Where an idle CPU is looked for, one that runs SCHED_IDLE tasks only will do."
            without "A CPU that runs SCHED_IDLE tasks is as busy as any other."
        leaves_busy_cores in "core-search": [since("5.6")], "select_idle_core()", Source("5.4 has it not, 5.10 has it; 5.6 is from memory"),
            with "The core search leaves a core at its first busy thread (with merged-search, once it knows an idle thread)."
            without "The core search reads all threads of a core."
        forbidden_cpus_free in "core-search": [since("5.6")], "select_idle_cpu()", Source("5.4 has it not, 5.10 has it; 5.6 is from memory"),
            with "A CPU that the task may not use costs the scan no budget."
            without "A CPU that the task may not use counts as one of the CPUs the scan may probe."
        sched_idle_at_once in "reads-sched-idle": [since("5.7")], "select_idle_cpu(), select_idle_smt(), find_idlest_group_cpu()", Source("6.1.192, and the commit's mail; the release is from memory"),
            with "Scans and new tasks take a CPU that runs SCHED_IDLE tasks only as soon as they meet it."
            without "Such a CPU is taken where the budget ends the scan, where no sibling is idle, or for a new task where no CPU is idle."
        capacity_scan: [since("5.7")], "select_idle_capacity()", Source("6.1.192 has it; a mail of Feb 2020 brings it; 5.7 is from memory"),
            with "On machines whose CPUs differ in capacity, the search goes over all kinds of CPUs for an idle one that the task fits, else for the idle one of most capacity."
            without "The search stays in the target's cache and looks at no capacities."
        queues_while_leaving: [since("5.8")], "ttwu_queue_cond()", Source("5.4 has it not, 5.10 has it; 5.8 is from memory"),
            with "A wakeup may be queued on the CPU that the task is just leaving."
            without "A waker waits until the task is off its old CPU."
        near_before_capacity in "capacity-scan": [since("5.10")], "select_idle_sibling(), asym_fits_cpu()", Source("6.1.192 has it; it is commit b4c9c9f15649's; the release is from memory"),
            with "An idle target, previous or recent CPU that the task fits is taken before the search by capacity."
            without "The search by capacity comes first."
        merged_search in "core-search": [since("5.13")], "select_idle_cpu()", Source("5.11 has it not, 5.14 has it; 5.12 is taken as 5.11"),
            with "An idle sibling of the previous CPU is tried first; then one scan looks for a core, with an idle thread as fallback, or for a CPU."
            without "Cores, CPUs and the target's siblings are searched one after another."
        ages_wake_idle in "core-search": [since("5.14")], "select_idle_cpu()", Source("5.11 has it not, 5.14 has it"),
            with "SIS_PROP uses an average idle time that ages while the CPU stays busy."
            without "SIS_PROP uses average idle / 512."
        scans_after_target in "core-search": [since("5.15")], "select_idle_cpu()", Source("5.14 to 5.15"),
            with "The scan starts at the CPU after the target."
            without "The scan starts at the target, which has just been read."
        queues_on_any_idle: [since("6.0")], "ttwu_queue_cond()", Source("5.19 to 6.0"),
            with "TTWU_QUEUE: a wakeup is queued on any CPU without runnable tasks."
            without "TTWU_QUEUE: a wakeup is queued across caches only, or on a CPU that its task leaves with one other task at most."
        skips_own_thread in "core-search": [since("6.1")], "select_idle_smt()", Source("6.0 has it not, 6.1.192 and 6.5 have it"),
            with "The search for an idle sibling passes over the CPU itself, which was just read."
            without "The search for an idle sibling reads the CPU itself, too."
        scans_clusters in "core-search": [since("6.7")], "select_idle_cpu(), select_idle_sibling(), sched_cluster_active", Source("6.5 has it not, 6.8, 6.12.117 and 7.3.4 have it; 6.7 is from memory"),
            with "On machines that have clusters the scan begins with the target's; an idle previous or recent CPU of another one is what is left."
            without "The scan goes over the whole cache, and any idle previous or recent CPU of it is taken."
        capacity_by_cores in "capacity-scan": [since("7.2")], "select_idle_capacity(), asym_fits_cpu()", Source("6.12.117 has it not, 7.3.4 has it; commits 25a32e400a14 and 61ea17a63719 of May 2026"),
            with "The search by capacity prefers cores that are idle as a whole, and SIS_UTIL bounds it; the CPUs before it need an idle core, too."
            without "The search by capacity looks at single CPUs."
        sched_idle_wakees_wait in "reads-sched-idle": [since("7.2")], "choose_sched_idle_rq(), choose_idle_cpu()", Source("7.0 has it not, 7.2.12 has it"),
            with "To a SCHED_IDLE task a CPU that runs SCHED_IDLE tasks only is busy."
            without "A SCHED_IDLE task takes a CPU that runs SCHED_IDLE tasks only, like any other task."
    }
    Fork {
        idlest_by_idle_state: [since("3.18")], "find_idlest_cpu()", Source("3.4 has it not, 3.18 has it"),
            with "The idle CPU of a group that wakes fastest is taken; of several, the one that went idle last."
            without "The least loaded CPU of a group is taken."
        fork_stops_at_gap: [since("4.3")], "select_task_rq_fair()", Source("3.18 has it not, 4.4 has it; 4.3 is from memory"),
            with "The slow path starts at the highest domain below the first that does not balance at fork."
            without "The slow path starts at the highest domain that balances at fork."
        only_cpu_unread: [since("4.9")], "find_idlest_cpu(), find_idlest_group_cpu()", Source("5.10.262, 6.1.192, 6.12.117 and 7.3.4 have it; 4.9 is from memory"),
            with "The only CPU of a group is taken as it is."
            without "The only CPU of a group is read; idle without a state and a time it is overlooked."
        exec_by_capacity: [between("4.10", "5.5")], "find_idlest_group()", Source("4.4 has it not, 4.15 and 5.4 have it; 4.10 is from memory"),
            with "At exec groups are first compared by the room of their emptiest CPU, seen without the task itself."
            without "At exec groups are compared as at fork."
        idlest_by_spare: [since("5.5")], "find_idlest_group()", Source("5.4 to 5.10; 5.5 is from memory"),
            with "Groups are compared by type, then by idle CPUs or load."
            without "Groups are compared by average load."
        idlest_first_tie: [since("5.5")], "find_idlest_group_cpu()", Source("5.4 has it, too; up to 4.15 the asking CPU would win, which is in no group that is read"),
            with "Ties go to the first CPU read."
            without "Ties go to the asking CPU."
        node_while_idle in "idlest-by-spare": [between("5.5", "5.11")], "find_idlest_group()", Source("5.10.262 has it, and the commit that brings it; 5.11 is that of the commit that ends it (Nov 2020)"),
            with "A new task stays on its node while one of the node's CPUs is idle."
            without "A new task stays on its node while few tasks run there."
        affinity_distributes: [since("5.7")], "__set_cpus_allowed_ptr(), cpumask_any_and_distribute()", Memory("6.1.192 has it, a tree of 4.6 or 4.7 has it not"),
            with "Tasks that lose their CPU with a new mask are spread over the mask's CPUs, one after another."
            without "Tasks that lose their CPU with a new mask all go to the mask's lowest-numbered CPU."
        idlest_counts_allowed in "idlest-by-spare": [between("5.10", "5.11"), between("6.1", "6.2"), between("6.12", "6.13"), since("7.0")], "update_sg_wakeup_stats()", Source("5.10.262, 6.1.192 and 6.12.117 have it by backport, 6.17 has it not, 7.0 has it"),
            with "Of a group only CPUs count that the task may use."
            without "All CPUs of a group count, also those that the task may not use."
        node_quarter in "idlest-by-spare": [between("5.11", "5.18")], "allow_numa_imbalance(), adjust_numa_imbalance()", Source("the commits that bring it (Nov 2020) and end it (Feb 2022); 5.10.262 has it not; stable 5.15 counts the new task, too, and a node's CPUs"),
            with "A new task stays on its node while that runs fewer tasks than a quarter of the domain's CPUs; an imbalance of two that would move stays between nodes while the busiest runs fewer than a quarter of its own."
            without "The limit is a fixed number of tasks, or imb_numa_nr."
        node_by_tasks in "idlest-by-spare": [between("5.18", "6.0")], "allow_numa_imbalance(), adjust_numa_imbalance()", Source("the commits that bring it (Feb 2022) and end it (June 2022)"),
            with "A new task stays on its node while that would run imb_numa_nr tasks at most, a quarter of its CPUs under one cache; between nodes an imbalance of two that would move is tolerated."
            without "Idle CPUs count, too: the difference is to be two at most; the allowed imbalance is an eighth of a node's CPUs, 1 at least, and at fork no more than the node's CPUs that the task may use."
    }
    Balance {
        early_balancer: [between("2.6.13", "2.6.32")], "find_busiest_group()", Memory("2.6.30 has it"),
            with "imbalance_pct measures every pass, also idle ones; a group with one task's load gives nothing."
            without "Idle passes count idle CPUs."
        overload_by_pass: [since("3.17")], "update_sd_lb_stats()", Source("3.4 has it not, 3.18 has it; 3.17 is from memory"),
            with "A full pass over the top domain sets or clears the machine's overload flag."
            without "No pass clears the overload flag."
        group_types: [since("4.2")], "group_classify(), update_sd_pick_busiest()", Source("3.18 has the types, not the utilisation; 4.4 has both; 4.2 is from memory"),
            with "Groups have types, and capacity is compared with utilisation."
            without "A group is full by its number of tasks; the group with the highest load is the busiest."
        tickless_first: [since("4.2")], "run_rebalance_domains()", Memory("4.4 has it"),
            with "A balancing CPU serves tickless CPUs before its own domains."
            without "A balancing CPU serves its own domains first."
        kick_by_cache: [since("4.2")], "nohz_kick_needed()", Memory("4.4 has it"),
            with "Two busy CPUs of a cache ask a tickless CPU to balance."
            without "Two busy threads of a core ask a tickless CPU to balance."
        scales_excess in "group-types": [since("4.8")], "calculate_imbalance()", Source("4.4 to 4.15; the release is from memory"),
            with "A full group's load above its capacity is scaled by that capacity before it limits what moves."
            without "A full group's capacity is taken off its load as if they had the same unit."
        kick_by_any_cache in "kick-by-cache": [since("4.9")], "nohz_kick_needed()", Source("4.4 to 4.15; the release is from memory"),
            with "The busy CPUs of any cache count."
            without "The busy CPUs of a cache count only if a domain lies above it."
        siblings_by_difference in "group-types": [since("4.12")], "update_sd_lb_stats()", Source("4.4 to 4.15; the release is from memory"),
            with "SD_PREFER_SIBLING takes a group with two tasks more than the local one for full."
            without "SD_PREFER_SIBLING takes a group with two tasks for full."
        idle_forces in "group-types": [since("4.15")], "find_busiest_group()", Source("4.4 to 4.15; 4.15 is a commit's"),
            with "Passes of idle CPUs, periodic and newidle, take from a group without capacity whatever the averages are."
            without "Only newidle passes do so."
        misfit: [since("4.20")], "update_misfit_status(), group_misfit_task", Memory("6.1.192 has it"),
            with "A running task too large for its CPU marks its group, on machines whose CPUs differ in capacity; an idle larger CPU has it pushed over."
            without "A task stays on a CPU too small for it."
        kick_skips_busy: [since("5.3")], "find_new_ilb()", Source("4.15 to 5.4; the release is from memory"),
            with "The lowest tickless CPU that is still idle is asked to balance."
            without "The lowest tickless CPU is asked, or none if it has become busy."
        spare_capacity: [since("5.5")], "update_sd_lb_stats(), calculate_imbalance()", Source("5.4 to 5.10; 5.5 is from memory; releases from 5.5 on get the rules of 6.5"),
            with "Groups are judged by spare capacity; the imbalance is a number of tasks, utilisation or load."
            without "Groups are judged by average load; the imbalance is load."
        sched_idle_balances: [since("5.6")], "rebalance_domains(), dequeue_task_fair()", Source("6.1.192, 6.12.117, 7.2.12, 7.3.4; the release is from memory"),
            with "A CPU that runs SCHED_IDLE tasks only balances at an idle CPU's intervals, and at the next tick after its last other task has left."
            without "A CPU that runs SCHED_IDLE tasks balances at a busy CPU's intervals."
        numa_pair_stays in "spare-capacity": [between("5.6", "5.11")], "adjust_numa_imbalance()", Source("5.10.262 has it, 6.1.192 has it not; the releases are from memory"),
            with "Between nodes nothing is evened out while the busiest group has two tasks at most."
            without "Between nodes a small imbalance is tolerated up to some number of tasks, which depends on the CPUs."
        busy_interval_short: [since("5.10")], "get_sd_balance_interval()", Source("5.4 to 5.10"),
            with "A busy CPU's interval is a tick short, so that levels of one length drift apart."
            without "A busy CPU's interval is the domain's times busy_factor."
        hands_to_balancers: [between("5.10", "5.11"), between("6.1", "6.2"), since("6.5")], "sched_balance_rq(), dst_grpmask", Source("5.10.262, 6.1.192, 6.12.117 and 7.3.4 have it, the first two by backport; 6.5 is from memory"),
            with "A pass gives a task that may not run on its CPU to those CPUs of its overlapping group only that balance for the group."
            without "A pass gives a task that may not run on its CPU to any other CPU of its group."
        util_shrinks in "spare-capacity": [between("5.10", "5.11"), between("6.1", "6.2"), since("6.8")], "detach_tasks()", Source("5.10.262 and 6.1.192 by backport, 6.12.117; 6.8 from a commit"),
            with "A task's utilisation is judged the more mildly, the more passes have failed."
            without "A task whose utilisation is more than what should move stays."
        emptied_unwalked in "spare-capacity": [since("5.13")], "detach_tasks()", Source("5.10.262 has it not, 6.1.192 has it; 5.13 is from memory"),
            with "A queue that others have emptied to one task before it is locked is not walked."
            without "It is walked: a busy CPU takes the task that is left, and a pinned one counts as pinned."
        kthreads_set_apart: [since("5.13")], "can_migrate_task(), kthread_is_per_cpu()", Source("5.11 has it not, 5.14 has it; 5.13 is from memory"),
            with "A kernel thread of one CPU is no sign that affinity is in a balancer's way."
            without "A kernel thread of one CPU counts as a pinned task."
        misfit_by_target in "spare-capacity": [since("5.13")], "update_sd_pick_busiest(), capacity_greater()", Source("6.1.192 has it, a mail of 2021 brings it; 5.13 is from memory"),
            with "Capacities of groups are compared with the balancing CPU's own, by a twentieth."
            without "Capacities of groups are compared with the local group's, by a fifth."
        updates_before_idle in "spare-capacity": [since("5.13")], "nohz_newidle_balance(), nohz_run_idle_balance()", Source("5.11 has it not, 5.14 has it; 5.13 is from memory"),
            with "A CPU that goes idle for long brings averages of tickless CPUs up to date before it halts, if they are due."
            without "Only a busy CPU's tick asks for averages of tickless CPUs."
        kicks_for_next_balance in "spare-capacity": [since("5.16")], "nohz_balancer_kick(), nohz_balance_enter_idle()", Source("5.15 has it not, 5.19 has it; 5.16 is from memory"),
            with "After a CPU has stopped its tick, a busy tick asks when balancing for tickless CPUs is due next, also before it is."
            without "That time is found out only when tickless CPUs are served."
        disturbed_is_misfit in "spare-capacity": [since("6.0")], "sched_reduced_capacity(), calculate_imbalance()", Source("6.1.192, 6.12.117 and 7.3.4 have it, 5.10.262 has it not; 6.0 is from memory"),
            with "An idle CPU takes the only task of a CPU that other classes take much of, as a misfit by load, in domains whose CPUs are alike."
            without "A CPU that other classes disturb keeps its only task unless an active balance pushes it away."
        newidle_gives_up in "spare-capacity": [since("6.0")], "should_we_balance()", Source("5.10.262 has it not, 6.1.192 has it; 6.0 is from memory"),
            with "A newidle pass gives up, and those above it, once work has come or is on its way."
            without "A newidle pass is made whatever has come."
        capacity_before_types in "misfit-by-target": [between("6.1", "6.2"), between("6.12", "6.13"), since("7.2")], "update_sd_pick_busiest()", Source("6.1.192 has it by backport, and 6.12.110 by its log; 7.2 is taken from the same months' commits"),
            with "A group whose tasks have each a faster CPU than the balancing one is left alone, whatever was found before."
            without "Such a group is left alone only if one of its type or a higher one was found before, or if it has room."
        misfit_to_idle_cores in "misfit": [between("6.1", "6.2"), between("6.12", "6.13"), since("7.2")], "update_sd_pick_busiest(), dst_core_idle", Source("6.1.192 has it by backport, and 6.12.111 by its log; commit bf6aa722198d is of May 2026"),
            with "A misfit goes to a CPU whose core is wholly idle only."
            without "A misfit goes to an idle CPU, whatever the other thread of its core does."
        walks_past_pinned in "spare-capacity": [between("6.2", "6.6"), between("6.7", "6.10")], "detach_tasks()", Source("6.1.192 and 6.12.117 have it not; the releases between are commits'"),
            with "While all tasks seen are pinned, a walk continues past nr_migrate tasks."
            without "A walk ends after nr_migrate tasks."
        busiest_prefers_siblings in "spare-capacity": [since("6.5")], "update_sd_lb_stats(), sds->prefer_sibling", Source("6.1.192 has it not, 6.12.117 and 7.3.4 have it; 6.5 is from memory"),
            with "SD_PREFER_SIBLING is the busiest group's."
            without "SD_PREFER_SIBLING is that of the balancing CPU's domain below."
        cores_last_when_full in "spare-capacity": [since("6.5")], "update_sd_pick_busiest()", Source("6.1.192, 6.12.117; 6.5 from memory"),
            with "Of groups that are just full the last one read is the busiest, unless groups are cores."
            without "Of groups that are just full the first one read is the busiest."
        boosts_by_runnable in "spare-capacity": [since("6.5")], "find_busiest_queue(), cpu_util_cfs_boost()", Source("6.1.192 has it not, 6.5 has it"),
            with "A CPU that is much waited for counts as much used when utilisation is to move."
            without "A CPU counts as used by its utilisation alone."
        prefers_idle_core: [since("6.6")], "should_we_balance()", Source("6.5 has it not, 6.8 has it; 6.6 is from memory"),
            with "The first CPU whose core is idle balances for a group, else the first idle CPU."
            without "The first idle CPU balances for a group."
        smt_balance in "spare-capacity": [since("6.6")], "smt_balance(), calculate_imbalance()", Source("6.5 has it not, 6.8 has it; 6.6 is from memory"),
            with "To an idle CPU a core with two tasks is a type of its own: busier than one that is full, and it gives one task; of groups with room a core with one task gives way to one that is not a core."
            without "A core with two tasks is full, or has room, like any other group."
        siblings_by_cores in "spare-capacity": [since("6.6")], "sibling_imbalance()", Source("6.1.192 has it not, 6.12.117 and 7.3.4 have it; it is commit 7ff1693236f5's of July 2023"),
            with "With SD_PREFER_SIBLING, groups of unlike numbers of cores get tasks in proportion to their cores, and a busy CPU takes none for that."
            without "With SD_PREFER_SIBLING, groups get equally many tasks, however many cores each has, and a busy CPU takes part."
        misfit_first_stays in "misfit": [since("6.9")], "update_sd_pick_busiest()", Source("6.1.192 has it not, 6.12.117 and 7.3.4 have it; 6.9 is from memory"),
            with "Of groups with equal misfits the first one read is the busiest."
            without "Of groups with equal misfits the last one read is the busiest."
        misfit_wants_faster in "misfit": [since("6.10")], "update_misfit_status(), set_task_max_allowed_capacity()", Source("6.1.192 has it not; it is a commit's of 2024; 6.10 is from memory"),
            with "A task on one of the fastest CPUs that it may use is not a misfit."
            without "A task too large for its CPU is a misfit on the fastest CPU, too."
        delayed_set_apart: [since("6.14")], "update_sg_lb_stats(), can_migrate_task()", Source("6.12.117 to 7.3.4; the release is a commit's"),
            with "Balancing counts runnable tasks, and moves a delayed one only where load is to move."
            without "Delayed tasks count as tasks to balance and are moved like others."
        ineligible_stay: [since("6.14")], "can_migrate_task()", Source("6.11 has it not, 6.14 has it"),
            with "While no pass of the domain has failed, a task that is not eligible stays if fair tasks are queued on the destination."
            without "Eligibility does not keep a task from moving."
        serializes_passes: [since("6.19")], "sched_balance_rq(), SD_SERIALIZE", Source("6.17 has it not, 7.0 has it; 6.19 is from a commit's date"),
            with "A pass over a domain that is balanced by one CPU at a time takes the lock once it is its turn, newidle passes too; one that does not get it counts as balanced."
            without "Periodic balancing takes the lock before it asks whether such a domain is due; newidle passes take none."
        misfit_counts_if_helped in "misfit": [since("7.3")], "update_sg_lb_stats()", Source("6.12.117 has it not, 7.3.4 has it"),
            with "A misfit makes its group one of misfits only if the balancing CPU is faster than all of the group."
            without "A misfit makes its group one of misfits, whoever looks."
        slowed_thread_gives in "misfit": [since("7.3")], "sched_balance_find_src_rq()", Source("6.12.117 has it not, 7.3.4 has it"),
            with "A CPU gives its only task to one that is no faster, if a thread beside it is busy or the two are of different clusters and alike."
            without "A CPU gives its only task to a faster one only, where CPUs differ in capacity."
        ilb_on_idle_core: [since("7.3")], "find_new_ilb()", Source("7.2.12 has it not, 7.3.4 has it"),
            with "The CPU asked to balance for tickless ones is the first whose core is idle, else the first idle one."
            without "The CPU asked to balance for tickless ones is the first idle one."
    }
    Newidle {
        skips_short_idle: [since("2.6.32")], "idle_balance()", Memory("2.6.30 has it not"),
            with "A CPU whose idle periods are shorter than sched_migration_cost makes no newidle pass (until newidle-by-cost)."
            without "Every CPU that goes idle makes a newidle pass."
        newidle_costs: [since("3.12")], "idle_balance()", Memory("3.19 has it"),
            with "A pass goes up only while the idle period is expected to last longer than the next domain's dearest pass."
            without "A pass goes up through all domains until it has pulled a task."
        newidle_by_cost in "newidle-costs": [since("5.16")], "newidle_balance()", Source("5.15 has it not, 5.19 has it; 5.16 is from memory"),
            with "Costs and the overload flag alone decide, so passes are made in short idle periods, too; NI_RANDOM draws here."
            without "The fixed threshold sched_migration_cost decides first."
        newidle_failure_costs in "newidle-by-cost": [between("6.17", "6.19")], "sched_balance_newidle(), update_newidle_cost()", Source("6.14 has it not, 6.17 has it, 7.0 has it not; 6.19 is from memory"),
            with "A newidle pass that pulls nothing counts as half as dear again as the domain's dearest so far, up to sched_migration_cost."
            without "A newidle pass costs the time that it took."
    }
    RealTime {
        rt_always_borrows: [between("2.6.25", "3.2")], "do_balance_runtime()", Memory("3.1 has no RT_RUNTIME_SHARE"),
            with "Real-time tasks beyond their CPU's share run on what other CPUs have not used."
            without "The feature RT_RUNTIME_SHARE decides whether they do."
        rt_throttles: [between("2.6.25", "6.12")], "sched_rt_runtime_exceeded(), do_sched_rt_period_timer()", Source("6.1 to 6.12"),
            with "Real-time tasks of a CPU run for rt_runtime of each rt_period at most."
            without "Real-time tasks that are in no group are not throttled."
        rt_capacity: [since("2.6.32")], "scale_rt_capacity(), earlier scale_rt_power()", Memory("6.1 has it"),
            with "What real-time tasks take of a CPU is taken off its capacity for fair ones."
            without "A CPU's capacity does not depend on its real-time tasks."
        rt_wakee_compares: [since("2.6.37")], "select_task_rq_rt()", Memory("6.1 and 6.12 have it"),
            with "A task that wakes where a less important real-time one runs stays, and that one is pushed away."
            without "A task that wakes where any real-time task runs looks for another CPU."
        rt_average in "rt-capacity": [since("4.19")], "update_rt_rq_load_avg()", Source("4.15 has it not, 5.4 has it; 4.19 is from memory"),
            with "What real-time tasks take is an average of the kind of PELT, half of which is 32 ms old."
            without "What real-time tasks take is their time on the CPU, halved each half second."
        rt_distributes: [since("5.11")], "find_lowest_rq()", Source("5.10 to 5.11"),
            with "CPUs that are equally good for a real-time task take turns."
            without "Of CPUs that are equally good for a real-time task the lowest-numbered is taken."
        fair_server: [since("6.12")], "dl_server_start(), dl_server_timer(), update_curr_dl_se()", Source("6.1 to 6.12"),
            with "A server runs fair tasks before real-time ones for 50 ms of a second in which they would have had less."
            without "There is no server: throttling leaves fair tasks their part."
    }
    Idle {
        sleeps_a_tick_more in "timers-on-ticks": [until("2.6.16")], "sys_nanosleep(), schedule_timeout()", Source("2.6.12's and 2.6.18's sched.c only; from memory"),
            with "A sleep lasts a tick more than its length in whole ticks, as time-outs of futexes do."
            without "A sleep ends at the first tick after its time; time-outs of futexes last a tick more than their length in whole ticks."
        periodic_tick: [until("2.6.21")], "default_idle(), tick_nohz_stop_sched_tick()", Memory("2.6.18 has it"),
            with "An idle CPU keeps its tick, and balances by itself."
            without "An idle CPU may stop its tick, and others balance for it."
        timers_on_ticks: [until("2.6.21")], "run_timer_softirq(), hrtimer_run_queues()", Memory(""),
            with "Timers are run by the tick, after its own work; a sleep ends at a tick."
            without "Timers have interrupts of their own (high-resolution timers)."
        short_nap_keeps_tick: [since("4.17")], "cpuidle_idle_call()", Source("4.15 has it not, 5.4 has it; 4.17 is from memory"),
            with "An idle CPU that is expected back within a tick keeps it."
            without "An idle CPU always stops its tick."
        tick_runs_timers: [since("5.10")], "hrtimer_interrupt(), __hrtimer_run_queues()", Source("5.10, 6.1.192, 6.12.117, 7.3.4; so it is since timers have slack (2.6.28): profiles before 5.10 run them apart"),
            with "A tick's interrupt also runs the timers whose slack has begun, and timers that are due behind it wait for it."
            without "A timer that has slack waits for an interrupt of its own or of another timer, also where a tick comes in between."
        first_halt_keeps_tick: [between("6.1", "6.2"), between("6.6", "6.7"), between("6.12", "6.13"), since("6.18")], "idle_call_stop_or_retain_tick()", Source("6.1.192, 6.12.117 and 7.0 have it, 6.5, 6.8, 6.11, 6.14 and 6.17 have it not; stable 6.6 and 6.18 are assumed to have it"),
            with "Without a choice of idle states the first halt keeps the tick, and the next one stops it."
            without "Without a choice of idle states short-nap-keeps-tick decides alone."
        idle_sampled_at_switch: [since("7.0")], "put_prev_task_idle(), update_rq_avg_idle()", Source("6.17 to 7.0; the release is from the commit's date"),
            with "avg_idle takes an idle period when the idle task is switched out, whatever came."
            without "avg_idle takes an idle period when a wakeup ends it; other arrivals do not end it."
    }
    Pipe {
        pipe_two_queues: [since("5.5")], "pipe_read(), pipe_write()", Source("5.4 to 5.10; 5.5 is from memory"),
            with "Readers and writers of a pipe sleep in queues of their own; a write wakes readers only if the pipe was empty, a read wakes writers only if it was full."
            without "Readers and writers sleep in one queue; every write wakes readers, and every freed page wakes writers."
        pipe_exclusive: [since("5.6")], "pipe_read(), pipe_write()", Source("5.4 to 5.10; 5.6 is from memory"),
            with "One sleeper of a pipe is woken at a time."
            without "All sleepers of a pipe are woken."
        pipe_stays_full in "pipe-two-queues": [since("6.14")], "pipe_read()", Source("6.12.117 has it not, 6.14 has it"),
            with "A read that leaves the pipe full wakes no writer."
            without "A read of a full pipe wakes a writer even if no page came free."
    }
    Preempt {
        voluntary_preemption: [between("2.6.13", "7.0")], "might_sleep(), CONFIG_PREEMPT_VOLUNTARY", Source("2.6.12 has it not, 2.6.18 has it; 7.3.4 has it only for machines that can't be lazy"),
            with "The voluntary model: a task in the kernel also gives way where it might sleep."
            without "There is no voluntary model."
        dynamic_preemption: [since("5.12")], "sched_dynamic_mode(), CONFIG_PREEMPT_DYNAMIC", Source("5.11 has it not, 5.14 has it; 5.12 is from memory"),
            with "The kernel is built to be preempted, whatever its model, so a newidle pass takes one task; the model may change while it runs."
            without "The model is built in; only kernels of the full one take one task in a newidle pass."
        lazy_preemption: [since("6.13")], "resched_curr_lazy(), CONFIG_PREEMPT_LAZY", Source("6.12.117 has it not, 6.14 has it"),
            with "The lazy model: a fair task's request waits for the return to user mode or for the next tick."
            without "There is no lazy model: every request is made at once."
        no_voluntary_preemption: [since("7.0")], "kernel/Kconfig.preempt", Source("6.17 has it not, 7.0 has it"),
            with "There are the full and the lazy model; none and voluntary remain for machines that can't be lazy."
            without "There are the models none and, if the release has it, voluntary, beside full and lazy."
    }
}
