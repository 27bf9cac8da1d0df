// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rest: calls that do nothing on such a machine, deferred work. Each group names the file that it stands for.
 * Anything else that the image lacks is a stub that names itself when it is touched.
 */
#include "image.h"
#include <linux/cpu.h>
#include <linux/cred.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/security.h>
#include <linux/srcu.h>
#include <linux/sysctl.h>
#include <linux/workqueue.h>
#include "kernel/smpboot.h"

/* init/main.c, mm/init-mm.c, kernel/printk */
bool early_boot_irqs_disabled;
enum system_states system_state;
struct page *img_zero_page;
struct mm_struct init_mm = { .mm_users = ATOMIC_INIT(2), .mm_count = ATOMIC_INIT(1) };
int oops_in_progress;

/* kernel/rcu: callbacks run after the verb, when no CPU is inside. */
static struct rcu_head *callbacks;

void call_rcu(struct rcu_head *head, rcu_callback_t call)
{
	head->func = call;
	head->next = callbacks;
	callbacks = head;
}
void img_rcu_run(void)
{
	struct rcu_head *head;

	while ((head = callbacks)) {
		callbacks = head->next;
		head->func(head);
	}
}
void synchronize_rcu(void)
{
}
void rcu_note_context_switch(bool preempt)
{
}
void rcu_sched_clock_irq(int user)
{
	img_note(IMG_TICK, img_cpu);
}
void rcu_softirq_qs(void)
{
}
void rcu_all_qs(void)
{
}
#ifdef HAVE_RCU_NEEDS_CPU_PLAIN
int rcu_needs_cpu(void)
{
	return 0;
}
#else
/* A time left unwritten keeps every idle CPU's tick. */
int rcu_needs_cpu(u64 now, u64 *next)
{
	*next = KTIME_MAX;
	return 0;
}
#endif

/* kernel/workqueue.c: work is done at once, whichever queue is named. */
struct workqueue_struct *system_wq, *system_unbound_wq, *system_percpu_wq, *system_dfl_wq;
bool queue_work_on(int cpu, struct workqueue_struct *queue, struct work_struct *work)
{
	work->func(work);
	return true;
}
void wq_worker_running(struct task_struct *p)
{
}
void wq_worker_sleeping(struct task_struct *p)
{
}
void wq_worker_tick(struct task_struct *p)
{
}

/* lib/ratelimit.c: messages of a simulation are few. */
int ___ratelimit(struct ratelimit_state *state, const char *who)
{
	return 1;
}
int __printk_ratelimit(const char *who)
{
	return 1;
}

/* kernel/fork.c, kernel/exit.c: memory is never freed. */
void __mmdrop(struct mm_struct *mm)
{
}
void put_task_struct_rcu_user(struct task_struct *p)
{
}
void __put_task_struct(struct task_struct *p)
{
}
#ifdef CONFIG_THREAD_INFO_IN_TASK
void put_task_stack(struct task_struct *p)
{
}
#endif
void calculate_sigpending(void)
{
}
void cgroup_task_dead(struct task_struct *p)
{
}
void __put_task_struct_rcu_cb(struct rcu_head *head)
{
}

/* Accounting that nobody reads: kernel/cgroup/rstat.c, kernel/time/posix-cpu-timers.c, mm/vmstat.c. */
void __cgroup_account_cputime(struct cgroup *cgroup, u64 ns)
{
}
void __cgroup_account_cputime_field(struct cgroup *cgroup, enum cpu_usage_stat index, u64 ns)
{
}
void run_posix_cpu_timers(void)
{
}
void quiet_vmstat(void)
{
}

/* kernel/context_tracking.c and kernel/rcu/tree.c: no CPU is watched. */
#define NOTHING(name) void name(void) { }
NOTHING(ct_irq_enter)
NOTHING(ct_irq_exit)
NOTHING(ct_idle_enter)
NOTHING(ct_idle_exit)
NOTHING(rcu_irq_enter)
NOTHING(rcu_irq_exit)
NOTHING(rcu_idle_enter)
NOTHING(rcu_idle_exit)
NOTHING(rcu_read_unlock_strict)
#ifdef CONFIG_PREEMPT_RCU
/* No callback runs before the verb is over, and no verb ends within such a section. */
NOTHING(__rcu_read_lock)
NOTHING(__rcu_read_unlock)
#endif
void rcu_cpu_starting(unsigned int cpu)
{
}
void rcu_momentary_eqs(void)
{
}

/* security/commoncap.c, kernel/capability.c: any caller here may change a task or write a file. */
int cap_task_setscheduler(struct task_struct *p)
{
	return 0;
}
#ifdef CONFIG_MULTIUSER
bool capable(int capability)
{
	return true;
}
#endif

/*
 * fs/proc/proc_sysctl.c: limits that tables point at, by macros whose places differ from tree to tree. Later trees have
 * them in kernel/sysctl.c, which is compiled.
 */
static int limits[16];
extern const int sysctl_vals[] __attribute__((weak, alias("limits")));
#define LIMIT(name, value) *(int *)(name) = value

void img_limits_init(void)
{
	if (sysctl_vals != limits)
		return;
	LIMIT(SYSCTL_ZERO, 0);
	LIMIT(SYSCTL_ONE, 1);
	LIMIT(SYSCTL_INT_MAX, INT_MAX);
#ifdef SYSCTL_NEG_ONE
	LIMIT(SYSCTL_NEG_ONE, -1);
#endif
#ifdef SYSCTL_TWO
	LIMIT(SYSCTL_TWO, 2);
#endif
#ifdef SYSCTL_THREE
	LIMIT(SYSCTL_THREE, 3);
#endif
#ifdef SYSCTL_FOUR
	LIMIT(SYSCTL_FOUR, 4);
#endif
#ifdef SYSCTL_ONE_HUNDRED
	LIMIT(SYSCTL_ONE_HUNDRED, 100);
#endif
#ifdef SYSCTL_TWO_HUNDRED
	LIMIT(SYSCTL_TWO_HUNDRED, 200);
#endif
#ifdef SYSCTL_ONE_THOUSAND
	LIMIT(SYSCTL_ONE_THOUSAND, 1000);
#endif
#ifdef SYSCTL_THREE_THOUSAND
	LIMIT(SYSCTL_THREE_THOUSAND, 3000);
#endif
#ifdef SYSCTL_MAXOLDUID
	LIMIT(SYSCTL_MAXOLDUID, 65535);
#endif
}

/* lib/kasprintf.c, mm/util.c */
char *kstrdup(const char *text, gfp_t flags)
{
	size_t size = strlen(text) + 1;

	return memcpy(img_alloc(size), text, size);
}
char *kasprintf(gfp_t flags, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return kstrdup(text, flags);
}
