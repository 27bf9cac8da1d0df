// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts of the entered CPU. Stands for an architecture's entry code.
 */
#include "image.h"
#include <linux/clockchips.h>
#include <linux/interrupt.h>
#include <linux/sched/hotplug.h>
#include <asm/irq_regs.h>
#include "kernel/sched/smp.h"

extern struct clock_event_device *img_clock(void);

void img_irq_timer(int user)
{
	struct clock_event_device *device = img_clock();

	get_irq_regs()->user = user;
	img_irqs = 0;
	irq_enter();
	device->event_handler(device);
	irq_exit();
	img_irqs = 1;
	img_settle_balanced();
}

void img_irq_resched(void)
{
	img_irqs = 0;
	scheduler_ipi();
	img_irqs = 1;
	img_settle();
}

void img_irq_device(const int *pids, unsigned int nr)
{
	img_irqs = 0;
	irq_enter();
	for (; nr; nr--, pids++) {
		wait_queue_entry_t entry = { .private = img_task_by_pid(*pids) };

		default_wake_function(&entry, TASK_NORMAL, 0, NULL);
	}
	irq_exit();
	img_irqs = 1;
	img_settle_balanced();
}

void img_irq_call(void)
{
	img_irqs = 0;
	irq_enter();
	generic_smp_call_function_single_interrupt();
	irq_exit();
	img_irqs = 1;
	img_settle_balanced();
}
