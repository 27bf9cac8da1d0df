/*
 * A sched_ext scheduler that shares CPUs by weight: one queue for all CPUs, in the order of the time that each task has had,
 * divided by its weight (its nice value's, or its group's). A task that has slept starts at most one slice behind the
 * queue's time, so sleep saves up no more than that. A task that wakes up while a CPU is idle goes there at once, as the
 * kernel's own choice of a CPU has it.
 *
 * Like fifo.bpf.c it needs no header of a kernel, and names the kernel's functions weakly: those of 6.13 and later, and
 * those that 6.12 has instead.
 */
#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms"), weak))
#define CORE __attribute__((preserve_access_index))

typedef unsigned long long u64;
typedef unsigned int u32;

#define QUEUE 0
/* SCX_SLICE_DFL, the slice of those tasks that the kernel itself puts on an idle CPU */
#define SLICE_NS 20000000ULL
/* The weight of nice 0 */
#define USUAL_WEIGHT 100

struct sched_ext_entity {
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
} CORE;

struct task_struct {
	struct sched_ext_entity scx;
} CORE;

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *task, u64 flags);
	void (*dispatch)(int cpu, struct task_struct *previous);
	void (*running)(struct task_struct *task);
	void (*stopping)(struct task_struct *task, _Bool runnable);
	void (*enable)(struct task_struct *task);
	int (*init)(void);
	char name[128];
};

extern int scx_bpf_create_dsq(u64 queue, int node) __attribute__((section(".ksyms")));
extern void scx_bpf_dsq_insert_vtime(struct task_struct *task, u64 queue, u64 slice, u64 vtime, u64 flags) KSYM;
extern void scx_bpf_dispatch_vtime(struct task_struct *task, u64 queue, u64 slice, u64 vtime, u64 flags) KSYM;
extern _Bool scx_bpf_dsq_move_to_local(u64 queue) KSYM;
extern _Bool scx_bpf_consume(u64 queue) KSYM;

/* The queue's time: that of the task furthest ahead that has begun to run. Differences count, so it may overflow. */
static u64 now;

static _Bool is_before(u64 one, u64 other)
{
	return (long long)(one - other) < 0;
}

SEC("struct_ops/enqueue")
int enqueue(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	u64 vtime = task->scx.dsq_vtime;

	if (is_before(vtime, now - SLICE_NS))
		vtime = now - SLICE_NS;
	if (scx_bpf_dsq_insert_vtime)
		scx_bpf_dsq_insert_vtime(task, QUEUE, SLICE_NS, vtime, arguments[1]);
	else
		scx_bpf_dispatch_vtime(task, QUEUE, SLICE_NS, vtime, arguments[1]);
	return 0;
}

SEC("struct_ops/dispatch")
int dispatch(u64 *arguments)
{
	if (scx_bpf_dsq_move_to_local)
		scx_bpf_dsq_move_to_local(QUEUE);
	else
		scx_bpf_consume(QUEUE);
	return 0;
}

SEC("struct_ops/running")
int running(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];

	if (is_before(now, task->scx.dsq_vtime))
		now = task->scx.dsq_vtime;
	return 0;
}

SEC("struct_ops/stopping")
int stopping(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	u64 used = SLICE_NS - task->scx.slice;

	task->scx.dsq_vtime += used * USUAL_WEIGHT / task->scx.weight;
	return 0;
}

SEC("struct_ops/enable")
int enable(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];

	task->scx.dsq_vtime = now;
	return 0;
}

SEC("struct_ops.s/init")
int init(u64 *arguments)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC(".struct_ops")
struct sched_ext_ops vtime = {
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.running = (void *)running,
	.stopping = (void *)stopping,
	.enable = (void *)enable,
	.init = (void *)init,
	.name = "schedlab_vtime",
};

char LICENSE[] SEC("license") = "GPL";
