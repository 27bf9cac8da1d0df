/*
 * The smallest sched_ext scheduler: one queue for all CPUs, first come, first served. A woken task goes to its end, and so
 * does a task whose slice is over. It needs no header of a kernel: the two types it names are completed from the BTF of
 * the kernel that loads it.
 *
 * The function that queues a task is scx_bpf_dsq_insert___v2 in a kernel of 7.x. libbpf since 1.3 takes what stands behind
 * the last "___" of a program's name for a note of the program's own and asks the kernel for the rest, so the name gets
 * one more; older libraries ask for the whole name. 6.12 calls it scx_bpf_dispatch. All are weak, and one that is there is
 * called.
 */
#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms"), weak))

typedef unsigned long long u64;

/* SCX_DSQ_GLOBAL: SCX_DSQ_FLAG_BUILTIN | 1 */
#define DSQ_GLOBAL ((1ULL << 63) | 1)
#define SLICE_NS 5000000ULL

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *task, u64 flags);
	char name[128];
};

extern _Bool scx_bpf_dsq_insert___v2___compat(struct task_struct *task, u64 queue, u64 slice, u64 flags) KSYM;
extern _Bool scx_bpf_dsq_insert___v2(struct task_struct *task, u64 queue, u64 slice, u64 flags) KSYM;
extern void scx_bpf_dispatch(struct task_struct *task, u64 queue, u64 slice, u64 flags) KSYM;

SEC("struct_ops/enqueue")
int enqueue(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];

	if (scx_bpf_dsq_insert___v2___compat)
		scx_bpf_dsq_insert___v2___compat(task, DSQ_GLOBAL, SLICE_NS, arguments[1]);
	else if (scx_bpf_dsq_insert___v2)
		scx_bpf_dsq_insert___v2(task, DSQ_GLOBAL, SLICE_NS, arguments[1]);
	else
		scx_bpf_dispatch(task, DSQ_GLOBAL, SLICE_NS, arguments[1]);
	return 0;
}

SEC(".struct_ops")
struct sched_ext_ops fifo = {
	.enqueue = (void *)enqueue,
	.name = "schedlab_fifo",
};

char LICENSE[] SEC("license") = "GPL";
