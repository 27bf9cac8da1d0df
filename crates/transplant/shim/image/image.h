/* SPDX-License-Identifier: GPL-2.0-only */

/* Shared by the image's files. Each names at its head the files of the kernel that it stands for. */
#ifndef IMG_IMAGE_H
#define IMG_IMAGE_H
#include <generated/img_have.h>
#include <linux/hrtimer.h>
#include <linux/mmu_context.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
/* Some trees can't include it twice. */
#ifndef IMG_HAS_FAIR
#include "kernel/sched/sched.h"
#endif
#pragma GCC visibility push(default)
#include "../abi.h"
#pragma GCC visibility pop

/* The state's name before it was to be read with care. */
#ifndef HAVE_TASK_STATE
#define __state state
#endif

#ifndef HAVE_TG_CFS_RQ
#define tg_cfs_rq(tg, cpu) ((tg)->cfs_rq[cpu])
#define tg_se(tg, cpu) ((tg)->se[cpu])
#endif

/* A task of the image: the kernel's, and data that system calls would keep on its stack. */
struct img_task {
	struct task_struct task;
	struct hrtimer_sleeper sleeper;
	struct smp_hotplug_thread *thread;	/* the work of a kernel thread of a CPU */
	bool set_up;				/* it ran ->setup() */
	bool timed;				/* a timer was to end its last sleep */
	unsigned long sleeps;			/* how often it was about to sleep */
};
#define img_task_of(p) container_of(p, struct img_task, task)

/* cost.c */
#ifdef CONFIG_SIM_COUNTED
extern unsigned int img_instruction_ps;
extern int img_left;
extern unsigned long long img_due_ps;
extern bool img_halved;
/* The cost of code since the engine took it, ps. */
static inline unsigned long long img_charged_ps(void)
{
	return img_due_ps - (long)img_left * img_instruction_ps;
}
#else
#define img_charged_ps() 0ULL
#endif
#define img_time() (img_now + img_charged_ps() / 1000)
void img_comes(u64 ps, bool write);
void img_queues_for(u64 ps);
u64 img_stored_ps(void);
void img_drain(void);
void img_wait(void);
void img_retire(void);
void img_may_leave(void);
/* Lines that a CPU waits for while others act. */
struct img_missing {
	u64 wait_ps, stores_ps;
	unsigned long executed;
	bool has_queued;
	struct img_sample queued_at;
};
void img_missing_keep(struct img_missing *missing);
void img_missing_restore(const struct img_missing *missing);
void img_exact(int on);
void img_waited(u64 ps);
void img_executed(unsigned int instructions);
/* arena.c */
#define IMG_ARENA (8UL << 30)	/* addresses, of which few are used */
extern char *img_arena_start;
void *img_arena(unsigned long size);
void *img_reserve(unsigned long size);
/* lines.c */
void img_lines_of(int cpu);
void img_lines_init(const struct img_costs *costs);
void img_lines_queue(void);
extern bool img_has_queued;	/* for a line, since the CPU could leave last */
void img_lines_charge(bool on);
void img_write(const void *at);
/* samples.c */
void img_sample(const struct img_sample *at);
/* weave.c */
extern bool img_weaving;
extern int img_verb;	/* of enum img_verb, the running one; -1: another */
void img_leave(void);
bool img_anyone_left(void);
/* labels.c */
void img_labels_init(void);
/* boot.c */
extern struct img_machine img_machine;
/* percpu.c */
extern struct task_struct *img_currents[NR_CPUS];
extern int img_cpu;
void img_go(int cpu);
void img_percpu_init(int cpu);
/* topology.c */
int img_topology_init(const struct img_machine *machine);
unsigned int img_threads_of_core(void);
/* hotplug.c */
void img_bring_up(int cpu);
/* time.c */
void img_clock_init(void);
/* tasks.c */
struct task_struct *img_task_template(void);
struct task_struct *img_kthread_new(const char *name, int cpu);
struct task_struct *img_idle_new(int cpu);
struct task_struct *img_outsider_new(void);
struct task_struct *img_task_by_pid(int pid);
struct task_struct *img_task_or_null(int pid);
int img_pids(void);
int img_pid_new(struct task_struct *p);
void img_tasks_init(void);
void img_tasks_weigh(void);
/* processes.c */
void *img_grown(void *old, int from, int to);
struct signal_struct *img_signals_of(int tgid);
void img_list_task(struct task_struct *p, struct task_struct *parent);
void img_unlist_task(struct task_struct *p);
struct mm_struct *img_space_join(unsigned int number);
void img_space_leave(struct mm_struct *mm);
/* kthreads.c */
int img_threads_create(unsigned int cpu);
/* groups.c */
void img_groups_init(void);
void img_groups_online(void);
struct css_set *img_css_set(int group);
#ifdef CONFIG_SCHED_CLASS_EXT
/* ext_groups.c */
void img_cgroup_join(struct cgroup *cgroup, struct cgroup_subsys_state *css, u64 id);
/* ext.c: after each verb, when no CPU is inside of one */
void img_ext_settle(void);
/* ext_steps.c */
bool img_ext_slice_over(const struct task_struct *p);
#define img_is_ext(p) ((p)->sched_class == &ext_sched_class)
/* traced.c */
void img_trace_fork(struct task_struct *parent, struct task_struct *p);
void img_trace_exit(struct task_struct *p);
void img_trace_free(struct task_struct *p);
void img_trace_mkdir(struct cgroup *cgroup);
void img_trace_attach(struct cgroup *cgroup, struct task_struct *p);
#else
#define img_is_ext(p) false
#define img_ext_slice_over(p) false
static inline void img_ext_settle(void)
{
}
static inline void img_trace_fork(struct task_struct *parent, struct task_struct *p)
{
}
static inline void img_trace_exit(struct task_struct *p)
{
}
static inline void img_trace_free(struct task_struct *p)
{
}
static inline void img_trace_mkdir(struct cgroup *cgroup)
{
}
static inline void img_trace_attach(struct cgroup *cgroup, struct task_struct *p)
{
}
#endif
/* idle.c */
void img_idle_governor(void);
int img_idle_init(void);
/* tunables.c */
void img_tunables_init(void);
/* stacks.c: only the used part of the memory is touched */
#define IMG_STACK_SIZE (256UL << 10)
/* The stacks that the verb under way has used. */
extern struct img_context {
	struct img_stack *running;	/* of a call that may sleep; NULL: the CPU's stack runs */
	void *cpu_top;			/* where the CPU's stack was left */
	struct task_struct *left;	/* the task whose switch has to be finished */
} img_context;
/* Saves a call's preserved registers on this stack, and loads them from the other one. */
void img_swap(void **save, void *load);
void *img_frame(char *memory, void (*function)(void));
void img_on_stack(void (*call)(void *argument), void *argument);
void img_halt(void);
void img_outside(void (*call)(void *argument), void *argument);
void img_outside_continue(void);
bool img_outside_waits(void);
void img_idle_run(void (*loop)(void *argument));
/* verbs.c: what the engine sees */
extern struct img_view img_view;
/* notes.c */
struct img_note *img_note(int kind, unsigned int cpu);
void img_say(const char *text, int is_warning);
void img_notes_init(void);
void img_balance_notes(void);
void **img_calls(void);
#ifdef HAVE_RQ_LOCK
#define IMG_LOCK_OF(rq) (&(rq)->__lock)
#else
#define IMG_LOCK_OF(rq) (&(rq)->lock)
#endif
/* choices.c */
void img_choices_forget(void);
extern unsigned long img_times_left;	/* how often verbs were left in the middle */
/* judged.c */
void img_judged_forget(void);
void img_explain_preemption(void);
bool img_gives_way(struct rq *rq);
struct img_judged *img_queue_read(struct cfs_rq *cfs_rq, struct sched_entity *curr, struct sched_entity *off,
				  struct sched_entity *about);
unsigned long img_queue_noted(struct img_judged *queue);
/* picked.c */
void img_buddies_look(struct task_struct *p);
void img_picked(struct task_struct *prev, struct task_struct *next);
void img_explain_picks(void);
/* audit.c */
void img_found_here(int kind, unsigned int cpu, const struct task_struct *p, u64 value);
void img_audit_queued(struct task_struct *p);
void img_audit_woken(struct task_struct *p, unsigned long sleeps, int woken);
void img_audit_idle(void);
void img_audit_verb(void);
/* audit_order.c */
void img_audit_timer(void);
void img_audit_preempts(struct task_struct *p);
/* irq.c */
bool img_takes_work(void);
/* balance.c: a task has changed its CPU since the last look */
extern bool img_task_moved;
/* memory.c */
void *img_alloc(unsigned long size);
void *img_stack_memory(void);
void *img_map(unsigned long size);
void img_free(const void *at);
void img_memory_init(void);
/* shims.c */
void img_rcu_run(void);
void img_limits_init(void);
/* reports.c */
void img_fatal(const char *what) __attribute__((noreturn));
/* verbs.c: after each verb; after those in which load may have been balanced. */
void img_settle(void);
void img_settle_balanced(void);
void img_look(void);
int img_wake_task(struct task_struct *p, int flags);

/* Puts a function in the place of a class's own, which it gives. Classes are constant to the compiler, but the core
 * calls their functions by pointer.
 */
#define img_in_place_of(of, with) ({							\
	typeof(&*(with)) volatile *img_of = (typeof(&*(with)) volatile *)&(of);	\
	typeof(&*(with)) img_was = *img_of;						\
										\
	*img_of = (with);							\
	img_was;								\
})

/* Whether an address is in a stub's page: the image lacks the function or variable. */
extern char img_stubs_start[], img_stubs_end[], img_stub_names[];
static inline bool img_is_stub(const void *at)
{
	return (const char *)at >= img_stubs_start && (const char *)at < img_stubs_end;
}
#endif
