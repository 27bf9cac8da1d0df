/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_IRQFLAGS_H
#define _SIM_IRQFLAGS_H
/* Whether the entered CPU takes interrupts. The engine brings none while kernel code runs. */
#define ARCH_IRQ_DISABLED 0UL
#define ARCH_IRQ_ENABLED 1UL
extern unsigned long img_irqs;
#define arch_local_save_flags arch_local_save_flags
static inline unsigned long arch_local_save_flags(void)
{
	return img_irqs;
}
#define arch_local_irq_restore arch_local_irq_restore
static inline void arch_local_irq_restore(unsigned long flags)
{
	img_irqs = flags;
	__asm__ __volatile__("" ::: "memory");
}
#include <asm-generic/irqflags.h>
#endif
