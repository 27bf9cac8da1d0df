// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults that no kernel may have and that nothing in it notices: a runnable task on no queue, a wakeup without effect,
 * a CPU that goes idle with queued tasks, wrong counts. Stands for nothing in the kernel.
 *
 * Checks at an event read a few fields of the task. img_audit() looks at all tasks and queues; the engine calls it each
 * simulated second and at the end. It changes nothing. If CPUs are in the middle of verbs, tasks may be on their way,
 * so only findings that two audits have unchanged are faults.
 */
#include "image.h"

static struct img_note *found(int kind, unsigned int cpu, const struct task_struct *p, u64 value)
{
	struct img_note *note = img_note(IMG_FOUND, cpu);

	note->flags = kind;
	note->pid = p ? p->pid : 0;
	note->other = img_verb;
	note->value = value;
	return note;
}
/* The same at an event; the first finding of a kind has its calls. */
void img_found_here(int kind, unsigned int cpu, const struct task_struct *p, u64 value)
{
	static bool traced[IMG_FOUND_KINDS];
	unsigned long calls = traced[kind] ? 0 : (unsigned long)img_calls();

	traced[kind] = true;
	found(kind, cpu, p, value)->at = calls;
}

/* Off its queue for lack of quota, by the rule that throttles task by task. */
static bool is_throttled_alone(const struct task_struct *p)
{
#ifdef HAVE_TASK_THROTTLED
	return p->throttled || !list_empty(&p->throttle_node);
#else
	return false;
#endif
}

/* Whether its class has the task according to one field. */
static bool class_has(const struct task_struct *p)
{
	if (p->on_rq != TASK_ON_RQ_QUEUED)
		return false;
	if (p->sched_class == &fair_sched_class)
		return p->se.on_rq || is_throttled_alone(p);
	if (p->sched_class == &rt_sched_class)
		return p->rt.on_rq;
	return true;
}

void img_audit_queued(struct task_struct *p)
{
	if (!class_has(p))
		img_found_here(IMG_LOST_TASK, task_cpu(p), p, 0);
	else if (p->sched_class == &rt_sched_class && p->nr_cpus_allowed > 1 && task_rq(p)->curr != p &&
		 plist_node_empty(&p->pushable_tasks))
		img_found_here(IMG_NOT_PUSHABLE, task_cpu(p), p, 0);
}

/* After the waking of a task that was asleep for the `sleeps`-th time. */
void img_audit_woken(struct task_struct *p, unsigned long sleeps, int woken)
{
	if ((READ_ONCE(p->__state) & TASK_NORMAL) && img_task_of(p)->sleeps == sleeps)
		found(IMG_DROPPED_WAKEUP, task_cpu(p), p, woken);
}

/* Tasks that only this CPU can run next. Those that a sched_ext scheduler holds wait for whom it gives them. */
static unsigned int waiting_on(const struct rq *rq)
{
#ifdef CONFIG_SCHED_CLASS_EXT
	return rq->nr_running - rq->scx.nr_running + rq->scx.local_dsq.nr;
#else
	return rq->nr_running;
#endif
}

void img_audit_idle(void)
{
	struct rq *rq = this_rq();

	/* A CPU that queues a task there holds the lock until a switch is asked for. */
	if (unlikely(rq->nr_running) && waiting_on(rq) && !need_resched() && !raw_spin_is_locked(IMG_LOCK_OF(rq)))
		img_found_here(IMG_IDLE_BESIDE_TASKS, img_cpu, NULL, waiting_on(rq));
}

/*
 * After a verb: it has given back everything it took. The idle loop runs with preemption disabled; the end of a switch
 * to its task enables it, and img_settle() corrects that.
 */
void img_audit_verb(void)
{
	static struct task_struct *before[NR_CPUS];
	struct task_struct *prev = before[img_cpu];
	int wanted = PREEMPT_ENABLED;

	before[img_cpu] = current;
	if (system_state != SYSTEM_RUNNING || !prev)
		return;
	if (unlikely(!READ_ONCE(current->on_cpu)))
		img_found_here(IMG_NOT_ON_CPU, img_cpu, current, 0);
	if (is_idle_task(prev) && is_idle_task(current))
		wanted = PREEMPT_DISABLED;
	if (unlikely(preempt_count() != wanted))
		img_found_here(IMG_PREEMPT_COUNT, img_cpu, current, preempt_count() - wanted);
	if (unlikely(!img_irqs)) {
		img_found_here(IMG_IRQS_OFF, img_cpu, current, 0);
		img_irqs = 1;
	}
}

/* Whether a node is in the tree: its parents lead to the root, each by a link that leads back. */
static bool in_tree(const struct rb_root *root, const struct rb_node *node)
{
	const struct rb_node *parent;
	int depth;

	for (depth = 0; depth < 128; depth++, node = parent) {
		parent = rb_parent(node);
		if (!parent)
			return root->rb_node == node;
		if (parent == node || (parent->rb_left != node && parent->rb_right != node))
			return false;
	}
	return false;
}

/* An entity's queue, and the entity of the group above it. */
#ifdef CONFIG_FAIR_GROUP_SCHED
#define IMG_QUEUE_OF(p, se) ((se)->cfs_rq)
#define IMG_ABOVE(se) ((se)->parent)
#else
#define IMG_QUEUE_OF(p, se) (&task_rq(p)->cfs)
#define IMG_ABOVE(se) NULL
#endif

/* Whether the entity and its groups' entities are on their queues; `*throttled`: a quota has taken one of them off. */
static bool entity_queued(struct task_struct *p, bool *throttled)
{
	struct sched_entity *se = &p->se;

	*throttled = is_throttled_alone(p);
	if (*throttled)
		return true;
#ifdef HAVE_FLAT_WEIGHT
	{
		struct cfs_rq *root = &task_rq(p)->cfs;

		return se->on_rq && (root->curr == se || in_tree(&root->tasks_timeline.rb_root, &se->run_node));
	}
#else
	for (; se; se = IMG_ABOVE(se)) {
		struct cfs_rq *cfs_rq = IMG_QUEUE_OF(p, se);

		if (!se->on_rq)
			return *throttled;
		if (cfs_rq->curr != se && !in_tree(&cfs_rq->tasks_timeline.rb_root, &se->run_node))
			return false;
#ifdef CONFIG_CFS_BANDWIDTH
		*throttled |= cfs_rq->throttled;
#endif
	}
	return true;
#endif
}

/* Whether its class has a task that has to be queued; `*counted`: it is one of rq->nr_running. */
static bool is_queued(struct task_struct *p, bool *counted)
{
	bool throttled, queued;

	*counted = true;
	if (!class_has(p))
		return false;
	if (p->sched_class == &fair_sched_class) {
		queued = entity_queued(p, &throttled);
		*counted = !throttled;
		return queued;
	}
	if (p->sched_class == &rt_sched_class) {
		*counted = task_rq(p)->rt.rt_queued;
		return !p->rt.on_list || !list_empty(&p->rt.run_list);
	}
	if (p->sched_class == &dl_sched_class) {
		*counted = !p->dl.dl_throttled;
		return p->dl.dl_throttled || !RB_EMPTY_NODE(&p->dl.rb_node);
	}
	return true;
}

/* A value that has changed if the task made progress. */
static u64 progress_of(const struct task_struct *p)
{
	return p->se.sum_exec_runtime + p->nvcsw + p->nivcsw;
}

static bool is_delayed(const struct task_struct *p)
{
#ifdef DEQUEUE_DELAYED
	return p->se.sched_delayed;
#else
	return false;
#endif
}

static void look_at_sleeper(struct task_struct *p, bool current_there)
{
	struct img_task *own = img_task_of(p);

	if (!p->on_rq && p->se.on_rq && p->sched_class == &fair_sched_class && !is_delayed(p))
		found(IMG_SLEEPER_QUEUED, task_cpu(p), p, progress_of(p));
	else if (own->timed && !own->sleeper.task && !current_there && (READ_ONCE(p->__state) & TASK_NORMAL))
		found(IMG_DROPPED_TIMER, task_cpu(p), p, hrtimer_get_expires(&own->sleeper.timer));
}

/* Whether it may be on a list from which its CPU will take it. */
static bool is_on_its_way(const struct rq *rq, unsigned int state)
{
#ifdef HAVE_TTWU_PENDING
	return state == TASK_WAKING && rq->ttwu_pending;
#else
	return state == TASK_WAKING;
#endif
}

/* Checks a task of a runqueue; returns whether it counts there. */
static bool look_at_task(struct task_struct *p)
{
	struct rq *rq = task_rq(p);
	unsigned int state = READ_ONCE(p->__state);
	bool counted = false, queued, is_current = rq->curr == p;

	if (p->exit_state || (state & (TASK_DEAD | TASK_NEW)))
		return p->on_rq == TASK_ON_RQ_QUEUED;
	queued = p->on_rq && is_queued(p, &counted);
	if ((state == TASK_RUNNING || state == TASK_WAKING) && !queued && !is_on_its_way(rq, state))
		found(IMG_LOST_TASK, task_cpu(p), p, progress_of(p));
	else if (state && state != TASK_WAKING)
		look_at_sleeper(p, is_current);
	return p->on_rq && counted;
}

void img_audit(void)
{
	static unsigned int counted[NR_CPUS];
	struct task_struct *p;
	int cpu, pid;

	memset(counted, 0, img_machine.nr_cpus * sizeof(*counted));
	for (pid = 1; pid < img_pids(); pid++) {
		p = img_task_or_null(pid);
		if (p && look_at_task(p))
			counted[task_cpu(p)]++;
	}
	for_each_online_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);

		if (rq->nr_running != counted[cpu])
			found(IMG_WRONG_COUNT, cpu, NULL, (u64)rq->nr_running << 32 | counted[cpu]);
		if (is_idle_task(rq->curr) && waiting_on(rq) && !test_tsk_need_resched(rq->curr))
			found(IMG_IDLE_BESIDE_TASKS, cpu, NULL, waiting_on(rq));
	}
	img_look();
}
