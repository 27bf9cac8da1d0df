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

static struct img_judged *queue_new(void)
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

static void read_entity(struct img_judged_entity *to, struct cfs_rq *cfs_rq, struct sched_entity *se, bool runs)
{
	struct img_entity *e = &to->entity;

	*to = (struct img_judged_entity){ .weight = se->load.weight };
	e->policy = SCHED_NORMAL;
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
	if (runs) {
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
	e->flags |= runs ? IMG_E_CURRENT : 0;
	e->flags |= se == cfs_rq->next ? IMG_E_NEXT : 0;
#ifdef HAVE_LAST_BUDDY
	e->flags |= se == cfs_rq->last ? IMG_E_LAST : 0;
	e->flags |= se == cfs_rq->skip ? IMG_E_SKIP : 0;
#endif
}

/*
 * A queue, of which `curr` runs; `off` is the one that is not in its tree, `about` the one that is asked about. Its
 * place in the list is that of its entity.
 */
struct img_judged *img_queue_read(struct cfs_rq *cfs_rq, struct sched_entity *curr, struct sched_entity *off,
				  struct sched_entity *about)
{
	struct img_judged *j = queue_new();
	struct rb_node *node = cfs_rq->tasks_timeline.rb_leftmost;
	struct sched_entity *se = off;

	j->about = IMG_JUDGED_MOST;
#ifdef HAVE_ZERO_VRUNTIME
	j->min_vruntime = cfs_rq->zero_vruntime;
#else
	j->min_vruntime = cfs_rq->min_vruntime;
#endif
	while (se || node) {
		if (!se) {
			se = rb_entry(node, struct sched_entity, run_node);
			node = following(node);
		}
		if (j->nr == IMG_JUDGED_MOST) {
			j->why_not = IMG_J_MANY;
			return j;
		}
		if (se == about)
			j->about = j->nr;
		read_entity(&j->entities[j->nr++], cfs_rq, se, se == curr);
		se = NULL;
	}
	if (j->about == IMG_JUDGED_MOST)
		j->why_not = IMG_J_ABSENT;
	return j;
}

/* What the current task and the one that was queued are where they meet. */
static struct img_judged *read_queue(struct rq *rq, struct task_struct *p, int flags)
{
	struct sched_entity *curr = &rq->curr->se, *wakee = &p->se;
	struct cfs_rq *cfs_rq = meeting(&curr, &wakee);
	struct img_judged *j;

	if (cfs_rq_of(&p->se)->throttle_count || cfs_rq->curr != curr || !curr->on_rq) {
		j = queue_new();
		j->why_not = IMG_J_ABSENT;
		return j;
	}
	j = img_queue_read(cfs_rq, curr, curr, wakee);
	j->sync = !!(flags & WF_SYNC);
	j->is_new = !!(flags & WF_FORK);
	j->ran_ns = max_t(s64, rq->clock_task - curr->exec_start, 0);
	j->entities[0].entity.policy = policy_of(curr, rq->curr);
	if (!j->why_not)
		j->entities[j->about].entity.policy = policy_of(wakee, p);
	return j;
}

/* The queue is there until the notes are forgotten. */
unsigned long img_queue_noted(struct img_judged *j)
{
	struct slot *slot = container_of(j, struct slot, judged);

	slot->next = noted;
	noted = slot;
	return (unsigned long)j;
}

static void note(struct rq *rq, struct task_struct *p, bool before, struct img_judged *j)
{
	struct img_note *note = img_note(IMG_JUDGED, cpu_of(rq));

	note->pid = p ? p->pid : 0;
	note->other = rq->curr->pid;
	note->flags = before | img_gives_way(rq) << 1;
	note->at = j ? img_queue_noted(j) : 0;
}

static void judged(struct rq *rq, struct task_struct *p, int flags)
{
	bool before = img_gives_way(rq), is_fair = rq->curr->sched_class == &fair_sched_class && rq->curr != p;
	struct img_judged *j = NULL;

	/* The class hears of tasks of higher classes, too (7.0), and judges nothing then. */
	if (p->sched_class != &fair_sched_class) {
		preempt_fair(rq, p, flags);
		return;
	}
	if (is_fair && !before)
		j = read_queue(rq, p, flags);
	preempt_fair(rq, p, flags);
	note(rq, p, before, j);
	img_buddies_look(p);
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
	preempt_fair = img_in_place_of(fair_sched_class.wakeup_preempt, judged);
#else
	preempt_fair = img_in_place_of(fair_sched_class.check_preempt_curr, judged);
#endif
	tick_fair = img_in_place_of(fair_sched_class.task_tick, ticked);
	img_explain_picks();
}
