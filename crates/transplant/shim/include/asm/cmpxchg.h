/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_CMPXCHG_H
#define _SIM_CMPXCHG_H
/* One host thread: nothing needs a locked instruction. */
#include <asm/count.h>
#define arch_xchg(p, v) ({						\
	__typeof__(p) __at = (p);					\
	__typeof__(*(p)) __new = (__typeof__(*(p)))(v), __old;		\
	img_atomic_begin(__at);						\
	__old = *__at;							\
	*__at = __new;							\
	img_atomic_end();						\
	__old;								\
})
#define arch_cmpxchg(p, o, n) ({					\
	__typeof__(p) __at = (p);					\
	__typeof__(*(p)) __want = (__typeof__(*(p)))(o), __is;		\
	__typeof__(*(p)) __new = (__typeof__(*(p)))(n);			\
	img_atomic_begin(__at);						\
	__is = *__at;							\
	if (__is == __want)						\
		*__at = __new;						\
	img_atomic_end();						\
	__is;								\
})
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg
#endif
