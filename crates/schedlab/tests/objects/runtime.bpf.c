/*
 * A scheduler for the tests of the runtime: one queue, programs at tracepoints and functions that are counted by what they
 * call, and programs of kind syscall that compare maps, their fields, pointers with sizes and rings with what a kernel
 * does (Linux 7.3). These give 0, or the line of the first difference. `fault` lets it go wrong as a verifier would not.
 */
#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms"), weak))
#define KPTR __attribute__((btf_type_tag("kptr")))
#define NOINLINE __attribute__((noinline))

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define DSQ_GLOBAL ((1ULL << 63) | 1)
#define SLICE_NS 5000000ULL
enum { ANY, NOEXIST, EXIST };
enum { ENOENT = 2, E2BIG = 7, EAGAIN = 11, EBUSY = 16, EEXIST = 17, EINVAL = 22, ERANGE = 34 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static s64 (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static s64 (*map_delete)(void *map, const void *key) = (void *)3;
static u32 (*this_cpu)(void) = (void *)8;
static s64 (*ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*ring_submit)(void *data, u64 flags) = (void *)132;
static struct task_struct *(*current_task)(void) = (void *)158;
static s64 (*for_each)(void *map, void *callback, void *context, u64 flags) = (void *)164;
static s64 (*timer_init)(void *timer, void *map, u64 flags) = (void *)169;
static s64 (*timer_set_callback)(void *timer, void *callback) = (void *)170;
static s64 (*timer_start)(void *timer, u64 ns, u64 flags) = (void *)171;
static s64 (*timer_cancel)(void *timer) = (void *)172;
static s64 (*loop)(u32 count, void *callback, void *context, u64 flags) = (void *)181;
static void *(*kptr_xchg)(void *at, void *with) = (void *)194;
static void *(*lookup_percpu)(void *map, const void *key, u32 cpu) = (void *)195;
static s64 (*dynptr_from_mem)(void *data, u32 size, u64 flags, void *made) = (void *)197;
static s64 (*ring_reserve_dynptr)(void *ring, u32 size, u64 flags, void *made) = (void *)198;
static void (*ring_submit_dynptr)(void *made, u64 flags) = (void *)199;
static s64 (*dynptr_read)(void *to, u32 size, const void *from, u32 at, u64 flags) = (void *)201;
static s64 (*dynptr_write)(void *to, u32 at, const void *from, u32 size, u64 flags) = (void *)202;
static void *(*dynptr_data)(void *of, u32 at, u32 size) = (void *)203;
static s64 (*not_there)(u64 a) = (void *)100000;

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));
struct rq;
struct pt_regs {
	unsigned long di, ax;
} __attribute__((preserve_access_index));
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_spin_lock {
	u32 value;
};
struct bpf_dynptr {
	u64 opaque[2];
} __attribute__((aligned(8)));
struct refs {
	int counter;
} __attribute__((preserve_access_index));
struct usage {
	struct refs refs;
} __attribute__((preserve_access_index));
struct bpf_cpumask {
	struct usage usage;
} __attribute__((preserve_access_index));

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *task, u64 flags);
	char name[128];
};

extern _Bool scx_bpf_dsq_insert___v2___compat(struct task_struct *task, u64 queue, u64 slice, u64 flags) KSYM;
extern struct task_struct *bpf_task_acquire(struct task_struct *task) KSYM;
extern void bpf_task_release(struct task_struct *task) KSYM;
extern void bpf_rcu_read_lock(void) KSYM;
extern void bpf_rcu_read_unlock(void) KSYM;
extern void bpf_preempt_disable(void) KSYM;
extern void bpf_preempt_enable(void) KSYM;
extern void *bpf_cast_to_kern_ctx(void *object) KSYM;
extern struct task_struct *bpf_task_from_pid(int pid) KSYM;
extern int bpf_strlen(const char *text) KSYM;
extern void scx_bpf_error_bstr(char *format, u64 *data, u32 size) KSYM;
extern struct bpf_cpumask *bpf_cpumask_create(void) KSYM;
extern void bpf_cpumask_release(struct bpf_cpumask *mask) KSYM;
extern struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *mask) KSYM;
extern u64 bpf_dynptr_size(const struct bpf_dynptr *p) KSYM;
extern int bpf_dynptr_adjust(struct bpf_dynptr *p, u64 start, u64 end) KSYM;

struct counted {
	u64 n;
	struct bpf_timer timer;
	struct bpf_spin_lock lock;
	u32 m;
	struct bpf_cpumask KPTR *mask;
};

#define MAP(name, kind, entries, type_of_value)	\
	struct {				\
		int (*type)[kind];		\
		int (*max_entries)[entries];	\
		u32 *key;			\
		type_of_value *value;		\
	} name SEC(".maps")
MAP(hash, 1, 3, struct counted);
MAP(array, 2, 2, struct counted);
MAP(percpu_hash, 5, 2, u64);
MAP(lru, 9, 2, u64);
MAP(percpu_lru, 10, 2, u64);
struct {
	int (*type)[27];
	int (*max_entries)[4096];
} ring SEC(".maps");

const volatile int fault;
const volatile int expected;
u64 fired, visited;

#define MUST(condition)			\
	if (!(condition))		\
		return __LINE__

/* A step's values are the compiler's to forget otherwise. */
static NOINLINE s64 put(void *map, u32 key, u64 n, u64 flags)
{
	return map_update(map, &key, &n, flags);
}
static NOINLINE u64 *got(void *map, u32 key)
{
	return map_lookup(map, &key);
}
static NOINLINE s64 gone(void *map, u32 key)
{
	return map_delete(map, &key);
}

SEC("syscall")
int flags(void *unused)
{
	struct counted value = { .n = 5 };
	u32 key = 1;

	MUST(map_update(&hash, &key, &value, EXIST) == -ENOENT);
	MUST(map_update(&hash, &key, &value, 3) == -EINVAL);
	MUST(map_update(&hash, &key, &value, NOEXIST) == 0);
	MUST(map_update(&hash, &key, &value, NOEXIST) == -EEXIST);
	key = 2;
	MUST(map_update(&hash, &key, &value, ANY) == 0);
	key = 3;
	MUST(map_update(&hash, &key, &value, ANY) == 0);
	key = 4;
	MUST(map_update(&hash, &key, &value, ANY) == -E2BIG);
	MUST(gone(&hash, 4) == -ENOENT && gone(&hash, 2) == 0);
	MUST(map_update(&hash, &key, &value, ANY) == 0);
	MUST(!got(&hash, 2) && *got(&hash, 4) == 5);
	key = 2;
	MUST(map_update(&array, &key, &value, ANY) == -E2BIG);
	key = 1;
	MUST(map_update(&array, &key, &value, NOEXIST) == -EEXIST);
	MUST(map_update(&array, &key, &value, EXIST) == 0 && *got(&array, 1) == 5);
	MUST(gone(&array, 1) == -EINVAL);
	MUST(gone(&hash, 1) == 0 && gone(&hash, 3) == 0 && gone(&hash, 4) == 0);
	return 0;
}

SEC("syscall")
int evictions(void *unused)
{
	u32 key = 7;
	u64 *other;

	MUST(put(&lru, 1, 10, ANY) == 0 && put(&lru, 2, 20, ANY) == 0);
	MUST(*got(&lru, 1) == 10);
	MUST(put(&lru, 3, 30, ANY) == 0);
	MUST(!got(&lru, 2) && *got(&lru, 1) == 10 && *got(&lru, 3) == 30);
	MUST(put(&percpu_hash, 7, 70, EXIST) == -ENOENT && put(&percpu_hash, 7, 70, ANY) == 0);
	MUST(put(&percpu_hash, 8, 80, NOEXIST) == 0 && put(&percpu_hash, 9, 90, ANY) == -E2BIG);
	MUST(*got(&percpu_hash, 7) == 70);
	other = lookup_percpu(&percpu_hash, &key, this_cpu() + 1);
	MUST(other && *other == 0);
	MUST(put(&percpu_lru, 1, 1, ANY) == 0 && put(&percpu_lru, 2, 2, ANY) == 0 && put(&percpu_lru, 3, 3, ANY) == 0);
	MUST(!got(&percpu_lru, 1) && *got(&percpu_lru, 3) == 3);
	return 0;
}

static NOINLINE int fires(void *map, u32 *key, struct counted *value)
{
	fired++;
	return 0;
}

/* New values leave locks and masks alone, and end timers; a value that goes gives back what it holds. */
SEC("syscall")
int fields(void *unused)
{
	struct counted value = { .n = 1, .m = 2, .lock.value = 9, .timer.opaque[0] = 77, .mask = (void *)88 };
	struct bpf_cpumask *mask = bpf_cpumask_create(), *old;
	struct counted *at;
	u32 key = 0;

	MUST(mask);
	at = map_lookup(&array, &key);
	MUST(at && timer_init(&at->timer, &array, 1) == 0 && timer_init(&at->timer, &array, 1) == -EBUSY);
	MUST(timer_set_callback(&at->timer, fires) == 0 && timer_start(&at->timer, 1000, 0) == 0);
	MUST(!kptr_xchg(&at->mask, mask));
	MUST(map_update(&array, &key, &value, ANY) == 0);
	MUST(at->n == 1 && at->m == 2 && at->lock.value == 0 && at->mask == mask);
	MUST(timer_start(&at->timer, 1000, 0) == -EINVAL);
	MUST(timer_init(&at->timer, &array, 1) == 0 && timer_cancel(&at->timer) == 0);

	key = 5;
	MUST(map_update(&hash, &key, &value, ANY) == 0);
	at = map_lookup(&hash, &key);
	MUST(at && !at->mask && !at->timer.opaque[0] && at->m == 2);
	mask = bpf_cpumask_create();
	MUST(mask && bpf_cpumask_acquire(mask) == mask);
	MUST(!kptr_xchg(&at->mask, mask));
	MUST(timer_init(&at->timer, &hash, 1) == 0 && timer_set_callback(&at->timer, fires) == 0);
	MUST(timer_start(&at->timer, 1000, 0) == 0);
	MUST(mask->usage.refs.counter == 2 && gone(&hash, 5) == 0 && mask->usage.refs.counter == 1);
	MUST(map_update(&hash, &key, &value, NOEXIST) == 0);
	at = map_lookup(&hash, &key);
	MUST(at && !at->mask && !at->timer.opaque[0]);
	return gone(&hash, 5);
}

static NOINLINE int visits(void *map, u32 *key, u64 *value, u64 *sum)
{
	visited += *key;
	return *key == 9;
}
static NOINLINE int turns(u32 i, u64 *most)
{
	visited++;
	return i == *most;
}

SEC("syscall")
int walks(void *unused)
{
	u64 most = 4;

	MUST(put(&lru, 8, 1, ANY) == 0 && put(&lru, 9, 1, ANY) == 0);
	visited = 0;
	MUST(for_each(&lru, visits, 0, 0) == 2 && visited == 17);
	visited = 0;
	MUST(loop(10, turns, &most, 0) == 5 && visited == 5);
	MUST(loop(3, turns, &most, 0) == 3 && loop(1 << 24, turns, &most, 0) == -E2BIG);
	return 0;
}

SEC("syscall")
int sized(void *unused)
{
	struct bpf_dynptr p, entry;
	u8 bytes[16] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	u32 word = 0;
	u8 *data;

	MUST(dynptr_from_mem(bytes, 16, 1, &p) == -EINVAL && !dynptr_data(&p, 0, 1));
	MUST(dynptr_from_mem(bytes, 16, 0, &p) == 0 && bpf_dynptr_size(&p) == 16);
	MUST(dynptr_read(&word, 4, &p, 2, 0) == 0 && word == 0x06050403);
	MUST(dynptr_read(&word, 4, &p, 13, 0) == -E2BIG);
	word = 0x0a0b0c0d;
	MUST(dynptr_write(&p, 12, &word, 4, 0) == 0 && bytes[12] == 0x0d && bytes[15] == 0x0a);
	MUST(dynptr_write(&p, 13, &word, 4, 0) == -E2BIG);
	data = dynptr_data(&p, 4, 12);
	MUST(data == bytes + 4 && !dynptr_data(&p, 4, 13));
	MUST(bpf_dynptr_adjust(&p, 8, 20) == -ERANGE && bpf_dynptr_adjust(&p, 12, 16) == 0);
	MUST(bpf_dynptr_size(&p) == 4 && dynptr_data(&p, 0, 4) == bytes + 12);
	MUST(ring_reserve_dynptr(&ring, 24, 0, &entry) == 0 && bpf_dynptr_size(&entry) == 24);
	ring_submit_dynptr(&entry, 0);
	MUST(!dynptr_data(&entry, 0, 1));
	return 0;
}

SEC("syscall")
int rings(u64 *entries)
{
	u64 value = 3, *entry = ring_reserve(&ring, 8, 0);

	MUST(entry && ring_output(&ring, &value, 8, 0) == 0 && ring_output(&ring, &value, 8, 4) == -EINVAL);
	MUST(!ring_reserve(&ring, 1 << 30, 0));
	*entry = 2;
	ring_submit(entry, 0);
	return 0;
}

SEC("syscall")
int fails(void *unused)
{
	return expected;
}

SEC("tp_btf/sched_switch")
int switches(u64 *arguments)
{
	struct task_struct *prev = (void *)arguments[1], *next = (void *)arguments[2];

	if (arguments[0] > 1 || prev != current_task() || prev == next)
		scx_bpf_error_bstr("the arguments of sched_switch are wrong", 0, 0);
	bpf_task_acquire(prev);
	return 0;
}

SEC("fentry/scx_tick")
int begins(u64 *arguments)
{
	if (arguments[0])
		bpf_task_release(0);
	return 0;
}
SEC("fexit/scx_tick")
int ends(u64 *arguments)
{
	bpf_rcu_read_lock();
	bpf_rcu_read_unlock();
	return 0;
}
SEC("fentry/bpf_scx_reg")
int registers(u64 *arguments)
{
	bpf_preempt_disable();
	bpf_preempt_enable();
	return 0;
}
/* try_to_wake_up() leads to programs only because these ask for it: they see the same task and result in all ways. */
static u64 wakes_task, wakes_result;
SEC("fentry/try_to_wake_up")
int wakes(u64 *arguments)
{
	wakes_task = arguments[0];
	bpf_strlen("begins");
	return 0;
}
SEC("kprobe/try_to_wake_up")
int wakes_by_registers(struct pt_regs *registers)
{
	if (registers->di != wakes_task || !((struct task_struct *)registers->di)->pid)
		scx_bpf_error_bstr("the registers of try_to_wake_up are wrong", 0, 0);
	return 0;
}
SEC("fexit/try_to_wake_up")
int woken(u64 *arguments)
{
	if (arguments[0] != wakes_task || (int)arguments[3] >> 1)
		scx_bpf_error_bstr("the end of try_to_wake_up is wrong", 0, 0);
	wakes_result = arguments[3];
	return 0;
}
SEC("kretprobe/try_to_wake_up")
int woken_by_registers(struct pt_regs *registers)
{
	if (registers->ax != wakes_result)
		scx_bpf_error_bstr("the result of try_to_wake_up is wrong", 0, 0);
	bpf_task_from_pid(1);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int forks(u64 *arguments)
{
	struct task_struct *child = (void *)arguments[1];

	if (child->pid)
		bpf_cast_to_kern_ctx(child);
	return 0;
}
SEC("tp_btf/of_another_kernel")
int never(u64 *arguments)
{
	return 0;
}
SEC("?fentry/schedule")
int not_asked_for(u64 *arguments)
{
	return 0;
}
#ifdef NOWHERE
SEC("fentry/synchronize_rcu")
int nowhere(u64 *arguments)
{
	return 0;
}
#endif

SEC("struct_ops/enqueue")
int enqueue(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];

	if (fault == 1)
		*(volatile u64 *)0x123456789000 = 1;
	if (fault == 2)
		not_there(1);
	if (fault == 3)
		task = (void *)0x123456789000;
	scx_bpf_dsq_insert___v2___compat(task, DSQ_GLOBAL, SLICE_NS, arguments[1]);
	return 0;
}

SEC(".struct_ops")
struct sched_ext_ops runtime = {
	.enqueue = (void *)enqueue,
	.name = "schedlab_runtime",
};

char LICENSE[] SEC("license") = "GPL";
