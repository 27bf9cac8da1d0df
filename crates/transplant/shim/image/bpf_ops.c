// SPDX-License-Identifier: GPL-2.0-only
/*
 * A scheduler's struct of operations: its programs as functions, registered and unregistered by the kernel's own
 * bpf_sched_ext_ops. Stands for kernel/bpf/bpf_struct_ops.c.
 */
#define MOST_OPS 64
static struct bpf_struct_ops *kinds[2];		/* by CPU, by cid */
static void *running;				/* the registered struct; NULL: none is */
static int program_at[MOST_OPS], nr_ops;
static unsigned int by[MOST_OPS];		/* enum img_step_by */
static int exit_program;
static struct img_ext_state state;

int __register_bpf_struct_ops(struct bpf_struct_ops *ops)
{
	kinds[!!strstr(ops->name, "cid")] = ops;
	return 0;
}
void *bpf_prog_get_assoc_struct_ops(const struct bpf_prog_aux *aux)
{
	return running;
}
struct bpf_map *bpf_prog_arena(struct bpf_prog *program)
{
	return asked.arena < 0 ? NULL : img_bpf_map_at(asked.arena);
}
/* Which arena the programs of a scheduler use: all use the same. */
int bpf_struct_ops_for_each_prog(const void *ops, int (*visit)(struct bpf_prog *program, void *data), void *data)
{
	return visit(&a_program, data);
}
void bpf_map_inc(struct bpf_map *map)
{
}
void bpf_map_put(struct bpf_map *map)
{
}
int bpf_obj_name_cpy(char *to, const char *from, unsigned int size)
{
	return strscpy(to, from, size);
}

/* Decisions of an operation are noted with its name, and its task if it has one. */
static u64 run_op(int n, u64 *arguments)
{
	struct op *on = &op_on[img_cpu], before = *on;
	bool has_task = by[n] == IMG_X_SELECT_CPU || by[n] == IMG_X_ENQUEUE;
	u64 result;

	*on = (struct op){ by[n], has_task ? (struct task_struct *)arguments[0] : NULL };
	result = run_program(&programs[program_at[n]], arguments);
	*on = before;
	return result;
}
/* A function for each operation, as a kernel's trampoline: arguments go to memory, and the program runs. */
#define OP(n) static u64 op_##n(u64 a, u64 b, u64 c, u64 d, u64 e)		\
{										\
	u64 arguments[5] = { a, b, c, d, e };					\
										\
	return run_op(n, arguments);						\
}
#define TEN(DO, t) DO(t##0) DO(t##1) DO(t##2) DO(t##3) DO(t##4) DO(t##5) DO(t##6) DO(t##7) DO(t##8) DO(t##9)
#define ALL(DO) TEN(DO, ) TEN(DO, 1) TEN(DO, 2) TEN(DO, 3) TEN(DO, 4) TEN(DO, 5)
ALL(OP)
#define NAMED(n) op_##n,
static u64 (*const ops[])(u64 a, u64 b, u64 c, u64 d, u64 e) = { ALL(NAMED) };

/* The operation exit() says why a scheduler has ended; then it is the program's turn. */
static void op_exit(char *info)
{
	u64 argument = (u64)info;

	state.exit_kind = *(int *)(info + asked.info_kind);
	state.exit_code = *(s64 *)(info + asked.info_code);
	state.reason = *(char **)(info + asked.info_reason);
	state.message = *(char **)(info + asked.info_message);
	state.reason = state.reason ? kstrdup(state.reason, GFP_KERNEL) : NULL;
	state.message = state.message ? kstrdup(state.message, GFP_KERNEL) : NULL;
	if (exit_program >= 0)
		run_program(&programs[exit_program], &argument);
}

/* Fills a member: by the kernel's own check of it, as a plain value, or by a function. */
static int fill(struct bpf_struct_ops *kind, char *to, const struct img_ext_member *member)
{
	struct btf_type type = { };
	struct btf_member about = { .offset = member->offset * 8 };
	int done;

	if (member->program >= 0) {
		if (member->offset == asked.exit_at) {
			exit_program = member->program;
			return 0;
		}
		if (nr_ops == ARRAY_SIZE(ops))
			return -E2BIG;
		program_at[nr_ops] = member->program;
		by[nr_ops] = by_of(member->name);
		has_select |= by[nr_ops] == IMG_X_SELECT_CPU;
		*(void **)(to + member->offset) = ops[nr_ops++];
		return 0;
	}
	done = kind->init_member(&type, &about, to, asked.values);
	if (!done)
		memcpy(to + member->offset, (char *)asked.values + member->offset, member->bytes);
	return min(done, 0);
}

static int result;
static void enable(void *to)
{
	u64 arguments[] = { (u64)to, 0, 0 };

	img_bpf_reaches("bpf_scx_reg", false, arguments, 2);
	result = kinds[asked.by_cid]->reg(to, NULL);
	arguments[2] = result;
	img_bpf_reaches("bpf_scx_reg", true, arguments, 2);
}
static void disable(void *to)
{
	u64 arguments[] = { (u64)to, 0, 0 };

	img_bpf_reaches("bpf_scx_unreg", false, arguments, 2);
	kinds[asked.by_cid]->unreg(to, NULL);
	img_bpf_reaches("bpf_scx_unreg", true, arguments, 2);
}

/* From outside: no task of the machine asks for it. */
int img_ext_enable(const struct img_ext_ops *given)
{
	struct bpf_struct_ops *kind = kinds[given->by_cid];
	char *to = img_alloc(given->bytes);
	int failed = kind ? 0 : -ENOSYS;
	unsigned int i;

	if (running)
		return -EBUSY;
	asked = *given;
	nr_ops = 0;
	has_select = false;
	steps_begin();
	exit_program = -1;
	state = (struct img_ext_state){ };
	for (i = 0; i < given->nr_members && !failed; i++) {
		failed = fill(kind, to, &given->members[i]);
		if (failed)
			state.reason = given->members[i].name;
	}
	if (failed)
		return failed;
	*(void **)(to + asked.exit_at) = op_exit;
	if (kind->validate)
		failed = kind->validate(to);
	if (failed)
		return failed;
	running = to;
	img_outside(enable, to);
	if (result)
		running = NULL;
	img_settle();
	return result;
}

void img_ext_disable(void)
{
	if (!running)
		return;
	img_outside(disable, running);
	running = NULL;
	schedulers_gone++;
	maps_over = true;
	img_settle();
}

/* Its counters of events, by the kernel's own function, of which the engine knows the place. */
void img_ext_events(const void *function, void *to, unsigned long bytes)
{
	void (*events)(void *to, size_t bytes, const struct bpf_prog_aux *aux) = function;

	if (running)
		events(to, bytes, &a_program_aux);
}

void img_ext_look(struct img_ext_state *to)
{
	*to = state;
}
