// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a sched_ext scheduler decides about tasks, as notes (IMG_STEP): the dispatch queue (DSQ) into which an operation
 * puts one, its move to another, and CPUs that are kicked. Stands for nothing in the kernel.
 *
 * Decisions are the scheduler's calls of the kernel's functions, by whose names they are known. What the kernel decides
 * itself shows in the task's state after its class has queued it or put it back. As choices.c this reads by its own
 * code and changes nothing.
 */

/* SCX_ENQ_HEAD is ENQUEUE_HEAD; SCX_ENQ_PREEMPT and SCX_KICK_PREEMPT are in no header that all trees have. */
#define TO_PREEMPT (1ULL << 32)
#define KICK_PREEMPT 2ULL

static struct img_ext_ops asked;	/* the scheduler */

enum what { INSERTS = 1, TAKES, KICKS, KICKS_CID };
/* A function of the kernel: its arguments with the task, the DSQ and the flags; 0: it has none. */
static const struct decides {
	const char *name;
	enum what what;
	int task, dsq, flags;
} decide[] = {
	{ "scx_bpf_dsq_insert", INSERTS, 1, 2, 4 },
	{ "scx_bpf_dsq_insert___v2", INSERTS, 1, 2, 4 },
	{ "scx_bpf_dsq_insert_vtime", INSERTS, 1, 2, 5 },
	/* Its second argument is a struct: DSQ, slice, time, flags. */
	{ "__scx_bpf_dsq_insert_vtime", INSERTS, 1, 0, 0 },
	{ "scx_bpf_dispatch", INSERTS, 1, 2, 4 },
	{ "scx_bpf_dispatch_vtime", INSERTS, 1, 2, 5 },
	{ "scx_bpf_dsq_move", INSERTS, 2, 3, 4 },
	{ "scx_bpf_dsq_move_vtime", INSERTS, 2, 3, 4 },
	{ "scx_bpf_dispatch_from_dsq", INSERTS, 2, 3, 4 },
	{ "scx_bpf_dispatch_vtime_from_dsq", INSERTS, 2, 3, 4 },
	{ "scx_bpf_dsq_move_to_local", TAKES },
	{ "scx_bpf_dsq_move_to_local___v2", TAKES, 0, 0, 2 },
	{ "scx_bpf_consume", TAKES },
	{ "scx_bpf_kick_cpu", KICKS, 0, 0, 2 },
	{ "scx_bpf_kick_cid", KICKS_CID, 0, 0, 2 },
};

/* The operation that runs on a CPU, and its task. */
static struct op {
	unsigned int by;
	struct task_struct *of;
} op_on[NR_CPUS];
static bool has_select;		/* the scheduler has an operation that chooses CPUs */
static struct task_struct *stepped[NR_CPUS];	/* the last task of which a CPU has noted a decision */
static struct task_struct *slice_over[NR_CPUS];	/* put back with nothing left of its slice */

static void step(struct task_struct *p, unsigned int by, unsigned int to, u64 id, int cpu, bool preempts)
{
	struct img_note *note = img_note(IMG_STEP, img_cpu);

	note->pid = p ? p->pid : 0;
	note->other = cpu;
	note->value = id;
	note->flags = by | to << 4 | preempts << 8;
	stepped[img_cpu] = p;
}

/* A task goes to a DSQ, known by its number. A local one without a CPU is that of the task's, or of dispatch(). */
static void step_to(struct task_struct *p, unsigned int by, u64 id, bool preempts)
{
	bool is_on = (id & SCX_DSQ_LOCAL_ON) == SCX_DSQ_LOCAL_ON;

	if (is_on && asked.by_cid)
		step(p, by, IMG_Q_LOCAL, id, -1, preempts);
	else if (is_on)
		step(p, by, IMG_Q_LOCAL, id, id & SCX_DSQ_LOCAL_CPU_MASK, preempts);
	else if (id == SCX_DSQ_LOCAL)
		step(p, by, IMG_Q_LOCAL, id,
		     by == IMG_X_SELECT_CPU ? -1 : by == IMG_X_DISPATCH ? (int)img_cpu : task_cpu(p), preempts);
	else if (id == SCX_DSQ_GLOBAL)
		step(p, by, IMG_Q_GLOBAL, id, -1, preempts);
	else
		step(p, by, id & SCX_DSQ_FLAG_BUILTIN ? IMG_Q_OTHER : IMG_Q_USER, id, -1, preempts);
}

/* A program has called a function of the kernel. */
static noinline void img_step_called(const struct img_bpf_called *called, const u64 *r, u64 result)
{
	const struct decides *d = &decide[called->step - 1];
	struct op *op = &op_on[img_cpu];
	u64 flags = d->flags ? r[d->flags] : 0;

	if (called->result == IMG_BPF_BOOL && !(u8)result)
		return;
	if (d->what == INSERTS) {
		u64 dsq = d->dsq ? r[d->dsq] : ((u64 *)r[2])[0];

		if (!d->flags)
			flags = ((u64 *)r[2])[3];
		step_to((struct task_struct *)r[d->task], op->by, dsq, flags & TO_PREEMPT);
	} else if (d->what == TAKES) {
		/* It is the first or the last one there now. */
		struct list_head *all = &this_rq()->scx.local_dsq.list;
		struct list_head *at = flags & (ENQUEUE_HEAD | TO_PREEMPT) ? all->next : all->prev;

		if (at != all)
			step(container_of(at, struct task_struct, scx.dsq_list.node), op->by, IMG_Q_LOCAL,
			     SCX_DSQ_LOCAL, img_cpu, flags & TO_PREEMPT);
	} else if (op->of || flags & KICK_PREEMPT) {
		struct task_struct *before = stepped[img_cpu];

		step(op->of, op->by, IMG_Q_KICKED, flags, d->what == KICKS ? (int)r[1] : -1, flags & KICK_PREEMPT);
		stepped[img_cpu] = before;
	}
}
static int step_of(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(decide); i++)
		if (!strcmp(decide[i].name, name))
			return i + 1;
	return 0;
}

/* An operation's number among those that decide, by its name. */
static unsigned int by_of(const char *name)
{
	if (!strcmp(name, "select_cpu") || !strcmp(name, "select_cid"))
		return IMG_X_SELECT_CPU;
	return !strcmp(name, "enqueue") ? IMG_X_ENQUEUE : !strcmp(name, "dispatch") ? IMG_X_DISPATCH : IMG_X_OTHER;
}

/* What nobody has noted of a task that its class has queued. */
static void step_of_kernel(struct task_struct *p)
{
	if (!(p->scx.flags & SCX_TASK_QUEUED) || stepped[img_cpu] == p)
		return;
	if (p->scx.dsq)
		step_to(p, IMG_X_KERNEL, p->scx.dsq->id, false);
	else
		step(p, IMG_X_ENQUEUE, IMG_Q_HELD, 0, -1, false);
}
typedef void (*enqueue_t)(struct rq *rq, struct task_struct *p, int flags);
typedef void (*put_prev_t)(struct rq *rq, struct task_struct *p, struct task_struct *next);
static enqueue_t enqueue_ext;
static put_prev_t put_prev_ext;

static void enqueue_and_look(struct rq *rq, struct task_struct *p, int flags)
{
	/* select_cpu() has decided, or the task comes from the queue that was noted. */
	bool is_decided = (has_select && p->scx.ddsp_dsq_id != SCX_DSQ_INVALID) || p->scx.sticky_cpu >= 0;

	stepped[img_cpu] = NULL;
	enqueue_ext(rq, p, flags);
	if (!is_decided)
		step_of_kernel(p);
}
static void put_prev_and_look(struct rq *rq, struct task_struct *p, struct task_struct *next)
{
	slice_over[img_cpu] = p->scx.slice ? NULL : p;
	stepped[img_cpu] = NULL;
	put_prev_ext(rq, p, next);
	step_of_kernel(p);
}
bool img_ext_slice_over(const struct task_struct *p)
{
	return p->sched_class == &ext_sched_class && slice_over[img_cpu] == p;
}

static void steps_begin(void)
{
	if (enqueue_ext)
		return;
	enqueue_ext = img_in_place_of(ext_sched_class.enqueue_task, enqueue_and_look);
	put_prev_ext = img_in_place_of(ext_sched_class.put_prev_task, put_prev_and_look);
}
