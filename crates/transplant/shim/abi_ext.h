/* SPDX-License-Identifier: GPL-2.0-only */
/* The part of abi.h that is about sched_ext. */
#ifndef IMG_ABI_EXT_H
#define IMG_ABI_EXT_H

/*
 * sched_ext, only in an image that has the class. Maps, programs and called functions of BPF are numbered in the order
 * in which they are made. Programs come decoded: `op` is an opcode of BPF, or one of enum img_bpf_op.
 */
struct img_bpf_insn {
	unsigned short op;
	unsigned char dst, src;
	int off;
	long long imm;
};
enum img_bpf_op {
	IMG_BPF_CALL_LOCAL = 256,	/* imm: the place of a function of the program */
	IMG_BPF_CALL_HELPER,		/* imm: of img_bpf_helper_at() */
	IMG_BPF_CALL_KFUNC,		/* imm: of img_bpf_called_new() */
	IMG_BPF_MISSING,		/* imm: the name of what is not there; the run ends */
};
struct img_bpf_map {
	const char *name;
	unsigned int kind;		/* enum bpf_map_type */
	unsigned int key_bytes, value_bytes, max_entries, flags;
	/* Of an array or an arena: its values; of a ring: both positions and the data. NULL: new ones, and no ring. */
	void *memory;
	const struct img_bpf_field *fields;	/* by their places; never freed */
	unsigned int nr_fields;
};
/* A field of a map's values that is not copied with them. */
enum img_bpf_special { IMG_BPF_KEPT, IMG_BPF_TIMER, IMG_BPF_KPTR, IMG_BPF_KPTR_MASK, IMG_BPF_KPTR_OWN, IMG_BPF_HEAD };
struct img_bpf_field {
	unsigned int at, bytes;
	int special;			/* enum img_bpf_special */
};
struct img_bpf_program {
	const char *name;		/* never freed, as the instructions */
	const struct img_bpf_insn *insns;
	unsigned int nr;
	unsigned long long calls, executed;	/* instructions of it and of functions that it calls */
};
enum img_bpf_result { IMG_BPF_VOID, IMG_BPF_BOOL, IMG_BPF_S8, IMG_BPF_U8, IMG_BPF_S16, IMG_BPF_U16, IMG_BPF_S32,
		      IMG_BPF_U32, IMG_BPF_WIDE };
struct img_bpf_called {			/* a function of the kernel */
	const char *name;
	void *at;
	int arguments;			/* those that a program gives */
	int has_aux;			/* 1: a further one is the program's struct bpf_prog_aux */
	int result;			/* enum img_bpf_result */
	int step;			/* the image's: what a call decides (ext_steps.c) */
	unsigned long long calls;
};
/* A decision (IMG_STEP): the operation, and where the task goes. */
enum img_step_by { IMG_X_OTHER, IMG_X_SELECT_CPU, IMG_X_ENQUEUE, IMG_X_DISPATCH, IMG_X_KERNEL };
enum img_step_to {
	IMG_Q_LOCAL, IMG_Q_GLOBAL, IMG_Q_USER,
	IMG_Q_OTHER,			/* another DSQ of the kernel's own */
	IMG_Q_HELD,			/* into none: the scheduler keeps the task itself */
	IMG_Q_KICKED,			/* nowhere: a CPU was kicked */
};
struct img_ext_member {			/* of the struct of operations */
	const char *name;
	unsigned int offset, bytes;
	int program;			/* of img_bpf_program_new(); -1: a plain value */
};
struct img_ext_ops {
	const void *values;		/* the struct, in the kernel's layout, without programs */
	unsigned int bytes;
	int by_cid;			/* 1: struct sched_ext_ops_cid */
	const struct img_ext_member *members;
	unsigned int nr_members;
	int arena;			/* a map; -1: none */
	/* The struct's member exit(), and members of its struct scx_exit_info. */
	unsigned int exit_at, info_kind, info_code, info_reason, info_message;
};
struct img_ext_state {
	int exit_kind;			/* enum scx_exit_kind; 0: it has not ended */
	long long exit_code;
	const char *reason, *message;	/* NULL: none */
};
int img_bpf_map_new(const struct img_bpf_map *map);	/* EOPNOTSUPP: this kind is not known */
void *img_bpf_map_at(int map);		/* what a program has as its address */
void *img_bpf_map_values(int map);
int img_bpf_update(int map, const void *key, const void *value, unsigned long long flags);	/* of all CPUs */
int img_bpf_lookup(int map, const void *key, void *value);
int img_bpf_delete(int map, const void *key);
int img_bpf_next(int map, const void *key, void *next);	/* key NULL: the first one */
int img_bpf_program_new(const struct img_bpf_program *program);
struct img_bpf_program *img_bpf_program_at(int program);
struct img_bpf_type {			/* of the scheduler's own BTF, by number */
	unsigned int bytes;		/* 0: programs make no objects of it */
	int refcount_at;		/* its struct bpf_refcount; -1: none */
};
/* A program that runs at a tracepoint, or before or after a function. */
struct img_bpf_trace {
	int program;
	void *tracepoint;		/* a struct tracepoint; NULL: the function is meant */
	const char *function;
	int after;			/* 1: when the function returns, whose result is one more argument */
	int registers;			/* 1: its context are the registers, as of a kprobe */
	unsigned int nr;		/* arguments */
	unsigned char bytes[12];	/* of each */
};
int img_bpf_trace(const struct img_bpf_trace *trace);	/* its number; EOPNOTSUPP: nothing leads there */
/* From now on the function leads to programs: its code calls img_bpf_enters() and img_bpf_leaves() with this number. */
int img_bpf_hook(const char *function);
int img_bpf_enters(int hook, const unsigned long long *arguments, unsigned int nr);
void img_bpf_leaves(int hook, const unsigned long long *arguments, unsigned int nr, unsigned long long result);
void img_bpf_untrace(int number);
void img_bpf_types(const struct img_bpf_type *types, unsigned int nr);	/* never freed */
void img_bpf_arena_begins(int map, unsigned long bytes);	/* its first bytes are the program's variables */
/* The instruction of a program by which the entered CPU has left the interpreter; NULL: it is in no program. */
const struct img_bpf_insn *img_bpf_place(void);
/* Memory of whole pages whose cache lines are charged, to be replaced by memory that is shared; NULL: none is. */
void *img_bpf_room(unsigned long bytes);
unsigned long long img_bpf_rung(int map);	/* how often a ring has called its reader */
unsigned long long img_bpf_sent(int map);	/* entries that were put into it */
long long img_bpf_program_run(int program, void *context);
void *img_bpf_helper_at(unsigned int id);	/* NULL: it is not known */
struct img_bpf_called *img_bpf_called_new(const struct img_bpf_called *called);
/* 0 or a negative errno, of which the state's reason is the member at fault; a scheduler may end at once. */
int img_ext_enable(const struct img_ext_ops *ops);
void img_ext_disable(void);
/* Its counters of events: by scx_bpf_events(), into a struct scx_event_stats. */
void img_ext_events(const void *function, void *to, unsigned long bytes);
void img_ext_look(struct img_ext_state *state);
#endif
