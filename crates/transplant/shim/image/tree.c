// SPDX-License-Identifier: GPL-2.0-only
/*
 * Single questions to the fair class about a CPU whose tasks are in groups, some of them delayed. Stands for nothing in
 * the kernel. Only images that can be asked have it (fleet.c).
 *
 * The groups are always the same tree; a state uses some. The class itself queues the tasks of a state and has those go
 * to sleep that are to be delayed; each task then becomes current, its entity and those above it get the values of the
 * state, and it is put back, by which its queues are in order. Load averages are those of the state, of this instant,
 * so that none changes. Afterwards everything gets the bytes back that it had before.
 */
#include "image.h"
#include "kernel/sched/pelt.h"

#ifndef HAVE_TG_CFS_RQ
#define tg_cfs_rq(tg, cpu) ((tg)->cfs_rq[cpu])
#define tg_se(tg, cpu) ((tg)->se[cpu])
#endif
#ifdef WF_TTWU
#define WOKEN WF_TTWU
#else
#define WOKEN 0
#endif
/* So far behind all others that it is not eligible. */
#define FAR (1LL << 33)

static const int parents[IMG_TREE_GROUPS] = { -1, -1, 0, 0, 2 };
/* Behind those of a state one for each group that is delayed, whose last task it was. */
static struct task_struct *tasks[IMG_TREE_TASKS + IMG_TREE_GROUPS];
static struct task_group *groups[IMG_TREE_GROUPS];
static struct part {
	void *at, *rest;
	unsigned long size;
} parts[64];
static unsigned int nr_parts;

static void keep(void *at, unsigned long size)
{
	if (nr_parts == ARRAY_SIZE(parts))
		img_fatal("a tree of groups is too large to be asked about");
	parts[nr_parts] = (struct part){ at, img_alloc(size), size };
	memcpy(parts[nr_parts++].rest, at, size);
}

static int prepare(struct rq *rq)
{
	struct img_new_task new = { .name = "drawn" };
	int numbers[IMG_TREE_GROUPS], i, number;

	for (i = 0; i < ARRAY_SIZE(tasks); i++) {
		number = img_task_new(&new);
		if (number < 0)
			return number;
		tasks[i] = img_task_by_pid(number);
		keep(tasks[i], sizeof(struct task_struct));
	}
	for (i = 0; i < IMG_TREE_GROUPS; i++) {
		numbers[i] = number = img_group_new(parents[i] < 0 ? 0 : numbers[parents[i]]);
		if (number < 0)
			return number;
		groups[i] = container_of(img_css_set(number)->subsys[cpu_cgrp_id], struct task_group, css);
		keep(groups[i], sizeof(struct task_group));
		keep(tg_cfs_rq(groups[i], 0), sizeof(struct cfs_rq));
		keep(tg_se(groups[i], 0), sizeof(struct sched_entity));
	}
#ifdef HAVE_FAIR_SERVER
	/* A fair server would arm its timer, which is not among the bytes. */
	rq->fair_server.dl_server = 1;
	rq->fair_server.dl_runtime = 0;
#endif
	keep(rq, sizeof(*rq));
	keep(&root_task_group, sizeof(root_task_group));
	return 0;
}

static struct cfs_rq *queue_of(int group)
{
	return group < 0 ? &this_rq()->cfs : tg_cfs_rq(groups[group], 0);
}

static void join(struct task_struct *p, int group)
{
	struct sched_entity *se;

	p->sched_task_group = group < 0 ? &root_task_group : groups[group];
	set_task_rq(p, 0);
	p->se.depth = 0;
	for (se = p->se.parent; se; se = se->parent)
		p->se.depth++;
	p->se.exec_start = rq_clock_task(this_rq());
}

static void attributes(struct task_struct *p, const struct img_tree_entity *e)
{
	struct sched_entity *se = &p->se;
	int prio = NICE_TO_PRIO(e->nice);

	p->policy = e->policy;
	p->static_prio = p->normal_prio = p->prio = prio;
	se->load.weight = scale_load(sched_prio_to_weight[prio - MAX_RT_PRIO]);
	se->load.inv_weight = sched_prio_to_wmult[prio - MAX_RT_PRIO];
	if (idle_policy(e->policy)) {
		se->load.weight = scale_load(WEIGHT_IDLEPRIO);
		se->load.inv_weight = WMULT_IDLEPRIO;
	}
	se->vruntime = e->vruntime;
#ifdef HAVE_LAG
	se->vlag = e->keeps;
	se->slice = e->slice_ns;
	se->deadline = e->deadline;
#endif
#ifdef HAVE_CUSTOM_SLICE
	se->custom_slice = !!(e->flags & IMG_T_OWN_SLICE);
	se->rel_deadline = !!(e->flags & IMG_T_RELATIVE);
#endif
#ifdef HAVE_FLAT_WEIGHT
	se->h_load.weight = e->weight;
	se->h_load.inv_weight = 0;
#endif
	join(p, e->group);
}

/* Of an entity that is current, or on no queue. */
static void overwrite(struct sched_entity *se, const struct img_tree_entity *e)
{
	se->vruntime = e->vruntime;
#ifdef HAVE_LAG
	se->deadline = e->deadline;
	se->slice = e->slice_ns;
#ifdef HAVE_PROTECTED_UNTIL
	se->vprot = e->protected_until;
	se->vlag = e->keeps;
#else
	/*
	 * Of a current entity this word says whether it is protected: up to its deadline or not at all. The kernel's own
	 * mark of that, a deadline a ns later, is the deadline again if a change of weight moves it by as much.
	 */
	if ((e->flags & (IMG_T_CURRENT | IMG_T_DELAYED)) == IMG_T_CURRENT)
		se->vlag = e->deadline + (e->protected_until < e->deadline ? FAR : 0);
	else
		se->vlag = e->keeps;
#endif
#endif
}

static void weigh(struct sched_entity *se, unsigned long weight)
{
	if (se->on_rq) {
		se->cfs_rq->load.weight += weight - se->load.weight;
		se->cfs_rq->load.inv_weight = 0;
	}
	se->load.weight = weight;
	se->load.inv_weight = 0;
}

static void overwrite_groups(const struct img_tree *t, int group)
{
	for (; group >= 0; group = parents[group]) {
		weigh(tg_se(groups[group], 0), t->groups[group].weight);
		overwrite(tg_se(groups[group], 0), &t->groups[group]);
#ifdef HAVE_CUSTOM_SLICE
		tg_se(groups[group], 0)->custom_slice = !!(t->groups[group].flags & IMG_T_OWN_SLICE);
#endif
	}
}

/* While it is current. */
static void overwrite_levels(const struct img_tree *t, struct task_struct *p, const struct img_tree_entity *e)
{
	overwrite(&p->se, e);
#ifdef HAVE_FLAT_WEIGHT
	p->se.h_load.weight = e->weight;
	p->se.h_load.inv_weight = 0;
#endif
	overwrite_groups(t, e->group);
}

static void put_back(struct rq *rq, struct task_struct *p)
{
#ifdef HAVE_PUT_PREV_NEXT
	p->sched_class->put_prev_task(rq, p, NULL);
#else
	p->sched_class->put_prev_task(rq, p);
#endif
}

/* The last task of a group, or one with more beside it, goes to sleep while `se` has had far too much. */
static bool delay(struct rq *rq, struct task_struct *p, struct sched_entity *se)
{
#ifdef ENQUEUE_DELAYED
	se->vruntime += FAR;
	p->sched_class->dequeue_task(rq, p, DEQUEUE_SLEEP);
	return se->sched_delayed;
#else
	return false;
#endif
}

static bool delay_task(struct rq *rq, const struct img_tree *t, int i)
{
	bool done;

	tasks[i]->sched_class->set_next_task(rq, tasks[i], false);
	overwrite_levels(t, tasks[i], &t->tasks[i]);
	done = delay(rq, tasks[i], &tasks[i]->se);
	overwrite_levels(t, tasks[i], &t->tasks[i]);
	put_back(rq, tasks[i]);
	return done;
}

static bool delay_group(struct rq *rq, const struct img_tree *t, int group)
{
	struct task_struct *p = tasks[IMG_TREE_TASKS + group];
	bool done;

	join(p, group);
	p->sched_class->enqueue_task(rq, p, 0);
	p->sched_class->set_next_task(rq, p, false);
	overwrite_groups(t, group);
	done = delay(rq, p, tg_se(groups[group], 0));
	overwrite_groups(t, group);
	put_back(rq, p);
	return done && !p->se.on_rq;
}

static void set_zero(struct cfs_rq *queue, long long vruntime)
{
#ifdef HAVE_ZERO_VRUNTIME
	if (!queue->load.weight)
		queue->zero_vruntime = vruntime;
#else
	queue->min_vruntime = vruntime;
#endif
}

static void average(struct sched_avg *avg, struct cfs_rq *queue, unsigned long load)
{
	memset(avg, 0, sizeof(*avg));
	avg->last_update_time = cfs_rq_clock_pelt(queue);
	avg->load_avg = load;
	avg->load_sum = load * get_pelt_divider(avg);
}

/* Nothing is on its way between queues, and each contributes what it has. */
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
	/* Entities that are on no queue have what they left with. */
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
		/* Before that pick_task() is core scheduling's alone. */
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
