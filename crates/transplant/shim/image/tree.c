// SPDX-License-Identifier: GPL-2.0-only
/*
 * Single questions to the fair class about a CPU whose tasks are in groups, some of them delayed. Stands for nothing in
 * the kernel. Only images that can be asked have it (fleet.c).
 *
 * The groups are always the same tree; a state uses some of them. The class itself queues the tasks of a state and puts
 * to sleep those that have to be delayed. Then each task becomes current, its entity and those above it get the values
 * of the state, and it is put back, which sorts its queues. Load averages are the state's, of this instant, so that
 * none changes. Afterwards everything gets its earlier bytes back.
 */
#include "image.h"
#include "kernel/sched/pelt.h"
#include "tree_state.c"

static void average(struct sched_avg *avg, struct cfs_rq *queue, unsigned long load)
{
	memset(avg, 0, sizeof(*avg));
	avg->last_update_time = cfs_rq_clock_pelt(queue);
	avg->load_avg = load;
	avg->load_sum = load * get_pelt_divider(avg);
}

/* No load is on its way between queues, and each queue contributes its present load. */
static void average_queue(struct cfs_rq *queue, unsigned long load)
{
	average(&queue->avg, queue, load);
	queue->tg_load_avg_contrib = load;
	queue->propagate = 0;
	queue->prop_runnable_sum = 0;
	queue->removed.nr = 0;
	queue->next = NULL;
}

static void averages(const struct img_tree *t)
{
	unsigned int i;

	for (i = 0; i < t->nr_tasks; i++)
		average(&tasks[i]->se.avg, tasks[i]->se.cfs_rq, 0);
	average_queue(queue_of(-1), 0);
	for (i = 0; i < IMG_TREE_GROUPS; i++) {
		average(&tg_se(groups[i], 0)->avg, queue_of(parents[i]), 0);
		average_queue(queue_of(i), t->groups[i].load);
		atomic_long_set(&groups[i]->load_avg, t->groups[i].load + t->groups[i].load_elsewhere);
#ifdef HAVE_TG_RUNNABLE
		atomic_long_set(&groups[i]->runnable_avg, t->groups[i].runnable);
		queue_of(i)->tg_runnable_avg_contrib = 0;
#endif
	}
}

static void run(struct rq *rq, const struct img_tree *t, unsigned int i)
{
	struct sched_entity *se;

	tasks[i]->sched_class->set_next_task(rq, tasks[i], false);
	overwrite_levels(t, tasks[i], &t->tasks[i]);
	for (se = &tasks[i]->se; se; se = se->parent)
		se->exec_start = rq_clock_task(rq) - t->ran_ns;
	rcu_assign_pointer(rq->curr, tasks[i]);
#ifdef HAVE_DONOR
	rcu_assign_pointer(rq->donor, tasks[i]);
#endif
}

static void set_buddies(const struct img_tree *t)
{
	unsigned int i;

	for (i = 0; i < t->nr_tasks; i++)
		if (t->tasks[i].flags & IMG_T_NEXT)
#ifdef HAVE_FLAT_WEIGHT
			queue_of(-1)->next = &tasks[i]->se;
#else
			tasks[i]->se.cfs_rq->next = &tasks[i]->se;
#endif
#ifndef HAVE_FLAT_WEIGHT
	for (i = 0; i < IMG_TREE_GROUPS; i++)
		if (t->groups[i].flags & IMG_T_NEXT)
			queue_of(parents[i])->next = tg_se(groups[i], 0);
#endif
}

static bool build(struct rq *rq, const struct img_tree *t)
{
	bool done = true;
	unsigned int i;

	for (i = 0; i < IMG_TREE_GROUPS; i++) {
		groups[i]->shares = scale_load(t->groups[i].shares);
#ifdef HAVE_IDLE_GROUP
		groups[i]->idle = queue_of(i)->idle = t->groups[i].idle;
#endif
	}
	for (i = 0; i < t->nr_tasks; i++) {
		attributes(tasks[i], &t->tasks[i]);
		if (t->tasks[i].flags & IMG_T_ABSENT)
			continue;
		tasks[i]->sched_class->enqueue_task(rq, tasks[i], 0);
		tasks[i]->on_rq = TASK_ON_RQ_QUEUED;
	}
	for (i = 0; i < t->nr_tasks; i++) {
		if (t->tasks[i].flags & IMG_T_ABSENT)
			continue;
		tasks[i]->sched_class->set_next_task(rq, tasks[i], false);
		overwrite_levels(t, tasks[i], &t->tasks[i]);
		put_back(rq, tasks[i]);
	}
	for (i = 0; i < t->nr_tasks; i++)
		if (t->tasks[i].flags & IMG_T_DELAYED)
			done &= delay_task(rq, t, i);
	for (i = 0; i < IMG_TREE_GROUPS; i++)
		if (t->groups[i].flags & IMG_T_DELAYED)
			done &= delay_group(rq, t, i);
	averages(t);
	for (i = 0; i < t->nr_tasks; i++)
		if (t->tasks[i].flags & IMG_T_CURRENT)
			run(rq, t, i);
	for (i = 0; i <= IMG_TREE_GROUPS; i++)
		set_zero(queue_of((int)i - 1), t->min_vruntime);
	/* Entities on no queue keep the values that they left with. */
	for (i = 0; i < IMG_TREE_GROUPS; i++)
		if (!tg_se(groups[i], 0)->on_rq) {
			weigh(tg_se(groups[i], 0), t->groups[i].weight);
			overwrite(tg_se(groups[i], 0), &t->groups[i]);
		}
	set_buddies(t);
	return done;
}

static int number_of(struct sched_entity *se)
{
	int i;

	for (i = 0; i < IMG_TREE_TASKS; i++)
		if (se == &tasks[i]->se)
			return i;
	return -1;
}

static void ask(struct rq *rq, const struct img_tree *t, struct img_tree_answer *a)
{
	struct task_struct *p = tasks[t->about], *picked;
	int flags = 0;

	switch (t->function) {
	case IMG_TREE_PICK:
#ifdef HAVE_PICK_TASK_RF
		picked = p->sched_class->pick_task(rq, NULL);
#elif defined(HAVE_PICK_TASK) && defined(HAVE_LAG)
		picked = p->sched_class->pick_task(rq);
#else
		/* Before that only core scheduling has pick_task(). */
		picked = pick_next_task_fair(rq, is_idle_task(rq->curr) ? NULL : rq->curr, NULL);
#endif
		a->entity = picked ? number_of(&picked->se) : -1;
		break;
	case IMG_TREE_WAKE:
#ifdef ENQUEUE_DELAYED
		flags = p->se.sched_delayed ? ENQUEUE_DELAYED : 0;
#endif
#ifdef ENQUEUE_INITIAL
		p->sched_class->enqueue_task(rq, p, t->is_new ? ENQUEUE_INITIAL : flags | ENQUEUE_WAKEUP);
#else
		p->sched_class->enqueue_task(rq, p, flags | ENQUEUE_WAKEUP);
#endif
		break;
	case IMG_TREE_SLEEP:
		p->sched_class->dequeue_task(rq, p, DEQUEUE_SLEEP);
		break;
	case IMG_TREE_PREEMPT:
#ifdef HAVE_WAKEUP_PREEMPT
		p->sched_class->wakeup_preempt(rq, p, t->is_new ? WF_FORK : WOKEN | (t->sync ? WF_SYNC : 0));
#else
		p->sched_class->check_preempt_curr(rq, p, t->is_new ? WF_FORK : WOKEN | (t->sync ? WF_SYNC : 0));
#endif
		break;
	case IMG_TREE_TICK:
		p->sched_class->task_tick(rq, p, 0);
		break;
	}
	a->resched = test_tsk_thread_flag(rq->curr, TIF_NEED_RESCHED) ||
		     test_tsk_thread_flag(rq->curr, TIF_NEED_RESCHED_LAZY);
}

static void after(struct sched_entity *se, struct cfs_rq *line, bool runs, struct img_after *a)
{
	bool delayed = false;

	*a = (struct img_after){ .vruntime = se->vruntime, .weight = se->load.weight, .on_rq = se->on_rq };
	a->next = line->next == se;
#ifdef HAVE_FLAT_WEIGHT
	a->line_weight = se->h_load.weight;
#else
	a->line_weight = se->load.weight;
#endif
#ifdef ENQUEUE_DELAYED
	delayed = se->sched_delayed;
#endif
	a->delayed = delayed;
	runs &= se->on_rq && !delayed;
#ifdef HAVE_LAG
	a->deadline = se->deadline;
#ifdef HAVE_PROTECTED_UNTIL
	a->keeps = runs ? max((s64)(se->vprot - se->vruntime), (s64)0) : se->vlag;
#else
	a->keeps = runs ? se->vlag == se->deadline : se->vlag;
#endif
#endif
#ifdef HAVE_CUSTOM_SLICE
	a->relative = se->rel_deadline;
#endif
}

static void answer(struct rq *rq, const struct img_tree *t, struct img_tree_answer *a)
{
	unsigned int i, nr = min(t->nr_tasks, (unsigned int)IMG_TREE_TASKS);

	a->nr_running = rq->nr_running;
	for (i = 0; i < nr; i++) {
#ifdef HAVE_FLAT_WEIGHT
		after(&tasks[i]->se, &rq->cfs, rq->curr == tasks[i], &a->tasks[i]);
#else
		after(&tasks[i]->se, tasks[i]->se.cfs_rq, tasks[i]->se.cfs_rq->curr == &tasks[i]->se, &a->tasks[i]);
#endif
	}
	for (i = 0; i < IMG_TREE_GROUPS; i++)
		after(tg_se(groups[i], 0), queue_of(parents[i]), t->groups[i].flags & IMG_T_CURRENT, &a->groups[i]);
}

int img_ask_tree(const struct img_tree *t, struct img_tree_answer *a)
{
	struct rq *rq = this_rq();
	struct rq_flags rf;
	unsigned int i;
	bool done;
	int failed;

	if (t->nr_tasks > IMG_TREE_TASKS || t->about >= t->nr_tasks || img_cpu || !is_idle_task(current))
		return -EINVAL;
	failed = nr_parts ? 0 : prepare(rq);
	if (failed)
		return failed;
	*a = (struct img_tree_answer){ .entity = -1 };
	rq_lock(rq, &rf);
	update_rq_clock(rq);
	done = build(rq, t);
	if (done) {
		ask(rq, t, a);
		answer(rq, t, a);
	}
	rq_unlock(rq, &rf);
	for (i = 0; i < nr_parts; i++)
		memcpy(parts[i].at, parts[i].rest, parts[i].size);
	clear_tsk_thread_flag(current, TIF_NEED_RESCHED);
	clear_tsk_thread_flag(current, TIF_NEED_RESCHED_LAZY);
	img_clear();
	img_settle();
	return done ? 0 : -EINVAL;
}
