// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which entity of each queue the fair class picked, for whoever explains it. Stands for nothing in the kernel.
 *
 * A pick is read where its CPU switches, still under the lock of the queue. What has changed since is known: the one
 * that was picked is off its queue's tree, and the one that ran before it is back there. Only the buddy that was picked
 * is forgotten by its queue. Buddies come and go where the class checks for preemption, dequeues and picks: a look
 * behind each of them keeps those of a few queues of each CPU.
 *
 * Only of classes with delayed entities (6.12). As judged.c it reads by its own code and changes nothing.
 */
#include "image.h"

#ifdef DEQUEUE_DELAYED
#define APART __section(".img_choices")
#define MOST_LEVELS 16
#define MOST_KEPT 16	/* queues of a CPU whose buddies are kept */

struct kept {
	struct cfs_rq *of;
	struct sched_entity *next;
};
static struct buddies {
	struct kept all[MOST_KEPT];
	unsigned int eldest;
} *buddies APART = NULL;
typedef bool (*dequeue_t)(struct rq *rq, struct task_struct *p, int flags);
static dequeue_t dequeue_fair APART = NULL;

#ifdef HAVE_FLAT_WEIGHT
#define QUEUE_OF(se) (&rq_of(cfs_rq_of(se))->cfs)
#define ABOVE(se) NULL
#else
#define QUEUE_OF(se) cfs_rq_of(se)
#define ABOVE(se) ((se)->parent)
#endif

static struct kept *kept_of(struct cfs_rq *cfs_rq)
{
	struct kept *all = buddies[cpu_of(rq_of(cfs_rq))].all;
	int i;

	for (i = 0; i < MOST_KEPT; i++)
		if (all[i].of == cfs_rq)
			return &all[i];
	return NULL;
}

/* The buddies of the queues that a task's entities are on, or have just left. */
void img_buddies_look(struct task_struct *p)
{
	struct sched_entity *se;

	if (!dequeue_fair)
		return;
	for (se = &p->se; se; se = ABOVE(se)) {
		struct cfs_rq *cfs_rq = QUEUE_OF(se);
		struct buddies *of = &buddies[cpu_of(rq_of(cfs_rq))];
		struct kept *known = kept_of(cfs_rq);

		if (!known && !cfs_rq->next)
			continue;
		if (!known)
			known = &of->all[of->eldest++ % MOST_KEPT];
		*known = (struct kept){ cfs_rq, cfs_rq->next };
	}
}

static bool dequeued(struct rq *rq, struct task_struct *p, int flags)
{
	bool gone = dequeue_fair(rq, p, flags);

	img_buddies_look(p);
	return gone;
}

static struct sched_entity *on_queue(struct task_struct *p, struct cfs_rq *cfs_rq)
{
	struct sched_entity *se = p->sched_class == &fair_sched_class ? &p->se : NULL;

	while (se && QUEUE_OF(se) != cfs_rq)
		se = ABOVE(se);
	return se && se->on_rq ? se : NULL;
}

static void picked(struct sched_entity *se, struct task_struct *prev, struct task_struct *next)
{
	struct cfs_rq *cfs_rq = QUEUE_OF(se);
	struct img_judged *j = img_queue_read(cfs_rq, on_queue(prev, cfs_rq), cfs_rq->curr, se);
	struct kept *known = kept_of(cfs_rq);
	struct img_note *note;

	if (known && known->next == se && !j->why_not)
		j->entities[j->about].entity.flags |= IMG_E_NEXT;
	note = img_note(IMG_PICKED, cpu_of(rq_of(cfs_rq)));
	note->pid = next->pid;
	note->other = prev->pid;
	note->at = img_queue_noted(j);
}

void img_picked(struct task_struct *prev, struct task_struct *next)
{
	struct sched_entity *levels[MOST_LEVELS], *se;
	int n = 0;

	if (!dequeue_fair || next->sched_class != &fair_sched_class)
		return;
	for (se = &next->se; se && n < MOST_LEVELS; se = ABOVE(se))
		levels[n++] = se;
	while (n--)
		picked(levels[n], prev, next);
	img_buddies_look(next);
}

void img_explain_picks(void)
{
	buddies = img_map(nr_cpu_ids * sizeof(*buddies));
	dequeue_fair = img_in_place_of(fair_sched_class.dequeue_task, dequeued);
}
#else
void img_buddies_look(struct task_struct *p)
{
}
void img_picked(struct task_struct *prev, struct task_struct *next)
{
}
void img_explain_picks(void)
{
}
#endif
