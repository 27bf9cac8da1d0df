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

/* Rows of operations: of 64 and 32 bits, by a register and by a number. */
#define ALU(OP, wide, narrow)							\
	case BPF_ALU64 | OP | BPF_X: { u64 a = r[at->dst], b = r[at->src]; r[at->dst] = wide; break; } \
	case BPF_ALU64 | OP | BPF_K: { u64 a = r[at->dst], b = at->imm; r[at->dst] = wide; break; } \
	case BPF_ALU | OP | BPF_X: { u32 a = r[at->dst], b = r[at->src]; r[at->dst] = (u32)(narrow); break; } \
	case BPF_ALU | OP | BPF_K: { u32 a = r[at->dst], b = at->imm; r[at->dst] = (u32)(narrow); break; }
#define SAME(OP, expression) ALU(OP, expression, expression)
#define JUMP(OP, type, narrow, condition)					\
	case BPF_JMP | OP | BPF_X: { type a = r[at->dst], b = r[at->src]; if (condition) at += at->off; break; } \
	case BPF_JMP | OP | BPF_K: { type a = r[at->dst], b = at->imm; if (condition) at += at->off; break; } \
	case BPF_JMP32 | OP | BPF_X: { narrow a = r[at->dst], b = r[at->src]; if (condition) at += at->off; break; } \
	case BPF_JMP32 | OP | BPF_K: { narrow a = r[at->dst], b = at->imm; if (condition) at += at->off; break; }
#define LOAD(MODE, SIZE, type)							\
	case BPF_LDX | MODE | SIZE: {						\
		const type *from = (const type *)(r[at->src] + at->off);	\
										\
		if (unlikely(img_bpf_is_null(from))) {				\
			r[at->dst] = 0;						\
			break;							\
		}								\
		READS(from);							\
		r[at->dst] = *from;						\
		break;								\
	}
/* A store through a null pointer to an arena changes nothing; a verifier lets no other through. */
#define STORE_OF(op, SIZE, type, value)						\
	case op | BPF_MEM | SIZE: {						\
		type *to = (type *)(r[at->dst] + at->off);			\
										\
		if (unlikely(img_bpf_is_null(to)))				\
			break;							\
		WRITES(to);							\
		*to = value;							\
		break;								\
	}
#define STORE(SIZE, type) STORE_OF(BPF_STX, SIZE, type, r[at->src]) STORE_OF(BPF_ST, SIZE, type, at->imm)

/* Instructions between two calls, and of all of a program with its loops and callbacks: more have no end. */
#define MOST_EXECUTED (1U << 30)
static u64 limit_on[NR_CPUS];
static void count(int cpu, unsigned int executed, const struct img_bpf_insn *at)
{
	left_by[cpu] = at;
	executed_on[cpu] += executed;
	if (unlikely(executed_on[cpu] > limit_on[cpu]))
		img_bpf_dies("it does not end: it has executed %u instructions", MOST_EXECUTED);
}

#define DIES(...) (left_by[cpu] = at, img_bpf_dies(__VA_ARGS__))
/* Executes from a place to its exit. Instructions of functions called by a program are counted as the program's. */
static u64 run(const struct img_bpf_insn *at, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5)
{
	u64 frame[IMG_BPF_STACK / 8], r[11] = { 0, a1, a2, a3, a4, a5 };
	unsigned int executed = 0, may_go = 0x7fffff;
	int cpu = img_cpu;

	if (++depth[cpu] > IMG_BPF_DEPTH)
		DIES("it calls itself more than %d deep", IMG_BPF_DEPTH);
	r[10] = (u64)(frame + ARRAY_SIZE(frame));
	for (;; at++) {
		if (unlikely(++executed > MOST_EXECUTED))
			DIES("it does not end: it has executed %u instructions", executed);
		switch (at->op) {
		SAME(BPF_ADD, a + b)
		SAME(BPF_SUB, a - b)
		SAME(BPF_MUL, a * b)
		SAME(BPF_OR, a | b)
		SAME(BPF_AND, a & b)
		SAME(BPF_XOR, a ^ b)
		ALU(BPF_LSH, a << (b & 63), a << (b & 31))
		ALU(BPF_RSH, a >> (b & 63), a >> (b & 31))
		ALU(BPF_ARSH, (s64)a >> (b & 63), (s32)a >> (b & 31))
		ALU(BPF_DIV, at->off ? divided(a, b) : b ? a / b : 0, at->off ? divided((s32)a, (s32)b) : b ? a / b : 0)
		ALU(BPF_MOD, at->off ? rest_of(a, b) : b ? a % b : a, at->off ? rest_of((s32)a, (s32)b) : b ? a % b : a)
		case BPF_ALU64 | BPF_NEG: r[at->dst] = -r[at->dst]; break;
		case BPF_ALU | BPF_NEG: r[at->dst] = (u32)-r[at->dst]; break;
		/* 1: a cast between the addresses of an arena, which are the same here. */
		case BPF_ALU64 | BPF_MOV | BPF_X:
			r[at->dst] = at->off > 1 ? sign_extended(r[at->src], at->off) : r[at->src];
			break;
		case BPF_ALU64 | BPF_MOV | BPF_K: r[at->dst] = at->imm; break;
		case BPF_ALU | BPF_MOV | BPF_X:
			r[at->dst] = (u32)(at->off > 1 ? sign_extended(r[at->src], at->off) : r[at->src]);
			break;
		case BPF_ALU | BPF_MOV | BPF_K: r[at->dst] = (u32)at->imm; break;
		case BPF_ALU | BPF_END | BPF_TO_LE: r[at->dst] = cut_to(r[at->dst], at->imm); break;
		case BPF_ALU | BPF_END | BPF_TO_BE:
		case BPF_ALU64 | BPF_END | BPF_TO_LE: r[at->dst] = swapped(r[at->dst], at->imm); break;
		case BPF_LD | BPF_IMM | BPF_DW: r[at->dst] = at->imm; at++; break;
		LOAD(BPF_MEM, BPF_DW, u64) LOAD(BPF_MEM, BPF_W, u32) LOAD(BPF_MEM, BPF_H, u16) LOAD(BPF_MEM, BPF_B, u8)
		LOAD(BPF_MEMSX, BPF_W, s32) LOAD(BPF_MEMSX, BPF_H, s16) LOAD(BPF_MEMSX, BPF_B, s8)
		STORE(BPF_DW, u64) STORE(BPF_W, u32) STORE(BPF_H, u16) STORE(BPF_B, u8)
		case BPF_STX | BPF_ATOMIC | BPF_DW:
		case BPF_STX | BPF_ATOMIC | BPF_W:
		case BPF_STX | BPF_ATOMIC | BPF_H:
		case BPF_STX | BPF_ATOMIC | BPF_B: atomic(at, r); break;
		JUMP(BPF_JEQ, u64, u32, a == b) JUMP(BPF_JNE, u64, u32, a != b)
		JUMP(BPF_JGT, u64, u32, a > b) JUMP(BPF_JGE, u64, u32, a >= b)
		JUMP(BPF_JLT, u64, u32, a < b) JUMP(BPF_JLE, u64, u32, a <= b)
		JUMP(BPF_JSGT, s64, s32, a > b) JUMP(BPF_JSGE, s64, s32, a >= b)
		JUMP(BPF_JSLT, s64, s32, a < b) JUMP(BPF_JSLE, s64, s32, a <= b)
		JUMP(BPF_JSET, u64, u32, a & b)
		case BPF_JMP | BPF_JA: at += at->off; break;
		case BPF_JMP32 | BPF_JA: at += at->imm; break;
		/* may_goto: a loop that has gone on for too long is left. */
		case BPF_JMP | 0xe0: if (!may_go || !--may_go) at += at->off; break;
		case IMG_BPF_CALL_LOCAL:
			r[0] = run((const struct img_bpf_insn *)at->imm, r[1], r[2], r[3], r[4], r[5]);
			break;
		case IMG_BPF_CALL_HELPER:
			EXECUTED(executed);
			count(cpu, executed, at);
			executed = 0;
			r[0] = ((img_bpf_helper_t *)at->imm)(r[1], r[2], r[3], r[4], r[5]);
			break;
		case IMG_BPF_CALL_KFUNC:
			EXECUTED(executed);
			count(cpu, executed, at);
			executed = 0;
			r[0] = img_bpf_function((struct img_bpf_called *)at->imm, r);
			break;
		case IMG_BPF_MISSING:
			DIES("it reaches %s, which the kernel lacks", (const char *)at->imm);
		case BPF_JMP | BPF_EXIT:
			EXECUTED(executed);
			executed_on[cpu] += executed;
			depth[cpu]--;
			return r[0];
		default:
			DIES("its opcode %#x is not known", at->op);
		}
	}
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
