/*
 * The smallest sched_ext scheduler: one queue for all CPUs, first come, first served. A woken task goes to its end, and so
 * does a task whose slice is over. It needs no header of a kernel: the two types it names are completed from the BTF of
 * the kernel that loads it (7.x; the function that queues a task has another name before).
 */
#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms")))

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

extern _Bool scx_bpf_dsq_insert___v2(struct task_struct *task, u64 queue, u64 slice, u64 flags) KSYM;

SEC("struct_ops/enqueue")
int enqueue(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];

	scx_bpf_dsq_insert___v2(task, DSQ_GLOBAL, SLICE_NS, arguments[1]);
	return 0;
}

SEC(".struct_ops")
struct sched_ext_ops fifo = {
	.enqueue = (void *)enqueue,
	.name = "schedlab_fifo",
};

char LICENSE[] SEC("license") = "GPL";
