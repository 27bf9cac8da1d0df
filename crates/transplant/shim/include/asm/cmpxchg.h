/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_CMPXCHG_H
#define _SIM_CMPXCHG_H
/* One host thread: nothing needs a locked instruction. */
#define arch_xchg(p, v) ({						\
	__typeof__(*(p)) __old = *(p);					\
	*(p) = (__typeof__(*(p)))(v);					\
	__old;								\
})
#define arch_cmpxchg(p, o, n) ({					\
	__typeof__(*(p)) __want = (__typeof__(*(p)))(o), __is = *(p);	\
	if (__is == __want)						\
		*(p) = (__typeof__(*(p)))(n);				\
	__is;								\
})
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg
#endif
