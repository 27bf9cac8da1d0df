/*
 * A plugin of QEMU that counts, for each function of a table, its calls and the instructions executed in it, between
 * two marks: calls of one function that the guest makes before and after each run.
 *
 * Arguments: map=FILE (lines "START END INDEX" in hexadecimal, ascending), mark=ADDRESS, out=FILE. The output has for
 * each pair of marks a line "run" and lines "INDEX CALLS INSTRUCTIONS". The declarations below are those of version 3
 * of QEMU's plugin interface. All CPUs of the guest must share one thread of QEMU, as those of a deterministic guest do.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned int, void *), int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

enum { NO_REGISTERS = 0 };

__attribute__((visibility("default"))) int qemu_plugin_version = 3;

struct range {
	uint64_t start, end;
	unsigned int index;
};

/* A stretch of instructions of one function in a translated block; equal stretches share one. */
struct stretch {
	struct stretch *next;
	unsigned int index;
	unsigned int instructions;
	int is_call;
};

struct function {
	uint64_t calls, instructions;
	uint64_t calls_before, instructions_before;
	struct stretch *stretches;
};

static struct range *ranges;
static size_t many;
static struct function *functions;
static unsigned int nr_functions;
static uint64_t mark;
static int counting;
static FILE *out;

static void marked(unsigned int cpu, void *data)
{
	unsigned int i;

	(void)cpu;
	(void)data;
	counting = !counting;
	if (!counting)
		fprintf(out, "run\n");
	for (i = 0; i < nr_functions; i++) {
		struct function *f = &functions[i];
		unsigned long long calls = f->calls - f->calls_before;
		unsigned long long executed = f->instructions - f->instructions_before;

		if (!counting && (calls || executed))
			fprintf(out, "%u %llu %llu\n", i, calls, executed);
		f->calls_before = f->calls;
		f->instructions_before = f->instructions;
	}
	fflush(out);
}

static void executed(unsigned int cpu, void *data)
{
	const struct stretch *stretch = data;
	struct function *f = &functions[stretch->index];

	(void)cpu;
	f->instructions += stretch->instructions;
	f->calls += stretch->is_call;
}

static struct stretch *stretch_of(unsigned int index, unsigned int instructions, int is_call)
{
	struct stretch *s = functions[index].stretches;

	for (; s; s = s->next)
		if (s->instructions == instructions && s->is_call == is_call)
			return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		abort();
	s->next = functions[index].stretches;
	s->index = index;
	s->instructions = instructions;
	s->is_call = is_call;
	functions[index].stretches = s;
	return s;
}

static const struct range *find(uint64_t address)
{
	size_t low = 0, high = many;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (ranges[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < many && ranges[low].start <= address ? &ranges[low] : NULL;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (i = 0; i < n;) {
		struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, i);
		uint64_t start = qemu_plugin_insn_vaddr(first);
		const struct range *in = find(start);
		unsigned int length = 1;

		if (start == mark)
			qemu_plugin_register_vcpu_insn_exec_cb(first, marked, NO_REGISTERS, NULL);
		while (in && i + length < n) {
			struct qemu_plugin_insn *next = qemu_plugin_tb_get_insn(tb, i + length);
			uint64_t address = qemu_plugin_insn_vaddr(next);

			/* A function's first instruction begins a stretch, so that each call is seen. */
			if (address <= in->start || address >= in->end)
				break;
			length++;
		}
		if (in)
			qemu_plugin_register_vcpu_insn_exec_cb(first, executed, NO_REGISTERS,
							       stretch_of(in->index, length, start == in->start));
		i += length;
	}
}

static int read_map(const char *path)
{
	unsigned long long start, end;
	unsigned int index;
	FILE *map = fopen(path, "r");

	if (!map)
		return -1;
	while (fscanf(map, "%llx %llx %x", &start, &end, &index) == 3) {
		struct range *more = realloc(ranges, (many + 1) * sizeof(*ranges));

		if (!more)
			return -1;
		ranges = more;
		ranges[many++] = (struct range){ start, end, index };
		if (index >= nr_functions)
			nr_functions = index + 1;
	}
	fclose(map);
	return many ? 0 : -1;
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	int i, bad = 0;

	(void)info;
	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "map=", 4))
			bad |= read_map(argv[i] + 4);
		else if (!strncmp(argv[i], "mark=", 5))
			mark = strtoull(argv[i] + 5, NULL, 16);
		else if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "w");
		else
			bad = 1;
	}
	if (bad || !mark || !out)
		return -1;
	functions = calloc(nr_functions, sizeof(*functions));
	if (!functions)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
