// SPDX-License-Identifier: GPL-2.0-only
/*
 * The interpreter of BPF programs, instruction set v4 (Documentation/bpf/standardization/instruction-set.rst). Stands
 * for ___bpf_prog_run() of kernel/bpf/core.c.
 *
 * Each instruction is counted. Where code is charged, one costs as much as an instruction of the kernel, and loads and
 * stores move cache lines as any other. A division by zero is BPF's: the result is 0, and the dividend for modulo.
 */
static struct img_bpf_program *programs;	/* in the order in which they were made */
static int nr_programs, program_room;
static int depth[NR_CPUS];
/* Instructions by CPU: a program may be left in the middle where CPUs are woven. */
static u64 executed_on[NR_CPUS];

struct img_bpf_program *img_bpf_program_at(int number)
{
	return &programs[number];
}

/* By which instruction a CPU has left its program: for a call, or for good. */
static const struct img_bpf_insn *left_by[NR_CPUS];
const struct img_bpf_insn *img_bpf_place(void)
{
	return depth[img_cpu] ? left_by[img_cpu] : NULL;
}

static char words[256];
void img_bpf_dies(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(words, sizeof(words), format, arguments);
	va_end(arguments);
	img_fatal(words);
}

#ifdef CONFIG_SIM_COUNTED
void img_read(const void *at);
#define READS(at) img_read((const void *)(at))
#define WRITES(at) img_write((const void *)(at))
#define EXECUTED(n) img_executed(n)
#else
#define READS(at) do { } while (0)
#define WRITES(at) do { } while (0)
#define EXECUTED(n) do { } while (0)
#endif

static u64 sign_extended(u64 value, int bits)
{
	return bits == 8 ? (s64)(s8)value : bits == 16 ? (s64)(s16)value : (s64)(s32)value;
}
static u64 swapped(u64 value, int bits)
{
	return bits == 16 ? swab16(value) : bits == 32 ? swab32(value) : swab64(value);
}
static u64 cut_to(u64 value, int bits)
{
	return bits == 16 ? (u16)value : bits == 32 ? (u32)value : value;
}

/* Signed division has no overflow: the least number by -1 is the least number. */
static s64 divided(s64 a, s64 b)
{
	return !b ? 0 : b == -1 ? (s64)(0 - (u64)a) : a / b;
}
static s64 rest_of(s64 a, s64 b)
{
	return !b ? a : b == -1 ? 0 : a % b;
}

#include "bpf_atomic.c"

/*
 * Each row of operations is a list of places, in a table by opcode, and each place jumps to the next instruction's.
 * Rows: of 64 and 32 bits, by a register and by a number.
 */
#define NEXT goto *places[(++at)->op]
#define ALU(OP, wide, narrow)							\
	w_x_##OP: { u64 a = r[at->dst], b = r[at->src]; r[at->dst] = wide; NEXT; }	\
	w_k_##OP: { u64 a = r[at->dst], b = at->imm; r[at->dst] = wide; NEXT; }	\
	n_x_##OP: { u32 a = r[at->dst], b = r[at->src]; r[at->dst] = (u32)(narrow); NEXT; }	\
	n_k_##OP: { u32 a = r[at->dst], b = at->imm; r[at->dst] = (u32)(narrow); NEXT; }
#define SAME(OP, expression) ALU(OP, expression, expression)
#define OF_ALU(OP)								\
	[BPF_ALU64 | BPF_##OP | BPF_X] = &&w_x_##OP, [BPF_ALU64 | BPF_##OP | BPF_K] = &&w_k_##OP,	\
	[BPF_ALU | BPF_##OP | BPF_X] = &&n_x_##OP, [BPF_ALU | BPF_##OP | BPF_K] = &&n_k_##OP,
/* What was executed is counted by place: a jump moves the place from which on it is counted, too. */
#define GO(by)									\
	do {									\
		long places_on = (by);						\
										\
		at += places_on;						\
		since += places_on;						\
		if (places_on < 0 && unlikely(at - since > MOST_EXECUTED))	\
			has_no_end(at, at - since);				\
	} while (0)
#define JUMP(OP, type, narrow, condition)					\
	w_x_##OP: { type a = r[at->dst], b = r[at->src]; if (condition) GO(at->off); NEXT; }	\
	w_k_##OP: { type a = r[at->dst], b = at->imm; if (condition) GO(at->off); NEXT; }	\
	n_x_##OP: { narrow a = r[at->dst], b = r[at->src]; if (condition) GO(at->off); NEXT; }	\
	n_k_##OP: { narrow a = r[at->dst], b = at->imm; if (condition) GO(at->off); NEXT; }
#define OF_JUMP(OP)								\
	[BPF_JMP | BPF_##OP | BPF_X] = &&w_x_##OP, [BPF_JMP | BPF_##OP | BPF_K] = &&w_k_##OP,	\
	[BPF_JMP32 | BPF_##OP | BPF_X] = &&n_x_##OP, [BPF_JMP32 | BPF_##OP | BPF_K] = &&n_k_##OP,
#define LOAD(name, type)							\
	load_##name: {								\
		const type *from = (const type *)(r[at->src] + at->off);	\
										\
		if (unlikely(img_bpf_is_null(from))) {				\
			r[at->dst] = 0;						\
			NEXT;							\
		}								\
		READS(from);							\
		r[at->dst] = *from;						\
		NEXT;								\
	}
/* A store through a null pointer to an arena changes nothing; a verifier lets no other through. */
#define STORE_OF(name, type, value)						\
	store_##name: {								\
		type *to = (type *)(r[at->dst] + at->off);			\
										\
		if (unlikely(img_bpf_is_null(to)))				\
			NEXT;							\
		WRITES(to);							\
		*to = value;							\
		NEXT;								\
	}
#define STORE(name, type) STORE_OF(x_##name, type, r[at->src]) STORE_OF(k_##name, type, at->imm)
#define OF_SIZE(name, SIZE)							\
	[BPF_LDX | BPF_MEM | SIZE] = &&load_##name,				\
	[BPF_STX | BPF_MEM | SIZE] = &&store_x_##name, [BPF_ST | BPF_MEM | SIZE] = &&store_k_##name,	\
	[BPF_STX | BPF_ATOMIC | SIZE] = &&atomically,

/* Instructions between two calls, and of all of a program with its loops and callbacks: more have no end. */
#define MOST_EXECUTED (1L << 30)
static u64 limit_on[NR_CPUS];
static void has_no_end(const struct img_bpf_insn *at, u64 executed)
{
	left_by[img_cpu] = at;
	img_bpf_dies("it does not end: it has executed %llu instructions", executed);
}
static void count(int cpu, u64 executed, const struct img_bpf_insn *at)
{
	left_by[cpu] = at;
	executed_on[cpu] += executed;
	if (unlikely(executed_on[cpu] > limit_on[cpu]))
		has_no_end(at, MOST_EXECUTED);
}

#define DIES(...) (left_by[cpu] = at, img_bpf_dies(__VA_ARGS__))
/* Executes from a place to its exit. Instructions of functions called by a program are counted as the program's. */
static u64 run(const struct img_bpf_insn *at, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5)
{
	static const void *const places[IMG_BPF_MISSING + 1] = {
		[0 ... IMG_BPF_MISSING] = &&unknown,
		OF_ALU(ADD) OF_ALU(SUB) OF_ALU(MUL) OF_ALU(OR) OF_ALU(AND) OF_ALU(XOR) OF_ALU(LSH) OF_ALU(RSH)
		OF_ALU(ARSH) OF_ALU(DIV) OF_ALU(MOD)
		OF_JUMP(JEQ) OF_JUMP(JNE) OF_JUMP(JGT) OF_JUMP(JGE) OF_JUMP(JLT) OF_JUMP(JLE) OF_JUMP(JSGT)
		OF_JUMP(JSGE) OF_JUMP(JSLT) OF_JUMP(JSLE) OF_JUMP(JSET)
		OF_SIZE(u64, BPF_DW) OF_SIZE(u32, BPF_W) OF_SIZE(u16, BPF_H) OF_SIZE(u8, BPF_B)
		[BPF_LDX | BPF_MEMSX | BPF_W] = &&load_s32, [BPF_LDX | BPF_MEMSX | BPF_H] = &&load_s16,
		[BPF_LDX | BPF_MEMSX | BPF_B] = &&load_s8, [BPF_LD | BPF_IMM | BPF_DW] = &&wide_number,
		[BPF_ALU64 | BPF_NEG] = &&negative, [BPF_ALU | BPF_NEG] = &&negative32,
		[BPF_ALU64 | BPF_MOV | BPF_X] = &&copy, [BPF_ALU64 | BPF_MOV | BPF_K] = &&number,
		[BPF_ALU | BPF_MOV | BPF_X] = &&copy32, [BPF_ALU | BPF_MOV | BPF_K] = &&number32,
		[BPF_ALU | BPF_END | BPF_TO_LE] = &&as_it_is, [BPF_ALU | BPF_END | BPF_TO_BE] = &&swap,
		[BPF_ALU64 | BPF_END | BPF_TO_LE] = &&swap,
		[BPF_JMP | BPF_JA] = &&jump, [BPF_JMP32 | BPF_JA] = &&jump_far, [BPF_JMP | 0xe0] = &&may_goto,
		[BPF_JMP | BPF_EXIT] = &&leaves, [IMG_BPF_CALL_LOCAL] = &&calls_local,
		[IMG_BPF_CALL_HELPER] = &&calls_helper, [IMG_BPF_CALL_KFUNC] = &&calls_kfunc,
		[IMG_BPF_MISSING] = &&missing,
	};
	const struct img_bpf_insn *since = at - 1;	/* of those executed the last one that is counted */
	u64 frame[IMG_BPF_STACK / 8], r[11] = { 0, a1, a2, a3, a4, a5 };
	unsigned int may_go = 0x7fffff;
	int cpu = img_cpu;

	if (++depth[cpu] > IMG_BPF_DEPTH)
		DIES("it calls itself more than %d deep", IMG_BPF_DEPTH);
	r[10] = (u64)(frame + ARRAY_SIZE(frame));
	goto *places[at->op];

	SAME(ADD, a + b) SAME(SUB, a - b) SAME(MUL, a * b) SAME(OR, a | b) SAME(AND, a & b) SAME(XOR, a ^ b)
	ALU(LSH, a << (b & 63), a << (b & 31))
	ALU(RSH, a >> (b & 63), a >> (b & 31))
	ALU(ARSH, (s64)a >> (b & 63), (s32)a >> (b & 31))
	ALU(DIV, at->off ? divided(a, b) : b ? a / b : 0, at->off ? divided((s32)a, (s32)b) : b ? a / b : 0)
	ALU(MOD, at->off ? rest_of(a, b) : b ? a % b : a, at->off ? rest_of((s32)a, (s32)b) : b ? a % b : a)
	JUMP(JEQ, u64, u32, a == b) JUMP(JNE, u64, u32, a != b) JUMP(JGT, u64, u32, a > b)
	JUMP(JGE, u64, u32, a >= b) JUMP(JLT, u64, u32, a < b) JUMP(JLE, u64, u32, a <= b)
	JUMP(JSGT, s64, s32, a > b) JUMP(JSGE, s64, s32, a >= b) JUMP(JSLT, s64, s32, a < b)
	JUMP(JSLE, s64, s32, a <= b) JUMP(JSET, u64, u32, a & b)
	LOAD(u64, u64) LOAD(u32, u32) LOAD(u16, u16) LOAD(u8, u8) LOAD(s32, s32) LOAD(s16, s16) LOAD(s8, s8)
	STORE(u64, u64) STORE(u32, u32) STORE(u16, u16) STORE(u8, u8)

negative:	r[at->dst] = -r[at->dst]; NEXT;
negative32:	r[at->dst] = (u32)-r[at->dst]; NEXT;
	/* 1: a cast between the addresses of an arena, which are the same here. */
copy:		r[at->dst] = at->off > 1 ? sign_extended(r[at->src], at->off) : r[at->src]; NEXT;
copy32:		r[at->dst] = (u32)(at->off > 1 ? sign_extended(r[at->src], at->off) : r[at->src]); NEXT;
number:		r[at->dst] = at->imm; NEXT;
number32:	r[at->dst] = (u32)at->imm; NEXT;
wide_number:	r[at->dst] = at->imm; at++; since++; NEXT;
as_it_is:	r[at->dst] = cut_to(r[at->dst], at->imm); NEXT;
swap:		r[at->dst] = swapped(r[at->dst], at->imm); NEXT;
atomically:	atomic(at, r); NEXT;
jump:		GO(at->off); NEXT;
jump_far:	GO(at->imm); NEXT;
	/* A loop that has gone on for too long is left. */
may_goto:
	if (!may_go || !--may_go)
		GO(at->off);
	NEXT;
calls_local:
	r[0] = run((const struct img_bpf_insn *)at->imm, r[1], r[2], r[3], r[4], r[5]);
	NEXT;
calls_helper:
	EXECUTED(at - since);
	count(cpu, at - since, at);
	since = at;
	r[0] = ((img_bpf_helper_t *)at->imm)(r[1], r[2], r[3], r[4], r[5]);
	NEXT;
calls_kfunc:
	EXECUTED(at - since);
	count(cpu, at - since, at);
	since = at;
	r[0] = img_bpf_function((struct img_bpf_called *)at->imm, r);
	NEXT;
leaves:
	EXECUTED(at - since);
	executed_on[cpu] += at - since;
	depth[cpu]--;
	return r[0];
missing:
	DIES("it reaches %s, which the kernel lacks", (const char *)at->imm);
unknown:
	DIES("its opcode %#x is not known", at->op);
	return 0;
}

/* A function of a program as a callback: its place. */
u64 img_bpf_call(long at, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	if (!depth[img_cpu])
		limit_on[img_cpu] = executed_on[img_cpu] + MOST_EXECUTED;
	return run((const struct img_bpf_insn *)at, a, b, c, d, e);
}

/* A program from its start, with its context in memory: that of an operation are the arguments. */
static u64 run_program(struct img_bpf_program *program, void *context)
{
	int cpu = img_cpu;
	u64 before = executed_on[cpu], result;

	program->calls++;
	if (!depth[cpu])
		limit_on[cpu] = before + MOST_EXECUTED;
	result = run(program->insns, (u64)context, 0, 0, 0, 0);
	program->executed += executed_on[cpu] - before;
	return result;
}

int img_bpf_program_new(const struct img_bpf_program *about)
{
	if (nr_programs == program_room) {
		int larger = program_room ? 2 * program_room : 128;
		struct img_bpf_program *all = img_alloc(larger * sizeof(*all));

		memcpy(all, programs, nr_programs * sizeof(*all));
		programs = all;
		program_room = larger;
	}
	programs[nr_programs] = *about;
	return nr_programs++;
}
long long img_bpf_program_run(int number, void *context)
{
	return (int)run_program(&programs[number], context);
}
