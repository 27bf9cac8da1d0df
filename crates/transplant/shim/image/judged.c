// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reasons why current tasks have to give way, so that they can be explained: which call of the class asked for it,
 * and the queue that wakeup preemption judged. Stands for nothing in the kernel.
 *
 * Like choices.c it stands before functions of classes, reads with its own code and changes nothing.
 */
#include "image.h"

#define APART __section(".img_choices")

struct slot {
	struct slot *next;
	struct img_judged judged;
	struct img_judged_entity entities[IMG_JUDGED_MOST];
};
static struct slot *unused APART = NULL, *noted APART = NULL;

typedef void (*preempt_t)(struct rq *rq, struct task_struct *p, int flags);
typedef void (*tick_t)(struct rq *rq, struct task_struct *p, int queued);
static preempt_t preempt_fair APART = NULL;
static tick_t tick_fair APART = NULL;

void img_judged_forget(void)
{
	struct slot *slot;

	while ((slot = noted)) {
		noted = slot->next;
		slot->next = unused;
		unused = slot;
	}
}

static struct img_judged *slot_new(void)
{
	struct slot *slot = unused;

	if (slot)
		unused = slot->next;
	else
		slot = img_map(sizeof(*slot));
	slot->judged = (struct img_judged){ .entities = slot->entities };
	return &slot->judged;
}

bool img_gives_way(struct rq *rq)
{
	return test_tsk_thread_flag(rq->curr, TIF_NEED_RESCHED) ||
	       test_tsk_thread_flag(rq->curr, TIF_NEED_RESCHED_LAZY);
}

/* rb_next() would cost time. */
static struct rb_node *following(struct rb_node *node)
{
	struct rb_node *parent;

	if (node->rb_right) {
		node = node->rb_right;
		while (node->rb_left)
			node = node->rb_left;
		return node;
	}
	while ((parent = rb_parent(node)) && node == parent->rb_right)
		node = parent;
	return parent;
}

/* The entities of both on the queue where they meet (find_matching_se()); their own if one queue has all tasks. */
static struct cfs_rq *meeting(struct sched_entity **curr, struct sched_entity **wakee)
{
#ifdef HAVE_FLAT_WEIGHT
	return &rq_of(cfs_rq_of(*curr))->cfs;
#else
#ifdef CONFIG_FAIR_GROUP_SCHED
	while ((*curr)->depth > (*wakee)->depth)
		*curr = (*curr)->parent;
	while ((*wakee)->depth > (*curr)->depth)
		*wakee = (*wakee)->parent;
	while ((*curr)->cfs_rq != (*wakee)->cfs_rq) {
		*curr = (*curr)->parent;
		*wakee = (*wakee)->parent;
	}
#endif
	return cfs_rq_of(*curr);
#endif
}

static unsigned int policy_of(struct sched_entity *se, struct task_struct *below)
{
	bool is_task = &below->se == se;

#ifdef HAVE_IDLE_GROUP
	if (!is_task && se->my_q->idle)
		return SCHED_IDLE;
#endif
	/* A wakeup asks this of the task itself: whether it is an ordinary one. */
	return is_task || below->policy != SCHED_IDLE ? below->policy : SCHED_BATCH;
}

static void read_entity(struct img_judged_entity *to, struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	struct img_entity *e = &to->entity;

	*to = (struct img_judged_entity){ .weight = se->load.weight };
	e->vruntime = se->vruntime;
#ifdef HAVE_FLAT_WEIGHT
	to->weight = se->h_load.weight;
#endif
#ifdef DEQUEUE_DELAYED
	e->flags |= se->sched_delayed ? IMG_E_DELAYED : 0;
#endif
#ifdef HAVE_LAG
	e->deadline = se->deadline;
	e->slice_ns = se->slice;
	if (se == cfs_rq->curr) {
#ifdef HAVE_PROTECTED_UNTIL
		e->protected_until = se->vprot;
#else
		e->protected_until = se->vlag == se->deadline ? se->deadline : se->vruntime;
#endif
	} else {
		e->lag = se->vlag;
	}
#endif
#ifdef HAVE_CUSTOM_SLICE
	e->flags |= se->custom_slice ? IMG_E_OWN_SLICE : 0;
#endif
	e->flags |= se == cfs_rq->curr ? IMG_E_CURRENT : 0;
	e->flags |= se == cfs_rq->next ? IMG_E_NEXT : 0;
#ifdef HAVE_LAST_BUDDY
	e->flags |= se == cfs_rq->last ? IMG_E_LAST : 0;
	e->flags |= se == cfs_rq->skip ? IMG_E_SKIP : 0;
#endif
}

static struct img_judged *read_queue(struct rq *rq, struct task_struct *p, int flags)
{
	struct img_judged *j = slot_new();
	struct sched_entity *curr = &rq->curr->se, *wakee = &p->se, *se;
	struct cfs_rq *cfs_rq = meeting(&curr, &wakee);
	struct rb_node *node = cfs_rq->tasks_timeline.rb_leftmost;
	int i;

	j->sync = !!(flags & WF_SYNC);
	j->is_new = !!(flags & WF_FORK);
	j->about = IMG_JUDGED_MOST;
	if (cfs_rq_of(&p->se)->throttle_count || cfs_rq->curr != curr || !curr->on_rq) {
		j->why_not = IMG_J_ABSENT;
		return j;
	}
#ifdef HAVE_ZERO_VRUNTIME
	j->min_vruntime = cfs_rq->zero_vruntime;
#else
	j->min_vruntime = cfs_rq->min_vruntime;
#endif
	j->ran_ns = max_t(s64, rq->clock_task - curr->exec_start, 0);
	for (i = -1; i < IMG_JUDGED_MOST && (i < 0 || node); i++) {
		struct img_judged_entity *to = &j->entities[j->nr];

		se = i < 0 ? curr : rb_entry(node, struct sched_entity, run_node);
		if (i >= 0)
			node = following(node);
		if (se == curr && i >= 0)
			continue;
		if (j->nr == IMG_JUDGED_MOST) {
			j->why_not = IMG_J_MANY;
			return j;
		}
		read_entity(to, cfs_rq, se);
		to->entity.policy = SCHED_NORMAL;
		if (se == curr || se == wakee)
			to->entity.policy = policy_of(se, se == curr ? rq->curr : p);
		if (se == wakee)
			j->about = j->nr;
		j->nr++;
	}
	if (node)
		j->why_not = IMG_J_MANY;
	else if (j->about == IMG_JUDGED_MOST)
		j->why_not = IMG_J_ABSENT;
	return j;
}

static void note(struct rq *rq, struct task_struct *p, bool before, struct img_judged *j)
{
	struct img_note *note = img_note(IMG_JUDGED, cpu_of(rq));

	note->pid = p ? p->pid : 0;
	note->other = rq->curr->pid;
	note->flags = before | img_gives_way(rq) << 1;
	note->at = (unsigned long)j;
	if (j) {
		struct slot *slot = container_of(j, struct slot, judged);

		slot->next = noted;
		noted = slot;
	}
}

static void judged(struct rq *rq, struct task_struct *p, int flags)
{
	bool before = img_gives_way(rq), is_fair = rq->curr->sched_class == &fair_sched_class && rq->curr != p;
	struct img_judged *j = is_fair && !before ? read_queue(rq, p, flags) : NULL;

	preempt_fair(rq, p, flags);
	note(rq, p, before, j);
}

static void ticked(struct rq *rq, struct task_struct *p, int queued)
{
	bool before = img_gives_way(rq);

	tick_fair(rq, p, queued);
	if (!before && img_gives_way(rq))
		note(rq, NULL, before, NULL);
}

void img_explain_preemption(void)
{
#ifdef HAVE_WAKEUP_PREEMPT
	preempt_t volatile *preempt = (preempt_t volatile *)&fair_sched_class.wakeup_preempt;
#else
	preempt_t volatile *preempt = (preempt_t volatile *)&fair_sched_class.check_preempt_curr;
#endif
	tick_t volatile *tick = (tick_t volatile *)&fair_sched_class.task_tick;

	preempt_fair = *preempt;
	*preempt = judged;
	tick_fair = *tick;
	*tick = ticked;
}
