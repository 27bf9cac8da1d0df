/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface of the engine and the image. src/abi.rs has the same layouts; the loader compares their sizes.
 *
 * The engine enters a CPU, sets the clock, calls one verb, and reads the notes that the verb left. The image never
 * calls the engine, so no state of the engine is borrowed while kernel code runs. Times are ns of the kernel's clock,
 * which the engine keeps. A pid names a task; 0 is the idle task of any CPU.
 */
#ifndef IMG_ABI_H
#define IMG_ABI_H

#define IMG_ABI 16		/* raised with every change of this file */
#define IMG_NEVER (~0ULL)
#define IMG_LONGEST_NS 100000000	/* for which no kernel holds a lock */

/* A way to halt. */
struct img_idle_state {
	const char *name;
	unsigned int exit_ns, residency_ns;	/* time to leave it; the shortest stay that pays */
	unsigned int polls;	/* 1: the CPU polls the idle task's flag, so that no interrupt has to be sent */
};

/* The machine. All arrays are by CPU, except `distance`, which is by node and node, and `idle_states`. */
struct img_machine {
	unsigned int nr_cpus, nr_nodes;
	const unsigned int *node, *package, *core, *cluster, *llc;	/* ids; siblings share package and core */
	const unsigned int *capacity;		/* 1024: a fastest CPU */
	const unsigned char *distance;		/* 10: the same node */
	unsigned int reclaim_distance;		/* farther nodes are not balanced at fork, exec and wakeup; 0: 30 */
	unsigned long long llc_bytes;
	unsigned long long seed;		/* of the kernel's own random draws; with bit 62 it draws 0 */
	unsigned int hz;			/* an error if the image was built with another one; 0: any */
	unsigned int nr_idle_states;		/* 0: no cpuidle driver, the CPU halts at once */
	const struct img_idle_state *idle_states;	/* the shallowest first */
	const char *idle_governor;		/* "menu", "teo", "haltpoll"; NULL: the tree's choice */
};

/* A note of one action of kernel code, in the order of the actions. Unused fields are 0. */
struct img_note {
	unsigned short kind;
	unsigned short flags;
	unsigned int cpu;		/* the CPU that it concerns, which need not be the entered one */
	int pid, other;			/* tasks */
	unsigned long long at, value;
	unsigned long long after_ns;	/* the cost of the verb's code until then */
};
enum img_note_kind {
	IMG_TIMER = 1,		/* cpu's clock event device is to fire at `at`; IMG_NEVER: it is off */
	IMG_IPI_RESCHED,	/* a reschedule interrupt was sent to cpu */
	IMG_IPI_CALL,		/* a call-function interrupt was sent to cpu */
	IMG_SWITCH,		/* sched_switch on cpu: pid left for other; value: prev_state as the tracepoint has it;
				   flags & 1: preempted; & 2: in sched_yield(); & 4: its group is throttled; & 8: it is
				   of sched_ext, and its slice was over */
	IMG_WAKING,		/* sched_waking of pid; other: the waker; 0 and flags & 1: an interrupt; value: enum
				   img_wakee */
	IMG_WAKEUP,		/* sched_wakeup of pid: it is queued on cpu; value: nr_running there; flags & 1: new;
				   & 2: cpu's current task is to give way now */
	IMG_MIGRATE,		/* sched_migrate_task: pid goes to cpu, from CPU `value`; flags & 1: it is of
				   sched_ext */
	IMG_FORK,		/* sched_process_fork: pid is new, its parent is other */
	IMG_EXIT,		/* pid is gone */
	IMG_BALANCE,		/* passes of load_balance() on cpu; flags: 0 idle, 1 busy, 2 newly idle; value: domain's
				   level; at: passes; pid: tasks gained; other: CPUs of the domain */
	IMG_IDLE,		/* cpu enters idle state `value`; flags & 1: its tick is stopped; flags & 2: it polls,
				   until `at` unless its flag is set before */
	IMG_NO_IPI,		/* sched_wake_idle_without_ipi: cpu polls and has to look at its flag */
	IMG_PRINTK,		/* a message: value points to text, which is never freed; flags: 1 WARN or KERN_ERR, and
				   `at` points to the calls that led there, with a NULL behind them; 0: not kept */
	IMG_TICK,		/* a tick was handled on cpu */
	IMG_FOUND,		/* a fault that no kernel may have: flags: enum img_finding, of pid on cpu; value
				   as it says there; other: enum img_verb that ran, or -1; `at` points to the
				   calls that led there, as those of a message, if it is not 0 */
	IMG_CHOSE,		/* a class chose CPU `other` for pid; `at` points to a struct img_choice; flags & 1: the
				   class is sched_ext; & 2: that CPU is idle; after img_explain() */
	IMG_JUDGED,		/* cpu's current task `other` is to give way, or not: flags & 1 before, & 2 behind the
				   preemption check of pid, or 0: behind a tick that changed it; `at` points to a struct
				   img_judged, or is 0; after img_explain() */
	IMG_PICKED,		/* an entity was picked on cpu, on the way to task pid, as other left: `about` of the
				   struct img_judged that `at` points to; after img_explain(), a note for each queue */
	IMG_GRANT,		/* cpu has waited for a lock (IMG_V_WAITS), which it has from `at` on: img_continue() */
	IMG_STEP,		/* on cpu a sched_ext scheduler, or the kernel for it, has decided about pid; 0: about
				   none; flags: enum img_step_by, | enum img_step_to << 4, | 1 << 8 if it preempts;
				   value: the DSQ's number; other: the CPU of a local DSQ, or the one that was kicked;
				   -1: unknown */
};

/* A task's state when it was about to be woken. */
enum img_wakee {
	IMG_W_QUEUED = 1,	/* it is on its queue */
	IMG_W_ON_CPU = 2,	/* it is not off its CPU yet */
	IMG_W_PINNED = 4,	/* it may run on one CPU only, so that no class is asked */
};

/* The findings of image/audit.c. */
enum img_finding {
	IMG_LOST_TASK = 1,	/* it is runnable, and no queue has it; of an audit, value: its progress so far */
	IMG_DROPPED_WAKEUP,	/* it sleeps as before it was woken; value: the result of try_to_wake_up() */
	IMG_DROPPED_TIMER,	/* it sleeps, and its timer, which was due at value, has fired */
	IMG_IDLE_BESIDE_TASKS,	/* cpu halts with value tasks on its queue */
	IMG_SLEEPER_QUEUED,	/* it sleeps, and its class has it on a queue; value: its progress so far */
	IMG_WRONG_COUNT,	/* cpu's queue counts the upper half of value, and has the lower half */
	IMG_PREEMPT_COUNT,	/* a verb has left it higher by value */
	IMG_IRQS_OFF,		/* a verb has left interrupts off */
	IMG_PASSED_OVER,	/* it waits behind task value, which it has to preempt; cpu was not asked to switch */
	IMG_NOT_PUSHABLE,	/* a waiting real-time task that no other CPU can find */
	IMG_NOT_ON_CPU,		/* it runs on cpu, and its on_cpu is 0 */
	IMG_FOUND_KINDS
};

/* The entered CPU after a verb. */
struct img_view {
	int current;			/* pid; 0: idle */
	unsigned int flags;
	unsigned long long nr_notes;
	const struct img_note *notes;	/* that are not forgotten */
};
enum img_view_flags {
	IMG_V_IDLE = 1,		/* the idle task is current */
	IMG_V_STOPPER = 2,	/* the stopper is current: call img_kthread() */
	IMG_V_KSOFTIRQD = 4,	/* ksoftirqd is current: call img_kthread() */
	IMG_V_RESCHED = 8,	/* TIF_NEED_RESCHED: call img_schedule() where the kernel may be preempted */
	IMG_V_LAZY = 16,	/* TIF_NEED_RESCHED_LAZY: the same, before user mode */
	IMG_V_USER_WORK = 32,	/* task work waits for the return to user mode: call img_user_work() */
	IMG_V_PARKED = 64,	/* current left a call in the middle: call img_resume() */
	IMG_V_LEFT = 128,	/* the CPU has left the verb in the middle: call img_continue() at its time */
	IMG_V_WAITS = 256,	/* it waits for a lock: an IMG_GRANT has its time. A CPU that has none in IMG_LONGEST_NS
				   never gets it: img_continue() says so */
};

/* Attributes of a task. */
struct img_attr {
	unsigned int policy;		/* SCHED_* of uapi */
	int nice;
	unsigned int rt_priority;
	unsigned int flags;		/* SCHED_FLAG_* */
	unsigned long long runtime_ns, deadline_ns, period_ns;	/* runtime: a fair task's slice, too (6.12) */
};
struct img_new_task {
	const char *name;
	struct img_attr attr;
	const unsigned long *allowed;	/* bits by CPU; NULL: all */
	unsigned long long slack_ns;	/* timer slack */
	int group;			/* of img_group_new(); 0: the root */
	unsigned int mm;		/* tasks of the same number share an address space; 0: a kernel thread */
	int tgid;			/* 0: a thread group of its own */
	unsigned int inherits;		/* 1: attr, allowed and group are current's, as fork() has it */
	int session_of;			/* a task whose session it is born into; 0: its parent's */
};

/* The engine writes these before a verb. */
extern unsigned long long img_now;	/* the time, ns */
extern int img_guard;	/* before the boot, 1: each allocation ends at a page that nobody may touch, and nobody
			   may touch it once it is freed */

/* Cost of the image's code since the last call, ns; 0 without CONFIG_SIM_COUNTED. */
unsigned long long img_take_charge_ns(void);

/* A basic block: the place of its number of instructions from `text` on; 0: unknown. */
struct img_block {
	unsigned int at, instructions;
};
/* Prices of code. */
struct img_costs {
	const struct img_block *blocks;		/* in the order of the section img_times */
	unsigned long long nr_blocks;
	const void *text;		/* the image's first byte */
	unsigned long long text_size;	/* up to the end of its code */
	unsigned int instruction_ps;
	/* a cache line that another CPU has: of the same core, last-level cache, package; of another package */
	unsigned int line_sibling_ps, line_near_ps, line_far_ps, line_remote_ps;
	unsigned int lookahead;			/* instructions that are executed while lines are fetched */
	unsigned long long sample_ps;		/* cost between two samples of calls */
};
/* A sample: the calls that lead to the running code, innermost first, as addresses; 0 after the last one. */
#define IMG_CALLS 24
struct img_sample {
	const void *calls[IMG_CALLS];
};
const struct img_sample *img_samples(unsigned long long *number);	/* since img_count() or img_forget_samples() */
void img_forget_samples(void);

/*
 * Objects of the kernel outside kernel/sched, as cache lines that the entered CPU touches (image/objects.c). A line of
 * several is asked for when the one before has come, as if it were found by it; or, with IMG_T_TOGETHER, next to it.
 * The cost is in img_take_charge_ns(). May be called between two notes of a verb, too.
 */
enum img_touch_how {
	IMG_T_WRITE = 1,
	IMG_T_ATOMIC = 2,	/* it is written by an atomic operation */
	IMG_T_TOGETHER = 4,
	IMG_T_STORE = 8,	/* it is written and not read: nobody waits for it */
};
struct img_touched {
	const void *at;		/* the first line, of an object */
	unsigned short lines, how;
};
const void *img_object(unsigned int lines);	/* a new one of so many lines */
void img_touch(const struct img_touched *touched, unsigned int nr);

/*
 * Verbs of the entered CPU and its current task that may be left in the middle, after img_weave(): name, result,
 * arguments, and how img_do() calls the verb with its own arguments a and b. src/verbs.rs has the same rows. The engine
 * sets img_horizon_ps before img_do() and img_continue(): kernel code whose cost has passed it may leave.
 */
#define IMG_WOVEN(VERB) \
	/* the clock event device fires; user: it interrupted user mode */ \
	VERB(irq_timer, void, (int user), (img_irq_timer(a), 0)) \
	VERB(irq_resched, void, (void), (img_irq_resched(), 0)) \
	VERB(irq_call, void, (void), (img_irq_call(), 0)) \
	/* before a halt: idle balance for others, the tick may stop, a state is chosen */ \
	VERB(idle_enter, void, (void), (img_idle_enter(), 0)) \
	/* after an interrupt, or where it polls and its flag is set; then schedule_idle() */ \
	VERB(idle_leave, void, (void), (img_idle_leave(), 0)) \
	/* preemption; or schedule() of a task that is about to sleep */ \
	VERB(schedule, void, (void), (img_schedule(), 0)) \
	/* that wakes it */ \
	VERB(start_timer, void, (unsigned long long until, unsigned long long slack_ns), (img_start_timer(a, b), 0)) \
	VERB(yield_now, void, (void), (img_yield_now(), 0)) \
	VERB(exit, void, (void), (img_exit(), 0)) \
	/* sched_exec() */ \
	VERB(exec, void, (void), (img_exec(), 0)) \
	VERB(user_work, void, (void), (img_user_work(), 0)) \
	/* the stopper or ksoftirqd does its work and sleeps */ \
	VERB(kthread, void, (void), (img_kthread(), 0)) \
	/* a call that was left in the middle continues */ \
	VERB(resume, void, (void), (img_resume(), 0)) \
	/* 1: it was asleep */ \
	VERB(wake, int, (int pid, int sync), img_wake(a, b)) \
	/* wake_up_new_task() */ \
	VERB(task_start, void, (int pid), (img_task_start(a), 0))
#define IMG_NUMBER(name, result, arguments, call) IMG_DO_##name,
enum img_verb { IMG_WOVEN(IMG_NUMBER) };
#undef IMG_NUMBER
#define IMG_DECLARE(name, result, arguments, call) result img_##name arguments;
IMG_WOVEN(IMG_DECLARE)
#undef IMG_DECLARE
extern unsigned long long img_horizon_ps;
void img_weave(int exact);	/* after img_count(); 1: it may leave at each basic block, not only at a lost line */
int img_do(int verb, unsigned long long a, unsigned long long b, int may_leave);	/* the verb's result */
void img_continue(void);
void img_finish(void);			/* all CPUs that have left a verb finish it; before an event from outside */

/* Set-up, once. 0 or a negative errno: EINVAL for a machine without room, ENODEV for a missing idle governor. */
int img_abi(void);			/* IMG_ABI of the image */
int img_boot(const struct img_machine *machine);
void img_seed(unsigned long long seed);	/* draws from here on are those of a machine that booted with it */
int img_count(const struct img_costs *costs);	/* costs are charged from here on; ENOSYS: this image can't */
void img_instruction(unsigned int ps);	/* an instruction of the entered CPU takes so long */
void img_apart(int on);			/* verbs up to the one with 0 cost nothing, and no line moves */
/*
 * All verbs act on this CPU from here on, and what was charged before is forgotten. The view is there for good; verbs
 * that change something refresh it, and notes add to it at once. The engine forgets notes by writing their number.
 */
const struct img_view *img_enter(int cpu);
void img_turn_to(int cpu);		/* the same, but a verb follows that refreshes the view */
void img_clear(void);			/* forgets the notes, and the states that they point to */

/* Interrupts, on the entered CPU. */
void img_irq_idle_tick(void);		/* the CPU is idle: its domains are balanced if they are due */
void img_irq_device(const int *pids, unsigned int nr);	/* a device's handler wakes these tasks */

/* The current task. */
void img_prepare_sleep(int uninterruptible);	/* it is about to sleep, unless it is woken before img_schedule() */
int img_single_task(void);		/* 1: current is the only runnable task of its CPU */
int img_timed_out(int pid);		/* 1: its last timer has fired; else the timer is cancelled */
void img_set_timer(int pid, unsigned long long until, unsigned long long slack_ns);	/* of a sleeper on this CPU */

/* Notes present faults (IMG_FOUND). If CPUs have left verbs, only unchanged findings of two audits are faults. */
void img_audit(void);

/* Tasks; the entered CPU is the caller's. */
int img_task_new(const struct img_new_task *task);	/* pid, or a negative errno; not yet woken */
void img_task_slept(int pid);		/* a queued fair task of ordinary policy sleeps, and wakes up on its CPU */
int img_set_attr(int pid, const struct img_attr *attr);
int img_set_affinity(int pid, const unsigned long *allowed);	/* the caller may sleep in the middle: IMG_V_PARKED */
int img_confine(int pid, const unsigned long *allowed);	/* the same from outside: no caller sleeps */
struct img_usage {
	unsigned long long runtime_ns, wait_ns, utime_ns, stime_ns, nr_migrations, nvcsw, nivcsw, vruntime;
	int cpu, state;
};
void img_usage(int pid, struct img_usage *usage);
int img_kthread_pid(int cpu, int ksoftirqd);	/* pid of a CPU's stopper, or of its ksoftirqd */

/* Task groups. */
int img_group_new(int parent);		/* its number, or a negative errno */
int img_group_write(int group, const char *file, const char *value);	/* a file of cgroup v2 or v1, by name */
int img_group_read(int group, const char *file, char *text, int size);	/* length, or the length that it needs */
int img_group_move(int pid, int group);
unsigned long long img_group_throttled(int group);	/* ns of throttling that has not ended, of all CPUs */
int img_session_new(int pid);		/* setsid() of its thread group: an autogroup of its own, if these are on */

/* The tree's own tables, those of a patch included. 0, or a negative errno. */
int img_feature(const char *name, int on);
const char *img_feature_name(int index, int *on);	/* NULL after the last one */
int img_tunable(const char *name, const char *value);
const char *img_tunable_name(int index, char *value, int size);
int img_schedstat(char *text, int size);	/* /proc/schedstat; length, or the length that it needs */
int img_domains(int cpu, char *text, int size);	/* a line for each sched domain: name span flags groups imbalance_pct */

/*
 * One question to the fair class about a runqueue in a given state, on CPU 0, where nothing else may run. The state is
 * gone afterwards.
 */
enum img_entity_flags {
	IMG_E_CURRENT = 1,	/* it runs */
	IMG_E_ABSENT = 2,	/* it is on no queue */
	IMG_E_NEXT = 4, IMG_E_LAST = 8, IMG_E_SKIP = 16,	/* the queue's buddies */
	IMG_E_OWN_SLICE = 32,	/* it has asked for its slice */
	IMG_E_RELATIVE = 64,	/* its deadline is a distance */
	IMG_E_DELAYED = 128,	/* it sleeps, and is still queued; only of a queue that is read */
};
struct img_entity {
	long long vruntime, deadline, lag, protected_until;
	unsigned long long slice_ns;
	unsigned int policy;
	int nice;
	unsigned int flags;
};
enum img_function {
	IMG_ASK_PICK,		/* who runs next */
	IMG_ASK_PLACE,		/* where `about`, which is absent, starts */
	IMG_ASK_PREEMPT,	/* whether `about`, which has just been queued, preempts the current entity */
};
struct img_question {
	unsigned int function;
	unsigned int nr;
	const struct img_entity *entities;	/* in the order in which they were queued */
	long long min_vruntime;		/* of the queue; its reference point if the class has no such floor */
	unsigned long long ran_ns;	/* time for which the current entity has run since it was charged */
	unsigned int about;
	unsigned int is_new, sync;	/* it is new; its waker is about to sleep */
};
struct img_answer {
	int entity;			/* the picked one; -1: none */
	int next;			/* the buddy then; -1: none */
	unsigned int resched;		/* 1: the current entity has to give way */
	long long vruntime, deadline;	/* of `about` */
};
/* ENOSYS: this tree can't be asked. */
int img_ask(const struct img_question *question, struct img_answer *answer);

/*
 * Notes each choice of a CPU from here on (IMG_CHOSE), with the state in which it was made. The state lasts until
 * img_clear(). Only the state of a fair task's wakeup has more than `allowed` and the numbers before `wakee_load`.
 */
struct img_choice_cpu {
	unsigned long long load;	/* of its queue, averaged */
	unsigned int capacity;		/* left to fair tasks */
	unsigned int nr_running;
	unsigned int nr_delayed, nr_sched_idle;	/* of them: asleep and still queued; SCHED_IDLE */
	unsigned int nr_idle_scan, has_idle_cores;	/* of the domain that a search near it scans */
	unsigned int idle;		/* available_idle_cpu() */
};
enum img_choice_how { IMG_C_WAKEUP, IMG_C_FORK, IMG_C_EXEC };
struct img_choice {
	struct img_choice_cpu *cpus;
	struct img_choice_cpu *after;	/* when the choice was made; NULL: no other CPU acted meanwhile */
	unsigned long *allowed;		/* bits by CPU */
	unsigned int cpu;		/* the choosing CPU */
	unsigned int prev, recent;	/* the task's CPU; its recent_used_cpu */
	unsigned int how, fair, sched_idle;	/* its class and policy */
	unsigned int sync, by_cpu_thread;	/* the current task is a kernel thread of one CPU, and no interrupt */
	unsigned int waker_flips, wakee_flips;	/* the current task's as this wakeup leaves it; the task's */
	unsigned long long util;	/* of the task, estimated */
	unsigned long long wakee_load, waker_load;	/* task_h_load() of the task and of the current one */
	unsigned long long avg_idle, wake_avg_idle, avg_scan_cost;	/* of the choosing CPU */
};

/*
 * A queue: the one on which the current task and one that was queued meet, as wakeup preemption judged of it, or one of
 * which an entity was picked.
 */
#define IMG_JUDGED_MOST 64
enum img_not_judged { IMG_J_ABSENT = 1, IMG_J_MANY };	/* one of the two is missing; it has more entities */
struct img_judged_entity {
	struct img_entity entity;	/* only of those two with its policy; without nice */
	unsigned long long weight;	/* 1024 times as fine */
};
struct img_judged {
	struct img_judged_entity *entities;
	long long min_vruntime;		/* as in struct img_question */
	unsigned long long ran_ns;
	unsigned int nr, about, is_new, sync;
	unsigned int why_not;		/* enum img_not_judged; 0: the queue was read */
};
void img_explain(void);		/* also why current tasks give way (IMG_JUDGED) */

/*
 * One question to the fair class about a machine in a given state, where nothing else may run. The state is gone
 * afterwards. Averages are those of `struct sched_avg`, all of this instant.
 */
struct img_averages {
	unsigned long long load, runnable, util, util_est;
};
struct img_fleet_cpu {
	struct img_averages avg;	/* of its queue */
	unsigned long long avg_idle;
	unsigned int nr_idle_scan, has_idle_cores;	/* of the domain that a search near it scans; its first CPU's
							   count */
	unsigned int wakeup_pending;
	unsigned int idle_exit_us;	/* of its present idle state; UINT_MAX: it is in none */
	unsigned long long idle_stamp;
	unsigned long long misfit;	/* the load of its running task if that is a misfit */
	unsigned int rt_util, nr_rt;	/* utilisation by real-time tasks, and how many are queued */
};
enum img_fleet_task_flags {
	IMG_F_RUNS = 1,		/* it is its CPU's current task */
	IMG_F_ABSENT = 2,	/* it is on no queue */
	IMG_F_NEXT = 4,		/* its queue's next buddy */
};
struct img_fleet_task {
	struct img_averages avg;
	unsigned long long ran_ago_ns;	/* since its time was last accounted */
	unsigned long long allowed;	/* bits by CPU */
	long long vruntime;
	unsigned int cpu, flags, policy;
	int nice;
	unsigned int flips;		/* wakee_flips */
	unsigned int recent_cpu;	/* recent_used_cpu */
};
struct img_fleet_level {		/* a domain of `cpu`, the lowest first */
	unsigned long long newidle_cost;
	unsigned int failed;		/* nr_balance_failed */
	unsigned int imbalanced;	/* of the group that has `cpu` */
};
enum img_fleet_function {
	IMG_ASK_SELECT,		/* where `about`, which is absent, goes when `cpu` wakes it */
	IMG_ASK_BUSIEST,	/* which group `cpu` pulls from in a domain, and how much */
	IMG_ASK_DETACH,		/* which tasks leave `src` for `cpu` */
	IMG_ASK_NEWIDLE,	/* which domains `cpu`, whose current task has left, searches, and which tasks come */
	IMG_ASK_SHARES,		/* the weight of a group's entity on `cpu` */
	IMG_ASK_FORK,		/* where `about`, which is new, goes when `cpu` makes it */
	IMG_ASK_EXEC,		/* where `about`, which runs on `cpu`, goes */
};
struct img_fleet {
	unsigned int function;
	unsigned int nr_cpus, nr_tasks, nr_levels;
	const struct img_fleet_cpu *cpus;
	const struct img_fleet_task *tasks;	/* in the order in which they were queued */
	const struct img_fleet_level *levels;
	unsigned int cpu, src, level, about;
	unsigned int idle;			/* 0 idle, 1 busy, 2 newly idle */
	unsigned int sync, overload;
	unsigned int migration;			/* enum migration_type */
	long long imbalance;
	unsigned long long shares, group_load, group_runnable;	/* of the group */
	unsigned long long load_weight, load_avg, contribution;	/* of its queue on `cpu` */
};
#define IMG_FLEET_TASKS 160
struct img_fleet_answer {
	int cpu;			/* the chosen CPU */
	int group;			/* its first CPU; -1: none */
	unsigned int migration;
	unsigned int levels;		/* bits of the domains that were searched */
	unsigned int nr_moved;
	unsigned char moved[IMG_FLEET_TASKS];	/* tasks, in the order in which they left */
	long long imbalance;
	unsigned long long weight;
};
/* ENOSYS: this image can't be asked, EINVAL: not in this state. */
int img_ask_fleet(const struct img_fleet *fleet, struct img_fleet_answer *answer);

/*
 * One question to the fair class about CPU 0, whose tasks are in groups. The groups are always the same tree: 0 and 1
 * below the root, 2 and 3 below 0, 4 below 2. A group without queued tasks is on no queue unless it is delayed.
 */
enum img_tree_flags {
	IMG_T_CURRENT = 1,	/* it runs; of a group: one of its tasks does */
	IMG_T_ABSENT = 2,	/* it is on no queue */
	IMG_T_DELAYED = 4,	/* it sleeps, and is still queued */
	IMG_T_NEXT = 8,		/* its queue's next buddy */
	IMG_T_OWN_SLICE = 16,	/* it has asked for its slice */
	IMG_T_RELATIVE = 32,	/* its deadline is a distance */
};
struct img_tree_entity {
	long long vruntime, deadline, protected_until;
	long long keeps;		/* the lag of a sleeping one */
	unsigned long long slice_ns;
	unsigned long long weight;	/* units of 1/1024: a group's, or a task's on the single queue of all (7.3) */
	unsigned int flags, policy;
	int nice;
	int group;			/* the task's group; -1: the root */
	/* Of a group: its shares; the load of its queue here, and elsewhere; runnable tasks times 1024. */
	unsigned int idle;
	unsigned long long shares, load, load_elsewhere, runnable;
};
enum img_tree_function {
	IMG_TREE_PICK,		/* who runs next */
	IMG_TREE_WAKE,		/* `about`, which is absent or delayed, is queued */
	IMG_TREE_SLEEP,		/* `about` goes to sleep */
	IMG_TREE_PREEMPT,	/* `about` has just been queued: does it preempt the current one */
	IMG_TREE_TICK,		/* `about` runs, and a tick comes */
};
#define IMG_TREE_TASKS 10
#define IMG_TREE_GROUPS 5
struct img_tree {
	unsigned int function;
	unsigned int nr_tasks;
	const struct img_tree_entity *tasks;	/* in the order in which they were queued */
	const struct img_tree_entity *groups;
	long long min_vruntime;		/* of all queues; of empty ones if the class has no such floor */
	unsigned long long ran_ns;	/* time for which the current task has run since it was charged */
	unsigned int about;
	unsigned int is_new, sync;
};
struct img_after {			/* an entity's state after the question */
	long long vruntime, deadline;
	long long keeps;		/* its lag; while it runs, its protection: the length, or whether it has one */
	unsigned long long weight, line_weight;
	unsigned char on_rq, delayed, relative, next;
};
struct img_tree_answer {
	int entity;			/* the picked one; -1: none */
	unsigned int resched;
	unsigned int nr_running;
	struct img_after tasks[IMG_TREE_TASKS], groups[IMG_TREE_GROUPS];
};
/* ENOSYS: this image can't be asked, EINVAL: not in this state. */
int img_ask_tree(const struct img_tree *tree, struct img_tree_answer *answer);

#include "abi_ext.h"

/* For the loader. */
struct img_stubs {
	const void *start, *end;	/* pages to be made inaccessible, one for each name */
	const char *names;		/* each ends with a zero, the list with another */
};
void img_stubs(struct img_stubs *stubs);
int img_sizes(unsigned int *sizes, int count);	/* of machine, note, view, attr, new_task, usage,
								   costs, sample, entity, question, answer,
								   fleet_cpu, fleet_task, fleet_level, fleet,
								   fleet_answer, tree_entity, tree, tree_answer,
								   choice_cpu, choice, judged_entity, judged,
								   touched, and those of abi_ext.h; how many
								   there are */
/* With img_guard: the owner of that memory, in words, and the call that allocated or freed it; NULL: nobody owns it. */
const char *img_memory_at(const void *at, void **by);
const char *img_last_words(void);	/* why abort() was called; NULL: the image did not call it */

#endif
