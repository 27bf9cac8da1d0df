// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tasks, groups and bytes from which tree.c makes a state. Stands for nothing in the kernel. tree.c includes it, as
 * kernel/sched/build_policy.c does with the files of classes.
 */
#ifdef WF_TTWU
#define WOKEN WF_TTWU
#else
#define WOKEN 0
#endif
/* So far behind all others that it is not eligible. */
#define FAR (1LL << 33)

static const int parents[IMG_TREE_GROUPS] = { -1, -1, 0, 0, 2 };
/* The tasks of a state, then for each delayed group its former last task. */
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
	/* A fair server would arm its timer, which is not part of the saved bytes. */
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

/* For an entity that is current, or on no queue. */
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
	 * For a current entity this word states whether it is protected: up to its deadline or not at all. The kernel's
	 * own mark of that is a deadline one ns later, which equals the deadline again if a change of weight moves it
	 * by as much.
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

/* While the task is current. */
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

/* The last task of a group, or one with others next to it, goes to sleep while `se` has had far too much time. */
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
