// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds a queued task that goes before the running one, by class, priority or deadline, while its CPU was not told to
 * switch: a missing resched_curr(). Asked after the wakeup of a task, and at each timer's interrupt. Stands for nothing
 * in the kernel.
 */
#include "image.h"

/* Whether the fair server runs a CPU's current task, which then counts as a deadline task. */
static bool is_served(const struct rq *rq)
{
#ifdef HAVE_FAIR_SERVER
	return rq->curr->dl_server;
#else
	return false;
#endif
}

static struct task_struct *first_of_rt(struct rq *rq)
{
	struct rt_prio_array *array = &rq->rt.active;
	struct sched_rt_entity *rt_se;

	rt_se = list_entry(array->queue[rq->rt.highest_prio.curr].next, struct sched_rt_entity, run_list);
#ifdef CONFIG_RT_GROUP_SCHED
	if (rt_se->my_q)
		return NULL;
#endif
	return container_of(rt_se, struct task_struct, rt);
}

/* A queued task that has to preempt the current one, while the CPU was not asked to switch. */
static struct task_struct *first_before(struct rq *rq)
{
	struct task_struct *curr = rq->curr, *first;

	if (test_tsk_need_resched(curr) || curr->sched_class == &stop_sched_class || is_served(rq))
		return NULL;
	if (rq->dl.dl_nr_running && rq->dl.root.rb_leftmost) {
		first = container_of(rb_entry(rq->dl.root.rb_leftmost, struct sched_dl_entity, rb_node),
				     struct task_struct, dl);
#ifdef HAVE_FAIR_SERVER
		if (first->dl.dl_server)
			return NULL;
#endif
		if (curr->sched_class != &dl_sched_class || dl_time_before(first->dl.deadline, curr->dl.deadline))
			return first;
		return NULL;
	}
	if (rq->rt.rt_queued && rq->rt.rt_nr_running && curr->sched_class != &dl_sched_class &&
	    rq->rt.highest_prio.curr < curr->prio)
		return first_of_rt(rq);
	return NULL;
}

/* After the queueing of a woken task, before its CPU's lock is released. */
void img_audit_preempts(struct task_struct *p)
{
	struct rq *rq = task_rq(p);

	if (unlikely(first_before(rq) == p))
		img_found_here(IMG_PASSED_OVER, task_cpu(p), p, rq->curr->pid);
}

/* After the interrupt of a timer: finds a task that was passed over more than a tick ago and still is. */
void img_audit_timer(void)
{
	static struct {
		int waits, runs;
		unsigned long since;
	} before[NR_CPUS];
	struct rq *rq = this_rq();
	struct task_struct *p = raw_spin_is_locked(IMG_LOCK_OF(rq)) ? NULL : first_before(rq);

	if (likely(!p)) {
		before[img_cpu].waits = 0;
	} else if (before[img_cpu].waits != p->pid || before[img_cpu].runs != rq->curr->pid) {
		before[img_cpu].waits = p->pid;
		before[img_cpu].runs = rq->curr->pid;
		before[img_cpu].since = jiffies;
	} else if (jiffies - before[img_cpu].since > 1) {
		img_found_here(IMG_PASSED_OVER, img_cpu, p, rq->curr->pid);
		before[img_cpu].waits = 0;
	}
}
