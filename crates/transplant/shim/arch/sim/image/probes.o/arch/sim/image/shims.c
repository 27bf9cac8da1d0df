// SPDX-License-Identifier: GPL-2.0-only

/*
 * What is left: calls that do nothing on such a machine, work that is deferred, random draws. Each group says which
 * file it stands for. What the image lacks beside these is a stub that names itself when it is touched.
 */
#include "image.h"
#include <linux/cpu.h>
#include <linux/cred.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>
#include "kernel/smpboot.h"

/* init/main.c */
bool static_key_initialized;
enum system_states system_state;
struct page *img_zero_page;

/* kernel/rcu: callbacks run behind the verb, when no CPU is inside. */
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
}
void rcu_softirq_qs(void)
{
}
int rcu_needs_cpu(void)
{
	return 0;
}

/* kernel/workqueue.c: done at once. */
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
