/*
 * A scheduler for the tests of the loader, made to use what schedulers use: kinds of maps, a timer with its callback,
 * pointers to tasks, global variables, functions, settings of the build, functions that the kernel may lack, and each kind
 * of question about the kernel's types. It says what it believes the kernel's types are; kernel.c has others.
 */
#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms")))
#define KCONFIG __attribute__((section(".kconfig")))
#define WEAK __attribute__((weak))
#define CORE __attribute__((preserve_access_index))
#define KPTR __attribute__((btf_type_tag("kptr")))
#define NOINLINE __attribute__((noinline))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

static void *(*map_lookup_elem)(void *map, const void *key) = (void *)1;
static s32 (*spin_lock)(void *lock) = (void *)93;
static s32 (*spin_unlock)(void *lock) = (void *)94;
static s32 (*timer_init)(void *timer, void *map, u64 flags) = (void *)169;
static s32 (*timer_set_callback)(void *timer, void *callback) = (void *)170;
static s32 (*timer_start)(void *timer, u64 ns, u64 flags) = (void *)171;

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_spin_lock {
	u32 value;
};

struct sched_ext_entity {
	u64 slice;
	u32 weight;
} CORE;

struct task_struct {
	u32 pid;
	long long prio;
	struct sched_ext_entity scx;
	u32 flag_a : 3;
	u32 flag_b : 7;
	s32 flag_c : 5;
	u16 counts[4];
} CORE;

struct task_struct___old {
	int gone;
	u64 pid;
} CORE;

struct rq {
	u64 clock;
} CORE;

enum moved {
	MOVED_FIRST = 1,
	MOVED_SECOND = 2,
	MOVED_THIRD = 3,
};

struct same {
	const char *text;
	enum moved___fewer {
		MOVED_FIRST___fewer = 1,
	} *e;
	u32 a;
};

struct same___matching {
	const char *text;
	u32 a;
};

struct absent {
	u32 a;
};

struct scx_exit_info {
	s32 kind;
};

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev, u64 flags);
	void (*enqueue)(struct task_struct *p, u64 flags);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	void (*not_in_this_kernel)(void);
	u32 timeout_ms;
	char name[128];
};

/* Maps. */
struct entry {
	u64 runs;
	struct bpf_spin_lock lock;
	struct task_struct KPTR *task;
};

struct {
	int (*type)[1];
	int (*max_entries)[512];
	u32 *key;
	struct entry *value;
} tasks SEC(".maps");

struct {
	int (*type)[6];
	int (*max_entries)[4];
	int (*key_size)[4];
	int (*value_size)[8];
	int (*map_flags)[0];
} stats SEC(".maps");

struct beat {
	u64 n;
	struct bpf_timer timer;
};

struct {
	int (*type)[2];
	int (*max_entries)[1];
	u32 *key;
	struct beat *value;
} beats SEC(".maps");

struct queue {
	int (*type)[22];
	int (*max_entries)[64];
	u32 *value;
} queue_a SEC(".maps"), queue_b SEC(".maps");

struct {
	int (*type)[12];
	int (*max_entries)[8];
	u32 *key;
	struct queue *values[];
} queues SEC(".maps") = {
	.values = { [1] = &queue_a, [3] = &queue_b },
};

/* Variables. */
const volatile u32 nr_nodes = 1;
const volatile u64 slices[3] = { 1, 2, 3 };
const volatile u64 __SCX_SLICE_DFL WEAK;
const volatile u64 __SCX_ENQ_LAST WEAK;
const volatile u64 __SCX_NOT_THERE WEAK;
u64 ticks;
u64 answers[32];
static u32 counter = 7;
struct task_struct KPTR *kept SEC(".data.kept");

/* The kernel. */
extern s32 CONFIG_HZ KCONFIG;
extern u32 LINUX_KERNEL_VERSION KCONFIG;
extern _Bool CONFIG_NOT_SET KCONFIG WEAK;
extern const struct rq runqueues KSYM;
extern const struct rq no_such_variable KSYM WEAK;
extern _Bool scx_bpf_dsq_insert___v2___compat(struct task_struct *p, u64 dsq, u64 slice, u64 flags) KSYM WEAK;
extern void scx_bpf_dsq_insert___old(struct task_struct *p, u64 dsq, u64 slice, u64 flags) KSYM WEAK;
extern s32 scx_bpf_create_dsq(u64 dsq, s32 node) KSYM;
extern u64 scx_bpf_now(void) KSYM;
extern u32 scx_bpf_nr_cpu_ids(u32 wrong) KSYM WEAK;
extern void scx_bpf_not_there(u32 cpu) KSYM WEAK;
extern void bpf_of_the_runtime(void) KSYM;

static NOINLINE u64 twice(u64 n)
{
	asm volatile("" : "+r"(n));
	return n * 2;
}

NOINLINE u64 scaled(u64 n)
{
	asm volatile("" : "+r"(n));
	return twice(n) + nr_nodes;
}

SEC("struct_ops/own_select_cpu")
int own_select_cpu(u64 *arguments)
{
	struct task_struct *p = (void *)arguments[0];

	/* Loads whose places and sizes change. */
	answers[0] = p->pid;
	answers[1] = p->scx.weight;
	answers[2] = p->counts[2];
	if (__builtin_preserve_field_info(p->prio, 2))
		answers[3] = 1;
	return arguments[1];
}

SEC("struct_ops/own_enqueue")
int own_enqueue(u64 *arguments)
{
	struct task_struct *p = (void *)arguments[0];
	u32 zero = 0;
	struct entry *entry = map_lookup_elem(&tasks, &zero);

	if (entry) {
		spin_lock(&entry->lock);
		entry->runs++;
		spin_unlock(&entry->lock);
	}
	if (scx_bpf_dsq_insert___v2___compat)
		scx_bpf_dsq_insert___v2___compat(p, 1, slices[0], arguments[1]);
	else
		scx_bpf_dsq_insert___old(p, 1, slices[1], arguments[1]);
	if (scx_bpf_not_there)
		scx_bpf_not_there(0);
	if (scx_bpf_nr_cpu_ids)
		answers[4] = scx_bpf_nr_cpu_ids(1);
	answers[5] = runqueues.clock;
	if (&no_such_variable)
		answers[6] = no_such_variable.clock;
	return 0;
}

static int beat(void *map, u32 *key, struct beat *b)
{
	b->n = scaled(b->n);
	ticks += counter++;
	timer_start(&b->timer, 1000000, 0);
	return 0;
}

SEC("struct_ops.s/own_init")
int own_init(u64 *arguments)
{
	u32 zero = 0;
	struct beat *b = map_lookup_elem(&beats, &zero);

	if (b) {
		timer_init(&b->timer, &beats, 1);
		timer_set_callback(&b->timer, beat);
		timer_start(&b->timer, 1000000, 0);
	}
	answers[7] = CONFIG_HZ + CONFIG_NOT_SET;
	answers[8] = LINUX_KERNEL_VERSION;
	answers[9] = twice(3);
	map_lookup_elem(&stats, &zero);
	map_lookup_elem(&queues, &zero);
	bpf_of_the_runtime();
	return scx_bpf_create_dsq(1, -1) + (kept != 0) + __SCX_SLICE_DFL + __SCX_ENQ_LAST + __SCX_NOT_THERE;
}

/* The questions, in the order of their numbers. */
SEC("syscall")
int questions(struct task_struct *p)
{
	struct task_struct___old *old = (void *)p;

	answers[10] = __builtin_preserve_field_info(p->flag_b, 0);
	answers[11] = __builtin_preserve_field_info(p->pid, 1);
	answers[12] = __builtin_preserve_field_info(old->gone, 2);
	answers[13] = __builtin_preserve_field_info(p->flag_c, 3);
	answers[14] = __builtin_preserve_field_info(p->flag_b, 4);
	answers[15] = __builtin_preserve_field_info(p->flag_b, 5);
	answers[16] = __builtin_btf_type_id(*(struct same *)0, 0);
	answers[17] = __builtin_btf_type_id(*(struct task_struct *)0, 1);
	answers[18] = __builtin_preserve_type_info(*(struct absent *)0, 0);
	answers[19] = __builtin_preserve_type_info(*(struct task_struct *)0, 1);
	answers[20] = __builtin_preserve_enum_value(*(enum moved *)MOVED_THIRD, 0);
	answers[21] = __builtin_preserve_enum_value(*(enum moved *)MOVED_SECOND, 1);
	answers[22] = __builtin_preserve_type_info(*(struct same *)0, 2);
	answers[23] = __builtin_preserve_type_info(*(struct same___matching *)0, 2);
	answers[24] = __builtin_preserve_field_info(p->counts[3], 0);
	answers[25] = __builtin_preserve_enum_value(*(enum moved *)MOVED_THIRD, 1);
	answers[26] = old->gone;
	answers[27] = p->prio;
	return 0;
}

/* Programs beside the operations; the last one is not asked for. */
SEC("tp_btf/sched_switch")
int own_switch(u64 *arguments)
{
	ticks += arguments[0];
	return 0;
}
SEC("fexit/scx_tick")
int own_ticked(u64 *arguments)
{
	return 0;
}
SEC("?fentry/scx_tick")
int own_tick(u64 *arguments)
{
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops own = {
	.select_cpu = (void *)own_select_cpu,
	.enqueue = (void *)own_enqueue,
	.init = (void *)own_init,
	.flags = 2,
	.timeout_ms = 5000,
	.name = "own",
};

char LICENSE[] SEC("license") = "GPL";
