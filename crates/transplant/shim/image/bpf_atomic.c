// SPDX-License-Identifier: GPL-2.0-only
/*
 * Atomic operations of BPF programs, and loads and stores in order. Stands for their part of kernel/bpf/core.c.
 */
#define ATOMIC(type, at)							\
static u64 atomic_##type(int what, type *to, u64 value, u64 *r0)		\
{										\
	type old = *to;								\
										\
	switch (what & ~BPF_FETCH) {						\
	case BPF_ADD: *to = old + value; break;					\
	case BPF_AND: *to = old & value; break;					\
	case BPF_OR: *to = old | value; break;					\
	case BPF_XOR: *to = old ^ value; break;					\
	case BPF_XCHG & ~BPF_FETCH: *to = value; break;				\
	case BPF_CMPXCHG & ~BPF_FETCH:						\
		if (old == (type)*r0)						\
			*to = value;						\
		*r0 = old;							\
		return value;							\
	default: img_bpf_dies("an atomic operation %#x of BPF is not known", what);	\
	}									\
	return what & BPF_FETCH ? old : value;					\
}
ATOMIC(u32, at)
ATOMIC(u64, at)

#ifndef BPF_LOAD_ACQ
#define BPF_LOAD_ACQ 0x100
#define BPF_STORE_REL 0x110
#endif
static void atomic(const struct img_bpf_insn *at, u64 *r)
{
	void *to = (void *)(r[at->dst] + at->off);
	bool is_wide = BPF_SIZE(at->op) == BPF_DW;
	u64 old;

	if (at->imm == BPF_LOAD_ACQ) {
		to = (void *)(r[at->src] + at->off);
		if (img_bpf_is_null(to)) {
			r[at->dst] = 0;
			return;
		}
		READS(to);
		r[at->dst] = is_wide ? *(u64 *)to : BPF_SIZE(at->op) == BPF_W ? *(u32 *)to :
			     BPF_SIZE(at->op) == BPF_H ? *(u16 *)to : *(u8 *)to;
		return;
	}
	/* As a store: a kernel leaves registers as they are. */
	if (img_bpf_is_null(to))
		return;
	WRITES(to);
	if (at->imm == BPF_STORE_REL) {
		memcpy(to, &r[at->src],
		       is_wide ? 8 : BPF_SIZE(at->op) == BPF_W ? 4 : BPF_SIZE(at->op) == BPF_H ? 2 : 1);
		return;
	}
	old = is_wide ? atomic_u64(at->imm, to, r[at->src], r) : atomic_u32(at->imm, to, r[at->src], r);
	if ((at->imm & BPF_FETCH) && at->imm != BPF_CMPXCHG)
		r[at->src] = old;
}
