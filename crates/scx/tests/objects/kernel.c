/*
 * A kernel of no version: the types and functions that own.bpf.c names, laid out unlike there. Its BTF stands for a
 * kernel's in the tests. build.sh makes it.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

struct bpf_prog_aux {
	u32 id;
};

enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1,
	SCX_ENQ_HEAD = 16,
	SCX_ENQ_LAST = 1ULL << 41,
};

enum scx_public_consts {
	SCX_OPS_NAME_LEN = 128,
	SCX_SLICE_DFL = 20000000,
};

enum moved {
	MOVED_FIRST = 10,
	MOVED_SECOND = -20,
};

struct sched_ext_entity {
	u64 padding[3];
	u32 weight;
	u64 slice;
};

struct cgroup;

struct task_struct {
	u64 before;
	u64 pid;		/* 4 bytes in the program */
	int prio;		/* 8 bytes there, with a sign */
	struct {
		u32 gap;
		union {
			struct sched_ext_entity scx;
			u64 alias;
		};
	};
	u32 flag_a : 3;
	u32 flag_b : 7;
	s32 flag_c : 5;
	u16 counts[8];
	struct cgroup *cgroup;
};

struct same {
	u32 a;
	const char *text;
	enum moved e;
};

struct rq {
	u64 clock;
};

struct rq runqueues;

struct scx_exit_info {
	s32 kind;
};

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev, u64 flags);
	u64 news;
	void (*enqueue)(struct task_struct *p, u64 flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 timeout_ms;
	u64 flags;
	char name[SCX_OPS_NAME_LEN];
};

struct all {
	struct task_struct task;
	struct same same;
	struct sched_ext_ops ops;
	enum scx_enq_flags enq;
	enum scx_public_consts consts;
};

struct all *all;

_Bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq, u64 slice, u64 flags, const struct bpf_prog_aux *aux)
{
	return !p;
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags, const struct bpf_prog_aux *aux)
{
}

s32 scx_bpf_create_dsq(u64 dsq, s32 node)
{
	return 0;
}

u32 scx_bpf_nr_cpu_ids(void)
{
	return 1;
}

u64 scx_bpf_now(void)
{
	return 1;
}

struct task_struct *bpf_task_acquire(struct task_struct *p)
{
	return p;
}

void bpf_task_release(struct task_struct *p)
{
}

/* A tracepoint has a function with the arguments of its probes, behind their own data. */
void __probestub_sched_switch(void *data, _Bool preempt, struct task_struct *prev)
{
}
