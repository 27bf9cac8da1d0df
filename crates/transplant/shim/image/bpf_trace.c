// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs at tracepoints, and before and after functions. Stands for __bpf_trace_run() of kernel/trace/bpf_trace.c,
 * for the trampolines of kernel/bpf/trampoline.c and for kprobes.
 *
 * All of the tree's tracepoints can have programs. Of functions those that are listed here lead to programs by
 * themselves: those that the shims call by pointer, and those that the linker leads to the shims. The engine leads
 * others here when a program asks for one, by img_bpf_hook(). A program that is under way on a CPU is not started again
 * there, as in a kernel.
 */
#include <linux/ptrace.h>
#include <linux/srcu.h>
#include <linux/tracepoint.h>

struct trace {
	struct img_bpf_trace about;
	struct trace *next;		/* of the same function */
	bool is_on;
	u8 *active;			/* by CPU */
};
#define MOST_HOOKS 1024
static struct hook {
	const char *function;
	struct trace *first;
} hooks[MOST_HOOKS] = { { "bpf_scx_reg" }, { "bpf_scx_unreg" }, { "scx_tick" } };
static int nr_hooks = 3;
static struct trace **traces;
static int nr_traces, trace_room;

static void trace_runs(struct trace *trace, const u64 *arguments)
{
	u8 *active = &trace->active[img_cpu];

	if (!trace->is_on || *active)
		return;
	*active = 1;
	run_program(&programs[trace->about.program], (void *)arguments);
	*active = 0;
}

/* A tracepoint gives its arguments as a call has them; what is behind a narrow one in its register means nothing. */
static void probed(struct trace *trace, u64 *arguments)
{
	unsigned int i;

	for (i = 0; i < trace->about.nr; i++)
		if (trace->about.bytes[i] < 8)
			arguments[i] &= (1ULL << trace->about.bytes[i] * 8) - 1;
	trace_runs(trace, arguments);
}
static void probe(void *data, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	u64 arguments[] = { a, b, c, d, e };

	probed(data, arguments);
}
/* Further arguments are on the stack. */
static void probe_long(void *data, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l)
{
	u64 arguments[] = { a, b, c, d, e, f, g, h, i, j, k, l };

	probed(data, arguments);
}

static struct hook *hook_of(const char *function)
{
	int i;

	for (i = 0; i < nr_hooks; i++)
		if (!strcmp(hooks[i].function, function))
			return &hooks[i];
	return NULL;
}

/* As a processor has them when a function begins, and its result when it has returned. */
static struct pt_regs registers_of(const u64 *arguments, unsigned int nr, u64 result)
{
	u64 given[6] = { };

	memcpy(given, arguments, min(nr, 6U) * sizeof(u64));
	return (struct pt_regs){ .di = given[0], .si = given[1], .dx = given[2], .cx = given[3], .r8 = given[4],
		.r9 = given[5], .ax = result };
}
static void hook_runs(const struct hook *hook, bool after, const u64 *arguments, unsigned int nr, u64 result)
{
	struct trace *trace;
	struct pt_regs registers;
	u64 given[13] = { };

	for (trace = hook->first; trace; trace = trace->next) {
		if (trace->about.after != after)
			continue;
		if (trace->about.registers) {
			registers = registers_of(arguments, nr, result);
			trace_runs(trace, (u64 *)&registers);
			continue;
		}
		memcpy(given, arguments, min(nr, trace->about.nr) * sizeof(u64));
		given[trace->about.nr] = result;
		trace_runs(trace, given);
	}
}
/* A function begins or has returned. `arguments`: with its result behind them. */
void img_bpf_reaches(const char *function, bool after, const u64 *arguments, unsigned int nr)
{
	hook_runs(hook_of(function), after, arguments, nr, arguments[nr]);
}

/* The number of a function's hook, for code that calls the next two; a negative errno if there are too many. */
int img_bpf_hook(const char *function)
{
	if (nr_hooks == MOST_HOOKS)
		return -ENOSPC;
	hooks[nr_hooks].function = function;
	return nr_hooks++;
}
/* Gives whether to call the other one when the function has returned. */
int img_bpf_enters(int number, const unsigned long long *arguments, unsigned int nr)
{
	const struct hook *hook = &hooks[number];
	struct trace *trace;

	hook_runs(hook, false, arguments, nr, 0);
	for (trace = hook->first; trace; trace = trace->next)
		if (trace->about.after && trace->is_on)
			return 1;
	return 0;
}
void img_bpf_leaves(int number, const unsigned long long *arguments, unsigned int nr, unsigned long long result)
{
	hook_runs(&hooks[number], true, arguments, nr, result);
}

int img_bpf_trace(const struct img_bpf_trace *about)
{
	struct hook *hook = about->tracepoint ? NULL : hook_of(about->function);
	struct trace *trace, **last;
	int failed;

	if (!about->tracepoint && !hook || about->nr > ARRAY_SIZE(about->bytes))
		return -EOPNOTSUPP;
	trace = img_alloc(sizeof(*trace));
	*trace = (struct trace){ .about = *about, .is_on = true, .active = img_alloc(nr_cpu_ids) };
	if (hook) {
		for (last = &hook->first; *last; last = &(*last)->next)
			;
		*last = trace;
	} else {
		void *by = about->nr > 5 ? (void *)probe_long : (void *)probe;

		failed = tracepoint_probe_register(about->tracepoint, by, trace);
		if (failed)
			return failed;
	}
	if (nr_traces == trace_room) {
		int larger = max(2 * trace_room, 16);

		traces = img_grown(traces, trace_room, larger);
		trace_room = larger;
	}
	traces[nr_traces] = trace;
	return nr_traces++;
}

/* kernel/rcu/srcutree.c: a tracepoint's old list of probes has no readers when an ordinary grace period is over. */
void call_srcu(struct srcu_struct *domain, struct rcu_head *head, rcu_callback_t function)
{
	call_rcu(head, function);
}

/* Its probe stays: taking one away waits for readers, which only a task may. */
void img_bpf_untrace(int number)
{
	traces[number]->is_on = false;
}

/* The linker leads calls of scx_tick() here. */
void __real_scx_tick(struct rq *rq);
void __wrap_scx_tick(struct rq *rq)
{
	u64 arguments[] = { (u64)rq, 0 };

	img_bpf_reaches("scx_tick", false, arguments, 1);
	__real_scx_tick(rq);
	img_bpf_reaches("scx_tick", true, arguments, 1);
}
