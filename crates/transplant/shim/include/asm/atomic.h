/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_ATOMIC_H
#define _SIM_ATOMIC_H
/*
 * One host thread: atomics are plain arithmetic. Counted code pays for the line, and no CPU comes between the halves.
 */
#define ARCH_ATOMIC	/* trees before lib/atomic's rework need to know that the names begin with arch_ */
#include <linux/types.h>
#include <asm/cmpxchg.h>
#include <asm/barrier.h>
#define arch_atomic_read(v) READ_ONCE((v)->counter)
#define arch_atomic_set(v, i) WRITE_ONCE((v)->counter, (i))
#define arch_atomic64_read(v) READ_ONCE((v)->counter)
#define arch_atomic64_set(v, i) WRITE_ONCE((v)->counter, (i))
#define SIM_OP(pre, T, I, op, c)							\
static __always_inline void pre##_##op(I i, T *v)					\
{											\
	img_atomic_begin(v);								\
	v->counter = v->counter c i;							\
	img_atomic_end();								\
}											\
static __always_inline I pre##_fetch_##op(I i, T *v)					\
{											\
	I old;										\
											\
	img_atomic_begin(v);								\
	old = v->counter;								\
	v->counter = old c i;								\
	img_atomic_end();								\
	return old;									\
}
#define SIM_RET(pre, T, I, op, c)							\
static __always_inline I pre##_##op##_return(I i, T *v)					\
{											\
	return pre##_fetch_##op(i, v) c i;						\
}
#define SIM_ALL(pre, T, I)								\
	SIM_OP(pre, T, I, add, +) SIM_OP(pre, T, I, sub, -) SIM_OP(pre, T, I, and, &)	\
	SIM_OP(pre, T, I, or, |) SIM_OP(pre, T, I, xor, ^)				\
	SIM_RET(pre, T, I, add, +) SIM_RET(pre, T, I, sub, -)
SIM_ALL(arch_atomic, atomic_t, int)
SIM_ALL(arch_atomic64, atomic64_t, s64)
/* A macro of its own name marks a function as present. */
#define arch_atomic_add_return arch_atomic_add_return
#define arch_atomic_sub_return arch_atomic_sub_return
#define arch_atomic_fetch_add arch_atomic_fetch_add
#define arch_atomic_fetch_sub arch_atomic_fetch_sub
#define arch_atomic_fetch_and arch_atomic_fetch_and
#define arch_atomic_fetch_or arch_atomic_fetch_or
#define arch_atomic_fetch_xor arch_atomic_fetch_xor
#define arch_atomic_and arch_atomic_and
#define arch_atomic_or arch_atomic_or
#define arch_atomic_xor arch_atomic_xor
#define arch_atomic64_add_return arch_atomic64_add_return
#define arch_atomic64_sub_return arch_atomic64_sub_return
#define arch_atomic64_fetch_add arch_atomic64_fetch_add
#define arch_atomic64_fetch_sub arch_atomic64_fetch_sub
#define arch_atomic64_fetch_and arch_atomic64_fetch_and
#define arch_atomic64_fetch_or arch_atomic64_fetch_or
#define arch_atomic64_fetch_xor arch_atomic64_fetch_xor
#define arch_atomic64_and arch_atomic64_and
#define arch_atomic64_or arch_atomic64_or
#define arch_atomic64_xor arch_atomic64_xor
#define arch_atomic_cmpxchg(v, o, n) arch_cmpxchg(&(v)->counter, (o), (n))
#define arch_atomic_xchg(v, n) arch_xchg(&(v)->counter, (n))
#define arch_atomic64_cmpxchg(v, o, n) arch_cmpxchg(&(v)->counter, (o), (n))
#define arch_atomic64_xchg(v, n) arch_xchg(&(v)->counter, (n))
#define ATOMIC64_INIT(i) { (i) }
#endif
