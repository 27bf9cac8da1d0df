// SPDX-License-Identifier: GPL-2.0-only
/*
 * Single questions to the fair class: a runqueue in a given state, one function, its answer. Stands for nothing in the
 * kernel; `schedlab validate --rules` compares the answers with its own rules.
 *
 * The tasks of a state are tasks of the image that never run. The class itself puts them on CPU 0's queue and counts
 * them there. Then each becomes current, gets the values of the state, and is put back, which sorts its queue.
 * Afterwards the runqueue and the tasks get their earlier bytes back. Nothing else may run meanwhile.
 */
#include "image.h"

#if defined(HAVE_PICK_TASK) || defined(HAVE_PICK_NEXT_FAIR)
#define MOST 16
#ifdef WF_TTWU
#define WOKEN WF_TTWU
#else
#define WOKEN 0
#endif

static struct task_struct *tasks[MOST];
static struct task_struct *tasks_at_rest[MOST];
static struct rq *rq_at_rest;

/* A fair server would arm its timer, which is not part of the saved bytes. */
static void no_server(struct rq *rq)
{
#ifdef HAVE_FAIR_SERVER
	rq->fair_server.dl_server = 1;
	rq->fair_server.dl_runtime = 0;
#endif
}

static int prepare(struct rq *rq)
{
	struct img_new_task new = { .name = "drawn" };
	int i, pid;

	for (i = 0; i < MOST; i++) {
		pid = img_task_new(&new);
		if (pid < 0)
			return pid;
		tasks[i] = img_task_by_pid(pid);
		tasks_at_rest[i] = img_alloc(sizeof(struct task_struct));
		memcpy(tasks_at_rest[i], tasks[i], sizeof(struct task_struct));
	}
	no_server(rq);
	rq_at_rest = img_alloc(sizeof(*rq));
	memcpy(rq_at_rest, rq, sizeof(*rq));
	return 0;
}

static void rest(struct rq *rq, unsigned int nr)
{
	unsigned int i;

	memcpy(rq, rq_at_rest, sizeof(*rq));
	for (i = 0; i < nr; i++)
		memcpy(tasks[i], tasks_at_rest[i], sizeof(struct task_struct));
}

/* The requests of a task, and the values that it keeps while it is on no queue. */
static void attributes(struct task_struct *p, const struct img_entity *e)
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
#ifdef HAVE_FLAT_WEIGHT
	se->h_load = se->load;
#endif
	se->vruntime = e->vruntime;
	se->exec_start = rq_clock_task(this_rq());
#ifdef HAVE_LAG
	se->vlag = e->lag;
	se->slice = e->slice_ns;
	se->deadline = e->deadline;
#endif
#ifdef HAVE_CUSTOM_SLICE
	se->custom_slice = !!(e->flags & IMG_E_OWN_SLICE);
	se->rel_deadline = !!(e->flags & IMG_E_RELATIVE);
#endif
}

/* Sets its values while it is current: putting it back then sorts it by them. */
static void overwrite(struct sched_entity *se, const struct img_entity *e)
{
	se->vruntime = e->vruntime;
#ifdef HAVE_LAG
	se->deadline = e->deadline;
	se->slice = e->slice_ns;
#ifdef HAVE_PROTECTED_UNTIL
	se->vprot = e->protected_until;
#else
	/* For a current entity this word states whether it is protected: up to its deadline or not at all. */
	se->vlag = e->deadline + (e->protected_until < e->deadline);
#endif
#endif
}

static void put_back(struct rq *rq, struct task_struct *p)
{
#ifdef HAVE_PUT_PREV_NEXT
	p->sched_class->put_prev_task(rq, p, NULL);
#else
	p->sched_class->put_prev_task(rq, p);
#endif
}

static void run(struct rq *rq, struct task_struct *p, unsigned long long ran_ns)
{
	p->se.exec_start = rq_clock_task(rq) - ran_ns;
	rcu_assign_pointer(rq->curr, p);
#ifdef HAVE_DONOR
	rcu_assign_pointer(rq->donor, p);
#endif
}

/* Queues a task, with the values of the state. */
static void queue(struct rq *rq, struct task_struct *p, const struct img_entity *e)
{
	p->sched_class->enqueue_task(rq, p, 0);
	p->on_rq = TASK_ON_RQ_QUEUED;
	p->sched_class->set_next_task(rq, p, false);
	overwrite(&p->se, e);
	put_back(rq, p);
}

static void build(struct rq *rq, const struct img_question *q)
{
	unsigned int i, order;

#ifdef HAVE_ZERO_VRUNTIME
	rq->cfs.zero_vruntime = q->min_vruntime;
#else
	rq->cfs.min_vruntime = q->min_vruntime;
#endif
	for (i = 0; i < q->nr; i++) {
		attributes(tasks[i], &q->entities[i]);
		if (!(q->entities[i].flags & IMG_E_ABSENT))
			queue(rq, tasks[i], &q->entities[i]);
	}
	for (i = 0; i < q->nr; i++) {
		if (!(q->entities[i].flags & IMG_E_CURRENT))
			continue;
		tasks[i]->sched_class->set_next_task(rq, tasks[i], false);
		overwrite(&tasks[i]->se, &q->entities[i]);
		run(rq, tasks[i], q->ran_ns);
	}
#ifndef HAVE_LAG
	rq->cfs.min_vruntime = q->min_vruntime;
#endif
	for (order = 0; order < q->nr; order++) {
		struct sched_entity *se = &tasks[order]->se;

		if (q->entities[order].flags & IMG_E_NEXT)
			rq->cfs.next = se;
#ifdef HAVE_LAST_BUDDY
		if (q->entities[order].flags & IMG_E_LAST)
			rq->cfs.last = se;
		if (q->entities[order].flags & IMG_E_SKIP)
			rq->cfs.skip = se;
#endif
	}
}

static int number_of(struct sched_entity *se)
{
	int i;

	for (i = 0; i < MOST; i++)
		if (se == &tasks[i]->se)
			return i;
	return -1;
}

static void ask(struct rq *rq, const struct img_question *q, struct img_answer *a)
{
	struct task_struct *p = tasks[q->about], *picked;

	switch (q->function) {
	case IMG_ASK_PICK:
#ifdef HAVE_PICK_TASK_RF
		picked = p->sched_class->pick_task(rq, NULL);
#elif defined(HAVE_PICK_TASK)
		picked = p->sched_class->pick_task(rq);
#else
		/* It also switches the queue to the task, which is undone. An empty queue would be balanced. */
		picked = pick_next_task_fair(rq, is_idle_task(rq->curr) ? NULL : rq->curr, NULL);
#endif
		a->entity = picked ? number_of(&picked->se) : -1;
		break;
	case IMG_ASK_PLACE:
#ifdef ENQUEUE_INITIAL
		p->sched_class->enqueue_task(rq, p, q->is_new ? ENQUEUE_INITIAL : ENQUEUE_WAKEUP);
#else
		p->sched_class->enqueue_task(rq, p, ENQUEUE_WAKEUP);
#endif
		break;
	case IMG_ASK_PREEMPT:
#ifdef HAVE_WAKEUP_PREEMPT
		p->sched_class->wakeup_preempt(rq, p, q->is_new ? WF_FORK : WOKEN | (q->sync ? WF_SYNC : 0));
#else
		p->sched_class->check_preempt_curr(rq, p, q->is_new ? WF_FORK : WOKEN | (q->sync ? WF_SYNC : 0));
#endif
		break;
	}
	a->vruntime = p->se.vruntime;
#ifdef HAVE_LAG
	a->deadline = p->se.deadline;
#endif
	a->next = rq->cfs.next ? number_of(rq->cfs.next) : -1;
	a->resched = test_tsk_thread_flag(rq->curr, TIF_NEED_RESCHED) ||
		     test_tsk_thread_flag(rq->curr, TIF_NEED_RESCHED_LAZY);
}

int img_ask(const struct img_question *q, struct img_answer *a)
{
	struct rq *rq = this_rq();
	struct rq_flags rf;
	int failed;

	if (q->nr > MOST || q->about >= q->nr || img_cpu || !is_idle_task(current))
		return -EINVAL;
	failed = rq_at_rest ? 0 : prepare(rq);
	if (failed)
		return failed;
	*a = (struct img_answer){ .entity = -1 };
	rq_lock(rq, &rf);
	update_rq_clock(rq);
	build(rq, q);
	ask(rq, q, a);
	rq_unlock(rq, &rf);
	rest(rq, q->nr);
	clear_tsk_thread_flag(current, TIF_NEED_RESCHED);
	clear_tsk_thread_flag(current, TIF_NEED_RESCHED_LAZY);
	img_clear();
	img_settle();
	return 0;
}
#else
int img_ask(const struct img_question *q, struct img_answer *a)
{
	return -ENOSYS;
}
#endif

#ifndef CONFIG_SIM_ASKED
int img_ask_fleet(const struct img_fleet *f, struct img_fleet_answer *a)
{
	return -ENOSYS;
}
int img_ask_tree(const struct img_tree *t, struct img_tree_answer *a)
{
	return -ENOSYS;
}
#endif
