/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_IRQ_WORK_H
#define _SIM_IRQ_WORK_H
/* image/irq.c has the interrupt. Without it the tick would do the work. */
static inline bool arch_irq_work_has_interrupt(void)
{
	return true;
}
extern void arch_irq_work_raise(void);
#endif
