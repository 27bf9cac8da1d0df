// SPDX-License-Identifier: GPL-2.0-only
/*
 * Locks that programs take by name, and interrupts that they turn off. Stands for the kfuncs of kernel/bpf/rqspinlock.c
 * and of helpers.c. A resilient lock finds no deadlock here: who waits for good ends the run, as at any of the kernel's
 * locks.
 */
__bpf_kfunc_start_defs();

#if __has_include(<asm-generic/rqspinlock.h>)
__bpf_kfunc int bpf_res_spin_lock(struct bpf_res_spin_lock *lock)
{
	preempt_disable();
	arch_spin_lock((arch_spinlock_t *)lock);
	return 0;
}
__bpf_kfunc void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock)
{
	arch_spin_unlock((arch_spinlock_t *)lock);
	preempt_enable();
}
__bpf_kfunc int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags__irq_flag)
{
	unsigned long flags;

	local_irq_save(flags);
	bpf_res_spin_lock(lock);
	*flags__irq_flag = flags;
	return 0;
}
__bpf_kfunc void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock, unsigned long *flags__irq_flag)
{
	arch_spin_unlock((arch_spinlock_t *)lock);
	local_irq_restore(*flags__irq_flag);
	preempt_enable();
}
#endif

__bpf_kfunc void bpf_local_irq_save(unsigned long *flags__irq_flag)
{
	local_irq_save(*flags__irq_flag);
}
__bpf_kfunc void bpf_local_irq_restore(unsigned long *flags__irq_flag)
{
	local_irq_restore(*flags__irq_flag);
}

__bpf_kfunc_end_defs();
