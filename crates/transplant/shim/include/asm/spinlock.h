/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_SPINLOCK_H
#define _SIM_SPINLOCK_H
/*
 * A CPU that finds a lock taken waits in image/locks.c, and its number stands in the lock then. If CPUs enter the
 * kernel one at a time it waits forever.
 */
#include <asm/count.h>
extern int img_contended(void *lock);	/* NULL: a lock of readers and writers; 1: the caller has it now */
extern void img_hand_on(void *lock);
#define arch_spin_is_locked(l) ((l)->locked != 0)
#define arch_spin_value_unlocked(l) ((l).locked == 0)
#define arch_spin_is_contended(l) 0
/* Takes a lock if the condition holds. */
#define IMG_TAKE(l, free, take) ({			\
	int __taken = 0;				\
							\
	img_atomic_begin(l);				\
	if (__builtin_expect(free, 1)) {		\
		take;					\
		__taken = 1;				\
	}						\
	img_atomic_end();				\
	__taken;					\
})
static __always_inline int arch_spin_trylock(arch_spinlock_t *l)
{
	return IMG_TAKE(l, !l->locked, l->locked = 1);
}
static __always_inline void arch_spin_lock(arch_spinlock_t *l)
{
	while (!arch_spin_trylock(l) && !img_contended(l))
		;
}
static __always_inline void arch_spin_unlock(arch_spinlock_t *l)
{
	img_store_begin(l);
	if (__builtin_expect(l->locked > 1, 0))
		img_hand_on(l);
	else
		l->locked--;
	img_store_end();
}
static __always_inline int arch_read_trylock(arch_rwlock_t *l)
{
	return IMG_TAKE(l, l->readers >= 0, l->readers++);
}
static __always_inline void arch_read_lock(arch_rwlock_t *l)
{
	while (!arch_read_trylock(l))
		img_contended(NULL);
}
static __always_inline void arch_read_unlock(arch_rwlock_t *l)
{
	img_atomic_begin(l);
	l->readers--;
	img_atomic_end();
}
static __always_inline int arch_write_trylock(arch_rwlock_t *l)
{
	return IMG_TAKE(l, !l->readers, l->readers = -1);
}
static __always_inline void arch_write_lock(arch_rwlock_t *l)
{
	while (!arch_write_trylock(l))
		img_contended(NULL);
}
static __always_inline void arch_write_unlock(arch_rwlock_t *l)
{
	l->readers = 0;
}
#endif
