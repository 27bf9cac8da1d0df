/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_SPINLOCK_H
#define _SIM_SPINLOCK_H
/* One CPU at a time is in the kernel: who finds a lock taken waits forever. */
extern void img_contended(void *lock);
#define arch_spin_is_locked(l) ((l)->locked != 0)
#define arch_spin_value_unlocked(l) ((l).locked == 0)
#define arch_spin_is_contended(l) 0
static __always_inline void arch_spin_lock(arch_spinlock_t *l)
{
	if (__builtin_expect(l->locked, 0))
		img_contended(l);
	l->locked = 1;
}
static __always_inline int arch_spin_trylock(arch_spinlock_t *l)
{
	if (l->locked)
		return 0;
	l->locked = 1;
	return 1;
}
static __always_inline void arch_spin_unlock(arch_spinlock_t *l)
{
	l->locked = 0;
}
static __always_inline void arch_read_lock(arch_rwlock_t *l)
{
	if (__builtin_expect(l->readers < 0, 0))
		img_contended(l);
	l->readers++;
}
static __always_inline void arch_read_unlock(arch_rwlock_t *l)
{
	l->readers--;
}
static __always_inline int arch_read_trylock(arch_rwlock_t *l)
{
	if (l->readers < 0)
		return 0;
	l->readers++;
	return 1;
}
static __always_inline void arch_write_lock(arch_rwlock_t *l)
{
	if (__builtin_expect(l->readers, 0))
		img_contended(l);
	l->readers = -1;
}
static __always_inline void arch_write_unlock(arch_rwlock_t *l)
{
	l->readers = 0;
}
static __always_inline int arch_write_trylock(arch_rwlock_t *l)
{
	if (l->readers)
		return 0;
	l->readers = -1;
	return 1;
}
#endif
